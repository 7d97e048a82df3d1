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
	"context"
	"errors"
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/subnets"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/samplecrd/samplecrd-controller/hack/internal/stack"
	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
)

// violations describe what is wrong.
type violations []string

// The start of the violations that mutations must cause.
const (
	duplicate = "duplicate: "
	leftOver  = "left over: "
	livesOn   = "lives on in Neutron: "

	endless  = "the run did not end in time: "
	notReady = "not ready"
	differs  = "the spec and the status want"

	inCircles    = "syncs when everything matched"
	inOtherPlace = "made in another place: "
)

func (v *violations) add(format string, args ...any) { *v = append(*v, fmt.Sprintf(format, args...)) }

// waitForOrder waits until the oracle finds no violations, and returns the last ones.
func (w *world) waitForOrder(ctx context.Context) (last violations, err error) {
	err = wait.PollUntilContextTimeout(ctx, 200*time.Millisecond, w.patience, true, func(context.Context) (bool, error) {
		// Not with the poll's own context: when that ends, what was found would be lost.
		found, err := w.consult(ctx)
		if err == nil {
			last = found
		}
		return err == nil && len(found) == 0, err
	})
	if wait.Interrupted(err) && ctx.Err() == nil {
		err = nil
	}
	return last, err
}

// consult is the oracle: it returns the violations. It reads both sides, past all caches, and
// relies only on what the API's documentation says about the controller.
func (w *world) consult(ctx context.Context) (violations, error) {
	var v violations
	inNeutron, err := w.neutron.Networks(ctx)
	if err != nil {
		return nil, err
	}
	routing, err := w.routing(ctx)
	if err != nil {
		return nil, err
	}
	byOwner := w.sort(inNeutron, &v)
	liveImports := map[types.UID]*samplecrdv1.Network{}
	for _, c := range w.controllers {
		list, err := w.client.SamplecrdV1().Networks(c.namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, err
		}
		live := map[string]*samplecrdv1.Network{}
		for i := range list.Items {
			live[list.Items[i].Name] = &list.Items[i]
		}
		for _, n := range w.wanted {
			if n.namespace != c.namespace {
				continue
			}
			if n.pair != nil {
				w.checkImport(n, live[n.name], liveImports, &v)
				continue
			}
			if live[n.name] == nil && w.intents.mayBeLeft(n.uid) {
				continue
			}
			w.check(n, live[n.name], byOwner[n.owner()], routing, &v)
			delete(byOwner, n.owner())
			delete(routing.byOwner, n.owner())
		}
	}
	for owner, networks := range byOwner {
		if uid, _ := ownerOf(ownerPrefix + owner); w.intents.mayBeLeft(uid) {
			w.checkReported(owner, networks, &v)
		} else {
			v.add(leftOver+"%s of %s", describe(networks), owner)
		}
	}
	w.checkLegacies(inNeutron, liveImports, &v)
	w.checkTwins(&v)
	w.checkStrangers(inNeutron, &v)
	w.checkOtherRouters(routing, &v)
	return v, errors.Join(w.checkElsewhere(ctx, &v), w.checkDoomed(ctx, &v))
}

const ownerPrefix = "samplecrd.k8s.io/owner="

// sort returns the networks by the owner that their mark names.
func (w *world) sort(networks []stack.Network, v *violations) map[string][]stack.Network {
	byOwner := map[string][]stack.Network{}
	for _, n := range networks {
		owner, marked := strings.CutPrefix(n.Description, ownerPrefix)
		_, isStranger := w.strangers.before[n.ID]
		switch {
		case isStranger, w.legacies.has(n.ID):
		case marked && slices.ContainsFunc(w.controllers, func(c *controller) bool { return strings.HasPrefix(owner, c.cluster+"/") }):
			byOwner[owner] = append(byOwner[owner], n)
		case w.mayBeRetained(n.ID):
		case slices.ContainsFunc(w.controllers, func(c *controller) bool { return strings.HasPrefix(n.Name, c.namespace+"/") }):
			v.add("without a mark of ours: %s, description %q", describe([]stack.Network{n}), n.Description)
		}
	}
	return byOwner
}

// checkReported finds networks of Networks that are gone without their finalizer, and that are not
// reported as orphans. A controller with the flag -namespace does not look for them.
func (w *world) checkReported(owner string, networks []stack.Network, v *violations) {
	for _, c := range w.controllers {
		if c.ofOneNamespace || !strings.HasPrefix(owner, c.cluster+"/") {
			continue
		}
		for _, n := range networks {
			if !c.hasLogged("Found an orphan", n.ID) && !c.hasLogged("Found more orphans") {
				v.add("network %s of a Network that is gone without its finalizer is not reported as an orphan", n.ID)
			}
		}
	}
}

// checkTwins finds controllers that do not report that another one has their cluster ID.
func (w *world) checkTwins(v *violations) {
	for _, c := range w.controllers {
		if w.twins && !c.hasLogged("another installation probably has the same cluster ID") {
			v.add("%s does not report another installation with its cluster ID", c.namespace)
		}
	}
}

// mayBeRetained reports whether the network was made for a Network that was deleted with the
// policy Retain.
func (w *world) mayBeRetained(id string) bool {
	return slices.ContainsFunc(w.controllers, func(c *controller) bool {
		uid, known := c.ledger.creator(id)
		return known && w.intents.wasRetained(uid)
	})
}

// check compares one wanted Network with what exists on both sides.
func (w *world) check(n *wanted, live *samplecrdv1.Network, found []stack.Network, r *routing, v *violations) {
	who := n.namespace + "/" + n.name
	if n.spec == nil {
		if live != nil {
			v.add("%s: it was deleted, and still exists: %+v", who, live.ObjectMeta)
		}
		if len(found) > 0 {
			v.add("%s: it was deleted, and "+livesOn+"%s", who, describe(found))
		}
		if left := r.byOwner[n.owner()]; len(left) > 0 {
			v.add("%s: it was deleted: "+leakedRouter+"%+v", who, left)
		}
		return
	}
	if live == nil || live.UID != n.uid || !equality.Semantic.DeepEqual(live.Spec, *n.spec) {
		v.add("%s: want it with UID %s and %+v, got %+v", who, n.uid, *n.spec, live)
		return
	}
	if want := len(subnetsOf(n.spec)); len(found) != 1 || len(found[0].Subnets) != want {
		v.add("%s: want one network with %d subnets, got %s; the status: %+v", who, want, describe(found), live.Status)
		return
	}
	if diff := differences(n, live, found[0]); diff != "" {
		v.add("%s: %s", who, diff)
	}
	w.checkRouter(n, live, found[0], r, v)
	if !isReady(live) {
		v.add("%s: "+notReady+": generation %d, %+v", who, live.Generation, live.Status)
	}
	if !slices.Contains(live.Finalizers, samplecrdv1.Finalizer) {
		v.add("%s: it has no finalizer", who)
	}
}

// differences describes how Neutron, the status and the spec differ; "" if they do not.
func differences(n *wanted, live *samplecrdv1.Network, network stack.Network) string {
	who := n.namespace + "/" + n.name
	want := []string{who, live.Status.NetworkID}
	got := []string{network.Name, network.ID}
	if n.spec.Tags != nil {
		want, got = append(want, sortedTags(n.spec.Tags)), append(got, sortedTags(network.Tags))
	}
	if len(live.Status.Subnets) != len(network.Subnets) {
		return fmt.Sprintf(differs+" %d subnets, Neutron has %d", len(live.Status.Subnets), len(network.Subnets))
	}
	for i, s := range subnetsOf(n.spec) {
		cidr := netip.MustParsePrefix(s.CIDR).Masked()
		at := slices.IndexFunc(network.Subnets, func(s subnets.Subnet) bool { return s.CIDR == cidr.String() })
		if at < 0 {
			return fmt.Sprintf(differs+" a subnet %s, Neutron has %s", cidr, describe([]stack.Network{network}))
		}
		subnet, status := network.Subnets[at], live.Status.Subnets[i]
		gateway := subnet.GatewayIP
		if gateway == "" {
			gateway = samplecrdv1.GatewayNone
		}
		name := who
		if s.Name != "" {
			name += "/" + s.Name
		}
		want = append(want, name, network.Description, wantedGateway(&s.SubnetSpec, cidr, subnet), fmt.Sprint(s.DNSNameservers), wantedPools(&s.SubnetSpec, &subnet),
			status.Name, status.ID, status.CIDR, status.Gateway)
		got = append(got, subnet.Name, subnet.Description, gateway, fmt.Sprint(subnet.DNSNameservers), sortedPools(subnet.AllocationPools),
			s.Name, subnet.ID, subnet.CIDR, gateway)
		if i == 0 {
			want = append(want, live.Status.SubnetID, live.Status.CIDR, live.Status.Gateway)
			got = append(got, subnet.ID, subnet.CIDR, gateway)
		}
	}
	if slices.Equal(want, got) {
		return ""
	}
	return fmt.Sprintf(differs+" %q, Neutron has %q", want, got)
}

func sortedTags[T ~string](tags []T) string { return fmt.Sprint(slices.Sorted(slices.Values(tags))) }

// sortedPools returns the pools as a set: Neutron lists them in any order.
func sortedPools(pools []subnets.AllocationPool) string {
	return fmt.Sprint(slices.SortedFunc(slices.Values(pools), func(a, b subnets.AllocationPool) int { return strings.Compare(a.Start, b.Start) }))
}

// wantedPools returns the declared pools, or those that Neutron has.
func wantedPools(spec *samplecrdv1.SubnetSpec, subnet *subnets.Subnet) string {
	if spec.AllocationPools == nil {
		return sortedPools(subnet.AllocationPools)
	}
	var pools []subnets.AllocationPool
	for _, p := range spec.AllocationPools {
		pools = append(pools, subnets.AllocationPool{Start: string(p.Start), End: string(p.End)})
	}
	return sortedPools(pools)
}

func wantedGateway(spec *samplecrdv1.SubnetSpec, cidr netip.Prefix, subnet subnets.Subnet) string {
	switch {
	case spec.Gateway == samplecrdv1.GatewayNone:
		return spec.Gateway
	case spec.Gateway != "":
		return netip.MustParseAddr(spec.Gateway).String()
	case cidr.Addr().Is6() && subnet.GatewayIP == cidr.Addr().String():
		// Some releases of Neutron choose this address.
		return subnet.GatewayIP
	}
	return cidr.Addr().Next().String()
}

func isReady(n *samplecrdv1.Network) bool {
	ready := meta.FindStatusCondition(n.Status.Conditions, samplecrdv1.ConditionReady)
	return ready != nil && ready.Status == metav1.ConditionTrue && len(n.Status.Conditions) == 1 &&
		ready.ObservedGeneration == n.Generation && n.Status.ObservedGeneration == n.Generation
}

func (w *world) checkStrangers(inNeutron []stack.Network, v *violations) {
	for id, before := range w.strangers.before {
		i := slices.IndexFunc(inNeutron, func(n stack.Network) bool { return n.ID == id })
		if i < 0 {
			v.add("a stranger's network was deleted: %+v", before)
		} else if !reflect.DeepEqual(before, inNeutron[i]) {
			v.add("a stranger's network was changed: before %+v, now %+v", before, inNeutron[i])
		}
	}
}

func describe(networks []stack.Network) string {
	if len(networks) == 0 {
		return "none"
	}
	var all []string
	for _, n := range networks {
		text := n.ID + " (" + n.Name
		for _, s := range n.Subnets {
			text += ", " + s.CIDR + " of " + s.Description
		}
		all = append(all, text+")")
	}
	return strings.Join(all, ", ")
}
