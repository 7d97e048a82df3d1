// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package neutron

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"golang.org/x/sync/semaphore"
	"golang.org/x/sync/singleflight"
	"golang.org/x/time/rate"
	"k8s.io/klog/v2"
)

// ClientOptions limit the load that a Client puts on Neutron.
type ClientOptions struct {
	// Timeout limits each request, including the reading of its answer. Required.
	Timeout time.Duration
	// QPS and Burst limit the rate of requests; a QPS of 0 means no limit.
	QPS   float64
	Burst int
	// Connections is how many requests may be under way at the same time, including those that
	// wait for QPS and those to Keystone, and how many idle connections are kept open; 0 means no
	// limit and two idle connections. Unless the server speaks HTTP/2, each request has its own
	// connection, so a load balancer in front of several servers can spread them.
	Connections int
	// UserAgent is prepended to gophercloud's own.
	UserAgent string
	// Fence is called right before each request is sent; it may be nil. It does not return if the
	// process must not send requests any more.
	Fence func()
	// Meter counts the requests; it may be nil.
	Meter Meter
}

// Client makes requests of one Neutron, for one project. It authenticates with the first
// request, and again when its token has expired, with the credentials that are configured at
// that time. While Neutron is away, it sends one request per second and fails the others at
// once. Its methods may be called concurrently and return an *Error on failure. Each method
// makes one request, except that a list makes one for each page.
type Client struct {
	config      Config
	options     ClientOptions
	circuit     *circuit
	transport   *transport
	connections *connections
	http        http.Client
	onRefusal   func() // called when the credentials are refused; may be nil

	session        atomic.Pointer[session] // the latest one; nil before the first
	authentication singleflight.Group
	// Only authenticate uses it, and never twice at the same time.
	refused refusedCredentials
}

// session is the result of an authentication.
type session struct {
	service *gophercloud.ServiceClient
	place   Place
	// onlyRegion reports that the catalog has Neutron in no other region.
	onlyRegion bool

	accepted atomic.Bool // Neutron has accepted the token
	ended    atomic.Bool // Neutron has refused the token
}

// NewClient returns a Client. It makes no request.
func NewClient(config Config, options ClientOptions) *Client {
	limit := rate.Inf
	if options.QPS > 0 {
		limit = rate.Limit(options.QPS)
	}
	if options.Meter == nil {
		options.Meter = unmetered{}
	}
	connections := newConnections(config, options.Connections)
	transport := &transport{
		base:    connections,
		limiter: rate.NewLimiter(limit, max(1, options.Burst)),
		timeout: options.Timeout,
		fence:   options.Fence,
		meter:   options.Meter,
	}
	if config.Untrusted {
		transport.base = untrusted{connections}
	}
	turns := semaphore.NewWeighted(cmp.Or(max(0, int64(options.Connections)), math.MaxInt64))
	circuit := &circuit{base: transport, turns: turns, meter: options.Meter}
	return &Client{config: config, options: options, circuit: circuit, transport: transport, connections: connections, http: http.Client{
		Transport: circuit,
		// Neutron and Keystone do not redirect. Following a redirect would send the token, or even
		// the password, to another server, and turn a DELETE into a GET.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// Place returns the place of the client, and false if it has never authenticated. All sessions of
// a client have the same place.
func (c *Client) Place() (Place, bool) {
	if s := c.session.Load(); s != nil {
		return s.place, true
	}
	return Place{}, false
}

// IsUntrusted reports whether users have named the servers, which can then say anything, also of their place.
func (c *Client) IsUntrusted() bool { return c.config.Untrusted }

// Close closes the idle connections. The Client can still be used.
func (c *Client) Close() { c.connections.transport().CloseIdleConnections() }

// Away returns since when Neutron and Keystone have given no good answer, zero if the last request
// got one. It also reports whether that is an outage: there were several failures in a row, or no
// good answer since the client was made. A single failure is no outage.
func (c *Client) Away() (since time.Time, isOutage bool) { return c.circuit.away() }

// current returns the session; nil if there is none, or if Neutron has refused its token.
func (c *Client) current() *session {
	if s := c.session.Load(); s != nil && !s.ended.Load() {
		return s
	}
	return nil
}

// connected returns the session, and authenticates if there is none. Concurrent callers share
// one authentication and its result.
func (c *Client) connected(ctx context.Context) (*session, error) {
	if s := c.current(); s != nil {
		return s, nil
	}
	for {
		s, err, _ := c.authentication.Do("", func() (any, error) { return c.authenticate(ctx) })
		if err == nil {
			return s.(*session), nil
		}
		// The cancelled context may be that of another caller.
		if !errors.Is(err, context.Canceled) || ctx.Err() != nil {
			return nil, err
		}
	}
}

// authenticate creates and stores a session. It reads the configuration again each time, and fails
// if the credentials are now for another place than before. It makes no request while the same
// credentials must not be tried again.
func (c *Client) authenticate(ctx context.Context) (*session, error) {
	if s := c.current(); s != nil {
		return s, nil // another caller has just authenticated
	}
	config, err := c.config.current()
	if err != nil {
		c.options.Meter.CountAuthenticationFailure()
		return nil, &Error{Op: authenticate, Reason: Unauthenticated, Message: err.Error()}
	}
	c.connections.use(ctx, config)
	if err := c.refused.check(config); err != nil {
		c.options.Meter.CountAuthenticationFailure()
		return nil, err
	}
	s, err := c.newSession(ctx, config)
	if e, ok := err.(*Error); ok && e.Reason == Unauthenticated {
		c.options.Meter.CountAuthenticationFailure()
		c.refused.refuse(ctx, e)
		if c.onRefusal != nil {
			c.onRefusal()
		}
	}
	if err != nil {
		return nil, err
	}
	c.refused = refusedCredentials{}
	c.session.Store(s)
	return s, nil
}

func (c *Client) newSession(ctx context.Context, config Config) (*session, error) {
	provider, err := openstack.NewClient(config.Auth.IdentityEndpoint)
	if err != nil {
		return nil, wrap(authenticate, err)
	}
	provider.HTTPClient = c.http
	provider.UserAgent.Prepend(c.options.UserAgent)
	if err := c.unquotedLogIn(config.Auth, openstack.Authenticate(ctx, provider, config.Auth)); err != nil {
		// If Keystone refuses the content of the request, it refuses the credentials.
		err = withReason(wrap(authenticate, err), Unauthenticated, Invalid, Forbidden, NotFound)
		if ReasonOf(err) == Unauthenticated {
			c.refused.attempts++
		}
		return nil, err
	}
	c.refused.attempts = 0
	place, onlyRegion, err := placeOf(provider, config.Endpoint)
	if err != nil {
		return nil, err
	}
	service, err := openstack.NewNetworkV2(provider, config.Endpoint)
	if err != nil {
		return nil, endpointError(c.unquoted(err))
	}
	if before, ok := c.Place(); ok && before != place {
		return nil, &Error{Op: authenticate, Reason: Unauthenticated, Message: fmt.Sprintf(
			"the credentials are now for %s, and were for %s: to create networks there, restart the controller", place, before)}
	}
	return &session{service: service, place: place, onlyRegion: onlyRegion}, nil
}

// endpointError is wrap for the discovery of Neutron. A 404 to the request for its versions, for
// example, must not be taken for one about a network.
func endpointError(err error) error {
	err = wrap(findNeutron, err)
	if e, ok := err.(*Error); ok && e.Reason != Unauthenticated {
		e.Reason = Unavailable
	}
	return err
}

// request makes a request of Neutron, unless the sync of the context has taken too long. If Neutron refuses the token, which it
// does before anything else, request authenticates again and repeats the request once.
func (c *Client) request(ctx context.Context, method, path string, opts *gophercloud.RequestOpts) (*http.Response, error) {
	for isRepeated := false; ; isRepeated = true {
		if err := checkTurn(ctx); err != nil {
			return nil, err
		}
		s, err := c.connected(ctx)
		if err != nil {
			return nil, err
		}
		response, err := s.service.Request(ctx, method, s.service.ServiceURL(path), opts)
		refusal, isRefused := errors.AsType[gophercloud.ErrUnexpectedResponseCode](err)
		if isRefused && refusal.Actual == http.StatusUnauthorized {
			if isRepeated {
				return response, err
			}
			c.end(s)
			continue
		}
		if err == nil || isRefused && refusal.Actual < http.StatusInternalServerError {
			s.accepted.Store(true)
		}
		return response, c.unquoted(err)
	}
}

// end ends a session whose token Neutron has refused. A token that it accepted before has
// expired or was revoked.
func (c *Client) end(s *session) {
	if s.ended.CompareAndSwap(false, true) && !s.accepted.Load() {
		c.options.Meter.CountAuthenticationFailure()
	}
}

// object is a JSON object in a request.
type object = map[string]any

// verbs are the words of messages for the requests of one object.
var verbs = map[string]string{http.MethodPost: "create ", http.MethodPut: "update ", http.MethodGet: "get "}

// nameIn returns the name that a collection of a path has in a body.
func nameIn(collection string) string { return strings.ReplaceAll(collection, "-", "_") }

// singular returns the name of one object of the collection in a body.
func singular(collection string) string {
	if stem, isY := strings.CutSuffix(nameIn(collection), "ies"); isY {
		return stem + "y"
	}
	return strings.TrimSuffix(nameIn(collection), "s")
}

// inWords returns a name of a path or a body as users read it.
func inWords(name string) string { return strings.NewReplacer("-", " ", "_", " ").Replace(name) }

// exchange makes a request whose answer is one object of the collection that begins the path. It is decoded directly: gophercloud's
// own Create and Update decode it into a tree of values, encode that as JSON, and decode it again. revision is for send.
func exchange[T item](ctx context.Context, c *Client, method string, fields object, revision *int, path ...string) (T, error) {
	kind := singular(path[0])
	var body any
	if fields != nil {
		body = object{kind: fields}
	}
	var answer map[string]json.RawMessage
	err := c.send(ctx, method, body, &answer, revision, path...)
	var found T
	if text, has := answer[kind]; err == nil && has {
		err = c.unquoted(json.Unmarshal(text, &found))
	}
	id, _, _ := found.listed()
	return found, wrapAnswer(verbs[method]+inWords(kind), err, id)
}

// send makes a request and decodes the answer. If revision is not nil, Neutron refuses the
// request (with 412) when the object has another revision. It fails with NotFound, without a request,
// if an ID in the path cannot be one: it may come from a status, which users can edit.
func (c *Client) send(ctx context.Context, method string, body, answer any, revision *int, path ...string) error {
	for _, segment := range path {
		if !validID(segment) {
			return &Error{Op: method + " " + path[0], Reason: NotFound, Message: "not a valid ID"}
		}
	}
	opts := &gophercloud.RequestOpts{JSONBody: body, JSONResponse: answer}
	if method == http.MethodPut {
		opts.OkCodes = []int{http.StatusOK, http.StatusCreated} // gophercloud expects 201 or 202 after a PUT; 201 is for tags
	}
	if revision != nil {
		opts.MoreHeaders = map[string]string{"If-Match": "revision_number=" + strconv.Itoa(*revision)}
	}
	_, err := c.request(ctx, method, strings.Join(path, "/"), opts)
	return err
}

// CreateNetwork creates a network without subnets.
func (c *Client) CreateNetwork(ctx context.Context, fields map[string]any) (Network, error) {
	return exchange[Network](ctx, c, http.MethodPost, fields, nil, "networks")
}

// UpdateNetwork changes fields of the network. It fails with Stale if the network no longer has
// the observed revision.
func (c *Client) UpdateNetwork(ctx context.Context, observed *Network, fields map[string]any) (Network, error) {
	return exchange[Network](ctx, c, http.MethodPut, fields, observed.Revision, "networks", observed.ID)
}

// getNetwork reads the network without its subnets.
func (c *Client) getNetwork(ctx context.Context, id string) (*Network, error) {
	network, err := exchange[Network](ctx, c, http.MethodGet, nil, nil, "networks", id)
	c.setForeign(&network)
	return &network, err
}

// subnetIDs returns the IDs of all subnets of a network, also of those that the client cannot see.
func (c *Client) subnetIDs(ctx context.Context, network string) ([]string, error) {
	return remembered(ctx, "IDs of the subnets of "+network, func() ([]string, error) {
		var answer struct {
			Network struct {
				ID      string   `json:"id"`
				Subnets []string `json:"subnets"`
			} `json:"network"`
		}
		err := c.send(ctx, http.MethodGet, nil, &answer, nil, "networks", network)
		return answer.Network.Subnets, wrapAnswer("get network", err, answer.Network.ID)
	})
}

// DeleteNetwork deletes the network and its subnets. It fails with Stale if the network has
// another revision (nil means any revision), and with InUse if there are ports on it. It returns
// nil if the network does not exist.
func (c *Client) DeleteNetwork(ctx context.Context, id string, revision *int) error {
	return c.delete(ctx, "delete network", "networks", id, revision)
}

// DeleteSubnet deletes the subnet as DeleteNetwork deletes a network.
func (c *Client) DeleteSubnet(ctx context.Context, id string, revision *int) error {
	return c.delete(ctx, "delete subnet", "subnets", id, revision)
}

func (c *Client) delete(ctx context.Context, op, collection, id string, revision *int) error {
	return unlessGone(wrap(op, c.send(ctx, http.MethodDelete, nil, nil, revision, collection, id)))
}

// CreateSubnet creates a subnet of the network, which the fields need not name.
func (c *Client) CreateSubnet(ctx context.Context, networkID string, fields map[string]any) (Subnet, error) {
	fields["network_id"] = networkID
	return exchange[Subnet](ctx, c, http.MethodPost, fields, nil, "subnets")
}

// UpdateSubnet changes fields of the subnet. It fails with Stale if the subnet no longer has the
// observed revision.
func (c *Client) UpdateSubnet(ctx context.Context, observed *Subnet, fields map[string]any) (Subnet, error) {
	return exchange[Subnet](ctx, c, http.MethodPut, fields, observed.Revision, "subnets", observed.ID)
}

// wrapAnswer is wrap, and also fails if the answer has no ID. Such an answer may come from a
// proxy between the controller and Neutron.
func wrapAnswer(op string, err error, id string) error {
	if err == nil && !validID(id) {
		return &Error{Op: op, Reason: Unavailable, Message: "the answer is not from Neutron"}
	}
	return wrap(op, err)
}

// SetTags replaces the tags of the network with that ID, and returns them.
func (c *Client) SetTags(ctx context.Context, id string, tags Tags) (Tags, error) {
	var answer struct {
		Tags Tags `json:"tags"`
	}
	err := c.send(ctx, http.MethodPut, object{"tags": tags}, &answer, nil, "networks", id, "tags")
	return answer.Tags, wrap("set tags", err)
}

// addTag adds a tag to the network. It succeeds if the network has the tag.
func (c *Client) addTag(ctx context.Context, id, tag string) error {
	return wrap("add tag", c.send(ctx, http.MethodPut, nil, nil, nil, "networks", id, "tags", tag))
}

// removeTag removes a tag from the network. It succeeds if the network does not have the tag, or does
// not exist.
func (c *Client) removeTag(ctx context.Context, id, tag string) error {
	err := wrap("remove tag", c.send(ctx, http.MethodDelete, nil, nil, nil, "networks", id, "tags", tag))
	if ReasonOf(err) == NotFound {
		klog.FromContext(ctx).V(4).Info("The tag was gone already", "networkID", id, "tag", tag)
	}
	return unlessGone(err)
}
