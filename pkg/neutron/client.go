/*
Copyright The samplecrd-controller Authors.

Licensed under the Apache License, Version 2.0 (the "License");
you may not use this file except in compliance with the License.
You may obtain a copy of the License at

    http://www.apache.org/licenses/LICENSE-2.0

Unless required by applicable law or agreed to in writing, software
distributed under the License is distributed on an "AS IS" BASIS,
WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
See the License for the specific language governing permissions and
limitations under the License.
*/

package neutron

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/netip"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/tokens"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/networks"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/subnets"
	"go4.org/netipx"
	"golang.org/x/sync/semaphore"
	"golang.org/x/sync/singleflight"
	"golang.org/x/time/rate"
)

// ClientOptions bound what a Client does to Neutron.
type ClientOptions struct {
	// Timeout bounds each request and the reading of its answer. Required.
	Timeout time.Duration
	// QPS and Burst bound the rate of requests; a QPS of 0 leaves it unbounded.
	QPS   float64
	Burst int
	// Connections is how many requests are under way at the same time, those that wait for QPS
	// and those to Keystone among them, and how many connections are
	// kept open for them; 0: as many as are asked for, and two are kept open. Each request
	// has a connection of its own (unless the server speaks HTTP/2), so the balancer in front
	// of several servers can spread them.
	Connections int
	// UserAgent is put before gophercloud's own.
	UserAgent string
	// Fence is called right before each request is sent; nil: nothing is. Who must no longer
	// send any does not return from it.
	Fence func()
	// Meter is told of each request; nil is nobody.
	Meter Meter
}

// Client makes requests of one Neutron, as one project. It authenticates when it is
// first used, and again when its token has run out, with the credentials that are
// configured then. When nothing is answered as it should be, it fails at once for most
// requests, and lets one a second through. Its methods may be called concurrently; each
// returns an *Error on failure, and each is one request, but for the lists, which are one
// for each page.
type Client struct {
	config    Config
	options   ClientOptions
	circuit   *circuit
	transport *transport
	base      *http.Transport
	http      http.Client

	session        atomic.Pointer[session] // nil: not authenticated
	authentication singleflight.Group

	// These are used by one authentication after the other.

	place     *Place // of the first session
	refusal   *Error // of the credentials, if that was the last answer
	refusedAt time.Time
}

// session is what an authentication has led to.
type session struct {
	service *gophercloud.ServiceClient
	place   Place
}

// Place says where a network is: those of another place have nothing to do with it.
type Place struct {
	// Project is the ID of the project; "" if the token is for none.
	Project string
	// Region is as the credentials name it; "" if they name none.
	Region string
}

// String names the place.
func (p Place) String() string {
	if p.Region == "" {
		return "project " + strconv.Quote(p.Project)
	}
	return "project " + strconv.Quote(p.Project) + " in region " + strconv.Quote(p.Region)
}

// NewClient makes a Client; it does not yet talk to the cloud.
func NewClient(config Config, options ClientOptions) *Client {
	base := http.DefaultTransport.(*http.Transport).Clone()
	base.TLSClientConfig = config.TLS
	base.MaxIdleConns = 0 // no limit but the next one
	base.MaxIdleConnsPerHost = options.Connections
	limit := rate.Inf
	if options.QPS > 0 {
		limit = rate.Limit(options.QPS)
	}
	if options.Meter == nil {
		options.Meter = unmetered{}
	}
	transport := &transport{
		base:    base,
		limiter: rate.NewLimiter(limit, max(1, options.Burst)),
		timeout: options.Timeout,
		fence:   options.Fence,
		meter:   options.Meter,
	}
	turns := semaphore.NewWeighted(cmp.Or(max(0, int64(options.Connections)), math.MaxInt64))
	circuit := &circuit{base: transport, turns: turns, meter: options.Meter}
	return &Client{config: config, options: options, circuit: circuit, transport: transport, base: base, http: http.Client{
		Transport: circuit,
		// Neutron and Keystone redirect nobody. Who does would be sent the token, and by
		// Keystone's client the password; and a DELETE would become a GET.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// Place returns where the client works; false if it is not authenticated.
func (c *Client) Place() (Place, bool) {
	if s := c.session.Load(); s != nil {
		return s.place, true
	}
	return Place{}, false
}

// Close closes the connections that are not in use. The Client may still be used.
func (c *Client) Close() { c.base.CloseIdleConnections() }

// Away returns since when Neutron and Keystone have given no good answer, if the last one
// was none.
func (c *Client) Away() (since time.Time, away bool) { return c.circuit.away() }

// connect returns the authenticated client, and authenticates if there is none yet.
func (c *Client) connect(ctx context.Context) (*gophercloud.ServiceClient, error) {
	s, err := c.connected(ctx)
	if err != nil {
		return nil, err
	}
	return s.service, nil
}

// connected returns the session. Many workers make one authentication, and share what
// becomes of it.
func (c *Client) connected(ctx context.Context) (*session, error) {
	if s := c.session.Load(); s != nil {
		return s, nil
	}
	for {
		s, err, _ := c.authentication.Do("", func() (any, error) { return c.authenticate(ctx) })
		if err == nil {
			return s.(*session), nil
		}
		// It may be another one who has gone away.
		if !errors.Is(err, context.Canceled) || ctx.Err() != nil {
			return nil, err
		}
	}
}

// refusalHolds is how long refused credentials are not tried again, whoever asks:
// Keystone may lock the account for its wrong password.
const refusalHolds = 20 * time.Second

// authenticate makes a session, and keeps it until its token has run out and cannot be
// had anew: the credentials may be others by then.
func (c *Client) authenticate(ctx context.Context) (*session, error) {
	if wait := time.Until(c.refusedAt.Add(refusalHolds)); c.refusal != nil && wait > 0 {
		again := *c.refusal
		again.RetryAfter = wait
		return nil, &again
	}
	c.refusal = nil
	s, err := c.newSession(ctx)
	if err != nil {
		if e, ok := err.(*Error); ok && e.Reason == Unauthenticated {
			c.refusal, c.refusedAt = e, time.Now()
			c.options.Meter.CountAuthenticationFailure()
		}
		return nil, err
	}
	reauthenticate := s.service.ReauthFunc
	s.service.ReauthFunc = func(ctx context.Context) error {
		// The token was refused. If it was never taken, it has not run out.
		refused := !c.transport.hasTaken(s.service.Token())
		err := reauthenticate(ctx)
		if err != nil && ctx.Err() == nil {
			c.session.CompareAndSwap(s, nil)
		}
		if refused || ReasonOf(authenticationError(err)) == Unauthenticated {
			c.options.Meter.CountAuthenticationFailure()
		}
		return err
	}
	c.session.Store(s)
	return s, nil
}

func (c *Client) newSession(ctx context.Context) (*session, error) {
	config, err := c.config.now()
	if err != nil {
		return nil, &Error{Op: authenticate, Reason: Unauthenticated, Message: err.Error()}
	}
	provider, err := openstack.NewClient(config.Auth.IdentityEndpoint)
	if err != nil {
		return nil, wrap(authenticate, err)
	}
	provider.HTTPClient = c.http
	provider.UserAgent.Prepend(c.options.UserAgent)
	if err := openstack.Authenticate(ctx, provider, config.Auth); err != nil {
		return nil, authenticationError(err)
	}
	service, err := openstack.NewNetworkV2(provider, config.Endpoint)
	if err != nil {
		return nil, endpointError(err)
	}
	place := Place{projectOf(provider), config.Endpoint.Region}
	if place.Project != "" && !validID(place.Project) {
		return nil, &Error{Op: authenticate, Reason: Unavailable, Message: "the answer is not Keystone's"}
	}
	if c.place != nil && *c.place != place {
		return nil, &Error{Op: authenticate, Reason: Unauthenticated, Message: fmt.Sprintf(
			"the credentials are now for %s, and were for %s: restart the controller if its networks are to be made there", place, c.place)}
	}
	c.place = &place
	return &session{service, place}, nil
}

// authenticationError is wrap for Keystone's answers: one that refuses the request's
// content refuses the credentials.
func authenticationError(err error) error {
	err = wrap(authenticate, err)
	if e, ok := err.(*Error); ok && (e.Reason == Invalid || e.Reason == Forbidden || e.Reason == NotFound) {
		e.Reason = Unauthenticated
	}
	return err
}

// endpointError is wrap for where Neutron should be: if a version of it is asked for, and the
// answer is a 404, say, that must not pass for one about a network.
func endpointError(err error) error {
	err = wrap("find Neutron in Keystone's catalog", err)
	if e, ok := err.(*Error); ok && e.Reason != Unauthenticated {
		e.Reason = Unavailable
	}
	return err
}

// projectOf returns the ID of the project that the token is for, "" if it is for none.
func projectOf(provider *gophercloud.ProviderClient) string {
	result, ok := provider.GetAuthResult().(interface {
		ExtractProject() (*tokens.Project, error)
	})
	if !ok {
		return ""
	}
	project, err := result.ExtractProject()
	if err != nil || project == nil {
		return ""
	}
	return project.ID
}

// Answers that hold one network or one subnet are decoded right into these. gophercloud's own
// Create and Update decode an answer into a tree of values, write that as JSON, and decode
// that.
type (
	networkAnswer struct {
		Network Network `json:"network"`
	}
	subnetAnswer struct {
		Subnet Subnet `json:"subnet"`
	}
)

// send makes a request of what path names, and decodes the answer. Given a revision, Neutron
// refuses the request (with 412) if the item is at another one.
func (c *Client) send(ctx context.Context, method string, body, answer any, revision *int, path ...string) error {
	service, err := c.connect(ctx)
	if err != nil {
		return err
	}
	opts := &gophercloud.RequestOpts{JSONBody: body, JSONResponse: answer}
	if method == http.MethodPut {
		opts.OkCodes = []int{http.StatusOK} // it is none of gophercloud's defaults for a PUT
	}
	if revision != nil {
		opts.MoreHeaders = map[string]string{"If-Match": "revision_number=" + strconv.Itoa(*revision)}
	}
	_, err = service.Request(ctx, method, service.ServiceURL(path...), opts)
	return err
}

// CreateNetwork makes a network without subnets.
func (c *Client) CreateNetwork(ctx context.Context, step CreateNetwork) (Network, error) {
	var answer networkAnswer
	body, err := networks.CreateOpts{Name: step.Name, Description: step.Description}.ToNetworkCreateMap()
	if err == nil {
		err = c.send(ctx, http.MethodPost, body, &answer, nil, "networks")
	}
	return answer.Network, wrapAnswer("create network", err, answer.Network.ID)
}

// UpdateNetwork changes the network's name or description, if it is still at the
// revision that was read; it fails with Stale otherwise.
func (c *Client) UpdateNetwork(ctx context.Context, have *Network, step UpdateNetwork) (Network, error) {
	var opts networks.UpdateOpts
	if step.Name != "" {
		opts.Name = &step.Name
	}
	if step.Description != "" {
		opts.Description = &step.Description
	}
	return c.updateNetwork(ctx, have, opts)
}

func (c *Client) updateNetwork(ctx context.Context, have *Network, opts networks.UpdateOpts) (Network, error) {
	var answer networkAnswer
	body, err := opts.ToNetworkUpdateMap()
	if err == nil {
		err = c.send(ctx, http.MethodPut, body, &answer, have.Revision, "networks", have.ID)
	}
	return answer.Network, wrapAnswer("update network", err, answer.Network.ID)
}

// getNetwork reads the network without its subnets.
func (c *Client) getNetwork(ctx context.Context, id string) (*Network, error) {
	var answer networkAnswer
	err := c.send(ctx, http.MethodGet, nil, &answer, nil, "networks", id)
	return &answer.Network, wrapAnswer("get network", err, answer.Network.ID)
}

// DeleteNetwork removes the network and its subnets, if it is still at that revision
// (nil: at whatever revision); it fails with Stale otherwise, and with InUse if there
// are ports on it. That the network is not there is not an error.
func (c *Client) DeleteNetwork(ctx context.Context, id string, revision *int) error {
	return c.delete(ctx, "delete network", "networks", id, revision)
}

// DeleteSubnet removes the subnet, as DeleteNetwork a network.
func (c *Client) DeleteSubnet(ctx context.Context, id string, revision *int) error {
	return c.delete(ctx, "delete subnet", "subnets", id, revision)
}

func (c *Client) delete(ctx context.Context, op, collection, id string, revision *int) error {
	err := wrap(op, c.send(ctx, http.MethodDelete, nil, nil, revision, collection, id))
	if ReasonOf(err) == NotFound {
		return nil
	}
	return err
}

// CreateSubnet makes a subnet on the network.
func (c *Client) CreateSubnet(ctx context.Context, networkID string, step CreateSubnet) (Subnet, error) {
	opts := subnets.CreateOpts{
		NetworkID:   networkID,
		Name:        step.Name,
		Description: step.Description,
		CIDR:        step.Subnet.CIDR.String(),
		IPVersion:   ipVersion(step.Subnet.CIDR),
	}
	if step.Subnet.NoGateway || step.Subnet.Gateway.IsValid() {
		opts.GatewayIP = gatewayIP(step.Subnet.Gateway)
	}
	var answer subnetAnswer
	body, err := opts.ToSubnetCreateMap()
	if err == nil {
		err = c.send(ctx, http.MethodPost, body, &answer, nil, "subnets")
	}
	return answer.Subnet, wrapAnswer("create subnet", err, answer.Subnet.ID)
}

// UpdateSubnet changes what the step says, if the subnet is still at the revision
// that was read; it fails with Stale otherwise.
func (c *Client) UpdateSubnet(ctx context.Context, have *Subnet, step UpdateSubnet) (Subnet, error) {
	var opts subnets.UpdateOpts
	if step.Name != "" {
		opts.Name = &step.Name
	}
	if step.Description != "" {
		opts.Description = &step.Description
	}
	if step.SetGateway {
		opts.GatewayIP = gatewayIP(step.Gateway)
		opts.AllocationPools = poolOpts(step.Pools)
	}
	return c.updateSubnet(ctx, have, opts)
}

func (c *Client) updateSubnet(ctx context.Context, have *Subnet, opts subnets.UpdateOpts) (Subnet, error) {
	var answer subnetAnswer
	body, err := opts.ToSubnetUpdateMap()
	if err == nil {
		err = c.send(ctx, http.MethodPut, body, &answer, have.Revision, "subnets", have.ID)
	}
	return answer.Subnet, wrapAnswer("update subnet", err, answer.Subnet.ID)
}

// UnmarkNetwork takes the mark off the network's description, if the network is still at
// the revision that was read; it fails with Stale otherwise.
func (c *Client) UnmarkNetwork(ctx context.Context, have *Network) error {
	unmarked := withoutMark(have.Description)
	_, err := c.updateNetwork(ctx, have, networks.UpdateOpts{Description: &unmarked})
	return err
}

// UnmarkSubnet takes the mark off the subnet, as UnmarkNetwork off a network.
func (c *Client) UnmarkSubnet(ctx context.Context, have *Subnet) error {
	unmarked := withoutMark(have.Description)
	_, err := c.updateSubnet(ctx, have, subnets.UpdateOpts{Description: &unmarked})
	return err
}

func ipVersion(cidr netip.Prefix) gophercloud.IPVersion {
	if cidr.Addr().Is4() {
		return gophercloud.IPv4
	}
	return gophercloud.IPv6
}

// gatewayIP gives gophercloud the gateway; it makes null of the empty string.
func gatewayIP(gateway netip.Addr) *string {
	text := ""
	if gateway.IsValid() {
		text = gateway.String()
	}
	return &text
}

func poolOpts(ranges []netipx.IPRange) []subnets.AllocationPool {
	pools := make([]subnets.AllocationPool, len(ranges))
	for i, r := range ranges {
		pools[i] = subnets.AllocationPool{Start: r.From().String(), End: r.To().String()}
	}
	return pools
}

// wrapAnswer is wrap, and takes an answer without an ID, from whatever stands between
// us and Neutron, for no answer.
func wrapAnswer(op string, err error, id string) error {
	if err == nil && !validID(id) {
		return &Error{Op: op, Reason: Unavailable, Message: "the answer is not Neutron's"}
	}
	return wrap(op, err)
}
