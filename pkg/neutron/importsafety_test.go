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

package neutron

import (
	"testing"

	"github.com/samplecrd/samplecrd-controller/pkg/neutron/embedded"
)

// A router interface that was found stays where it is, unless the spec declares the gateway.
func TestInterfaceOfATakenOverSubnetStays(t *testing.T) {
	for _, test := range []struct {
		name, gateway string
		declared      bool
		steps         []string
	}{
		{"at another address than the gateway", "10.0.0.254", false, []string{"connection of subnet 10.0.0.0/24 to router r confirmed"}},
		{"without a gateway", "", false, nil},
		{"the spec declares the gateway", "10.0.0.254", true, []string{"subnet 10.0.0.0/24 detached from router r", "subnet 10.0.0.0/24 attached to router r"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			desired := importing("n", "10.0.0.0/24")
			desired.Router = &DesiredRouter{Existing: "r"}
			desired.KnownRouter, desired.RouterRecorded = "r", true
			s := Subnet{ID: "s", CIDR: cidr("10.0.0.0/24"), Description: "theirs"}
			if test.gateway != "" {
				s.Gateway = addr(test.gateway)
			}
			if test.declared {
				desired.Subnets[0].Gateway = s.Gateway
			}
			observed := &Network{ID: "n", Tags: NewTags(owner.ImportTag()), RoutersKnown: true, Subnets: []Subnet{s},
				Interfaces: []Interface{{PortID: "p", RouterID: "r", SubnetID: "s", Address: addr("10.0.0.1")}}, Routers: []Router{{ID: "r"}}}
			equal(t, test.steps, texts(Plan(desired, observed)))
			equal(t, test.declared, len(Differences(desired, observed)) > 0)
		})
	}
}

// A view that is out of date does not let a Network write to a network that another one has by now.
func TestAnImportThatWasLostIsNotChanged(t *testing.T) {
	w := newWorld(t, embedded.Options{})
	id := w.legacy(t, "10.0.0.0/24").ID
	_, err := w.others.SetTags(t.Context(), id, SetTags{NewTags(owner.ImportTag())})
	noError(t, err)
	as, desired := importer(owner.UID, id), importing(id, "10.0.0.0/24")
	desired.Subnets[0].Gateway = addr("10.0.0.254")
	observed, err := w.Observe(t.Context(), as, Live)
	noError(t, err)
	_, err = w.others.SetTags(t.Context(), id, SetTags{NewTags(Owner{owner.Cluster, otherUID}.ImportTag())})
	noError(t, err)
	before := w.inNeutron(t, id)
	_, _, err = w.Converge(t.Context(), as, desired, observed, Guard{})
	equal(t, ImportRefused, ReasonOf(err))
	equal(t, before, w.inNeutron(t, id))
}

// Networks of no project, such as those between highly available routers, are not ours.
func TestANetworkOfNoProjectIsForeign(t *testing.T) {
	w := newWorld(t, embedded.Options{})
	_, err := w.others.GetNetwork(t.Context(), w.legacy(t).ID) // there is a session
	noError(t, err)
	n := &Network{ID: "n"}
	w.others.setForeign(n)
	equal(t, true, n.IsForeign)
}

// The router that the controller has created goes with deletionPolicy Delete, if the network is gone.
func TestRouterOfAVanishedImportIsDeleted(t *testing.T) {
	as := importer(owner.UID, "n")
	equal(t, false, as.keeps(&Network{Routers: []Router{{ID: "r", Description: owner.Mark()}}}))
	equal(t, true, as.keeps(&Network{ID: "n"}))
}
