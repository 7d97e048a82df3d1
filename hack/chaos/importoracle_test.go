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
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/networks"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/subnets"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/samplecrd/samplecrd-controller/hack/internal/stack"
	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
)

// The start of what is wrong with imported networks.
const (
	takenAway   = "an imported network is gone: "
	overwritten = "an imported network was changed: "
	badTag      = "an ownership tag that must not be there: "
	notOne      = "want exactly one of the Networks that import a network to have it: "
	readAlone   = "an imported network was read alone when everything matched: "
	otherReason = "want Ready="
	takenOver   = "a subnet that was created by hand was deleted"
)

// declareImport completes the intent of a Network that imports its network.
func (i *intent) declareImport(spec *samplecrdv1.NetworkSpec) {
	if spec.Import == nil {
		return
	}
	i.imports, i.observed = spec.Import.NetworkID, isObserved(spec)
	for field, declared := range map[string]bool{
		"tags":                  spec.Tags != nil,
		"port_security_enabled": spec.PortSecurityEnabled != nil,
		"gateway_ip":            spec.Gateway != "",
		"allocation_pools":      spec.Gateway != "", // those that Neutron chose follow it
		"dns_nameservers":       spec.DNSNameservers != nil,
	} {
		if declared {
			i.fields = append(i.fields, field)
		}
	}
	slices.Sort(i.fields)
}

// permitsOnImport is permits for a request that is about a network that was created by hand.
func (i intent) permitsOnImport(d *deed, hasSubnet bool) bool {
	exists := !i.deleted && !i.lost
	if i.observed || i.imports != d.network {
		return false
	}
	switch d.kind {
	case importsNetwork:
		return exists
	case deletes:
		return i.deleted && !i.retained
	case replaces:
		return exists && !hasSubnet
	case withdraws:
		return exists || i.deleted && i.retained
	}
	if d.cidr.IsValid() { // it creates a subnet
		return exists && hasSubnet
	}
	isDeclared := !slices.ContainsFunc(d.fields, func(f string) bool { return !slices.Contains(i.fields, f) })
	isUnmarking := slices.Equal(d.fields, []string{"description"})
	return exists && (isDeclared || d.isOwn) || i.deleted && isUnmarking && (i.retained || d.isDisowned)
}

// deedOnImport returns the call as a deed if it changes a network that was created by hand.
func (c *call) deedOnImport(l *ledger) *deed {
	if !c.isWrite() {
		return nil
	}
	path := strings.Split(strings.TrimPrefix(c.path, "v2.0/"), "/")
	d := &deed{kind: changesImport, onImport: true, life: c.life, reconcile: c.Header.Get("X-Openstack-Request-Id"), arrived: time.Now()}
	var body struct {
		Network map[string]any
		Subnet  map[string]any
		Tags    []string
	}
	_ = json.Unmarshal(c.body, &body) // a deletion has none
	switch {
	case path[0] == "networks" && len(path) > 1:
		d.network = path[1]
		d.fields = slices.Sorted(maps.Keys(body.Network))
	case path[0] == "subnets" && len(path) > 1:
		d.subnet, d.network = path[1], c.proxy.world.networkOfSubnet(path[1])
		d.fields = slices.Sorted(maps.Keys(body.Subnet))
	case path[0] == "subnets":
		d.network, _ = body.Subnet["network_id"].(string)
		cidr, _ := body.Subnet["cidr"].(string)
		d.cidr, _ = netip.ParsePrefix(cidr)
	}
	if !c.proxy.world.legacies.has(d.network) {
		return nil
	}
	switch {
	case len(path) == 4:
		d.owner = ownerIn(path[3])
		d.kind = withdraws
		if c.Method == http.MethodPut {
			d.kind = importsNetwork
		}
	case len(path) == 3:
		d.fields = []string{"tags"}
	case c.Method == http.MethodDelete && d.subnet != "":
		d.kind = replaces
	case c.Method == http.MethodDelete:
		d.kind = deletes
	}
	return d
}

// networkOfSubnet returns the ID of the network of the subnet, if it was created by hand or any
// controller has created the subnet.
func (w *world) networkOfSubnet(id string) string {
	w.legacies.mu.Lock()
	network := w.legacies.subnets[id]
	w.legacies.mu.Unlock()
	for _, c := range w.controllers {
		network = cmp.Or(network, c.ledger.networkOfSubnet(id))
	}
	return network
}

func (l *ledger) networkOfSubnet(id string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.subnets[id].network
}

// lookAtImport adds to the deed what Neutron has of its network and subnet. It returns false if Neutron
// does not have them.
func (p *proxy) lookAtImport(d *deed) bool {
	ctx, client := context.Background(), p.world.neutron.Client
	network, err := networks.Get(ctx, client, d.network).Extract()
	if err != nil {
		return !gophercloud.ResponseCodeIs(err, http.StatusNotFound)
	}
	owners := ownersIn(network.Tags)
	if d.kind == deletes {
		if len(owners) != 1 {
			d.isWrong = fmt.Sprintf("it is marked for %q", owners)
			return true
		}
		d.owner = owners[0]
	}
	if d.kind == changesImport && len(owners) == 1 {
		d.owner = owners[0]
	}
	if d.subnet == "" {
		return true
	}
	subnet, err := subnets.Get(ctx, client, d.subnet).Extract()
	if err != nil {
		return !gophercloud.ResponseCodeIs(err, http.StatusNotFound)
	}
	uid, isMarked := ownerOf(subnet.Description)
	if d.isOwn = isMarked; isMarked {
		d.owner = uid
	}
	d.isDisowned = isMarked && !slices.Contains(owners, uid)
	if d.kind == replaces {
		d.cidr, _ = netip.ParsePrefix(subnet.CIDR)
		if !isMarked {
			d.isWrong = takenOver
		}
	}
	return true
}

// arrivedOnImport records a request for a network that was created by hand.
func (s *witness) arrivedOnImport(c *call, d *deed) {
	if !c.proxy.lookAtImport(d) {
		return // what it is about is gone already
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	c.onImport = d
	if i, known := c.proxy.world.legacies.importer(d.owner); known {
		d.read, d.later = d.readIn(s.reads[readBy{c.life, networksPath + i.namespace + "/networks/" + i.name}])
	}
	d.others = c.proxy.world.legacies.importersOf(d.network)
	s.deeds = append(s.deeds, d)
}

// worked records that the request took effect.
func (s *witness) worked(c *call) {
	if c.onImport == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	c.onImport.worked = true
}

// staleness is how old what a controller knows may be when it does something that can be undone.
const staleness = 10 * time.Second

// judgeChange returns what is wrong about a deed that can be undone; "" if nothing is. Unless the
// request says for which Network it is, it may be for any that imports the network.
func (d *deed) judgeChange(intents *intents) string {
	uids := d.others
	if d.kind == withdraws {
		uids = []types.UID{d.owner}
	}
	var possible []intent
	for _, uid := range uids {
		possible = append(possible, intents.between(uid, d.arrived.Add(-staleness), d.arrived)...)
	}
	if slices.ContainsFunc(possible, func(i intent) bool { return i.permits(d) }) {
		return ""
	}
	return fmt.Sprintf("of %q %s: %v", d.fields, forbidden, possible)
}

// mayLeaveTag reports whether the Network is gone and may have left its tag: it was only observed when
// it was deleted, or it was not finalized.
func (s *intents) mayLeaveTag(uid types.UID) bool {
	if s.mayBeLeft(uid) {
		return true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	all := s.byUID[uid]
	return len(all) > 0 && all[len(all)-1].deleted && all[len(all)-1].observed
}

// ever reports whether any intent of the Network was so.
func (s *intents) ever(uid types.UID, is func(intent) bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(s.byUID[uid], is)
}

func isManaged(i intent) bool { return !i.observed }

// checkImport compares a Network that imports its network with its user's wish, and adds it to live.
func (w *world) checkImport(n *wanted, found *samplecrdv1.Network, live map[types.UID]*samplecrdv1.Network, v *violations) {
	who := n.namespace + "/" + n.name
	if n.spec == nil {
		if found != nil {
			v.add("%s: it was deleted, and still exists: %+v, %+v", who, found.ObjectMeta, found.Status)
		}
		return
	}
	if found == nil || found.UID != n.uid || !equality.Semantic.DeepEqual(found.Spec, *n.spec) {
		v.add("%s: want it with UID %s and %+v, got %+v", who, n.uid, *n.spec, found)
		return
	}
	live[n.uid] = found
	hasFinalizer := slices.Contains(found.Finalizers, samplecrdv1.Finalizer)
	if !isObserved(n.spec) && !hasFinalizer {
		v.add("%s: it has no finalizer", who)
	}
	if hasFinalizer && !w.intents.ever(n.uid, isManaged) {
		v.add("%s: it has a finalizer, and was only observed", who)
	}
}

// checkLegacies compares the networks that were created by hand with the Networks that import them.
func (w *world) checkLegacies(inNeutron []stack.Network, live map[types.UID]*samplecrdv1.Network, v *violations) {
	w.legacies.mu.Lock()
	all := slices.Collect(maps.Values(w.legacies.byID))
	w.legacies.mu.Unlock()
	for _, l := range all {
		importers := map[types.UID]*samplecrdv1.Network{}
		for uid, n := range live {
			if n.Spec.Import.NetworkID == l.before.ID {
				importers[uid] = n
			}
		}
		at := slices.IndexFunc(inNeutron, func(n stack.Network) bool { return n.ID == l.before.ID })
		if at < 0 {
			w.checkGone(l, importers, v)
			continue
		}
		w.checkUnchanged(l, &inNeutron[at], v)
		w.checkTags(l, &inNeutron[at], importers, v)
		for _, n := range importers {
			checkObserved(n, &inNeutron[at], v)
		}
	}
	for _, n := range inNeutron {
		if owners := ownersIn(n.Tags); len(owners) > 0 && !w.legacies.has(n.ID) {
			v.add(badTag+"%q on %s", owners, describe([]stack.Network{n}))
		}
	}
}

// checkGone finds out whether a network may be gone, and whether its importers tell so.
func (w *world) checkGone(l *legacy, importers map[types.UID]*samplecrdv1.Network, v *violations) {
	mayDelete := func(i intent) bool { return i.imports == l.before.ID && i.deleted && !i.retained && !i.observed }
	uids := w.legacies.importersOf(l.before.ID)
	if !l.deleted && !slices.ContainsFunc(uids, func(uid types.UID) bool { return w.intents.ever(uid, mayDelete) }) {
		v.add(takenAway+"%s", l.before.ID)
	}
	for _, n := range importers {
		expectReason(n, metav1.ConditionFalse, v, samplecrdv1.ReasonNetworkNotFound)
	}
}

// checkUnchanged finds what no Network has declared, and is not as users have set it.
func (w *world) checkUnchanged(l *legacy, now *stack.Network, v *violations) {
	declared := map[string]bool{}
	for _, uid := range w.legacies.importersOf(l.before.ID) {
		for _, field := range []string{"tags", "port_security_enabled", "gateway_ip", "dns_nameservers"} {
			declared[field] = declared[field] || w.intents.ever(uid, func(i intent) bool { return isManaged(i) && slices.Contains(i.fields, field) })
		}
	}
	is, was := now.Network, l.before.Network
	is.RevisionNumber, is.UpdatedAt, is.Subnets = was.RevisionNumber, was.UpdatedAt, was.Subnets
	is.Tags, was.Tags = userTags(is.Tags), userTags(was.Tags)
	if declared["tags"] {
		is.Tags = was.Tags
	}
	if !reflect.DeepEqual(is, was) {
		v.add(overwritten+"before %+v, now %+v", was, is)
	}
	for _, before := range l.before.Subnets {
		at := slices.IndexFunc(now.Subnets, func(s subnets.Subnet) bool { return s.ID == before.ID })
		if at < 0 {
			v.add(overwritten+"subnet %+v is gone", before)
			continue
		}
		s := now.Subnets[at]
		s.RevisionNumber, s.UpdatedAt = before.RevisionNumber, before.UpdatedAt
		if declared["gateway_ip"] {
			s.GatewayIP, s.AllocationPools = before.GatewayIP, before.AllocationPools
		}
		if declared["dns_nameservers"] {
			s.DNSNameservers = before.DNSNameservers
		}
		if !reflect.DeepEqual(s, before) {
			v.add(overwritten+"subnet before %+v, now %+v", before, s)
		}
	}
}

// userTags returns the tags that mark nothing.
func userTags(tags []string) []string {
	return slices.Sorted(slices.Values(slices.DeleteFunc(slices.Clone(tags), func(tag string) bool { return strings.HasPrefix(tag, ownerTagPrefix) })))
}

// checkTags finds tags and subnets that nobody may have, and compares the status of the Networks that
// manage the network with the tags.
func (w *world) checkTags(l *legacy, now *stack.Network, importers map[types.UID]*samplecrdv1.Network, v *violations) {
	var holders []types.UID // those that manage the network and have marked it
	blocked := l.othersMark
	for _, uid := range ownersIn(now.Tags) {
		n := importers[uid]
		_, isOurs := w.legacies.importer(uid)
		switch {
		case n != nil && !isObserved(&n.Spec):
			holders = append(holders, uid)
		case n != nil && w.intents.ever(uid, isManaged), w.intents.mayLeaveTag(uid):
			blocked = true
		default:
			v.add(badTag+"of %s on %s; it is of a Network of ours: %t", uid, now.ID, isOurs)
		}
	}
	managed := 0
	for uid, n := range importers {
		if isObserved(&n.Spec) {
			continue
		}
		managed++
		if slices.Contains(holders, uid) && !blocked && len(holders) == 1 {
			w.checkManaged(n, now, v)
		} else {
			expectReason(n, metav1.ConditionFalse, v, samplecrdv1.ReasonImportRefused)
		}
	}
	if want := min(1, managed); !blocked && len(holders) != want {
		v.add(notOne+"network %s, tags %q, %d Networks manage it", now.ID, now.Tags, managed)
	}
	for _, s := range now.Subnets {
		uid, isMarked := ownerOf(s.Description)
		if isMarked && importers[uid] == nil && !w.intents.mayLeaveTag(uid) {
			v.add(badTag+"subnet %s of network %s has the mark of %s, which is gone", s.CIDR, now.ID, uid)
		}
	}
}

// checkManaged compares the network with the spec of the Network that has it.
func (w *world) checkManaged(n *samplecrdv1.Network, now *stack.Network, v *violations) {
	who := n.Namespace + "/" + n.Name
	if !isReady(n) || !n.Status.Imported {
		v.add("%s: "+notReady+": generation %d, %+v", who, n.Generation, n.Status)
	}
	if n.Spec.Tags != nil && sortedTags(n.Spec.Tags) != sortedTags(userTags(now.Tags)) {
		v.add("%s: "+differs+" the tags %q, Neutron has %q", who, n.Spec.Tags, now.Tags)
	}
	declared := map[string]bool{}
	for _, s := range subnetsOf(&n.Spec) {
		cidr := netip.MustParsePrefix(s.CIDR).Masked()
		declared[cidr.String()] = true
		at := slices.IndexFunc(now.Subnets, func(s subnets.Subnet) bool { return s.CIDR == cidr.String() })
		if at < 0 {
			v.add("%s: "+differs+" a subnet %s, Neutron has %s", who, cidr, describe([]stack.Network{*now}))
			continue
		}
		subnet := now.Subnets[at]
		isOther := s.Gateway != "" && subnet.GatewayIP != netip.MustParseAddr(s.Gateway).String()
		if isOther || s.DNSNameservers != nil && fmt.Sprint(s.DNSNameservers) != fmt.Sprint(subnet.DNSNameservers) {
			v.add("%s: "+differs+" the subnet %+v, Neutron has %+v", who, s, subnet)
		}
	}
	for _, s := range now.Subnets {
		if uid, _ := ownerOf(s.Description); uid == n.UID && !declared[s.CIDR] {
			v.add("%s: "+differs+" no subnet %s, Neutron has one with its mark", who, s.CIDR)
		}
	}
}

// checkObserved compares the status of a Network with the network that it imports or observes.
func checkObserved(n *samplecrdv1.Network, now *stack.Network, v *violations) {
	if isObserved(&n.Spec) {
		expectReason(n, metav1.ConditionTrue, v, samplecrdv1.ReasonObserved, samplecrdv1.ReasonDiffers)
	}
	// This is also true for a Network that was refused: what the one that has the network changes, the
	// other one sees in the next list.
	var want, got []string
	for _, s := range now.Subnets {
		want = append(want, s.ID+" "+s.CIDR+" "+cmp.Or(s.GatewayIP, samplecrdv1.GatewayNone))
	}
	for _, s := range n.Status.Subnets {
		got = append(got, s.ID+" "+s.CIDR+" "+s.Gateway)
	}
	slices.Sort(want)
	slices.Sort(got)
	if n.Status.NetworkID != now.ID || !slices.Equal(want, got) {
		v.add("%s/%s: the status has %+v, Neutron has %s", n.Namespace, n.Name, n.Status, describe([]stack.Network{*now}))
	}
}

// expectReason finds a Network whose condition is not that one.
func expectReason(n *samplecrdv1.Network, status metav1.ConditionStatus, v *violations, reasons ...string) {
	ready := meta.FindStatusCondition(n.Status.Conditions, samplecrdv1.ConditionReady)
	isCurrent := ready != nil && ready.ObservedGeneration == n.Generation && n.Status.ObservedGeneration == n.Generation
	if !isCurrent || ready.Status != status || !slices.Contains(reasons, ready.Reason) {
		v.add("%s/%s: "+otherReason+"%s with one of the reasons %q, got generation %d, %+v", n.Namespace, n.Name, status, reasons, n.Generation, n.Status)
	}
}

// showsOfImports returns how often each network that was created by hand was read alone.
func (w *world) showsOfImports() map[string]int {
	shows := map[string]int{}
	w.legacies.mu.Lock()
	defer w.legacies.mu.Unlock()
	for id := range w.legacies.byID {
		shows[id] = w.legacies.shows[id]
	}
	return shows
}

// checkShows finds networks that were read alone since then, although all their importers are ready: a
// list of all networks shows them too.
func (w *world) checkShows(ctx context.Context, before map[string]int, v *violations) error {
	unready := map[string]bool{}
	for _, c := range w.controllers {
		list, err := w.client.SamplecrdV1().Networks(c.namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for _, n := range list.Items {
			if n.Spec.Import != nil && !meta.IsStatusConditionTrue(n.Status.Conditions, samplecrdv1.ConditionReady) {
				unready[n.Spec.Import.NetworkID] = true
			}
		}
	}
	for id, shows := range before {
		if more := w.legacies.timesShown(id) - shows; more > 0 && !unready[id] {
			v.add(readAlone+"%s, %d times", id, more)
		}
	}
	return nil
}
