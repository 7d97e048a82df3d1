// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/layer3/routers"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/mtu"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/networks"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/subnets"
	"golang.org/x/sync/errgroup"

	"github.com/samplecrd/samplecrd-controller/hack/neutron/machine"
	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
)

var (
	update = flag.Bool("update", false, "write what changes cost into the page")
	outage = flag.Duration("outage", 0, "how long Neutron's API stays down after the controller has noticed it")
)

// change is a row of the table.
type change struct {
	name string
	// edit changes the spec. plan is asked about it, and then it is applied.
	edit func(*scene)
	// reason is the reason that Ready has then, Available if it is "".
	reason string
	// act takes the place of kubectl apply, and of the wait for the reason.
	act func(*scene)
	// done returns an error until the agents have carried the change out. It is nil if they have
	// nothing to do. What they do later, the pings of the next row notice.
	done func(*scene) error
	// beyond is pinged in place of the address outside.
	beyond string
}

// The address ranges. The machine to has an address in behind, too, to which a route leads.
const (
	home   = "10.70.0.0/24"
	moving = "10.75.0.0/24"
	hop    = "10.75.0.10"
	behind = "10.99.0.1"
)

// inPlace are changes of a network while a floating IP leads to one of its machines.
var inPlace = []change{
	{name: "other DNS servers", edit: dnsServers("192.0.2.54"), done: announces("192.0.2.54")},
	{name: "other tags", edit: func(s *scene) { s.spec.Tags = []samplecrdv1.Tag{"blue"} }},
	{name: "other allocation pools", edit: func(s *scene) { s.spec.AllocationPools[0].Start = "10.70.0.50" }},
	{name: "a smaller MTU, and a new lease at once", edit: func(s *scene) { s.spec.MTU = new(int32(1400)) }, act: whilePacketsAreTooLarge,
		done: leases(func(l machine.Lease) bool { return l.MTU == 1400 })},
	{name: "a subnet is added", edit: anotherSubnet("more", "10.71.0.0/24"), done: attached("10.71.0.1/24")},
	{name: "another CIDR of a subnet without machines", edit: otherCIDR("10.72.0.0/24"), done: both(attached("10.72.0.1/24"), detached("10.71.0.1/24"))},
	{name: "another CIDR of this subnet that overlaps", edit: otherCIDR("10.72.0.0/23"), done: attached("10.72.0.1/23")},
	{name: "IPv6 beside IPv4 (`slaac`)", edit: func(s *scene) {
		anotherSubnet("v6", "fd00:70::/64")(s)
		s.spec.AdditionalSubnets[1].Gateway = "fd00:70::1"
		s.spec.AdditionalSubnets[1].IPv6 = &samplecrdv1.IPv6Spec{AddressMode: samplecrdv1.IPv6ModeSLAAC, RAMode: samplecrdv1.IPv6ModeSLAAC}
	}, done: attached("fd00:70::1/64")},
	{name: "a subnet without machines is removed", edit: func(s *scene) { s.spec.AdditionalSubnets = s.spec.AdditionalSubnets[1:] },
		done: detached("10.72.0.1/23")},
	{name: "`sharedWith` another project", edit: func(s *scene) {
		s.spec.SharedWith = []samplecrdv1.Share{{ProjectID: strings.Repeat("0", 32)}}
	}},
	{name: "port security off", edit: portSecurity(false)},
	{name: "port security on", edit: portSecurity(true)},
	{name: "`deletionPolicy: Retain`", edit: func(s *scene) { s.spec.DeletionPolicy = samplecrdv1.DeletionRetain }},
	{name: "somebody else changes the DNS servers, and the controller restores them", act: driftOfDNSServers, done: announces("192.0.2.54")},
	{name: "somebody else changes the MTU, and the controller restores it", act: driftOfMTU,
		done: leases(func(l machine.Lease) bool { return l.MTU == 1400 })},
}

// routing are changes of the router, and edits that wait for machines.
var routing = []change{
	{name: "another CIDR, while machines are on the subnet", edit: cidr("10.76.0.0/24"), reason: samplecrdv1.ReasonInUse},
	{name: "another CIDR that overlaps, while machines are on the subnet", edit: cidr("10.75.0.0/16"), reason: samplecrdv1.ReasonInUse},
	{name: "a route of the router is added", edit: func(s *scene) {
		s.spec.CIDR = moving
		s.spec.Router.Routes = []samplecrdv1.HostRoute{{Destination: "10.99.0.0/16", NextHop: hop}}
	}, done: reached(behind)},
	{name: "another gateway, whose address the DHCP server has", edit: func(s *scene) {
		s.spec.Gateway = s.from.Lease.Server.String()
	}, reason: samplecrdv1.ReasonInUse},
	{name: "another gateway on the same router, and a new lease at once", edit: func(s *scene) { s.spec.Gateway = "10.75.0.254" },
		done: both(leases(func(l machine.Lease) bool {
			return slices.Contains(l.Routes, machine.Route{Destination: netip.MustParsePrefix("0.0.0.0/0"), Via: netip.MustParseAddr("10.75.0.254")})
		}), reached(behind))},
	{name: "a route of the router is removed, for those behind it", edit: func(s *scene) { s.spec.Router.Routes = []samplecrdv1.HostRoute{} },
		beyond: behind, done: func(s *scene) error { return s.router(s.oldRouter, "route", "10.99.0.0/16 ", false) }},
	{name: "somebody else detaches the subnet from the router and changes its gateway, and the controller restores both", act: driftOfGateway},
	{name: "an existing router replaces the Network's own router", edit: func(s *scene) {
		s.spec.Router = &samplecrdv1.RouterSpec{Existing: &samplecrdv1.NeutronReference{Name: s.existingRouter()}}
	}, done: attached("10.75.0.254/24")},
	{name: "the router is removed", edit: func(s *scene) { s.spec.Router = nil }, done: detached("10.75.0.254/24")},
	{name: "a router is added", edit: func(s *scene) { s.spec.Router = ownRouter() }, done: both(attached("10.75.0.254/24"), reached(machine.Outside))},
}

// failures are changes while something is not there. They disturb all others, and come last.
var failures = []change{
	{name: "a subnet is added, and the controller is killed meanwhile", edit: anotherSubnet("more", "10.71.0.0/24"),
		act: whileTheControllerIsKilled, done: attached("10.71.0.1/24")},
	{name: "other DNS servers, while Neutron's API is down", edit: dnsServers("192.0.2.55"), act: whileNeutronIsDown, done: announces("192.0.2.55")},
	{name: "the Network is deleted, with `deletionPolicy: Retain`", act: func(s *scene) {
		s.kubectl("", "delete", "network", s.name, "--timeout="+patience.String())
	}},
	{name: "a Network imports the network", edit: func(s *scene) {
		s.name = "importing"
		s.spec = samplecrdv1.NetworkSpec{
			Import:     &samplecrdv1.ImportSpec{NetworkID: s.network.Status.NetworkID},
			SubnetSpec: samplecrdv1.SubnetSpec{CIDR: home},
			Router:     &samplecrdv1.RouterSpec{Existing: &samplecrdv1.NeutronReference{ID: s.routerID()}},
		}
	}},
}

func ownRouter() *samplecrdv1.RouterSpec {
	return &samplecrdv1.RouterSpec{ExternalNetwork: &samplecrdv1.NeutronReference{Name: machine.ExternalNetwork}}
}

func cidr(cidr string) func(*scene) { return func(s *scene) { s.spec.CIDR = cidr } }

func dnsServers(address samplecrdv1.IPAddress) func(*scene) {
	return func(s *scene) { s.spec.DNSNameservers = []samplecrdv1.IPAddress{address} }
}

func portSecurity(on bool) func(*scene) {
	return func(s *scene) { s.spec.PortSecurityEnabled = new(on) }
}

func anotherSubnet(name, cidr string) func(*scene) {
	return func(s *scene) {
		s.spec.AdditionalSubnets = append(s.spec.AdditionalSubnets,
			samplecrdv1.AdditionalSubnet{Name: name, SubnetSpec: samplecrdv1.SubnetSpec{CIDR: cidr}})
	}
}

func otherCIDR(cidr string) func(*scene) {
	return func(s *scene) { s.spec.AdditionalSubnets[0].CIDR = cidr }
}

// leases renews the lease of the machine that pings, until the lease is as wanted.
func leases(isWanted func(machine.Lease) bool) func(*scene) error {
	return func(s *scene) error {
		if err := s.from.RequestLease(s.Context()); err != nil {
			return err
		}
		if !isWanted(s.from.Lease) {
			return fmt.Errorf("the lease has not changed: %+v", s.from.Lease)
		}
		return nil
	}
}

func announces(server string) func(*scene) error {
	return leases(func(l machine.Lease) bool { return slices.Equal(l.DNS, []netip.Addr{netip.MustParseAddr(server)}) })
}

// attached and detached say whether the router has the address, and whether the one before the change
// has lost it.
func attached(address string) func(*scene) error {
	return func(s *scene) error { return s.router(s.routerID(), "address", " "+address+" ", true) }
}

func detached(address string) func(*scene) error {
	return func(s *scene) error { return s.router(s.oldRouter, "address", " "+address+" ", false) }
}

func reached(address string) func(*scene) error {
	return func(s *scene) error {
		_, err := s.from.Ping(s.Context(), address, 1)
		return err
	}
}

func both(first, second func(*scene) error) func(*scene) error {
	return func(s *scene) error {
		if err := first(s); err != nil {
			return err
		}
		return second(s)
	}
}

// whilePacketsAreTooLarge shows that packets of the old size are lost until the machine has a new lease.
func whilePacketsAreTooLarge(s *scene) {
	send := func() error {
		_, err := s.from.Run(s.Context(), "ping", "-n", "-c", "1", "-W", "1", "-M", "do", "-s", "1400", s.to.Lease.Address.Addr().String())
		return err
	}
	s.must(send())
	s.apply(samplecrdv1.ReasonAvailable)
	s.eventually(func() error {
		if send() == nil {
			return errors.New("a packet of the old size still arrives")
		}
		return nil
	})
}

// whileTheControllerIsKilled kills the controller after the first of two steps.
func whileTheControllerIsKilled(s *scene) {
	s.kubectl(s.manifest(), "apply", "-f", "-")
	s.must(s.controller.Log.WaitFor(s.Context(), fmt.Sprintf("step=%q", "subnet 10.71.0.0/24 created")))
	s.restartController()
	s.waitFor(samplecrdv1.ReasonAvailable)
}

func whileNeutronIsDown(s *scene) {
	start := s.stopNeutron()
	s.kubectl(s.manifest(), "apply", "-f", "-")
	s.waitFor(samplecrdv1.ReasonNeutronUnavailable)
	s.pause(*outage)
	start()
	s.waitFor(samplecrdv1.ReasonAvailable)
}

func driftOfDNSServers(s *scene) {
	server := func() string {
		subnet, err := subnets.Get(s.Context(), s.neutron.Client, s.network.Status.SubnetID).Extract()
		s.must(err)
		return strings.Join(subnet.DNSNameservers, " ")
	}
	before := server()
	_, err := subnets.Update(s.Context(), s.neutron.Client, s.network.Status.SubnetID, subnets.UpdateOpts{DNSNameservers: &[]string{"192.0.2.99"}}).Extract()
	s.must(err)
	s.restores(before, server)
}

func driftOfMTU(s *scene) {
	size := func() string {
		var n mtu.NetworkMTUExt
		s.must(networks.Get(s.Context(), s.neutron.Client, s.network.Status.NetworkID).ExtractInto(&n))
		return fmt.Sprint(n.MTU)
	}
	before := size()
	_, err := networks.Update(s.Context(), s.neutron.Client, s.network.Status.NetworkID,
		mtu.UpdateOptsExt{UpdateOptsBuilder: networks.UpdateOpts{}, MTU: 1300}).Extract()
	s.must(err)
	s.restores(before, size)
}

func driftOfGateway(s *scene) {
	// The controller may be faster: then the gateway is in use again.
	s.eventually(func() error {
		s.detach()
		_, err := subnets.Update(s.Context(), s.neutron.Client, s.network.Status.SubnetID, subnets.UpdateOpts{
			GatewayIP: new("10.75.0.3"), AllocationPools: []subnets.AllocationPool{{Start: "10.75.0.4", End: "10.75.0.253"}},
		}).Extract()
		return err
	})
	s.restores(s.network.Status.Gateway+" on "+s.routerID(), s.attachment)
}

// detach does what another client can do.
func (s *scene) detach() {
	s.Helper()
	_, err := routers.RemoveInterface(s.Context(), s.neutron.Client, s.routerID(), routers.RemoveInterfaceOpts{SubnetID: s.network.Status.SubnetID}).Extract()
	if err != nil && !gophercloud.ResponseCodeIs(err, http.StatusNotFound) {
		s.Fatal(err)
	}
}

// attachment describes the router's interface on the subnet, "" if there is none.
func (s *scene) attachment() string {
	s.Helper()
	for _, port := range s.ports("network:router_interface") {
		for _, ip := range port.FixedIPs {
			if ip.SubnetID == s.network.Status.SubnetID {
				return ip.IPAddress + " on " + port.DeviceID
			}
		}
	}
	return ""
}

// ports returns the ports of the network with that owner.
func (s *scene) ports(owner string) []ports.Port {
	s.Helper()
	pages, err := ports.List(s.host.Admin, ports.ListOpts{NetworkID: s.network.Status.NetworkID, DeviceOwner: owner}).AllPages(s.Context())
	s.must(err)
	found, err := ports.ExtractPorts(pages)
	s.must(err)
	return found
}

// restores waits until something in Neutron is again what it was before another client changed it.
func (s *scene) restores(before string, now func() string) {
	s.Helper()
	s.eventually(func() error {
		if is := now(); is != before {
			return fmt.Errorf("want %s again, got %s", before, is)
		}
		return nil
	})
}

// tableRow is what a change has cost: what plan says, and what became of the pings.
type tableRow struct{ name, says, same, outside, floating string }

func (r tableRow) cells() []string { return []string{r.name, r.says, r.same, r.outside, r.floating} }

// What a row says of pings that were all answered, that were not sent, and that the change cuts off. Else it says how many were
// lost, and the longest time.
const (
	none    = "none"
	unasked = "–"
	cut     = "cut"
)

// try makes the change while the machines ping, and returns what it has cost.
func (s *scene) try(c change) tableRow {
	r := tableRow{name: c.name, says: unasked, floating: unasked, outside: unasked}
	if c.edit != nil {
		c.edit(s)
		r.says = s.plan()
	}
	s.oldRouter = s.routerID()
	beyond := cmp.Or(c.beyond, machine.Outside)
	probes := s.probes(&r, beyond)
	if c.act != nil {
		c.act(s)
	} else {
		s.apply(cmp.Or(c.reason, samplecrdv1.ReasonAvailable))
	}
	if c.done != nil {
		s.eventually(func() error { return c.done(s) })
	}
	s.waitForRouters(s.oldRouter, s.routerID())
	isCut := s.spec.Router == nil || c.beyond != ""
	if s.oldRouter != "" {
		s.eventually(func() error {
			if err := reached(beyond)(s); (err != nil) != isCut {
				return fmt.Errorf("%s is cut off: %t, want %t: %v", beyond, err != nil, isCut, err)
			}
			return nil
		})
	}
	for cell, probe := range probes {
		result, err := probe.Stop()
		s.must(err)
		*cell = cost(result, isCut && cell == &r.outside)
	}
	return r
}

// probes starts the pings, by the cells of the row that say what became of them.
func (s *scene) probes(r *tableRow, beyond string) map[*string]*machine.Probe {
	s.Helper()
	probes := map[*string]*machine.Probe{}
	start := func(cell *string, from *machine.Machine, address string) {
		p, err := from.Probe(s.Context(), address)
		s.must(err)
		probes[cell] = p
	}
	start(&r.same, s.from, s.to.Lease.Address.Addr().String())
	if s.oldRouter != "" {
		start(&r.outside, s.from, beyond)
	}
	if s.floatingIP != "" {
		start(&r.floating, s.outside, s.floatingIP)
	}
	return probes
}

func cost(r machine.Result, isCut bool) string {
	switch {
	case r.Lost == 0:
		return none
	case isCut:
		return cut
	}
	return fmt.Sprintf("%d, %.2f s", r.Lost, r.Outage.Seconds())
}

// table collects the rows of all scenes.
type table struct {
	sync.Mutex
	rows map[string]tableRow
}

func (found *table) add(name string, r tableRow) {
	found.Lock()
	defer found.Unlock()
	found.rows[name] = r
}

// play makes the changes of a scene, one after the other.
func (s *scene) play(t *table, changes []change) {
	for _, c := range changes {
		ok := s.Run(c.name, func(sub *testing.T) {
			at := s.at(sub)
			r := at.try(c)
			at.check(r)
			if !sub.Failed() {
				t.add(c.name, r)
			}
			s.name, s.spec, s.network = at.name, at.spec, at.network
		})
		if !ok {
			s.FailNow()
		}
	}
}

// check fails if pings are lost although plan says that nothing is interrupted, and if any are lost
// between machines on the same network.
func (s *scene) check(r tableRow) {
	s.Logf("same network: %s; outside: %s; floating IP: %s", r.same, r.outside, r.floating)
	isLost := func(cell string) bool { return cell != none && cell != unasked }
	if (r.says == nothing || r.says == blocked) && (isLost(r.outside) || isLost(r.floating)) {
		s.Errorf("plan says that the change interrupts %s, and pings are lost: outside %s, floating IP %s", r.says, r.outside, r.floating)
	}
	if isLost(r.same) {
		s.Errorf("pings are lost between machines on the same network: %s", r.same)
	}
}

func newInPlaceScene(t *testing.T) *scene {
	s := &scene{world: newWorld(t), name: "in-place", spec: samplecrdv1.NetworkSpec{
		SubnetSpec: samplecrdv1.SubnetSpec{
			CIDR: home, DNSNameservers: []samplecrdv1.IPAddress{"192.0.2.53"},
			AllocationPools: []samplecrdv1.AllocationPool{{Start: "10.70.0.100", End: "10.70.0.200"}},
		},
		Router: ownRouter(),
	}}
	s.apply(samplecrdv1.ReasonAvailable)
	group := []string{s.letsPingsIn()}
	s.populate(machine.Options{SecurityGroups: group}, machine.Options{SecurityGroups: group})
	s.floatingIP = s.world.floatingIP(s.to)
	s.reaches(s.outside, s.floatingIP)
	s.begin()
	return s
}

func (s *scene) existingRouter() string { return s.namespace + "-backbone" }

func newRoutingScene(t *testing.T) *scene {
	s := &scene{world: newWorld(t), name: "routing", spec: samplecrdv1.NetworkSpec{
		SubnetSpec: samplecrdv1.SubnetSpec{CIDR: moving}, Router: ownRouter(),
	}}
	s.kubectl(s.manifest(), "apply", "-f", "-")
	_, err := routers.Create(s.Context(), s.neutron.Client, routers.CreateOpts{
		Name: s.existingRouter(), GatewayInfo: &routers.GatewayInfo{NetworkID: s.outside.Port.NetworkID},
	}).Extract()
	s.must(err)
	s.waitFor(samplecrdv1.ReasonAvailable)
	s.populate(machine.Options{}, machine.Options{Address: hop, NoPortSecurity: true})
	_, err = s.to.Run(s.Context(), "ip", "address", "add", behind+"/32", "dev", "lo")
	s.must(err)
	// Else the router tells the machine to send to the next hop itself, and the machine goes on to.
	_, err = s.from.Run(s.Context(), "sh", "-c", "echo 0 >/proc/sys/net/ipv4/conf/all/accept_redirects; echo 0 >/proc/sys/net/ipv4/conf/eth0/accept_redirects")
	s.must(err)
	s.begin()
	return s
}

// populate makes both machines.
func (s *scene) populate(from, to machine.Options) {
	s.Helper()
	var group errgroup.Group
	add := func(m **machine.Machine, name string, o machine.Options) {
		group.Go(func() (err error) {
			if *m, err = s.host.New(s.Context(), s.namespace+"-"+name, s.network.Status.NetworkID, o); err == nil {
				s.Cleanup(func() {
					if err := (*m).Close(); err != nil {
						s.Error(err)
					}
				})
			}
			return err
		})
	}
	add(&s.from, "from", from)
	add(&s.to, "to", to)
	s.must(group.Wait())
}

// begin waits until the machines reach whom they ping.
func (s *scene) begin() {
	s.Helper()
	s.reaches(s.from, s.to.Lease.Address.Addr().String())
	s.reaches(s.from, machine.Outside)
	s.waitForRouters(s.routerID())
}

// dhcpServersBlockNothing shows that the ports of DHCP servers are in the way of no other CIDR, and of
// no deletion.
func dhcpServersBlockNothing(t *testing.T) {
	takeTurn(t)
	s := &scene{world: newWorld(t), name: "without-machines"}
	var last string
	for _, cidr := range []string{"10.77.0.0/24", "10.78.0.0/24", "10.78.0.0/16"} {
		s.spec.CIDR = cidr
		s.apply(samplecrdv1.ReasonAvailable)
		if s.network.Status.SubnetID == last {
			t.Errorf("with %s, it is still the subnet %s", cidr, last)
		}
		last = s.network.Status.SubnetID
		s.eventually(func() error {
			for _, port := range s.ports("network:dhcp") {
				if port.Status == "ACTIVE" && slices.ContainsFunc(port.FixedIPs, func(ip ports.IP) bool { return ip.SubnetID == last }) {
					return nil
				}
			}
			return fmt.Errorf("no DHCP server serves %s", cidr)
		})
	}
	s.kubectl("", "delete", "network", s.name, "--timeout="+patience.String())
	if err := networks.Get(t.Context(), s.host.Admin, s.network.Status.NetworkID).Err; !gophercloud.ResponseCodeIs(err, http.StatusNotFound) {
		t.Errorf("the network is still there: %v", err)
	}
}

// The page, and what is before and after its table.
const (
	page       = "traffic.md"
	tableBegin = "<!-- changes -->\n"
	tableEnd   = "<!-- /changes -->\n"
)

// comparePage compares the rows with those of the page. Of what was lost, it compares only whether
// something was. With -update, it writes them into the page.
func (found *table) comparePage() error {
	if len(found.rows) < len(inPlace)+len(routing)+len(failures) {
		return nil // a change has failed, or was not asked for
	}
	file := filepath.Join(shared.root, "artifacts", "examples", page)
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	before, rest, hasBegin := strings.Cut(string(text), tableBegin)
	written, after, hasEnd := strings.Cut(rest, tableEnd)
	if !hasBegin || !hasEnd {
		return fmt.Errorf("%s lacks %q or %q", file, tableBegin, tableEnd)
	}
	now := found.render()
	if *update {
		return os.WriteFile(file, []byte(before+tableBegin+now+tableEnd+after), 0o644)
	}
	if diff := gocmp.Diff(withoutFigures(written), withoutFigures(now)); diff != "" {
		return fmt.Errorf("%s differs, write it again with go -C hack test ./traffic -run TestChanges -update -outage 1m (-written +now):\n%s", file, diff)
	}
	return nil
}

// render returns the table of all changes, in their order.
func (found *table) render() string {
	var b strings.Builder
	b.WriteString("| change | `plan` says it interrupts | lost on the same network | lost to outside | lost to the floating IP |\n|---|---|---|---|---|\n")
	for _, c := range slices.Concat(inPlace, routing, failures) {
		fmt.Fprintf(&b, "| %s |\n", strings.Join(found.rows[c.name].cells(), " | "))
	}
	return b.String()
}

// figures are how much was lost.
var figures = regexp.MustCompile(`[0-9]+, [0-9.]+ s`)

// withoutFigures returns the lines of a table with "some" in place of how much was lost.
func withoutFigures(table string) []string {
	return strings.Split(figures.ReplaceAllString(table, "some"), "\n")
}
