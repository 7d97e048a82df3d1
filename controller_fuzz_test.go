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

package main

import (
	"net/netip"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
	"github.com/samplecrd/samplecrd-controller/pkg/neutron"
)

// Whatever spec was stored under whatever CRD, it is refused as invalid, or says one thing:
// a CIDR without host bits, and a gateway inside it or none. The seeds run in a normal go
// test; go test -fuzz=FuzzDesired . searches.
func FuzzDesired(f *testing.F) {
	for _, seed := range [][2]string{
		{"192.168.0.0/16", "192.168.0.1"}, {"192.168.1.0/16", "192.168.1.1"}, {"192.168.0.0/16", ""}, {"192.168.0.0/16", "None"}, {"192.168.0.0/16", "none"},
		{"192.168.0.0/16", "10.0.0.1"}, {"192.168.0.0/16", "::ffff:192.168.0.1"}, {"::ffff:192.168.0.0/112", "192.168.0.1"}, {"fd00::/64", "fd00::1"},
		{"fd00::/64", "fd00::1%eth0"}, {"fd00::%eth0/64", "fd00::1"}, {"0.0.0.0/0", "0.0.0.0"}, {"::/0", "::"}, {"10.0.0.0/32", "10.0.0.0"},
		{"10.0.0.0/33", ""}, {"10.0.0.0/-1", ""}, {"10.0.0.0/08", ""}, {"010.0.0.0/8", ""}, {"10.0.0.0", ""}, {" 10.0.0.0/8", ""}, {"10.0.0.0/8\n", ""}, {"", ""},
	} {
		f.Add(seed[0], seed[1], "s")
	}
	f.Fuzz(func(t *testing.T, cidr, gateway, subnetID string) {
		network := &samplecrdv1.Network{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: types.UID("22222222-0000-0000-0000-000000000000")},
			Spec:       samplecrdv1.NetworkSpec{CIDR: cidr, Gateway: gateway},
			Status:     samplecrdv1.NetworkStatus{SubnetID: subnetID},
		}
		want, err := desired(network, "cluster")
		if err != nil {
			if neutron.KindOf(err) != neutron.Invalid || !strings.HasPrefix(err.Error(), "spec.") || strings.ContainsAny(err.Error(), "\n\r\x1b") {
				t.Errorf("got %q", err)
			}
			return
		}
		subnet := want.Subnets[0]
		written, err := netip.ParsePrefix(cidr)
		if err != nil || subnet.CIDR != written.Masked() || subnet.CIDR.Addr().Zone() != "" {
			t.Errorf("of %q is made %s", cidr, subnet.CIDR)
		}
		switch gateway {
		case "", samplecrdv1.GatewayNone:
			if subnet.Gateway.IsValid() || subnet.NoGateway != (gateway != "") {
				t.Errorf("of %q is made %+v", gateway, subnet)
			}
		default:
			if subnet.NoGateway || !subnet.CIDR.Contains(subnet.Gateway) || subnet.Gateway.Zone() != "" {
				t.Errorf("of %q in %s is made %+v", gateway, subnet.CIDR, subnet)
			}
		}
		if owner, marked := neutron.OwnerOf(want.Owner.Mark()); !marked || owner.UID != network.UID {
			t.Errorf("it is marked for %+v", owner)
		}
		if _, creates := neutron.Next(want, &neutron.Network{}).(neutron.CreateNetwork); !creates {
			t.Error("the plan does not begin with the network")
		}
	})
}
