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
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	externalnet "github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/external"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/layer3/floatingips"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/layer3/routers"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/networks"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/subnets"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/samplecrd/samplecrd-controller/hack/internal/stack"
	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
	"github.com/samplecrd/samplecrd-controller/pkg/neutron/embedded"
)

// external is an external network.
type external struct{ name, id string }

// reachOutside finds the external networks. It creates two of them in an embedded Neutron, as its
// administrator.
func (w *world) reachOutside(ctx context.Context) error {
	if w.neutron.Server != nil {
		if err := w.makeExternals(ctx); err != nil {
			return err
		}
		// The proxies choose the requests in the middle of which a worker of Neutron dies.
		w.neutron.SetFault(func(r *http.Request) *embedded.Fault {
			if r.Header.Get(halfHeader) == "" {
				return nil
			}
			return &embedded.Fault{Half: true}
		})
	}
	pages, err := networks.List(w.neutron.Client, externalnet.ListOptsExt{ListOptsBuilder: networks.ListOpts{}, External: new(true)}).AllPages(ctx)
	if err != nil {
		return fmt.Errorf("list external networks: %w", err)
	}
	found, err := networks.ExtractNetworks(pages)
	for _, n := range found {
		w.externals = append(w.externals, external{n.Name, n.ID})
	}
	return err
}

func (w *world) makeExternals(ctx context.Context) error {
	content, err := os.ReadFile(w.neutron.CloudsYAML)
	if err != nil {
		return err
	}
	admin, err := stack.Connect(ctx, stack.Cloud+"-admin", content)
	if err != nil {
		return err
	}
	for i, name := range []string{"public", "internet"} {
		opts := externalnet.CreateOptsExt{CreateOptsBuilder: networks.CreateOpts{Name: name}, External: new(true)}
		network, err := networks.Create(ctx, admin, opts).Extract()
		if err != nil {
			return fmt.Errorf("create the external network %s: %w", name, err)
		}
		cidr := fmt.Sprintf("198.%d.0.0/16", 18+i)
		if _, err := subnets.Create(ctx, admin, subnets.CreateOpts{NetworkID: network.ID, CIDR: cidr, IPVersion: gophercloud.IPv4}).Extract(); err != nil {
			return fmt.Errorf("create the subnet of the external network %s: %w", name, err)
		}
	}
	return nil
}

// others has the routers of other clients, which Networks attach to.
type others struct {
	mu sync.Mutex
	// before has the routers by ID, as they were at first.
	before map[string]otherRouter
	byName map[string]string
	// cleared has the routers of Networks that a user has taken the gateway from.
	cleared map[string]bool
}

// otherRouter is a router of another client.
type otherRouter struct {
	routers.Router
	// port is that of the interface that it has from the start; "" if it has none.
	port string
}

func (o *others) add(r otherRouter) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.before == nil {
		o.before, o.byName = map[string]otherRouter{}, map[string]string{}
	}
	o.before[r.ID], o.byName[r.Name] = r, r.ID
}

// id returns the ID of the router that the reference means.
func (o *others) id(ref *samplecrdv1.NeutronReference) string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return cmp.Or(ref.ID, o.byName[ref.Name])
}

func (o *others) has(id string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	_, known := o.before[id]
	return known
}

func (o *others) clear(id string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.cleared == nil {
		o.cleared = map[string]bool{}
	}
	o.cleared[id] = true
}

func (o *others) isCleared(id string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.cleared[id]
}

// addRouter creates a router that Networks can attach to. Some have a mark that looks like the
// Network's, or an interface of their own.
func (w *world) addRouter(ctx context.Context, r *rand.Rand, n *wanted) (otherRouter, error) {
	owner := func(cluster string) string { return ownerPrefix + cluster + "/" + string(n.uid) }
	descriptions := []string{"", "made by hand", owner("another"), owner(n.cluster + "x"), owner(n.cluster) + " (copied)"}
	opts := routers.CreateOpts{
		Name:        fmt.Sprintf("router-%s-%s-%d", n.namespace, n.name, r.Uint32()),
		Description: descriptions[r.IntN(len(descriptions))],
	}
	if r.IntN(2) == 0 {
		opts.GatewayInfo = &routers.GatewayInfo{NetworkID: w.externals[r.IntN(len(w.externals))].id}
	}
	router, err := routers.Create(ctx, w.neutron.Client, opts).Extract()
	if err != nil {
		return otherRouter{}, fmt.Errorf("create a stranger's router: %w", err)
	}
	made := otherRouter{Router: *router}
	if r.IntN(3) == 0 {
		if made.port, err = w.addOwnInterface(ctx, router); err != nil {
			return otherRouter{}, fmt.Errorf("attach a stranger's router: %w", err)
		}
	}
	w.others.add(made)
	w.tally.add("strangers' routers")
	return made, nil
}

// addOwnInterface attaches a network of the stranger's to its router.
func (w *world) addOwnInterface(ctx context.Context, r *routers.Router) (port string, err error) {
	network, err := networks.Create(ctx, w.neutron.Client, networks.CreateOpts{Name: "of-" + r.Name}).Extract()
	if err != nil {
		return "", err
	}
	subnet, err := subnets.Create(ctx, w.neutron.Client, subnets.CreateOpts{NetworkID: network.ID, CIDR: "172.16.0.0/24", IPVersion: gophercloud.IPv4}).Extract()
	if err != nil {
		return "", err
	}
	added, err := routers.AddInterface(ctx, w.neutron.Client, r.ID, routers.AddInterfaceOpts{SubnetID: subnet.ID}).Extract()
	if err != nil {
		return "", err
	}
	return added.PortID, nil
}

// withOtherRouter returns the spec with another router, or without one.
func (u *user) withOtherRouter(ctx context.Context, n *wanted, spec samplecrdv1.NetworkSpec) (samplecrdv1.NetworkSpec, error) {
	spec.Router = nil
	if len(u.world.externals) == 0 {
		return spec, nil
	}
	switch u.rand.IntN(6) {
	case 0, 1, 2:
		e := u.world.externals[u.rand.IntN(len(u.world.externals))]
		spec.Router = &samplecrdv1.RouterSpec{ExternalNetwork: u.reference(e.name, e.id)}
	case 3:
		if len(n.routers) == 0 || u.rand.IntN(2) == 0 {
			r, err := u.world.addRouter(ctx, u.rand, n)
			if err != nil {
				return spec, err
			}
			n.routers = append(n.routers, external{r.Name, r.ID})
		}
		r := n.routers[u.rand.IntN(len(n.routers))]
		spec.Router = &samplecrdv1.RouterSpec{Existing: u.reference(r.name, r.id)}
	}
	return consistent(spec), nil
}

func (u *user) reference(name, id string) *samplecrdv1.NeutronReference {
	if u.rand.IntN(2) == 0 {
		return &samplecrdv1.NeutronReference{ID: id}
	}
	return &samplecrdv1.NeutronReference{Name: name}
}

// consistent returns the spec with a gateway in each subnet, if there is a router.
func consistent(spec samplecrdv1.NetworkSpec) samplecrdv1.NetworkSpec {
	if spec.Router != nil && spec.Gateway == samplecrdv1.GatewayNone {
		spec.Gateway = ""
	}
	return spec
}

// routerIntent is the router that a Network declares: the ID of the external network of its own
// router, or that of an existing router.
type routerIntent struct{ external, existing string }

func (w *world) routerIntent(spec *samplecrdv1.NetworkSpec) (i routerIntent) {
	switch r := spec.Router; {
	case r == nil:
	case r.Existing != nil:
		i.existing = w.others.id(r.Existing)
	default:
		for _, e := range w.externals {
			if e.id == r.ExternalNetwork.ID || e.name == r.ExternalNetwork.Name {
				i.external = e.id
			}
		}
	}
	return i
}

// What is counted for all kinds of it together.
const (
	tampered = "changes of Networks' routers by users"
	visits   = "visits of other clients"
)

// tamper takes something away from the router of a Network, past the controller. Neutron refuses
// some of it.
func (u *user) tamper(ctx context.Context, n *wanted) {
	client := u.world.neutron.Client
	live, err := n.api.Get(ctx, n.name, metav1.GetOptions{})
	if err != nil || live.Status.Router == nil || live.Status.Router.ID == "" || len(live.Status.Subnets) == 0 {
		return
	}
	id := live.Status.Router.ID
	what := "interfaces taken off"
	action := u.rand.IntN(3)
	if u.world.others.has(id) {
		action = 0
	}
	switch action {
	case 0:
		s := live.Status.Subnets[u.rand.IntN(len(live.Status.Subnets))]
		_, err = routers.RemoveInterface(ctx, client, id, routers.RemoveInterfaceOpts{SubnetID: s.ID}).Extract()
	case 1:
		what = "routers deleted"
		for _, s := range live.Status.Subnets {
			_, _ = routers.RemoveInterface(ctx, client, id, routers.RemoveInterfaceOpts{SubnetID: s.ID}).Extract() // the router is deleted only if it has none
		}
		err = routers.Delete(ctx, client, id).ExtractErr()
	case 2:
		what = "gateways of routers cleared"
		u.world.others.clear(id)
		_, err = routers.Update(ctx, client, id, routers.UpdateOpts{GatewayInfo: &routers.GatewayInfo{}}).Extract()
	}
	if err == nil {
		u.world.tally.add(what + " by users")
		u.world.tally.add(tampered)
	}
	u.world.tally.log("user: %s, router %s of %s/%s: %v", what, id, n.namespace, n.name, err)
}

// visit is something of another client on a subnet of a Network: a port, and with it a floating IP
// or an interface of a router of that client's.
type visit struct{ port, floatingIP, router string }

// visit lets another client use a subnet of the Network, if there is one at the moment.
func (u *user) visit(ctx context.Context, n *wanted) {
	client, v := u.world.neutron.Client, visit{}
	live, err := n.api.Get(ctx, n.name, metav1.GetOptions{})
	if err != nil || live.Status.NetworkID == "" || len(live.Status.Subnets) == 0 {
		return
	}
	s := live.Status.Subnets[u.rand.IntN(len(live.Status.Subnets))]
	port, err := ports.Create(ctx, client, ports.CreateOpts{NetworkID: live.Status.NetworkID, FixedIPs: []ports.IP{{SubnetID: s.ID}}}).Extract()
	if err != nil {
		return // it is gone
	}
	v.port = port.ID
	what := "ports"
	if own := n.last.Router; own != nil && own.ExternalNetwork != nil {
		ip, err := floatingips.Create(ctx, client, floatingips.CreateOpts{FloatingNetworkID: u.world.routerIntent(&n.last).external, PortID: port.ID}).Extract()
		if err == nil {
			v.floatingIP, what = ip.ID, "floating IPs"
		}
	} else if u.rand.IntN(2) == 0 {
		router, err := routers.Create(ctx, client, routers.CreateOpts{Name: "visitor"}).Extract()
		if err == nil {
			v.router = router.ID
			if _, err = routers.AddInterface(ctx, client, router.ID, routers.AddInterfaceOpts{PortID: port.ID}).Extract(); err == nil {
				what = "interfaces of strangers' routers"
			}
		}
	}
	n.visits = append(n.visits, v)
	u.world.tally.add(what + " on Networks' subnets")
	u.world.tally.add(visits)
	u.world.tally.log("user: %s on subnet %s of %s/%s: %+v", what, s.ID, n.namespace, n.name, v)
}

// leave ends the visits. No other client may have ended them: a port prevents the deletion of its
// subnet and network.
func (u *user) leave(ctx context.Context, n *wanted) error {
	client := u.world.neutron.Client
	for _, v := range n.visits {
		u.world.tally.log("user: leaves %s/%s: %+v", n.namespace, n.name, v)
		if v.floatingIP != "" {
			ip, err := floatingips.Get(ctx, client, v.floatingIP).Extract()
			if err == nil && ip.PortID != v.port {
				u.world.saw.add("%s/%s: floating IP %s lost its port", n.namespace, n.name, v.floatingIP)
			}
			if err := floatingips.Delete(ctx, client, v.floatingIP).ExtractErr(); err != nil {
				return fmt.Errorf("delete a floating IP: %w", err)
			}
		}
		if v.router != "" {
			if _, err := routers.RemoveInterface(ctx, client, v.router, routers.RemoveInterfaceOpts{PortID: v.port}).Extract(); err != nil {
				u.world.saw.add("%s/%s: "+strangersInterface+"%v", n.namespace, n.name, err)
			}
			if err := routers.Delete(ctx, client, v.router).ExtractErr(); err != nil {
				u.world.saw.add("%s/%s: a stranger's router: %v", n.namespace, n.name, err)
			}
		} else if err := ports.Delete(ctx, client, v.port).ExtractErr(); err != nil {
			u.world.saw.add("%s/%s: a stranger's port: %v", n.namespace, n.name, err)
		}
	}
	n.visits = nil
	return nil
}

// sightings are violations that were seen while the users work.
type sightings struct {
	mu  sync.Mutex
	all violations
}

func (s *sightings) add(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var v violations
	v.add(format, args...)
	if !slices.Contains(s.all, v[0]) {
		s.all = append(s.all, v...)
	}
}

func (s *sightings) found() violations {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.all)
}

// startWatch runs watch. The returned function waits until it has ended.
func (w *world) startWatch(ctx context.Context) (wait func() error) {
	var group sync.WaitGroup
	group.Go(func() { w.watch(ctx) })
	return func() error {
		group.Wait()
		return nil
	}
}

// watch finds Networks that are ready without an interface, at any time, until ctx is done. It also
// does what users do after a restore of etcd.
func (w *world) watch(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(250 * time.Millisecond):
		}
		for _, c := range w.controllers {
			list, err := w.client.SamplecrdV1().Networks(c.namespace).List(ctx, metav1.ListOptions{})
			if err != nil {
				continue // kube-apiserver is away
			}
			half := w.halves()
			for i := range list.Items {
				w.watchOne(ctx, &list.Items[i], half)
			}
		}
	}
}

// halves returns the ports that look like an interface of a router and are none.
func (w *world) halves() map[string]bool {
	half := map[string]bool{}
	if w.neutron.Server == nil {
		return half
	}
	for _, i := range w.neutron.Interfaces() {
		half[i.PortID] = i.Half
	}
	return half
}

// The start of what is wrong with routers.
const (
	halfUnderReady     = "half an interface under a Ready Network: "
	strangersInterface = "a stranger's interface was removed: "
	strangersRouter    = "a stranger's router"
	strangersSubnet    = "an interface on a stranger's subnet"
	leakedRouter       = "leaked router: "
	secondRouter       = "a second router: "
)

func (w *world) watchOne(ctx context.Context, live *samplecrdv1.Network, half map[string]bool) {
	for _, s := range live.Status.Subnets {
		if isReady(live) && live.Spec.Router != nil && (s.RouterPortID == "" || half[s.RouterPortID]) {
			w.saw.add(halfUnderReady+"%s/%s, subnet %s, port %q", live.Namespace, live.Name, s.ID, s.RouterPortID)
		}
	}
	ready := meta.FindStatusCondition(live.Status.Conditions, samplecrdv1.ConditionReady)
	switch {
	case !w.restored.Load() || ready == nil:
	case ready.Reason == samplecrdv1.ReasonInUse:
		w.tidy(ctx, live, ready.Message)
	case strings.Contains(ready.Message, "overlaps with cidr"):
		w.tidyRetained(ctx, live)
	case strings.Contains(ready.Message, "overlaps with another subnet"):
		w.markAgain(ctx, live)
	}
}

// markAgain puts the marks back on the subnets of a Network whose deletion with the policy Retain was
// interrupted by a restore of etcd, from a backup that does not know these subnets.
func (w *world) markAgain(ctx context.Context, live *samplecrdv1.Network) {
	pages, err := subnets.List(w.neutron.Client, subnets.ListOpts{NetworkID: live.Status.NetworkID}).AllPages(ctx)
	if err != nil || live.Status.NetworkID == "" {
		return
	}
	all, err := subnets.ExtractSubnets(pages)
	if err != nil {
		return
	}
	at := slices.IndexFunc(w.controllers, func(c *controller) bool { return c.namespace == live.Namespace })
	mark := ownerPrefix + w.controllers[at].cluster + "/" + string(live.UID)
	for _, s := range all {
		if !strings.HasPrefix(s.Name, live.Namespace+"/"+live.Name) || s.Description != "" {
			continue
		}
		_, err := subnets.Update(ctx, w.neutron.Client, s.ID, subnets.UpdateOpts{Description: &mark}).Extract()
		w.tally.add("subnets marked again since a restore")
		w.tally.log("user: marks the subnet %s of %s/%s: %v", s.ID, live.Namespace, live.Name, err)
	}
}

// tidyRetained removes the interface of a retained network from the existing router of a Network
// that a restore of etcd has brought back. Their CIDRs overlap.
func (w *world) tidyRetained(ctx context.Context, live *samplecrdv1.Network) {
	all, err := w.interfaces(ctx, "")
	if err != nil {
		return
	}
	router := w.routerIntent(&live.Spec).existing
	for _, p := range all {
		if p.DeviceID != router || !w.others.has(router) || !w.mayBeRetained(p.NetworkID) {
			continue
		}
		_, err := routers.RemoveInterface(ctx, w.neutron.Client, router, routers.RemoveInterfaceOpts{PortID: p.ID}).Extract()
		w.tally.add("interfaces of retained networks removed since a restore")
		w.tally.log("user: removes the interface %s of a retained network from router %s: %v", p.ID, router, err)
	}
}

// tidy removes an interface to a router that neither the spec nor the status names any more: a restored
// backup of etcd does not have that. The controller names the port in the message, and leaves it.
func (w *world) tidy(ctx context.Context, live *samplecrdv1.Network, message string) {
	all, err := w.interfaces(ctx, live.Status.NetworkID) // the restored status may not have the ID either
	if err != nil {
		return
	}
	for _, p := range all {
		isNamed := p.DeviceID == w.routerIntent(&live.Spec).existing || live.Status.Router != nil && p.DeviceID == live.Status.Router.ID
		if isNamed || !w.isForgotten(p.DeviceID) || !strings.Contains(message, p.ID) {
			continue
		}
		_, err := routers.RemoveInterface(ctx, w.neutron.Client, p.DeviceID, routers.RemoveInterfaceOpts{PortID: p.ID}).Extract()
		w.tally.add("interfaces removed that no Network names since a restore")
		w.tally.log("user: removes the interface %s of %s/%s, router %s: %v", p.ID, live.Namespace, live.Name, p.DeviceID, err)
	}
}

// isForgotten reports whether a restored backup of etcd can lack the router: it is an existing one, or was
// a Network's own and has lost its mark, because the Network was deleted with the policy Retain.
func (w *world) isForgotten(router string) bool {
	return w.others.has(router) || w.mayBeRetainedRouter(router)
}

// interfaces lists the interfaces of routers, on one network or on all.
func (w *world) interfaces(ctx context.Context, network string) ([]ports.Port, error) {
	pages, err := ports.List(w.neutron.Client, ports.ListOpts{NetworkID: network, DeviceOwner: "network:router_interface"}).AllPages(ctx)
	if err != nil {
		return nil, err
	}
	return ports.ExtractPorts(pages)
}

// routing is what Neutron has of routers.
type routing struct {
	// byOwner has the routers by the owner in their mark, and others those without one.
	byOwner map[string][]routers.Router
	others  []routers.Router
	// on has the interfaces by the ID of their network.
	on map[string][]ports.Port
	// half has the ports that look like an interface and are none.
	half map[string]bool
}

// routing reads what Neutron has of routers.
func (w *world) routing(ctx context.Context) (*routing, error) {
	pages, err := routers.List(w.neutron.Client, routers.ListOpts{}).AllPages(ctx)
	if gophercloud.ResponseCodeIs(err, http.StatusNotFound) && len(w.externals) == 0 {
		return &routing{}, nil // it has no router service
	}
	if err != nil {
		return nil, fmt.Errorf("list routers: %w", err)
	}
	all, err := routers.ExtractRouters(pages)
	if err != nil {
		return nil, fmt.Errorf("list routers: %w", err)
	}
	r := &routing{byOwner: map[string][]routers.Router{}, on: map[string][]ports.Port{}, half: w.halves()}
	for _, router := range all {
		owner, marked := strings.CutPrefix(router.Description, ownerPrefix)
		isOurs := marked && slices.ContainsFunc(w.controllers, func(c *controller) bool { return strings.HasPrefix(owner, c.cluster+"/") })
		if isOurs && !w.others.has(router.ID) {
			r.byOwner[owner] = append(r.byOwner[owner], router)
		} else {
			r.others = append(r.others, router)
		}
	}
	interfaces, err := w.interfaces(ctx, "")
	if err != nil {
		return nil, fmt.Errorf("list interfaces: %w", err)
	}
	for _, p := range interfaces {
		r.on[p.NetworkID] = append(r.on[p.NetworkID], p)
	}
	return r, nil
}

// checkRouter compares the router of one wanted Network with what exists. network is the only one
// of that Network.
func (w *world) checkRouter(n *wanted, live *samplecrdv1.Network, network stack.Network, r *routing, v *violations) {
	who, want := n.namespace+"/"+n.name, w.routerIntent(n.spec)
	own := r.byOwner[n.owner()]
	id := want.existing
	switch {
	case want.external == "" && len(own) > 0:
		v.add("%s: "+leakedRouter+"%+v", who, own)
	case want.external != "" && len(own) != 1:
		v.add("%s: "+secondRouter+"want one router, got %+v", who, own)
		return
	case want.external != "":
		id = own[0].ID
		if own[0].Name != who || own[0].GatewayInfo.NetworkID != want.external {
			v.add("%s: want a router named like it with its gateway on %s, got %+v", who, want.external, own[0])
		}
	}
	checkRouterStatus(who, live, id, slices.Concat(own, r.others), v)
	for _, s := range network.Subnets {
		w.checkInterfaces(n, live, id, s, r, v)
	}
	checkMessage(who, live, id, r.on[network.ID], v)
}

// checkMessage compares the message of a ready Network with the interfaces on its network: it names
// those to other routers.
func checkMessage(who string, live *samplecrdv1.Network, router string, interfaces []ports.Port, v *violations) {
	var want []string
	for _, p := range interfaces {
		if p.DeviceID != router {
			want = append(want, p.ID)
		}
	}
	message, named := "", []string(nil)
	if ready := meta.FindStatusCondition(live.Status.Conditions, samplecrdv1.ConditionReady); ready != nil {
		message = ready.Message
	}
	for _, text := range strings.SplitAfter(message, "(port ")[1:] {
		id, _, _ := strings.Cut(text, ")")
		named = append(named, id)
	}
	if slices.Sort(want); isReady(live) && !slices.Equal(want, slices.Sorted(slices.Values(named))) {
		v.add("%s: want the interfaces %q in the message, got %q", who, want, message)
	}
}

// checkRouterStatus compares the status with the router, which is one of all.
func checkRouterStatus(who string, live *samplecrdv1.Network, id string, all []routers.Router, v *violations) {
	status := live.Status.Router
	if id == "" {
		if status != nil {
			v.add("%s: want no router in the status, got %+v", who, status)
		}
		return
	}
	if status == nil || status.ID != id {
		v.add("%s: want router %s in the status, got %+v", who, id, status)
		return
	}
	for _, r := range all {
		if r.ID != id {
			continue
		}
		var ips []string
		for _, ip := range r.GatewayInfo.ExternalFixedIPs {
			ips = append(ips, ip.IPAddress)
		}
		if !slices.Equal(slices.Sorted(slices.Values(ips)), slices.Sorted(slices.Values(status.ExternalIPs))) {
			v.add("%s: want the addresses %q in the status, got %q", who, ips, status.ExternalIPs)
		}
	}
}

// checkInterfaces compares the interfaces on a subnet with the desired one: that to the router, or
// none if its ID is "".
func (w *world) checkInterfaces(n *wanted, live *samplecrdv1.Network, router string, s subnets.Subnet, r *routing, v *violations) {
	who, found := n.namespace+"/"+n.name, 0
	for _, p := range r.on[s.NetworkID] {
		at := slices.IndexFunc(p.FixedIPs, func(ip ports.IP) bool { return ip.SubnetID == s.ID })
		if at < 0 {
			continue
		}
		recorded := slices.ContainsFunc(live.Status.Subnets, func(of samplecrdv1.SubnetStatus) bool { return of.ID == s.ID && of.RouterPortID == p.ID })
		switch {
		case p.DeviceID == router && r.half[p.ID]:
			v.add("%s: "+halfUnderReady+"%s on subnet %s", who, p.ID, s.CIDR)
		case p.DeviceID == router:
			found++
			if p.FixedIPs[at].IPAddress != s.GatewayIP || !recorded {
				v.add("%s: want an interface with %s on subnet %s, in the status too, got %+v and %+v", who, s.GatewayIP, s.CIDR, p, live.Status.Subnets)
			}
		case n.restores > 0 && w.isForgotten(p.DeviceID):
			// Nothing names this router since a restore.
		default:
			v.add("%s: "+leakedRouter+"interface %s to router %s on subnet %s", who, p.ID, p.DeviceID, s.CIDR)
		}
	}
	if want := min(1, len(router)); found != want {
		v.add("%s: want %d interfaces to router %q on subnet %s, got %d", who, want, router, s.CIDR, found)
	}
}

// checkOtherRouters finds routers that are left over, and strangers' routers and interfaces that the
// controller has changed.
func (w *world) checkOtherRouters(r *routing, v *violations) {
	for owner, left := range r.byOwner {
		if uid, _ := ownerOf(ownerPrefix + owner); !w.intents.mayBeLeft(uid) {
			v.add(leakedRouter+"%+v", left)
		}
	}
	byID, byPort := map[string]routers.Router{}, map[string]string{}
	for _, router := range r.others {
		byID[router.ID] = router
		isOfNetwork := slices.ContainsFunc(w.controllers, func(c *controller) bool { return strings.HasPrefix(router.Name, c.namespace+"/") })
		if isOfNetwork && !w.mayBeRetainedRouter(router.ID) {
			v.add(leakedRouter+"without a mark of ours: %+v", router)
		}
	}
	for _, ports := range r.on {
		for _, p := range ports {
			byPort[p.ID] = p.DeviceID
		}
	}
	w.others.mu.Lock()
	defer w.others.mu.Unlock()
	for id, before := range w.others.before {
		now := byID[id]
		now.RevisionNumber, now.UpdatedAt = before.RevisionNumber, before.UpdatedAt // interfaces change these
		if !reflect.DeepEqual(now, before.Router) {
			v.add(strangersRouter+" was deleted or changed: before %+v, now %+v", before.Router, byID[id])
		}
		if before.port != "" && byPort[before.port] != id {
			v.add(strangersInterface+"port %s of router %s", before.port, id)
		}
	}
}

// mayBeRetainedRouter reports whether the router belonged to a Network that was deleted with the
// policy Retain.
func (w *world) mayBeRetainedRouter(id string) bool {
	return slices.ContainsFunc(w.controllers, func(c *controller) bool {
		uid, known := c.ledger.ownerOfRouter(id)
		return known && w.intents.wasRetained(uid)
	})
}
