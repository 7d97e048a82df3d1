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

package e2e

import (
	"net/http"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/networks"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/subnets"
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
