// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package neutron

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
	"github.com/samplecrd/samplecrd-controller/pkg/neutron/embedded"
)

// foretelling is a routed cloud in which each sync is compared with what Preview said before.
type foretelling struct {
	*routedCloud
	*resource
	*rand.Rand
	// prevented counts the syncs in which something prevented a step.
	prevented int
	// pools are the IDs of the subnet pools, by their names.
	pools map[string]string
}

// one returns one of the values.
func one[T any](r *rand.Rand, of ...T) T { return of[r.IntN(len(of))] }

// mostly reports true in three of four cases.
func (f *foretelling) mostly() bool { return f.IntN(4) > 0 }

// respec gives the Network a random spec. It keeps what cannot be changed.
func (f *foretelling) respec() {
	imports := f.Spec.Import
	f.Spec = samplecrdv1.NetworkSpec{Import: imports, AvailabilityZoneHints: f.Spec.AvailabilityZoneHints}
	s := &f.Spec
	if imports == nil || f.mostly() {
		s.CIDR = one(f.Rand, "10.0.0.0/24", "10.0.0.0/24", "10.0.0.0/25", "10.0.0.0/16", "10.1.0.0/24")
		prefix := cidr(s.CIDR).Addr()
		s.Gateway = one(f.Rand, "", "", "None", prefix.Next().Next().String())
		s.DNSNameservers = one(f.Rand, nil, nil, []samplecrdv1.IPAddress{"192.0.2.53"})
	}
	if f.IntN(4) == 0 {
		pooled(byName(one(f.Rand, "team", "team", "team2", "nowhere")), one[int32](f.Rand, 24, 24, 25))(s)
		s.Gateway = one(f.Rand, "", "", "None")
	}
	if f.IntN(4) == 0 {
		withPooled("b", one(f.Rand, "team", "team2", "nowhere"), one[int32](f.Rand, 24, 25))(s)
	}
	if f.IntN(3) == 0 {
		withSubnet("more", one(f.Rand, "10.9.0.0/24", "10.8.0.0/24"))(s)
	}
	if f.IntN(3) == 0 {
		withSubnet("v6", "fd00:1::/64")(s)
		s.AdditionalSubnets[len(s.AdditionalSubnets)-1].IPv6 = one(f.Rand, nil, &samplecrdv1.IPv6Spec{AddressMode: "slaac", RAMode: "slaac"})
	}
	s.MTU = one(f.Rand, nil, nil, new(int32(1400)))
	s.Tags = one(f.Rand, nil, nil, []samplecrdv1.Tag{"a"}, []samplecrdv1.Tag{"b", "a"})
	s.SharedWith = one(f.Rand, nil, nil, []samplecrdv1.Share{{ProjectID: "a"}}, []samplecrdv1.Share{{ProjectID: "b"}, {ProjectID: "project-2"}})
	set := one(f.Rand, func(*samplecrdv1.NetworkSpec) {}, ownRouterOn(byName("public")), ownRouterOn(byName("public2")), existingRouter(byName("gate")),
		existingRouter(byName("second")), existingRouter(byName("nowhere")))
	set(s)
	if s.Router != nil && s.SubnetPool != nil {
		s.Gateway = "" // the API server refuses None
	}
	if s.Router != nil && s.Router.Existing == nil {
		s.Router.AvailabilityZoneHints = one(f.Rand, nil, nil, []samplecrdv1.AvailabilityZone{"nova"}, []samplecrdv1.AvailabilityZone{"nova", "az2"})
		hops := one(f.Rand, nil, nil, []string{}, []string{"10.0.0.7"}, []string{"10.0.0.7", "10.1.0.7", "fd00:1::7"})
		// Any other one can be in the external network, of which only Neutron knows the subnets.
		declareRoutes(slices.DeleteFunc(hops, func(hop string) bool {
			return !contains(s.CIDR, hop) && !slices.ContainsFunc(s.AdditionalSubnets, func(a samplecrdv1.AdditionalSubnet) bool { return contains(a.CIDR, hop) })
		}))(s)
	}
}

func contains(prefix, address string) bool {
	return prefix != "" && cidr(prefix).Contains(addr(address))
}

// disturb changes something as another client does.
func (f *foretelling) disturb(t *testing.T) {
	t.Helper()
	found, err := f.others.FindNetworks(t.Context(), owner.Mark())
	noError(t, err)
	if len(found) == 0 {
		return
	}
	n := found[0]
	var subnet Subnet
	if len(n.Subnets) > 0 {
		subnet = n.Subnets[f.IntN(len(n.Subnets))]
	}
	switch f.IntN(16) {
	case 12: // another team takes a block
		id := post(t, f.others, "network", object{"name": "team"})
		f.tryPost(t, "subnet", object{"network_id": id, "ip_version": 4, "subnetpool_id": f.pools["team"], "prefixlen": 25})
	case 13: // Neutron refuses to delete one that is in use
		_ = f.others.delete(t.Context(), "delete subnet pool", "subnetpools", f.pools["team2"], nil)
	case 14:
		if noError(t, f.others.readShares(t.Context(), n)); n.share("a") != nil {
			_ = f.others.deleteShare(t.Context(), n.share("a").ID) // Neutron refuses it if an administrator has made it
		}
	case 15:
		for _, r := range f.own() {
			_, _ = f.others.UpdateRouter(t.Context(), r.ID, object{"routes": one(f.Rand, []object{}, []object{{"destination": "10.96.0.0/16", "nexthop": "10.0.0.77"}})})
		}
	case 9:
		_, _ = f.others.createShare(t.Context(), n.ID, one(f.Rand, "a", "c"))
	case 10:
		_, _ = f.admin.createShare(t.Context(), n.ID, one(f.Rand, "a", "b"))
	case 11: // Neutron refuses it unless the network is shared with that project
		if noError(t, f.others.readShares(t.Context(), n)); n.share("project-2") != nil {
			post(t, f.admin, "port", object{"network_id": n.ID, "name": "theirs", "project_id": "project-2"})
		}
	case 0:
		_ = f.others.DeleteSubnet(t.Context(), subnet.ID, nil) // Neutron refuses it if a router has it
	case 1:
		put(t, f.others, "network", n.ID, object{"name": "x", "mtu": 1300})
	case 2:
		f.tryPost(t, "subnet", object{"network_id": n.ID, "cidr": one(f.Rand, "10.7.0.0/24", "10.1.0.0/25"), "ip_version": 4, "description": one(f.Rand, "", owner.Mark())})
	case 3:
		duplicate := post(t, f.others, "network", object{"description": owner.Mark()})
		id := post(t, f.others, "subnet", object{"network_id": duplicate, "cidr": "10.3.0.0/24", "ip_version": 4, "description": owner.Mark()})
		for _, r := range f.own() {
			_, _ = f.others.AttachSubnet(t.Context(), r.ID, id)
		}
	case 4:
		put(t, f.others, "network", n.ID, object{"description": ""})
	case 5:
		f.makeRouter(t, "another", owner.Mark())
	case 6:
		if subnet.ID != "" {
			put(t, f.others, "subnet", subnet.ID, object{"description": "", "name": "x"})
		}
	case 7:
		if subnet.ID != "" {
			f.tryPost(t, "port", object{"network_id": n.ID, "name": "web-0", "fixed_ips": []object{{"subnet_id": subnet.ID}}})
		}
	case 8: // with an address of each kind
		f.tryPost(t, "port", object{"network_id": n.ID, "name": "web-0", "device_owner": one(f.Rand, "compute:nova", "network:dhcp", "network:distributed")})
	}
}

// tryPost is post for what Neutron may refuse.
func (f *foretelling) tryPost(t *testing.T, kind string, fields object) {
	var answer object
	_ = f.others.send(t.Context(), "POST", object{kind: fields}, &answer, nil, kind+"s")
}

// preview returns what Preview foretells, without what prevents the steps, which one is the first that
// is prevented, -1 for none, and the error.
func (f *foretelling) preview(t *testing.T) (texts []string, blocked int, err error) {
	t.Helper()
	f.ageNames()
	noError(t, f.Observer().Relist(t.Context()))
	before := f.writes()
	desired, err := NewDesired(f.Network, owner.Cluster)
	noError(t, err)
	preview, err := f.Preview(t.Context(), NewIdentity(f.Network, owner.Cluster), desired)
	equal(t, before, f.writes())
	blocked = -1
	for i, s := range preview.Steps {
		texts = append(texts, s.Step.String())
		if s.Blocked != "" && blocked < 0 {
			blocked = i
		}
	}
	return texts, blocked, err
}

// act syncs as the controller does, and returns the steps with the names that Preview gives to what is
// new.
func (f *foretelling) act(t *testing.T) (texts []string, err error) {
	t.Helper()
	known := map[string]bool{}
	for _, r := range f.Routers() {
		known[r.ID] = true
	}
	for range 8 {
		var steps []Step
		var observed *Observed
		observed, steps, err = f.syncOnce(t, Guard{})
		if observed != nil {
			f.Status.Imported = f.Status.Imported || at(viewOf(t, f.Network), observed).IsImported()
		}
		for _, s := range steps {
			texts = append(texts, s.String())
		}
		if ReasonOf(err) != Unrecorded {
			break
		}
	}
	for _, r := range f.Routers() {
		if !known[r.ID] {
			for i := range texts {
				texts[i] = strings.ReplaceAll(texts[i], r.ID, newRouter)
			}
		}
	}
	return withoutChosen(texts), err
}

// withoutChosen returns the steps without the CIDRs that Neutron has chosen, as Preview writes them.
func withoutChosen(steps []string) []string {
	all := strings.Join(steps, "\n")
	for _, match := range chosenCIDR.FindAllStringSubmatch(all, -1) {
		all = strings.ReplaceAll(all, match[0], match[2]+" from subnet pool")
		all = strings.ReplaceAll(all, match[1], match[2]+" from the subnet pool")
	}
	return slices.DeleteFunc(strings.Split(all, "\n"), func(step string) bool { return step == "" })
}

var chosenCIDR = regexp.MustCompile(`([0-9.]+(/[0-9]+)) from subnet pool`)

// compare previews, syncs, and compares.
func (f *foretelling) compare(t *testing.T) {
	t.Helper()
	foretold, blocked, foretoldErr := f.preview(t)
	done, err := f.act(t)
	told := fmt.Sprintf("foretold %q, prevented from %d on, %v; done %q, %v; import %t, spec %+v", foretold, blocked, foretoldErr, done, err, f.Spec.Import != nil, f.Spec)
	want := foretold
	switch {
	case blocked >= 0:
		want = foretold[:blocked]
		f.prevented++
		if err == nil {
			t.Errorf("Preview says that a step is prevented: %s", told)
		}
	case foretoldErr != nil:
		if ReasonOf(err) != ReasonOf(foretoldErr) {
			t.Errorf("another error: %s", told)
		}
	case err != nil:
		t.Errorf("Preview does not foretell the error: %s", told)
	}
	if diff := cmp.Diff(want, done, comparers); diff != "" {
		t.Errorf("(-foretold +done)\n%s\n%s", diff, told)
	}
}

// compareRemoval previews the removal, removes, and compares.
func (f *foretelling) compareRemoval(t *testing.T) {
	noError(t, f.Observer().Relist(t.Context()))
	retain := f.IntN(3) == 0
	before := f.writes()
	steps, foretoldErr := f.PreviewRemoval(t.Context(), NewIdentity(f.Network, owner.Cluster), retain)
	equal(t, before, f.writes())
	isFree := foretoldErr == nil
	var texts []string
	for _, s := range steps {
		texts = append(texts, s.Text)
		isFree = isFree && s.Blocked == ""
	}
	_, err := f.remove(t, retain, Guard{})
	if isFree != (err == nil) {
		t.Errorf("foretold %q, %v; done: %v; retain %t, import %t, spec %+v", texts, foretoldErr, err, retain, f.Spec.Import != nil, f.Spec)
	}
	if hasWritten := f.writes() > before; err == nil && hasWritten != (len(steps) > 0) {
		t.Errorf("foretold %q; written: %t; retain %t, import %t", texts, hasWritten, retain, f.Spec.Import != nil)
	}
}

func TestPreviewForetellsWhatConvergeDoes(t *testing.T) {
	t.Parallel()
	runs := uint64(60)
	if testing.Short() {
		runs = 10
	}
	compared, prevented := 0, 0
	for seed := range runs {
		f := &foretelling{routedCloud: newRoutedCloudWith(t, seed%2 == 0).gated(t), Rand: rand.New(rand.NewPCG(seed, 7))}
		f.makeRouter(t, "second", "")
		f.pools = map[string]string{"team": f.pool(t, "team", "10.20.0.0/16"), "team2": f.pool(t, "team2", "10.21.0.0/16")}
		f.resource = f.declare()
		f.Spec.AvailabilityZoneHints = one(f.Rand, nil, nil, []samplecrdv1.AvailabilityZone{"nova"}, []samplecrdv1.AvailabilityZone{"nova", "az2"})
		if f.IntN(4) == 0 {
			legacy := f.legacy(t, "10.0.0.0/24", "10.5.0.0/24")
			f.Spec.Import = &samplecrdv1.ImportSpec{NetworkID: legacy.ID}
		}
		for round := range 5 {
			t.Run(fmt.Sprintf("%d, round %d", seed, round), func(t *testing.T) {
				f.respec()
				for range f.IntN(3) {
					f.disturb(t)
				}
				f.compare(t)
				compared++
			})
		}
		prevented += f.prevented
		t.Run(fmt.Sprintf("%d, removal", seed), f.compareRemoval)
	}
	t.Logf("compared %d syncs; a step was prevented in %d of them", compared, prevented)
}

func TestPreview(t *testing.T) {
	from := func(cidr, gateway string) View { return wants(cidr, gateway) }
	type line struct{ text, interrupts, blocked string }
	for _, test := range []struct {
		name        string
		first, then View
		port        bool
		want        []line
	}{
		{"a new network", View{}, from("10.0.0.0/24", ""), false, []line{{text: "network created"}, {text: "subnet 10.0.0.0/24 created"}}},
		{"another gateway", from("10.0.0.0/24", ""), from("10.0.0.0/24", "10.0.0.254"), true, []line{{text: "gateway 10.0.0.1 → 10.0.0.254"}}},
		{"another CIDR, with a port", from("10.0.0.0/24", ""), from("10.1.0.0/24", ""), true,
			[]line{{text: "subnet 10.0.0.0/24 replaced by 10.1.0.0/24", blocked: "in use by port web-0 (no device)"}, {text: "subnet 10.0.0.0/24 deleted"}}},
		{"a CIDR that overlaps", from("10.0.0.0/24", ""), from("10.0.0.0/16", ""), false,
			[]line{{"subnet 10.0.0.0/24 replaced by 10.0.0.0/16, with which it overlaps", "the old subnet goes before the new one comes", ""}, {text: "subnet 10.0.0.0/16 created"}}},
		{"a CIDR that overlaps, with a port", from("10.0.0.0/24", ""), from("10.0.0.0/16", ""), true,
			[]line{{"subnet 10.0.0.0/24 replaced by 10.0.0.0/16, with which it overlaps", "the old subnet goes before the new one comes", "in use by port web-0 (no device)"},
				{text: "subnet 10.0.0.0/16 created"}}},
		{"a subnet less, with a port", wants("10.0.0.0/24", "", with("more", "10.1.0.0/24")), from("10.0.0.0/24", ""), true, []line{{text: "subnet 10.1.0.0/24 deleted"}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, embedded.Options{})
			as := Identity{Owner: owner}
			if test.first.Network.Name != "" {
				n, _ := w.converge(t, test.first, &Observed{})
				as.NetworkID = n.ID
				if test.port {
					at := slices.IndexFunc(n.Subnets, func(s Subnet) bool { return s.CIDR == cidr("10.0.0.0/24") })
					post(t, w.others, "port", object{"network_id": n.ID, "name": "web-0", "fixed_ips": []object{{"subnet_id": n.Subnets[at].ID}}})
				}
			}
			before := w.writes()
			noError(t, w.Observer().Relist(t.Context()))
			preview, err := w.Preview(t.Context(), as, test.then.Desired)
			noError(t, err)
			equal(t, before, w.writes())
			var got []line
			for _, s := range preview.Steps {
				got = append(got, line{s.Text, s.Interrupts, s.Blocked})
			}
			if diff := cmp.Diff(test.want, got, cmp.AllowUnexported(line{}), comparers); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

// What Converge would learn only when Neutron refuses a step, a preview tells before.
func TestPreviewOfWhatNeutronRefuses(t *testing.T) {
	t.Parallel()
	gate := existingRouter(byName("gate"))
	for _, test := range []struct {
		name string
		// before is what other clients do.
		before func(t *testing.T, c *routedCloud, n *Observed)
		edit   edit
		// step is the one that is prevented, op the operation that fails.
		step, blocked, op string
	}{
		{"DHCP needs two addresses", func(*testing.T, *routedCloud, *Observed) {}, withSubnet("more", "10.1.0.0/31"),
			"subnet 10.1.0.0/31 created", "Neutron does not accept 10.1.0.0/31 with this gateway, these allocation pools and DHCP", "create subnet"},
		{"another client's router has the gateway", func(t *testing.T, c *routedCloud, n *Observed) {
			_, err := c.others.AttachSubnet(t.Context(), c.makeRouter(t, "theirs", ""), n.Subnets[0].ID)
			noError(t, err)
		}, func(s *samplecrdv1.NetworkSpec) {
			s.Gateway = "10.0.0.9"
			gate(s)
		},
			"gateway 10.0.0.1 → 10.0.0.9", "the address of the gateway, 10.0.0.1, is in use by router ID (port ID)", "update subnet"},
		{"the obsolete router is attached to another network", func(t *testing.T, c *routedCloud, _ *Observed) {
			_, err := c.others.AttachSubnet(t.Context(), c.makeRouter(t, "former", owner.Mark()), c.legacy(t, "10.7.0.0/24").Subnets[0].ID)
			noError(t, err)
		}, gate, "router ID deleted", "in use by port ID (network:router_interface)", "delete router"},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := newRoutedCloud(t)
			r := c.declare()
			test.before(t, c, r.synced(t))
			test.edit(&r.Spec)
			noError(t, c.Observer().Relist(t.Context()))
			steps := r.preview(t)
			at := slices.IndexFunc(steps, func(s PlannedStep) bool { return s.Blocked != "" })
			equal(t, test.step+": "+test.blocked, anyID.ReplaceAllString(steps[at].Text+": "+steps[at].Blocked, "ID"))
			equal(t, test.op, anyID.ReplaceAllString(errorIn(r.err(t)).Op, "ID"))
		})
	}
}
