// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/networks"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"

	"github.com/samplecrd/samplecrd-controller/hack/internal/stack"
	"github.com/samplecrd/samplecrd-controller/hack/neutron/machine"
	"github.com/samplecrd/samplecrd-controller/hack/neutron/realneutron"
	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
)

// exampleRow is what a machine notices of an example.
type exampleRow struct {
	// unnoticed is the reason why no machine notices it here.
	unnoticed string
	// network is the Network of the machine.
	network string
	// adapt makes of the manifest what a user would make of it.
	adapt func(w *world, manifest string) string
	row
}

// exampleRows are the files of artifacts/examples.
var exampleRows = map[string]exampleRow{
	"example-callers.yaml": {unnoticed: "it has no Network"},
	"example-dual-stack.yaml": {
		network: "dual-stack",
		row:     row{fields: []string{"ipv6.addressMode", "ipv6.raMode"}, check: dualStack},
	},
	"example-routed-network.yaml": {
		network: "routed-network",
		row: row{
			addresses: "10.60.0.100 10.60.0.200",
			lease:     "routers[10.60.0.1] dns[192.0.2.53 192.0.2.54] mtu[1500] routes[0.0.0.0/0>10.60.0.1 169.254.169.254/32>10.60.0.1]",
			check:     reachesOutside,
		},
	},
	"example-network.yaml": {
		network: "example-network",
		row: row{
			addresses: "192.168.0.2 192.168.255.254",
			lease:     "routers[192.168.0.1] dns[DHCP-server] mtu[1500] routes[0.0.0.0/0>192.168.0.1]",
		},
	},
	"example-subnet-pool.yaml": {
		network: "from-subnet-pools",
		row:     row{fields: []string{"subnetPool.prefixLength"}, check: fromSubnetPools},
	},
	"example-existing-router.yaml": {
		network: "behind-backbone",
		row: row{
			fields:    []string{"router.existing"},
			addresses: "10.62.0.2 10.62.0.254",
			lease:     "routers[10.62.0.1] dns[DHCP-server] mtu[1500] routes[0.0.0.0/0>10.62.0.1 169.254.169.254/32>10.62.0.1]",
			check:     reachesOutside,
		},
	},
	"example-availability-zones.yaml": {
		network: "in-zones",
		row: row{
			fields:    []string{"availabilityZoneHints", "router.availabilityZoneHints"},
			addresses: "10.63.0.2 10.63.0.254",
			lease:     "routers[10.63.0.1] dns[DHCP-server] mtu[1500] routes[0.0.0.0/0>10.63.0.1 169.254.169.254/32>10.63.0.1]",
			check:     reachesOutside,
		},
	},
	"example-shared.yaml": {unnoticed: "the row of example-observed.yaml shows it"},
	"example-observed.yaml": {
		network: "shared-by-a-project",
		adapt:   afterItIsShared,
		row:     row{fields: []string{"sharedWith", "import.networkID", "managementPolicy"}, check: sharedWithAProject},
	},
	"example-static-routes.yaml": {
		network: "static-routes",
		row: row{
			fields:    []string{"router.routes"},
			addresses: "10.64.0.100 10.64.0.200",
			lease:     "routers[10.64.0.1] dns[DHCP-server] mtu[1500] routes[0.0.0.0/0>10.64.0.1 169.254.169.254/32>10.64.0.1]",
			check:     staticRoutes,
			secured:   true,
		},
	},
	"example-deployment.yaml": {
		network: "example-deployment",
		row: row{
			addresses: "10.1.0.2 10.1.0.254",
			lease:     "routers[10.1.0.1] dns[DHCP-server] mtu[1500] routes[0.0.0.0/0>10.1.0.1]",
		},
	},
	"example-template.yaml": {
		network: "routed-deployment",
		row: row{
			addresses: "10.51.0.2 10.51.0.254",
			lease:     "routers[10.51.0.1] dns[192.0.2.53 192.0.2.54] mtu[1500] routes[0.0.0.0/0>10.51.0.1 169.254.169.254/32>10.51.0.1]",
			check:     reachesOutside,
		},
	},
	"example-credentials.yaml": {
		network: "team-network",
		adapt:   withOtherCredentials,
		row: row{
			fields:    []string{"cloudCredentialsRef.secretName", "cloudCredentialsRef.cloudName"},
			addresses: "10.30.0.2 10.30.0.254",
			lease:     "routers[10.30.0.1] dns[DHCP-server] mtu[1500] routes[0.0.0.0/0>10.30.0.1]",
			check:     inTheOtherProject,
		},
	},
	"example-retained.yaml": {
		network: "retained-network",
		row:     row{fields: []string{"deletionPolicy"}, check: retained},
	},
}

// theExamples shows what machines notice of the examples.
func theExamples(t *testing.T) {
	rows := maps.Clone(exampleRows)
	maps.DeleteFunc(rows, func(_ string, r exampleRow) bool { return r.unnoticed != "" })
	inWorlds(t, rows, func(w *world, file string, r exampleRow) {
		w.surroundings()
		manifest := w.example(file)
		if r.adapt != nil {
			manifest = r.adapt(w, manifest)
		}
		w.lasts = mayLast(manifest)
		w.kubectl(manifest, "apply", "-f", "-")
		w.notices(r.row, w.waitReady(r.network))
	})
}

// TestEveryExampleHasARow fails when there is an example that no test shows.
func TestEveryExampleHasARow(t *testing.T) {
	root, err := stack.Root()
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(root, "artifacts", "examples", "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for i := range files {
		files[i] = filepath.Base(files[i])
	}
	if diff := cmp.Diff(files, slices.Sorted(maps.Keys(exampleRows))); diff != "" {
		t.Errorf("the examples, and those of exampleRows: %s", diff)
	}
}

func reachesOutside(w *world, _ *samplecrdv1.Network, m *machine.Machine) {
	w.reaches(m, machine.Outside)
}

// dualStack shows that a machine makes its IPv6 address from the router's advertisement, and that its port has this address.
func dualStack(w *world, on *samplecrdv1.Network, _ *machine.Machine) {
	m := w.machine("first", on, open)
	address, router, err := m.WaitIPv6(w.Context())
	w.must(err)
	if !slices.ContainsFunc(m.Port.FixedIPs, func(ip ports.IP) bool { return ip.IPAddress == address.String() }) {
		w.Errorf("the machine has %s, its port %v", address, m.Port.FixedIPs)
	}
	if !router.IsLinkLocalUnicast() {
		w.Errorf("want the router's address on the link, got %s", router)
	}
	w.reaches(m, "fd00:61::1")
}

func fromSubnetPools(w *world, on *samplecrdv1.Network, _ *machine.Machine) {
	m := w.machine("first", on, open)
	a, _, err := m.WaitIPv6(w.Context())
	w.must(err)
	for i, pool := range []string{"10.20.0.0/16", "fd00:20::/48"} {
		got := []netip.Addr{m.Lease.Address.Addr(), a}[i]
		if block := netip.MustParsePrefix(on.Status.Subnets[i].CIDR); !block.Contains(got) || !netip.MustParsePrefix(pool).Contains(got) {
			w.Errorf("want an address of the block %s of the pool %s, got %s", block, pool, got)
		}
	}
}

func sharedWithAProject(w *world, on *samplecrdv1.Network, _ *machine.Machine) {
	w.must(networks.Get(w.Context(), w.surroundings().other, on.Status.NetworkID).Err)
	m := w.machine("first", on, machine.Options{Project: w.surroundings().otherProject, NoPortSecurity: true})
	w.leases(m, "routers[10.66.0.1] dns[DHCP-server] mtu[1500] routes[0.0.0.0/0>10.66.0.1]")
}

func staticRoutes(w *world, on *samplecrdv1.Network, m *machine.Machine) {
	gateway := w.machine("vpn", on, machine.Options{Address: "10.64.0.10"})
	w.must(ports.Update(w.Context(), w.neutron.Client, gateway.Port.ID, ports.UpdateOpts{
		AllowedAddressPairs: &[]ports.AddressPair{{IPAddress: "10.99.0.0/16"}},
	}).Err)
	w.has(gateway, "lo", "10.99.0.1/32")
	w.reaches(m, "10.99.0.1")
}

// afterItIsShared applies the Network that is to be observed, with the ID of the other project, and replaces the ID of its network.
func afterItIsShared(w *world, manifest string) string {
	shared := w.example("example-shared.yaml")
	n := w.apply(strings.ReplaceAll(shared, "5d0f1c7e8a6b4c2d9e3f0a1b2c3d4e5f", w.surroundings().otherProject))
	w.otherCredentials()
	return strings.ReplaceAll(manifest, "6c1f0a52-3d47-4e8b-9a60-b2d5c7e81f93", n.Status.NetworkID)
}

// withOtherCredentials replaces the Secret by one for another project.
func withOtherCredentials(w *world, manifest string) string {
	_, network, _ := strings.Cut(manifest, "\n---\n")
	w.otherCredentials()
	return network
}

// otherCredentials creates the Secret of the examples, with the credentials of another project.
func (w *world) otherCredentials() {
	w.Helper()
	cloudsYAML, err := os.ReadFile(w.neutron.CloudsYAML)
	w.must(err)
	w.kubectl("", "create", "secret", "generic", "team-cloud",
		"--from-literal=clouds.yaml="+strings.ReplaceAll(string(cloudsYAML), realneutron.OtherCloud+":", "mycloud:"))
}

func inTheOtherProject(w *world, on *samplecrdv1.Network, m *machine.Machine) {
	if want := w.surroundings().otherProject; on.Status.ProjectID != want || m.Port.ProjectID != want {
		w.Errorf("want the project %s, got %s, and that of the machine is %s", want, on.Status.ProjectID, m.Port.ProjectID)
	}
}

// retained shows that machines keep their network when the Network is deleted.
func retained(w *world, on *samplecrdv1.Network, _ *machine.Machine) {
	first, second := w.machine("first", on, open), w.machine("second", on, open)
	w.reaches(first, address(second))
	probe, err := first.Probe(w.Context(), address(second))
	w.must(err)
	w.kubectl("", "delete", "network", on.Name)
	w.must(second.RequestLease(w.Context()))
	w.leases(second, "routers[10.40.0.1] dns[DHCP-server] mtu[1500] routes[0.0.0.0/0>10.40.0.1]")
	if r, err := probe.Stop(); err != nil || r.Lost > 0 {
		w.Errorf("pings were lost: %+v, %v", r, err)
	}
}
