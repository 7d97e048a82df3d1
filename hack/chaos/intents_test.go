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

package chaos

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
)

// intent is what the API server has of a Network after a request of its user.
type intent struct {
	paused, deleted, retained bool
	// gateways has what is declared as the gateway of each subnet, by its CIDR.
	gateways map[netip.Prefix]string
	router   routerIntent
	// imports is the network that it imports, "" if it imports none. A Network with observed must not
	// change it.
	imports  string
	observed bool
	// fields are those of the imported network and its subnets that the spec declares, as in Neutron's
	// API.
	fields []string
	// lost reports whether the Network is gone without having been deleted: etcd was restored
	// from a backup that does not have it.
	lost bool
	// The request took effect between sent and answered.
	sent, answered time.Time
}

func (i intent) String() string {
	return fmt.Sprintf("{paused: %t, deleted: %t, retained: %t, lost: %t, gateways %v, router %+v, imports %q, observed: %t, fields %q}",
		i.paused, i.deleted, i.retained, i.lost, i.gateways, i.router, i.imports, i.observed, i.fields)
}

// permits reports whether a controller that has read the intent may send the request.
func (i intent) permits(d *deed) bool {
	_, hasSubnet := i.gateways[d.cidr]
	exists := !i.deleted && !i.lost
	switch {
	case i.paused:
		return false
	case d.onImport:
		return i.permitsOnImport(d, hasSubnet)
	case d.kind == creates:
		return exists
	case d.kind == createsRouter:
		return exists && i.router.external == d.external
	case d.kind == attaches:
		return exists && hasSubnet && i.router.is(d)
	case d.kind == unmarks:
		return i.deleted && i.retained
	case d.kind == replaces:
		return exists && !hasSubnet
	case d.kind == detaches && exists:
		return d.duplicate || d.half || !hasSubnet || !i.router.is(d) || !d.hasGateway(i.gateways[d.cidr])
	case d.kind == deletesRouter && exists:
		return d.duplicate || !i.router.is(d)
	}
	return d.duplicate || i.lost || i.deleted && !i.retained
}

// is reports whether the request is about the declared router. A router without a gateway can get
// the right one.
func (i routerIntent) is(d *deed) bool {
	if d.isOwn {
		return i.external != "" && (d.external == "" || d.external == i.external)
	}
	return i.existing == d.router
}

// hasGateway reports whether the subnet has the declared gateway.
func (d *deed) hasGateway(declared string) bool {
	switch declared {
	case "":
		return d.gateway == d.cidr.Addr().Next() || d.cidr.Addr().Is6() && d.gateway == d.cidr.Addr()
	case samplecrdv1.GatewayNone:
		return !d.gateway.IsValid()
	}
	return d.gateway == netip.MustParseAddr(declared)
}

// intents has the intents of all users by the UID of the Network, the oldest first.
type intents struct {
	mu    sync.Mutex
	byUID map[types.UID][]intent
	// unguarded has the Networks that had no finalizer right before their deletion, or that a restore
	// has brought back without it.
	unguarded map[types.UID]bool
}

func (s *intents) add(uid types.UID, i intent) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byUID == nil {
		s.byUID = map[types.UID][]intent{}
	}
	s.byUID[uid] = append(s.byUID[uid], i)
}

// between returns the intents that the API server may have answered with at that time.
func (s *intents) between(uid types.UID, from, to time.Time) (possible []intent) {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := s.byUID[uid]
	for n, i := range all {
		if !i.sent.After(to) && (n == len(all)-1 || !all[n+1].answered.Before(from)) {
			possible = append(possible, i)
		}
	}
	return possible
}

// unguard records that the Network has no finalizer.
func (s *intents) unguard(uid types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.unguarded == nil {
		s.unguarded = map[types.UID]bool{}
	}
	s.unguarded[uid] = true
}

// mayBeLeft reports whether the Network may be gone, and its network left as an orphan: etcd was
// restored from a backup without it, or the Network was deleted before it had its finalizer.
func (s *intents) mayBeLeft(uid types.UID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := s.byUID[uid]
	return len(all) > 0 && (all[len(all)-1].lost || all[len(all)-1].deleted && s.unguarded[uid])
}

// wasRetained reports whether the Network was ever deleted with the policy Retain.
func (s *intents) wasRetained(uid types.UID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, i := range s.byUID[uid] {
		if i.deleted && i.retained {
			return true
		}
	}
	return false
}

// everNamed reports whether the Network ever declared that existing router.
func (s *intents) everNamed(uid types.UID, router string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(s.byUID[uid], func(i intent) bool { return i.router.existing == router })
}

// kind is what a request to Neutron that cannot be undone does.
type kind string

const (
	creates  kind = "the creation of a network"
	deletes  kind = "the deletion of a network"
	unmarks  kind = "the removal of a mark"
	replaces kind = "the deletion of an obsolete subnet"

	createsRouter kind = "the creation of a router"
	deletesRouter kind = "the deletion of a router"
	attaches      kind = "the attachment of a subnet"
	detaches      kind = "the detachment of a subnet"

	importsNetwork kind = "the import of a network"
	// These can be undone.
	withdraws     kind = "the withdrawal of an import"
	changesImport kind = "the change of an imported network"
)

// deed is a request to Neutron that cannot be undone.
type deed struct {
	kind    kind
	life    *life
	owner   types.UID
	network string // its ID; "" for a creation, and for a router
	// cidr is that of the subnet that is deleted, attached or detached, and gateway the one that it
	// had in Neutron.
	subnet  string
	cidr    netip.Prefix
	gateway netip.Addr
	// router is the ID of the router; "" for a creation. external is the network of its gateway.
	router, external string
	// isOwn reports whether the router carries a mark, and half whether the interface on the subnet
	// only looks like one.
	isOwn, half bool
	// ofRouter has the router's name and its description.
	ofRouter creation
	// duplicate reports whether Neutron had another network of the same owner; in the deletion of a
	// router, another router.
	duplicate bool
	// onImport reports whether the network was created by hand. The kind changesImport has the fields. isWrong
	// is what is wrong about the request if it worked.
	onImport bool
	// isDisowned reports whether the subnet has the mark of a Network whose tag the network no longer
	// has. A Network that is being deleted then leaves both, whatever its deletion policy is.
	isDisowned bool
	fields     []string
	isWrong    string
	worked     bool
	// others are the UIDs of all Networks that imported the network so far.
	others []types.UID
	// reconcile is the ID of its sync; "" for the deletion of an orphan.
	reconcile string
	arrived   time.Time
	// read is the last read of the Network by that process before; nil if there was none. later
	// is one after it that did not find the Network; nil if there was none.
	read, later *reading
}

// reading is a request of a controller that reads one Network at the API server, or writes it
// only if it is still as it was read.
type reading struct {
	arrived, answered time.Time
	// uid is that of the Network in the answer; "" if there was none.
	uid types.UID
	// reconcile is the ID of the first sync with a deed after it.
	reconcile string
}

// witness has the deeds of a controller, and what its processes had read before.
type witness struct {
	mu    sync.Mutex
	reads map[readBy][]*reading
	deeds []*deed
	// strange are deeds with networks that the controller did not create.
	strange violations
}

type readBy struct {
	life *life
	path string
}

const networksPath = "apis/samplecrd.k8s.io/v1/namespaces/"

// arrived records a request. The ledger is that of the networks so far.
func (s *witness) arrived(c *call, l *ledger) {
	if d := c.deedOnImport(l); d != nil {
		s.arrivedOnImport(c, d)
		return
	}
	d := c.deed()
	if d != nil && !c.proxy.look(d) {
		return // what it is about is gone already
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.isRereading() {
		if s.reads == nil {
			s.reads = map[readBy][]*reading{}
		}
		by := readBy{c.life, c.path}
		c.reading = &reading{arrived: time.Now()}
		s.reads[by] = append(s.reads[by], c.reading)
		return
	}
	if d == nil {
		return
	}
	namespace, name, known := l.complete(d, c)
	if what := d.strange(c, known); what != "" {
		s.strange.add("%s: %s %s: %s", c.life.name, c.Method, c.path, what)
		return
	}
	if d.kind == "" {
		return
	}
	if !known {
		if c.Method == http.MethodDelete {
			s.strange.add("%s: %s %s: "+notItsOwn, c.life.name, c.Method, c.path)
		}
		return
	}
	d.read, d.later = d.readIn(s.reads[readBy{c.life, networksPath + namespace + "/networks/" + name}])
	s.deeds = append(s.deeds, d)
}

// readIn returns the last read before the deed that is not one of another sync; nil if there is
// none. A Network that is gone is read under its name, which another one may have by now: other is
// the last read that did not find the Network.
func (d *deed) readIn(reads []*reading) (last, other *reading) {
	for _, r := range slices.Backward(reads) {
		switch {
		case r.reconcile != "" && r.reconcile != d.reconcile:
		case r.uid == d.owner:
			r.reconcile = d.reconcile
			return r, other
		case other == nil:
			other = r
		}
	}
	return other, nil
}

// read records the Network in the answer to a call.
func (s *witness) read(c *call, answer []byte) {
	var network struct{ Metadata struct{ UID types.UID } }
	if c.reading == nil || json.Unmarshal(answer, &network) != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	c.reading.uid = network.Metadata.UID
}

// answered records when the answer began.
func (s *witness) answered(c *call) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.reading != nil && c.reading.answered.IsZero() {
		c.reading.answered = time.Now()
	}
}

// isRereading reports whether the call reads one Network, or changes its finalizers: that
// needs the resourceVersion that was read.
func (c *call) isRereading() bool {
	path, ok := strings.CutPrefix(c.path, networksPath)
	return ok && c.isKubernetes() && strings.Count(path, "/") == 2 && strings.Contains(path, "/networks/")
}

// deed returns the call as a deed, as far as the call itself tells; nil if it is none.
func (c *call) deed() *deed {
	if !c.isWrite() {
		return nil
	}
	d := &deed{life: c.life, reconcile: c.Header.Get("X-Openstack-Request-Id"), arrived: time.Now()}
	collection, id, _ := strings.Cut(strings.TrimPrefix(c.path, "v2.0/"), "/")
	switch c.Method + " " + collection {
	case "POST networks":
		d.kind = creates
	case "DELETE networks":
		d.kind, d.network = deletes, id
	case "DELETE subnets":
		d.kind, d.subnet = replaces, id
	case "PUT networks":
		var body struct{ Network struct{ Description *string } }
		if json.Unmarshal(c.body, &body) != nil || !takesMark(body.Network.Description) {
			return nil
		}
		d.kind, d.network = unmarks, id
	case "POST routers", "PUT routers", "DELETE routers":
		return c.routerDeed(d, id)
	default:
		return nil
	}
	return d
}

// routerDeed completes the deed of a call for a router. A change of a router is a deed without a
// kind, unless it removes the mark.
func (c *call) routerDeed(d *deed, path string) *deed {
	var body struct {
		SubnetID string `json:"subnet_id"`
		Router   struct {
			Description *string
			Gateway     struct {
				NetworkID string `json:"network_id"`
			} `json:"external_gateway_info"`
		}
	}
	_ = json.Unmarshal(c.body, &body) // a deletion has none
	id, action, _ := strings.Cut(path, "/")
	d.router, d.subnet = id, body.SubnetID
	switch {
	case c.Method == http.MethodPost:
		d.kind, d.isOwn, d.external = createsRouter, true, body.Router.Gateway.NetworkID
	case c.Method == http.MethodDelete:
		d.kind = deletesRouter
	case action == "add_router_interface":
		d.kind = attaches
	case action == "remove_router_interface":
		d.kind = detaches
	case takesMark(body.Router.Description):
		d.kind = unmarks
	}
	return d
}

// takesMark reports whether the description in a request takes the mark away.
func takesMark(description *string) bool {
	return description != nil && !strings.HasPrefix(*description, ownerPrefix)
}

// strange returns what is wrong about a request for a router or an interface, whatever the users
// have requested; "" if nothing is. known reports whether the controller has created the network.
func (d *deed) strange(c *call, known bool) string {
	isInterface := d.kind == attaches || d.kind == detaches
	switch {
	case isInterface && !known:
		return strangersSubnet
	case d.router != "" && !isInterface && !d.isOwn:
		return strangersRouter
	}
	return ""
}

// What a controller must not do.
const (
	unread    = "without a read of the Network at the API server before"
	notItsOwn = "the controller never created it"
	forbidden = "although the API server had answered otherwise"
)

// found returns the deeds that the users' intents did not permit when the controller read them.
func (s *witness) found(intents *intents, tally *tally) violations {
	s.mu.Lock()
	defer s.mu.Unlock()
	v := s.strange
	for _, d := range s.deeds {
		if d.isWrong != "" { // another client may have been faster: then Neutron refuses the request
			if d.worked {
				v.add("%s at %s: %s %s: %s", d.life.name, d.arrived.Format("15:04:05.000000"), d.kind, d.network, d.isWrong)
			}
			continue
		}
		if d.kind == detaches && !d.isOwn && !intents.everNamed(d.owner, d.router) {
			v.add("%s at %s: "+strangersInterface+"router %s, subnet %s of %s", d.life.name, d.arrived.Format("15:04:05.000000"), d.router, d.cidr, d.owner)
		}
		if what := d.judge(intents); what != "" {
			v.add("%s at %s: %s %s%s, subnet %s, of %s %s", d.life.name, d.arrived.Format("15:04:05.000000"), d.kind, d.network, d.router, d.cidr, d.owner, what)
		}
		tally.add("irreversible: " + string(d.kind))
		if now := intents.between(d.owner, d.arrived, d.arrived); d.read != nil && len(now) == 1 && !now[0].permits(d) {
			tally.add("irreversible, and no longer wanted when it arrived")
		}
	}
	return v
}

// judge returns what is wrong about a deed; "" if nothing is.
func (d *deed) judge(intents *intents) string {
	reads := []*reading{d.read, d.later}
	switch {
	case d.kind == changesImport || d.kind == withdraws:
		return d.judgeChange(intents)
	case d.reconcile == "" && !d.onImport:
		// The deletion of an orphan: its owner cannot be read by name.
		reads = []*reading{{arrived: d.arrived, answered: d.arrived}}
	case d.read == nil:
		return unread
	}
	var possible []intent
	for _, r := range reads {
		if r != nil {
			possible = append(possible, intents.between(d.owner, r.arrived, cmp.Or(r.answered, d.arrived))...)
		}
	}
	for _, i := range possible {
		if i.permits(d) {
			return ""
		}
	}
	return fmt.Sprintf("%s: %v", forbidden, possible)
}

// ownerOf returns the UID in a mark.
func ownerOf(description string) (types.UID, bool) {
	owner, marked := strings.CutPrefix(description, ownerPrefix)
	_, uid, ok := strings.Cut(owner, "/")
	return types.UID(uid), marked && ok
}

// isRetained reports whether the network stays in Neutron.
func isRetained(spec *samplecrdv1.NetworkSpec) bool {
	return spec.DeletionPolicy == samplecrdv1.DeletionRetain || spec.DeletionPolicy == "" && spec.Import != nil
}
