// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/networks"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/subnets"

	"github.com/samplecrd/samplecrd-controller/hack/neutron/machine"
	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
)

// fieldRow is the spec of a Network, and what a machine notices of it.
type fieldRow struct {
	spec string
	row
}

// fieldRows show the fields that the examples do not show.
var fieldRows = map[string]fieldRow{
	"settings": {
		spec: `
  cidr: 10.70.0.0/24
  gateway: 10.70.0.254
  mtu: 1400
  portSecurityEnabled: true
  dnsNameservers: [192.0.2.54, 192.0.2.53]
  allocationPools: [{start: 10.70.0.100, end: 10.70.0.120}]
  hostRoutes: [{destination: 10.98.0.0/16, nextHop: 10.70.0.10}]
  additionalSubnets: [{name: second, cidr: 10.71.0.0/24}]
  router:
    externalNetwork: {name: public}
    routes: [{destination: 10.99.0.0/16, nextHop: 10.70.0.10}]`,
		row: row{
			fields: []string{"cidr", "gateway", "mtu", "dnsNameservers", "allocationPools", "hostRoutes", "additionalSubnets",
				"portSecurityEnabled", "router.externalNetwork", "router.routes"},
			addresses: "10.70.0.100 10.70.0.120",
			lease: "routers[10.70.0.254] dns[192.0.2.54 192.0.2.53] mtu[1400] " +
				"routes[0.0.0.0/0>10.70.0.254 10.71.0.0/24 10.98.0.0/16>10.70.0.10 169.254.169.254/32>10.70.0.254]",
			secured: true, check: settings,
		},
	},
	"no way out": {
		spec: `
  cidr: 10.72.0.0/24
  gateway: None
  additionalSubnets:
  - {name: stateful, cidr: "fd00:72::/64", gateway: None, ipv6: {addressMode: dhcpv6-stateful}}
  - {name: slaac, cidr: "fd00:73::/64", gateway: None, ipv6: {addressMode: slaac, raMode: slaac}}`,
		row: row{
			fields:    []string{"gateway", "ipv6.addressMode"},
			addresses: "10.72.0.1 10.72.0.254",
			lease:     "routers[] dns[DHCP-server] mtu[1500] routes[]",
			check:     noWayOut,
		},
	},
	"no DHCP": {
		spec: `{cidr: 10.73.0.0/24, enableDHCP: false, portSecurityEnabled: false}`,
		row:  row{fields: []string{"enableDHCP", "portSecurityEnabled"}, check: noDHCP},
	},
	"stateless": {
		spec: `
  cidr: fd00:74::/64
  dnsNameservers: ["fd00:74::53"]
  ipv6: {addressMode: dhcpv6-stateless, raMode: dhcpv6-stateless}
  router: {existing: {name: backbone}}`,
		row: row{fields: []string{"ipv6.addressMode", "ipv6.raMode"}, check: stateless},
	},
	"stateful": {
		spec: `
  cidr: fd00:75::/64
  gateway: fd00:75::9
  dnsNameservers: ["fd00:75::53"]
  ipv6: {addressMode: dhcpv6-stateful, raMode: dhcpv6-stateful}
  additionalSubnets: [{name: announced, cidr: "fd00:76::/64", ipv6: {raMode: slaac}}]
  router: {existing: {name: backbone}}`,
		row: row{fields: []string{"ipv6.addressMode", "ipv6.raMode"}, check: stateful},
	},
	"imported": {
		row: row{fields: []string{"import.networkID", "managementPolicy"}, check: imported},
	},
	"of an administrator": {
		row: row{fields: []string{"shared", "external", "provider.networkType"}, check: ofAnAdministrator},
	},
	"in a zone without agents": {
		spec: `{cidr: 10.79.0.0/24, availabilityZoneHints: [az2]}`,
		row:  row{fields: []string{"availabilityZoneHints"}, check: inAnEmptyZone},
	},
}

// unnoticed are the fields that no machine notices here, with the reason.
var unnoticed = map[string]string{
	"dnsDomain":                            "it is for an external DNS service. DHCP announces the domain of Neutron's configuration",
	"tags":                                 "they are for those who list networks",
	"provider.physicalNetwork":             "the machines' host has no network to which it would lead",
	"provider.segmentationID":              "the machines' host has neither VLANs nor tunnels",
	"cloudCredentialsRef.clusterCloudName": "it is another way to the credentials that example-credentials.yaml shows",
}

// theFields shows what machines notice of the fields of a Network.
func theFields(t *testing.T) {
	inWorlds(t, fieldRows, func(w *world, _ string, r fieldRow) {
		w.surroundings()
		w.lasts = mayLast(r.spec)
		var on *samplecrdv1.Network
		if r.spec != "" {
			on = w.apply(network("fields", r.spec))
		}
		w.notices(r.row, on)
	})
}

// TestEveryFieldHasARow fails when the API has a field that neither a field nor an example shows.
func TestEveryFieldHasARow(t *testing.T) {
	var shown []string
	for _, r := range fieldRows {
		shown = append(shown, r.fields...)
	}
	for _, r := range exampleRows {
		shown = append(shown, r.fields...)
	}
	fields := fieldsOf(reflect.TypeFor[samplecrdv1.NetworkSpec](), "")
	for _, field := range fields {
		if reason := unnoticed[field]; (reason != "") == slices.Contains(shown, field) {
			t.Errorf("spec.%s: want either a row in fieldRows or exampleRows, or a reason in unnoticed", field)
		}
	}
	for _, field := range slices.Concat(shown, slices.Collect(maps.Keys(unnoticed))) {
		if !slices.Contains(fields, field) {
			t.Errorf("there is no field spec.%s", field)
		}
	}
}

func settings(w *world, on *samplecrdv1.Network, m *machine.Machine) {
	hop := w.machine("hop", on, machine.Options{Address: "10.70.0.10", NoPortSecurity: true, NoDHCP: true})
	w.has(hop, "eth0", "10.70.0.10/24")
	second := w.machine("second", on, machine.Options{Subnet: on.Status.Subnets[1].ID})
	w.has(hop, "lo", "10.98.0.1/32")
	w.has(hop, "lo", "10.99.0.1/32")
	for what, to := range map[string]string{
		"hostRoutes: a packet takes the route":                   "10.98.0.1",
		"router.routes: a packet takes the route":                "10.99.0.1",
		"additionalSubnets: a machine of each reaches the other": address(second),
	} {
		w.part(what, func(w *world) { w.reaches(m, to) })
	}
	w.part("router.externalNetwork: the address outside sees the router's address", func(w *world) {
		router, itself := w.hears(w.outside, on.Status.Router.ExternalIPs[0]), w.hears(w.outside, address(m))
		w.reaches(m, machine.Outside)
		if !router() || itself() {
			w.Error("the pings do not come from the router's address")
		}
	})
	w.part("mtu: a packet of that size passes, and no larger one", func(w *world) {
		w.reaches(m, "10.70.0.10")
		if !w.passes(m, "10.70.0.10", 1400) || w.passes(m, "10.70.0.10", 1401) {
			w.Error("1400 bytes do not pass, or 1401 bytes do")
		}
	})
	w.part("portSecurityEnabled: a machine has no other address than its port's", func(w *world) {
		w.has(m, "eth0", "10.70.0.77/24")
		w.reaches(second, address(m))
		if r, err := second.Ping(w.Context(), "10.70.0.77", 1); err == nil {
			w.Errorf("a packet from another address has passed: %+v", r)
		}
	})
}

// noWayOut shows that without a router, only DHCPv6 gives an IPv6 address, and nobody a default route.
func noWayOut(w *world, on *samplecrdv1.Network, _ *machine.Machine) {
	m := w.machine("second", on, machine.Options{Subnet: on.Status.Subnets[1].ID, NoPortSecurity: true, NoDHCP: true})
	w.getsAddressV6(m)
	for what, args := range map[string][]string{
		"default route":                    {"route", "show", "default"},
		"address of an unannounced subnet": {"address", "show", "dev", "eth0", "to", "fd00:73::/64"},
	} {
		out, err := m.Run(w.Context(), "ip", append([]string{"-6"}, args...)...)
		w.must(err)
		if out != "" {
			w.Errorf("want no %s, got %s", what, out)
		}
	}
	if len(m.Port.FixedIPs) != 2 {
		w.Errorf("want addresses of both IPv6 subnets at the port, got %v", m.Port.FixedIPs)
	}
}

func noDHCP(w *world, on *samplecrdv1.Network, _ *machine.Machine) {
	first := w.machine("first", on, machine.Options{Address: "10.73.0.11", NoDHCP: true})
	second := w.machine("second", on, machine.Options{Address: "10.73.0.12", NoDHCP: true})
	w.has(first, "eth0", "10.73.0.11/24")
	w.has(second, "eth0", "10.73.0.12/24")
	w.has(second, "eth0", "10.73.0.77/24")
	w.part("enableDHCP: a machine with its port's address reaches others", func(w *world) { w.reaches(first, "10.73.0.12") })
	w.part("enableDHCP: there is no lease", func(w *world) { w.getsNoLease(first) })
	w.part("portSecurityEnabled: a machine can have other addresses", func(w *world) { w.reaches(first, "10.73.0.77") })
}

func stateless(w *world, on *samplecrdv1.Network, _ *machine.Machine) {
	m := w.machine("first", on, machine.Options{NoPortSecurity: true, NoDHCP: true})
	a, _, err := m.WaitIPv6(w.Context())
	w.must(err)
	w.isOf(m, a)
	w.eventually(func() error {
		l, err := m.RequestInformationV6(w.Context())
		return errors.Join(err, wantDNS(l, "fd00:74::53"))
	})
	w.reaches(m, on.Status.Gateway)
}

// stateful shows that the machine gets an address from DHCPv6, and makes another one from an advertisement: for that, raMode is enough.
func stateful(w *world, on *samplecrdv1.Network, _ *machine.Machine) {
	m := w.machine("first", on, machine.Options{NoPortSecurity: true, NoDHCP: true})
	w.must(wantDNS(w.getsAddressV6(m), "fd00:75::53"))
	_, _, err := m.WaitIPv6(w.Context())
	w.must(err)
	w.reaches(m, "fd00:75::9")
	w.eventually(func() error {
		out, err := m.Run(w.Context(), "ip", "-6", "-brief", "address", "show", "dev", "eth0", "to", "fd00:76::/64")
		if err == nil && !slices.ContainsFunc(m.Port.FixedIPs, func(ip ports.IP) bool { return strings.Contains(out, " "+ip.IPAddress+"/") }) {
			err = fmt.Errorf("want an address of fd00:76::/64 that the port has, too, got %q; the port has %v", out, m.Port.FixedIPs)
		}
		return err
	})
}

// getsAddressV6 waits until DHCPv6 gives the machine its port's address.
func (w *world) getsAddressV6(m *machine.Machine) (l machine.LeaseV6) {
	w.Helper()
	w.eventually(func() (err error) {
		l, err = m.RequestAddressV6(w.Context())
		return err
	})
	w.isOf(m, l.Address)
	return l
}

// isOf fails unless the machine's port has the address.
func (w *world) isOf(m *machine.Machine, a netip.Addr) {
	w.Helper()
	if !slices.ContainsFunc(m.Port.FixedIPs, func(ip ports.IP) bool { return ip.IPAddress == a.String() }) {
		w.Errorf("the machine has %s, its port %v", a, m.Port.FixedIPs)
	}
}

func wantDNS(l machine.LeaseV6, want string) error {
	if got := l.DNS; len(got) != 1 || got[0].String() != want {
		return fmt.Errorf("want the DNS server %s, got %v", want, got)
	}
	return nil
}

// imported shows that a machine that was there before is reached all the time, and that its next
// lease has what the spec says, as soon as the network is not only observed.
func imported(w *world, _ *samplecrdv1.Network, _ *machine.Machine) {
	found, err := networks.Create(w.Context(), w.neutron.Client, networks.CreateOpts{Name: "found"}).Extract()
	w.must(err)
	w.must(subnets.Create(w.Context(), w.neutron.Client, subnets.CreateOpts{
		NetworkID: found.ID, IPVersion: 4, CIDR: "10.76.0.0/24", DNSNameservers: []string{"192.0.2.1"},
	}).Err)
	on := &samplecrdv1.Network{Status: samplecrdv1.NetworkStatus{NetworkID: found.ID}}
	m, other := w.machine("first", on, open), w.machine("second", on, open)
	before, lease := m.Lease.Address, "routers[10.76.0.1] dns[%s] mtu[1500] routes[0.0.0.0/0>10.76.0.1]"
	w.reaches(other, address(m))
	probe, err := other.Probe(w.Context(), address(m))
	w.must(err)
	w.apply(network("imported", fmt.Sprintf(`{import: {networkID: %s}, managementPolicy: Observe,
  cidr: 10.76.0.0/24, dnsNameservers: [192.0.2.2]}`, found.ID)))
	w.must(m.RequestLease(w.Context()))
	w.leases(m, fmt.Sprintf(lease, "192.0.2.1"))
	w.patch("imported", `{"managementPolicy":"Managed"}`)
	w.leases(m, fmt.Sprintf(lease, "192.0.2.2"))
	r, err := probe.Stop()
	w.must(err)
	if r.Lost > 0 || m.Lease.Address != before {
		w.Errorf("the machine had %s and has %s, and of the pings to it, %d of %d were lost", before, m.Lease.Address, r.Lost, r.Sent)
	}
}

// ofAnAdministrator shows that each project can have machines in a network that is shared, and a
// router with its gateway in one that is external.
func ofAnAdministrator(w *world, _ *samplecrdv1.Network, _ *machine.Machine) {
	w.kubectl("", "create", "secret", "generic", "clouds", "--from-file=clouds.yaml="+w.neutron.CloudsYAML)
	on := w.apply(network("everybodys", `{cidr: 10.77.0.0/24, shared: true, external: true, provider: {networkType: local},
  cloudCredentialsRef: {secretName: clouds, cloudName: local-admin}}`))
	// An administrator, who makes the machines, needs no shared network, but this project does.
	w.must(ports.Create(w.Context(), w.surroundings().other, ports.CreateOpts{NetworkID: on.Status.NetworkID}).Err)
	m := w.machine("first", on, machine.Options{Project: w.surroundings().otherProject, NoPortSecurity: true})
	w.leases(m, "routers[10.77.0.1] dns[DHCP-server] mtu[1500] routes[0.0.0.0/0>10.77.0.1]")
	through := w.apply(network("through", `{cidr: 10.78.0.0/24, router: {externalNetwork: {name: `+w.namespace+`/everybodys}}}`))
	hears := w.hears(m, through.Status.Router.ExternalIPs[0])
	w.reaches(w.machine("second", through, open), address(m))
	if !hears() {
		w.Error("the pings do not come from the router's address")
	}
}

func inAnEmptyZone(w *world, on *samplecrdv1.Network, _ *machine.Machine) {
	m := w.machine("first", on, machine.Options{NoPortSecurity: true, NoDHCP: true})
	// The DHCP server of a network that comes later is there.
	w.machine("second", w.apply(network("later", `{cidr: 10.80.0.0/24, availabilityZoneHints: [nova]}`)), open)
	w.getsNoLease(m)
}

// fieldsOf returns the JSON names of the fields of a struct, and of the structs in it.
func fieldsOf(t reflect.Type, prefix string) (names []string) {
	for i := range t.NumField() {
		field := t.Field(i)
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		inner := field.Type
		if inner.Kind() == reflect.Pointer {
			inner = inner.Elem()
		}
		switch isReference := inner == reflect.TypeFor[samplecrdv1.NeutronReference](); {
		case field.Anonymous && isReference:
		case field.Anonymous:
			names = append(names, fieldsOf(inner, prefix)...)
		case inner.Kind() == reflect.Struct && !isReference:
			names = append(names, fieldsOf(inner, prefix+name+".")...)
		default:
			names = append(names, prefix+name)
		}
	}
	return names
}
