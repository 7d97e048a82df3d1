// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/google/go-cmp/cmp"
	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/networks"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/subnets"

	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
	"github.com/samplecrd/samplecrd-controller/pkg/neutron"
	"github.com/samplecrd/samplecrd-controller/pkg/neutron/embedded"
)

// port creates a port on a network, as a server would, and returns its ID.
func (w *world) port(networkID, name string) string {
	w.Helper()
	port, err := ports.Create(w.Context(), w.neutron.Client, ports.CreateOpts{NetworkID: networkID, Name: name}).Extract()
	w.must(err)
	return port.ID
}

func (w *world) removePort(id string) {
	w.Helper()
	w.must(ports.Delete(w.Context(), w.neutron.Client, id).ExtractErr())
}

// stranger creates a network with a subnet as another client would, and returns their IDs.
func (w *world) stranger(name, description, cidr string) (network, subnet string) {
	w.Helper()
	n, err := networks.Create(w.Context(), w.neutron.Client, networks.CreateOpts{Name: name, Description: description}).Extract()
	w.must(err)
	return n.ID, w.subnet(n.ID, description, cidr)
}

// subnet creates a subnet as another client would.
func (w *world) subnet(networkID, description, cidr string) string {
	w.Helper()
	s, err := subnets.Create(w.Context(), w.neutron.Client, subnets.CreateOpts{
		NetworkID: networkID, Description: description, CIDR: cidr, IPVersion: gophercloud.IPv4,
	}).Extract()
	w.must(err)
	return s.ID
}

// remark gives the network another description, and its subnets too.
func (w *world) remark(networkID, description string) {
	w.Helper()
	n, err := networks.Update(w.Context(), w.neutron.Client, networkID, networks.UpdateOpts{Description: &description}).Extract()
	w.must(err)
	for _, id := range n.Subnets {
		_, err := subnets.Update(w.Context(), w.neutron.Client, id, subnets.UpdateOpts{Description: &description}).Extract()
		w.must(err)
	}
}

// asItIs returns all fields of a network or subnet in Neutron, with its revision.
func (w *world) asItIs(collection, id string) (all map[string]any) {
	w.Helper()
	_, err := w.neutron.Client.Get(w.Context(), w.neutron.Client.ServiceURL(collection, id), &all, nil)
	w.must(err)
	return all
}

// put changes an object in Neutron as another client would.
func (w *world) put(collection, id, object string, value any) {
	w.Helper()
	_, err := w.neutron.Client.Put(w.Context(), w.neutron.Client.ServiceURL(collection, id),
		map[string]any{object: value}, nil, &gophercloud.RequestOpts{OkCodes: []int{http.StatusOK}})
	w.must(err)
}

// public is the external network that routers have their gateways in.
var public = embedded.ExternalNetwork{Name: "public", CIDR: netip.MustParsePrefix("198.18.0.0/16")}

// viaPublic is the line of a spec that asks for a router of the Network's own.
const viaPublic = "  router: {externalNetwork: {name: public}}\n"

// viaExisting asks for an existing router, by its name or its ID.
func viaExisting(key, value string) string {
	return fmt.Sprintf("  router: {existing: {%s: %s}}\n", key, value)
}

// applySpec applies a Network with more lines of the spec.
func (w *world) applySpec(name, cidr, gateway string, lines ...string) {
	w.Helper()
	_, err := w.tryKubectl(manifest(name, cidr, gateway)+strings.Join(lines, ""), "apply", "-f", "-")
	w.must(err)
}

// createSpec applies a Network with more lines of the spec, and waits until it is ready.
func (w *world) createSpec(name, cidr, gateway string, lines ...string) *samplecrdv1.Network {
	w.Helper()
	w.applySpec(name, cidr, gateway, lines...)
	return w.waitReady(name)
}

// publicID returns the ID of the external network.
func (w *world) publicID() string {
	w.Helper()
	pages, err := networks.List(w.neutron.Client, networks.ListOpts{Name: public.Name}).AllPages(w.Context())
	w.must(err)
	found, err := networks.ExtractNetworks(pages)
	w.must(err)
	return found[0].ID
}

// legacy is a network that somebody made long before the controller.
type legacy struct{ network, subnet string }

func (w *world) legacy() legacy {
	w.Helper()
	network, subnet := w.stranger("team-net", "do not touch, ask Ann", "10.7.0.0/24")
	w.put("networks", network+"/tags", "tags", []string{"prod"})
	w.put("subnets", subnet, "subnet", map[string]any{"dns_nameservers": []string{"192.0.2.53"}})
	return legacy{network, subnet}
}

// look returns all that Neutron has of the network, except its tags and what changes with each
// change.
func (w *world) look(l legacy) map[string]any {
	w.Helper()
	network, subnet := w.asItIs("networks", l.network)["network"].(map[string]any), w.asItIs("subnets", l.subnet)["subnet"].(map[string]any)
	for _, o := range []map[string]any{network, subnet} {
		for _, name := range []string{"tags", "updated_at", "revision_number"} {
			delete(o, name)
		}
	}
	return map[string]any{"network": network, "subnet": subnet}
}

func (w *world) tags(l legacy) []string {
	w.Helper()
	n, err := networks.Get(w.Context(), w.neutron.Client, l.network).Extract()
	w.must(err)
	slices.Sort(n.Tags)
	return n.Tags
}

// isUnchanged fails if anything but the tags of the network differs.
func (w *world) isUnchanged(before map[string]any, l legacy) {
	w.Helper()
	if diff := cmp.Diff(before, w.look(l)); diff != "" {
		w.Errorf("the network was changed (-before +after):\n%s", diff)
	}
}

// importTag returns the tag that marks the import of the Network.
func (w *world) importTag(network *samplecrdv1.Network) string {
	w.Helper()
	owner, _ := neutron.OwnerOf(w.mark(network))
	return owner.ImportTag()
}

const (
	observe   = "  managementPolicy: Observe\n"
	theSubnet = "  cidr: 10.7.0.0/24\n"
)
