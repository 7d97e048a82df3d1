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

package simulation

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"

	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
	"github.com/samplecrd/samplecrd-controller/pkg/testing/meaning"
	"github.com/samplecrd/samplecrd-controller/pkg/testing/restapi"
)

// oracle judges what controllers do.
type oracle struct {
	world *World

	mu         sync.Mutex
	violations []string
	// reads has, for each process and each Network, how many changes the API server had when the process read it last
	// past its cache.
	reads map[readBy]int
	// holder is the process that has written the Lease last.
	holder  string
	isQuiet bool
}

type readBy struct{ process, name string }

func newOracle(w *World) *oracle { return &oracle{world: w, reads: map[readBy]int{}} }

func (o *oracle) violate(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	o.world.log("VIOLATION: %s", text)
	o.mu.Lock()
	defer o.mu.Unlock()
	o.violations = append(o.violations, text)
}

func (o *oracle) found() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.violations)
}

func (o *oracle) leader() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.holder
}

// end ends all judgement.
func (o *oracle) end() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.isQuiet = false
}

// beQuiet begins the time in which the controller has nothing to do.
func (o *oracle) beQuiet() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.isQuiet = true
}

func (o *oracle) mustBeQuiet() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.isQuiet
}

// kubernetes notes a request of a process to the API server.
func (o *oracle) kubernetes(process string, r *restapi.Request, err error) {
	if r.Key.Resource == "leases" {
		if r.Writes() && err == nil {
			o.mu.Lock()
			defer o.mu.Unlock()
			o.holder = process
		}
		return
	}
	if r.Writes() {
		o.world.log("%s: %s %s %s %s: %v", process, r.Verb, r.Key.Resource, r.Key.Name, r.Subresource, err)
		if o.mustBeQuiet() {
			o.violate("%s wrote when everything matched: %s %s %s", process, r.Verb, r.Key.Resource, r.Key.Name)
		}
	}
	if r.Key.Resource == "networks" && r.Key.Name != "" && !isRefused(err) {
		changes := len(o.world.api.Changes())
		o.mu.Lock()
		defer o.mu.Unlock()
		o.reads[readBy{process, r.Key.Name}] = changes
	}
}

// isRefused reports whether the answer says nothing about the object. That it is not there says something.
func isRefused(err error) bool { return err != nil && !strings.Contains(err.Error(), "not found") }

// deed is a request of a controller that would change something in Neutron.
type deed struct {
	process, method, path string
	// kind is one of those below; "" if the request can be undone.
	kind kind
	uid  string // of the owner
	// cidr and gateway are those of the subnet, router and external of the router.
	cidr, gateway    string
	address          string // of the interface that is removed
	router, external string
	isOwn            bool
	isDuplicate      bool
	isHalf           bool
}

type kind string

const (
	creates       kind = "creates a network"
	deletes       kind = "deletes a network"
	unmarks       kind = "removes a mark"
	deletesSubnet kind = "deletes a subnet"
	createsRouter kind = "creates a router"
	deletesRouter kind = "deletes a router"
	attaches      kind = "attaches a subnet"
	detaches      kind = "detaches a subnet"
)

// arrived judges a request of a process, before it takes effect.
func (w *World) arrived(r *http.Request, body []byte) *deed {
	_, path, isNeutron := strings.Cut(r.URL.Path, "/v2.0/")
	process := processOf(r)
	if !isNeutron || process == "" || w.hasDied(process) {
		return nil
	}
	o := w.oracle
	if r.Method == http.MethodGet {
		if o.mustBeQuiet() && strings.Contains(path, "/") {
			o.violate("%s looked at one object when everything matched: %s", process, path)
		}
		return nil
	}
	w.log("%s: %s %s %.200s", process, r.Method, path, body)
	if o.mustBeQuiet() {
		o.violate("%s wrote when everything matched: %s %s", process, r.Method, path)
	}
	d := &deed{process: process, method: r.Method, path: path}
	if what := w.complete(d, body); what != "" {
		o.violate("%s: %s %s: %s", process, r.Method, path, what)
		return d
	}
	if d.kind != "" {
		o.judge(d)
	}
	return d
}

func (w *World) hasDied(process string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.processes[process].isDead()
}

// body is that of a request to Neutron, as far as it matters.
type body struct {
	SubnetID string `json:"subnet_id"`
	PortID   string `json:"port_id"`
	Network  struct{ Description *string }
	Subnet   struct {
		NetworkID string `json:"network_id"`
	}
	Router struct {
		Description string
		Gateway     struct {
			NetworkID string `json:"network_id"`
		} `json:"external_gateway_info"`
	}
}

// complete finds out what the request is about, and returns what is wrong about it whatever the specs say; "" if nothing
// is.
func (w *World) complete(d *deed, content []byte) string {
	collection, rest, _ := strings.Cut(d.path, "/")
	id, action, _ := strings.Cut(rest, "/")
	var b body
	_ = json.Unmarshal(content, &b) // a deletion has none
	isInterface := strings.HasSuffix(action, "_router_interface")
	if w.isStrange(id) && !isInterface {
		return "it is a stranger's"
	}
	now := w.cloud.snapshot()
	switch d.method + " " + collection {
	case "POST networks":
		d.kind, d.uid = creates, markOf(ptr.Deref(b.Network.Description, ""))
	case "PUT networks", "DELETE networks":
		return d.completeNetwork(now, id, b.Network.Description)
	case "POST subnets":
		return w.strangersNetwork(now, b.Subnet.NetworkID)
	case "PUT subnets":
		return w.strangersNetwork(now, now.subnets[id].NetworkID)
	case "DELETE subnets":
		d.kind = deletesSubnet
		return w.about(d, now, id)
	case "POST routers":
		d.kind, d.uid, d.external = createsRouter, markOf(b.Router.Description), b.Router.Gateway.NetworkID
	case "DELETE routers":
		r := now.routers[id]
		d.kind, d.router, d.uid, d.external, d.isOwn = deletesRouter, id, markOf(r.Description), r.Gateway.NetworkID, true
		d.isDuplicate = len(now.routersOf(d.uid)) > 1
		return d.mustHaveMark(r.ID != "")
	case "PUT routers":
		if isInterface {
			return w.completeInterface(d, now, id, action, b)
		}
	}
	return ""
}

// completeNetwork completes a deed about a network that exists.
func (d *deed) completeNetwork(now *snapshot, id string, description *string) string {
	d.uid = markOf(now.networks[id].Description)
	d.isDuplicate = now.count(d.uid) > 1
	switch {
	case d.method == http.MethodDelete:
		d.kind = deletes
	case description != nil && markOf(*description) == "":
		d.kind = unmarks
	}
	return d.mustHaveMark(now.networks[id].ID != "")
}

// mustHaveMark returns what is wrong if the object exists and has no mark. If it is gone, nothing can be wrong.
func (d *deed) mustHaveMark(exists bool) string {
	switch {
	case !exists:
		d.kind = ""
	case d.uid == "":
		return "it has no mark"
	}
	return ""
}

// completeInterface completes a deed about the interface of a router.
func (w *World) completeInterface(d *deed, now *snapshot, router, action string, b body) string {
	d.kind, d.router = attaches, router
	if action == "remove_router_interface" {
		d.kind = detaches
	}
	r := now.routers[router]
	d.external, d.isOwn = r.Gateway.NetworkID, markOf(r.Description) != ""
	subnet := b.SubnetID
	for _, i := range w.cloud.Interfaces() {
		if i.PortID == b.PortID {
			subnet = i.SubnetIDs[0]
		}
		d.isHalf = d.isHalf || i.Half && slices.Contains(i.SubnetIDs, subnet)
	}
	return w.about(d, now, subnet)
}

// about completes a deed about a subnet.
func (w *World) about(d *deed, now *snapshot, subnet string) string {
	s := now.subnets[subnet]
	d.cidr, d.gateway = s.CIDR, cmp.Or(s.GatewayIP, samplecrdv1.GatewayNone)
	d.uid = markOf(now.networks[s.NetworkID].Description)
	d.isDuplicate = now.count(d.uid) > 1
	if s.ID == "" {
		d.kind = "" // it is gone already
		return ""
	}
	if w.isStrange(subnet) {
		return "the subnet is a stranger's"
	}
	if d.kind == detaches {
		d.address = w.addressOf(now, d.router, subnet)
	}
	return w.strangersNetwork(now, s.NetworkID)
}

// addressOf returns the address of the router in the subnet.
func (w *World) addressOf(now *snapshot, router, subnet string) string {
	for _, i := range now.interfaces[subnet] {
		var port struct {
			Port struct {
				FixedIPs []struct {
					SubnetID string `json:"subnet_id"`
					Address  string `json:"ip_address"`
				} `json:"fixed_ips"`
			}
		}
		if i.RouterID != router || w.cloud.byAdmin(http.MethodGet, "ports/"+i.PortID, nil, &port) != nil {
			continue
		}
		for _, ip := range port.Port.FixedIPs {
			if ip.SubnetID == subnet {
				return ip.Address
			}
		}
	}
	return ""
}

func (w *World) strangersNetwork(now *snapshot, id string) string {
	n := now.networks[id]
	if n.ID != "" && (w.isStrange(id) || markOf(n.Description) == "") {
		return "the network is not the controller's"
	}
	return ""
}

// count returns how many networks have the mark of that owner.
func (s *snapshot) count(uid string) (count int) {
	for _, n := range s.networks {
		if uid != "" && markOf(n.Description) == uid {
			count++
		}
	}
	return count
}

// routersOf returns the IDs of the routers that have the mark of that owner.
func (s *snapshot) routersOf(uid string) (ids []string) {
	for _, r := range s.routers {
		if uid != "" && markOf(r.Description) == uid {
			ids = append(ids, r.ID)
		}
	}
	return ids
}

// judge finds a deed that no version of the Network permits which the process may have read.
func (o *oracle) judge(d *deed) {
	if d.uid == "" {
		o.violate("%s %s without an owner: %s %s", d.process, d.kind, d.method, d.path)
		return
	}
	name, versions := o.versions(d)
	if versions == nil {
		o.violate("%s %s of %s without a read of it before", d.process, d.kind, d.uid)
		return
	}
	for _, v := range versions {
		if o.world.permits(v, d) {
			return
		}
	}
	last := versions[len(versions)-1]
	text := "it is gone"
	if last != nil {
		spec, _ := json.Marshal(last.Spec)
		text = fmt.Sprintf("paused %t, deleted %t, finalizers %v, %s", last.IsPaused(), last.DeletionTimestamp != nil, last.Finalizers, spec)
	}
	o.violate("%s %s (%s %s, subnet %s %s, external network %s), and %s does not want that: %s", d.process, d.kind, d.method, d.path, d.cidr, d.gateway, d.external, name, text)
}

// versions returns the owner as it was when the process read it last, and all later versions of it; nil stands for one
// that is gone.
func (o *oracle) versions(d *deed) (name string, versions []*samplecrdv1.Network) {
	changes := o.world.api.Changes()
	for _, c := range changes {
		if c.Key.Resource == "networks" && string(c.Object.GetUID()) == d.uid {
			name = c.Key.Name
			break
		}
	}
	o.mu.Lock()
	since, isRead := o.reads[readBy{d.process, name}]
	o.mu.Unlock()
	if !isRead {
		return name, nil
	}
	var read *samplecrdv1.Network
	for i, c := range changes {
		if c.Key.Resource != "networks" || string(c.Object.GetUID()) != d.uid {
			continue
		}
		v := typedNetwork(c)
		if i < since {
			read = v
		} else {
			versions = append(versions, v)
		}
	}
	return name, append([]*samplecrdv1.Network{read}, versions...)
}

// typedNetwork returns the Network after the change; nil if it is gone.
func typedNetwork(c restapi.Change) *samplecrdv1.Network {
	if c.Type == watch.Deleted {
		return nil
	}
	n := &samplecrdv1.Network{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(c.Object.Object, n); err != nil {
		panic(err) // typed clients have stored it
	}
	return n
}

// permits reports whether this version of the owner permits the deed.
func (w *World) permits(n *samplecrdv1.Network, d *deed) bool {
	if n == nil { // it is gone, in spite of its finalizer
		return d.kind == deletes || d.kind == deletesSubnet || d.kind == deletesRouter || d.kind == detaches
	}
	isDeleted, isRetained := n.DeletionTimestamp != nil, n.Spec.DeletionPolicy == samplecrdv1.DeletionRetain
	declared := declaredSubnet(n, d.cidr)
	isRemoval := isDeleted && !isRetained || !isDeleted && d.isDuplicate
	switch {
	case n.IsPaused():
		return false
	case d.kind == unmarks:
		return isDeleted && isRetained
	case d.kind == deletes:
		return isRemoval
	case d.kind == creates:
		return !isDeleted && slices.Contains(n.Finalizers, samplecrdv1.Finalizer)
	case d.kind == createsRouter:
		return !isDeleted && slices.Contains(n.Finalizers, samplecrdv1.Finalizer) && w.declaresRouter(n, d)
	case d.kind == attaches:
		return !isDeleted && declared != nil && w.declaresRouter(n, d)
	case isRemoval:
		return true
	case isDeleted:
		return false
	case d.kind == deletesSubnet:
		return declared == nil || d.canBeReplaced()
	case d.kind == detaches:
		// A trial that Neutron has accepted is taken back, if the status does not name the router.
		isTrial := n.Status.Router == nil || n.Status.Router.ID != d.router
		return declared == nil || d.isHalf || isTrial || !w.declaresRouter(n, d) || isMoved(declared, d) || d.canBeReplaced()
	case d.kind == deletesRouter:
		return !w.declaresRouter(n, d)
	}
	return false
}

func declaredSubnet(n *samplecrdv1.Network, cidr string) *samplecrdv1.SubnetSpec {
	for _, s := range meaning.SubnetsOf(&n.Spec) {
		if declared, _ := meaning.CIDRAndGateway(&s.SubnetSpec); declared == cidr {
			return &s.SubnetSpec
		}
	}
	return nil
}

// isMoved reports whether the subnet, or its interface, has another gateway than declared.
func isMoved(declared *samplecrdv1.SubnetSpec, d *deed) bool {
	_, gateway := meaning.CIDRAndGateway(declared)
	return sameAddress(gateway) != sameAddress(d.gateway) || sameAddress(gateway) != sameAddress(d.address)
}

// canBeReplaced reports whether the subnet may have to be replaced although it has the declared CIDR: Neutron cannot change
// the modes of an IPv6 subnet.
func (d *deed) canBeReplaced() bool { return strings.Contains(d.cidr, ":") }

func sameAddress(text string) string {
	if address, err := netip.ParseAddr(text); err == nil {
		return address.String()
	}
	return text
}

// declaresRouter reports whether the spec declares the router of the deed.
func (w *World) declaresRouter(n *samplecrdv1.Network, d *deed) bool {
	switch r := n.Spec.Router; {
	case r == nil:
		return false
	case r.Existing != nil:
		return !d.isOwn && d.kind != createsRouter && d.router == cmp.Or(r.Existing.ID, w.gates[r.Existing.Name])
	default:
		external := cmp.Or(r.ExternalNetwork.ID, w.externals[r.ExternalNetwork.Name])
		// A router without a gateway gets the declared one.
		return (d.isOwn || d.kind == createsRouter) && (d.external == external || d.external == "")
	}
}

// answered judges what a request has led to.
func (w *World) answered(d *deed) {
	if d == nil || d.kind != creates || d.uid == "" {
		return
	}
	if w.cloud.snapshot().count(d.uid) > 1 {
		w.oracle.violate("%s created a second network of %s while the first one is there", d.process, d.uid)
	}
}
