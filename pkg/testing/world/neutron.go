// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package world

import (
	"bytes"
	"context"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	cloudsyaml "github.com/gophercloud/gophercloud/v2/openstack/config/clouds"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/networks"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/subnets"
	"k8s.io/apimachinery/pkg/types"

	"github.com/samplecrd/samplecrd-controller/pkg/neutron"
	"github.com/samplecrd/samplecrd-controller/pkg/neutron/embedded"
	"github.com/samplecrd/samplecrd-controller/pkg/testing/meaning"
)

// userAgent is that of the controller's requests to Neutron.
const userAgent = "controller"

// NewCloud returns the cloud as a controller that has just started sees it: its Observer has
// not listed yet. The clouds of a World share one client, and so its token.
func (w *World) NewCloud() *neutron.Cloud {
	w.t.Helper()
	if w.controller == nil {
		w.Configure(w.Neutron.CloudsYAML("test"))
	}
	return neutron.NewCloud("test", w.controller, Cluster, time.Hour)
}

// Configure gives the clouds that NewCloud returns from now on another clouds.yaml, with the entry
// test, and a session of their own, as when the controller's process starts again.
func (w *World) Configure(cloudsYAML []byte) {
	w.t.Helper()
	config, err := neutron.ParseConfig("test", cloudsYAML)
	if err != nil {
		w.t.Fatal(err)
	}
	w.ConfigureFrom(config)
}

// ConfigureFrom is Configure with a configuration that may be read from files again and again.
func (w *World) ConfigureFrom(config neutron.Config) {
	w.controller = neutron.NewClient(config, neutron.ClientOptions{Timeout: 10 * time.Second, Connections: 1, UserAgent: userAgent})
}

// CloudsYAMLWithout returns the clouds.yaml of the controller without the lines that have one of
// these keys, such as project_name and region_name.
func (w *World) CloudsYAMLWithout(keys ...string) []byte {
	lines := slices.DeleteFunc(strings.SplitAfter(string(w.Neutron.CloudsYAML("test")), "\n"), func(line string) bool {
		key, _, _ := strings.Cut(strings.TrimSpace(line), ":")
		return slices.Contains(keys, key)
	})
	return []byte(strings.Join(lines, ""))
}

// RevokeTokenAt revokes the controller's token right before its nth request to Neutron, from 1,
// reaches Neutron, and then calls also. It replaces the fault of Neutron that was set before.
// Requests of this package's methods do not count.
func (w *World) RevokeTokenAt(n int, also func()) {
	w.BeforeRequest(n, func(r *http.Request) {
		w.Neutron.RevokeToken(r.Header.Get("X-Auth-Token"))
		also()
	})
}

// BeforeRequest calls do at the moment that RevokeTokenAt describes.
func (w *World) BeforeRequest(n int, do func(*http.Request)) {
	var count atomic.Int64
	w.Neutron.SetFault(func(r *http.Request) *embedded.Fault {
		if strings.Contains(r.URL.Path, "/identity") || !strings.HasPrefix(r.UserAgent(), userAgent) {
			return nil
		}
		if count.Add(1) == int64(n) {
			do(r)
		}
		return nil
	})
}

// UserClient returns a user's client that shares no code with the controller. The name is that of
// the user's credentials: "test" in the controller's project, "test-admin" with the role admin.
func (w *World) UserClient(name string) *gophercloud.ServiceClient {
	w.t.Helper()
	auth, endpoint, _, err := cloudsyaml.Parse(cloudsyaml.WithCloudName(name), cloudsyaml.WithCloudsYAML(bytes.NewReader(w.Neutron.CloudsYAML("test"))))
	if err != nil {
		w.t.Fatal(err)
	}
	auth.AllowReauth = true
	provider, err := openstack.AuthenticatedClient(context.Background(), auth)
	if err != nil {
		w.t.Fatal(err)
	}
	client, err := openstack.NewNetworkV2(provider, endpoint)
	if err != nil {
		w.t.Fatal(err)
	}
	return client
}

// network is a network as Neutron shows it.
type network struct {
	ID, Name, Description string
	Subnets               []string
	meaning.Network
}

// listNetworks returns all networks of the project.
func (w *World) listNetworks() []network {
	w.t.Helper()
	var list struct{ Networks []network }
	w.send(w.Client, http.MethodGet, "networks?router:external=False", nil, &list)
	return list.Networks
}

func (w *World) getSubnet(id string) *subnets.Subnet {
	w.t.Helper()
	s, err := subnets.Get(context.Background(), w.Client, id).Extract()
	if err != nil {
		w.t.Fatal(err)
	}
	return s
}

// describeSubnets returns the CIDR and the gateway of each subnet, its other fields as far as they are
// not Neutron's defaults, and the routers that it is attached to.
func (w *World) describeSubnets(n network) (texts []string) {
	w.t.Helper()
	for _, id := range n.Subnets {
		texts = append(texts, meaning.ObservedSubnet(w.getSubnet(id))+w.routersOf(id))
	}
	return texts
}

// InNeutron returns a line for each network in Neutron, with its name, and what describeSubnets and
// describeNetwork return, and one for each router that is not a user's.
func (w *World) InNeutron() (lines []string) {
	w.t.Helper()
	defer w.TakeJournal()
	for _, n := range w.listNetworks() {
		lines = append(lines, n.Name+strings.Join(w.describeSubnets(n), "")+meaning.ObservedNetwork(n.Network))
	}
	for _, r := range w.ownRouters() {
		lines = append(lines, w.routerLine(r))
	}
	slices.Sort(lines)
	return lines
}

// ExpectNeutron compares what InNeutron returns.
func (w *World) ExpectNeutron(want ...string) {
	w.t.Helper()
	if diff := gocmp.Diff(want, w.InNeutron(), cmpopts.EquateEmpty()); diff != "" {
		w.t.Errorf("in Neutron (-want +got):\n%s", diff)
	}
}

// Descriptions returns the descriptions of all networks and subnets in Neutron: those that are
// not "" have a mark.
func (w *World) Descriptions() (all []string) {
	w.t.Helper()
	defer w.TakeJournal()
	for _, n := range w.listNetworks() {
		all = append(all, n.Description)
		for _, id := range n.Subnets {
			all = append(all, w.getSubnet(id).Description)
		}
	}
	return all
}

// CreateInNeutron creates a network and its subnets as a user does, and returns its ID.
func (w *World) CreateInNeutron(name, description string, cidrs ...string) string {
	w.t.Helper()
	defer w.TakeJournal()
	network, err := networks.Create(context.Background(), w.Client, networks.CreateOpts{Name: name, Description: description}).Extract()
	if err != nil {
		w.t.Fatal(err)
	}
	for _, cidr := range cidrs {
		opts := subnets.CreateOpts{NetworkID: network.ID, Name: name, Description: description, CIDR: cidr, IPVersion: gophercloud.IPv4}
		if _, err := subnets.Create(context.Background(), w.Client, opts).Extract(); err != nil {
			w.t.Fatal(err)
		}
	}
	return network.ID
}

// CreateOwned creates a network that carries the owner's mark, as a controller leaves it that
// lost the answer to its request, and returns its ID.
func (w *World) CreateOwned(owner types.UID, cidrs ...string) string {
	w.t.Helper()
	return w.CreateInNeutron("default/net-a", neutron.Owner{Cluster: Cluster, UID: owner}.Mark(), cidrs...)
}

// CreatePort creates the port web-0 on the network, and returns its ID.
func (w *World) CreatePort(network string) string {
	w.t.Helper()
	defer w.TakeJournal()
	port, err := ports.Create(context.Background(), w.Client, ports.CreateOpts{NetworkID: network, Name: "web-0"}).Extract()
	if err != nil {
		w.t.Fatal(err)
	}
	w.ports = append(w.ports, port.ID)
	w.addresses[port.ID] = port.FixedIPs
	return port.ID
}

// MayLose lets a port lose addresses: it was created after the controller has looked for ports.
func (w *World) MayLose(port string) { delete(w.addresses, port) }

// checkAddresses notes what the ports of CreatePort have lost.
func (w *World) checkAddresses() {
	for id, before := range w.addresses {
		port, err := ports.Get(context.Background(), w.Client, id).Extract()
		if err != nil {
			w.t.Fatal(err)
		}
		for _, ip := range before {
			if !slices.Contains(port.FixedIPs, ip) {
				w.lost = append(w.lost, "a port has lost its address "+ip.IPAddress)
			}
		}
	}
	clear(w.addresses)
}

// Ports returns the IDs of the ports that CreatePort created.
func (w *World) Ports() []string { return w.ports }

// DeletePorts deletes the ports that CreatePort created, and what CreateFloatingIP and
// AttachElsewhere did. Check then reports addresses that the ports had lost.
func (w *World) DeletePorts() {
	w.t.Helper()
	w.checkAddresses()
	for _, undo := range w.detached {
		undo()
	}
	w.detached = nil
	for _, port := range w.ports {
		w.DeleteInNeutron("ports", port)
	}
	w.ports = nil
}

// DeleteInNeutron deletes an object as a user does: from "networks", "subnets" or "ports".
func (w *World) DeleteInNeutron(collection, id string) {
	w.t.Helper()
	defer w.TakeJournal()
	if _, err := w.Client.Delete(context.Background(), w.Client.ServiceURL(collection, id), nil); err != nil {
		w.t.Fatal(err)
	}
}

// SetGateway changes the gateway of a subnet of 10.0.0.0/24.
func (w *World) SetGateway(subnet, gateway string) {
	w.t.Helper()
	w.updateInNeutron("subnets", "subnet", subnet, map[string]any{
		"gateway_ip": gateway, "allocation_pools": []map[string]string{{"start": "10.0.0.100", "end": "10.0.0.200"}}})
}

// RenameNetwork changes the name of a network.
func (w *World) RenameNetwork(id, name string) {
	w.t.Helper()
	w.updateInNeutron("networks", "network", id, map[string]any{"name": name})
}

// RenameSubnet changes the name of a subnet.
func (w *World) RenameSubnet(id, name string) {
	w.t.Helper()
	w.updateInNeutron("subnets", "subnet", id, map[string]any{"name": name})
}

// UnmarkNetwork removes the mark of a network, but not those of its subnets.
func (w *World) UnmarkNetwork(id string) {
	w.t.Helper()
	w.updateInNeutron("networks", "network", id, map[string]any{"description": ""})
}

// UnmarkSubnet removes the mark of a subnet.
func (w *World) UnmarkSubnet(id string) {
	w.t.Helper()
	w.updateInNeutron("subnets", "subnet", id, map[string]any{"description": ""})
}

func (w *World) updateInNeutron(collection, key, id string, change map[string]any) {
	w.t.Helper()
	defer w.TakeJournal()
	_, err := w.Client.Put(context.Background(), w.Client.ServiceURL(collection, id), map[string]any{key: change}, nil, &gophercloud.RequestOpts{OkCodes: []int{200}})
	if err != nil {
		w.t.Fatal(err)
	}
}

// SubnetOf returns the ID of the network's first subnet, or "" if it has none.
func (w *World) SubnetOf(network string) string {
	w.t.Helper()
	defer w.TakeJournal()
	if network == "" {
		return ""
	}
	n, err := networks.Get(context.Background(), w.Client, network).Extract()
	if err != nil {
		w.t.Fatal(err)
	}
	if len(n.Subnets) == 0 {
		return ""
	}
	return n.Subnets[0]
}
