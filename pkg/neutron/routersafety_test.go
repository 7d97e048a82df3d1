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

	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/layer3/routers"

	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
	"github.com/samplecrd/samplecrd-controller/pkg/neutron/embedded"
)

// An interface on a stranger's subnet is not managed, even if it is on the Network's own router.
func TestAnInterfaceOnAStrangersSubnetIsNotManaged(t *testing.T) {
	t.Parallel()
	want := wants("10.0.0.0/24", "", ownOn("public"), recorded("r"))
	observed := connected(has(ours("s1", "10.0.0.0/24", "10.0.0.1"), described("a stranger's", ours("s2", "10.1.0.0/24", "10.1.0.1"))),
		router("r", "public"), joins("r", "s1", "10.0.0.1"), joins("r", "s2", "10.1.0.1"))
	equal(t, Step(nil), Next(want, observed))
	equal(t, []Interface{joins("r", "s2", "10.1.0.1")}, UnmanagedInterfaces(want, observed))
}

// After a restore of etcd the status may have a router again only after a sync that waits for the
// router's own interface.
func TestAWaitEndsWhenItsPortIsAnInterfaceOfTheRouter(t *testing.T) {
	t.Parallel()
	var w waits
	s := scope{op: "replace", network: "n", subnets: []string{"s"}}
	w.add(owner.UID, s, "in use by port p")
	equal(t, InUse, ReasonOf(w.check(owner.UID, s)))
	s.except = []Interface{{PortID: "p", SubnetID: "s"}}
	noError(t, w.check(owner.UID, s))
}

// A status from a backup of etcd may not have the router that the spec names.
func TestTheInterfaceOnADeclaredRouterDoesNotPreventAReplacement(t *testing.T) {
	t.Parallel()
	w := newWorld(t, embedded.Options{})
	n, _, err := w.Converge(t.Context(), Identity{Owner: owner}, wants("10.0.0.0/24", ""), &Network{}, Guard{})
	noError(t, err)
	service, err := w.others.connect(t.Context())
	noError(t, err)
	router, err := routers.Create(t.Context(), service, routers.CreateOpts{}).Extract()
	noError(t, err)
	_, err = routers.AddInterface(t.Context(), service, router.ID, routers.AddInterfaceOpts{SubnetID: n.Subnets[0].ID}).Extract()
	noError(t, err)
	n, err = w.readNeutron(t.Context(), Identity{Owner: owner, Routed: true})
	noError(t, err)
	for _, recorded := range []string{"", "another"} {
		want := wants("10.1.0.0/24", "", func(d *Desired) {
			spec := samplecrdv1.RouterSpec{Existing: &samplecrdv1.NeutronReference{ID: router.ID}}
			d.Router, d.RouterRecorded, d.KnownRouter = &DesiredRouter{Spec: spec}, recorded != "", recorded
		})
		as := Identity{Owner: owner, NetworkID: n.ID, Routed: true, Router: recorded}
		var steps []Step
		n, steps, err = w.Converge(t.Context(), as, want, n, Guard{})
		equal(t, Unrecorded, ReasonOf(err)) // that comes before the subnet is attached
		equal(t, recorded == "", len(steps) == 1)
	}
}
