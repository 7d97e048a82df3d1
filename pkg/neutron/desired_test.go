// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package neutron

import (
	"net/netip"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
)

// declares returns the owner's Network, default/web, with that spec.
func declares(cidr, gateway string) *samplecrdv1.Network {
	return &samplecrdv1.Network{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: owner.UID},
		Spec:       samplecrdv1.NetworkSpec{SubnetSpec: samplecrdv1.SubnetSpec{CIDR: cidr, Gateway: gateway}},
	}
}

func TestNewDesired(t *testing.T) {
	for _, test := range []struct {
		name          string
		cidr, gateway string
		want          DesiredSubnet
		err           string // is contained in the message; "": there is no error
	}{
		{"a gateway", "192.168.0.0/16", "192.168.1.1", DesiredSubnet{CIDR: cidr("192.168.0.0/16"), Gateway: addr("192.168.1.1")}, ""},
		{"no gateway", "192.168.0.0/16", "None", DesiredSubnet{CIDR: cidr("192.168.0.0/16"), NoGateway: true}, ""},
		{"host bits are masked", "192.168.1.1/16", "", DesiredSubnet{CIDR: cidr("192.168.0.0/16")}, ""},
		{"IPv6", "fd00:1::9/64", "fd00:1::1", DesiredSubnet{CIDR: cidr("fd00:1::/64"), Gateway: addr("fd00:1::1")}, ""},
		{"no prefix length", "10.0.0.0", "", DesiredSubnet{}, `spec.cidr: "10.0.0.0" is not an address and a prefix length`},
		{"a gateway outside the CIDR, which Neutron would accept", "10.0.0.0/24", "10.0.1.1", DesiredSubnet{}, `spec.gateway: "10.0.1.1" is not an address inside 10.0.0.0/24, nor None`},
	} {
		t.Run(test.name, func(t *testing.T) {
			network := declares(test.cidr, test.gateway)
			got, err := NewDesired(network, owner.Cluster)
			if test.err != "" {
				if ReasonOf(err) != Invalid || !strings.Contains(err.Error(), test.err) {
					t.Errorf("got %v, want %q in it", err, test.err)
				}
				equal(t, Desired{}, got)
				return
			}
			noError(t, err)
			test.want.Name, test.want.Mark = testName, owner.Mark()
			equal(t, declaredAs(owner, test.want).Desired, got)
		})
	}
}

// A request for two tags that are equal for Neutron's database takes minutes.
func TestTagsThatAreEqualForNeutronsDatabase(t *testing.T) {
	for _, test := range []struct {
		name  string
		tags  []samplecrdv1.Tag
		valid bool
	}{
		{"different ones", []samplecrdv1.Tag{"a", "b"}, true},
		{"case, which the CustomResourceDefinition refuses", []samplecrdv1.Tag{"x", "Prod", "prod"}, false},
		{"case of other letters than ASCII", []samplecrdv1.Tag{"Éclair", "éclair"}, false},
		{"accents", []samplecrdv1.Tag{"café", "cafe"}, false},
		{"one that is not text", []samplecrdv1.Tag{"a\xff", "a"}, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			network := declares("10.0.0.0/24", "")
			network.Spec.Tags = test.tags
			_, err := NewDesired(network, owner.Cluster)
			equal(t, test.valid, err == nil)
			if err != nil && (ReasonOf(err) != Invalid || !strings.HasPrefix(err.Error(), "spec.tags: ")) {
				t.Error(err)
			}
		})
	}
}

func TestNewIdentity(t *testing.T) {
	network := declares("10.0.0.0/24", "")
	equal(t, Identity{Owner: owner}, NewIdentity(network, owner.Cluster))
	network.Status = samplecrdv1.NetworkStatus{NetworkID: "n", Subnets: []samplecrdv1.SubnetStatus{{ID: "s", RouterPortID: "port"}}, Cloud: "mycloud", ProjectID: "p", Region: "r"}
	want := Identity{Owner: owner, NetworkID: "n", SubnetIDs: []string{"s"}, PortIDs: map[string]string{"s": "port"}, CloudName: "mycloud", Place: Place{Project: "p", Region: "r"}}
	equal(t, want, NewIdentity(network, owner.Cluster))
	// A stranger's router on a plain network is no reason to list routers.
	equal(t, false, want.isRouted(connected(has(), strangersRouter("x"))))
	equal(t, true, want.isRouted(connected(has(), router("r", ""))))
}

func TestWhetherNeutronWasAskedForTheNames(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(*samplecrdv1.Network)
		want   bool
	}{
		{"the status says that a name is missing", func(*samplecrdv1.Network) {}, true},
		{"it says something else", func(n *samplecrdv1.Network) { n.Status.Conditions[0].Reason = samplecrdv1.ReasonInUse }, false},
		{"it is about another spec", func(n *samplecrdv1.Network) { n.Generation++ }, false},
		{"a reconcile was requested", func(n *samplecrdv1.Network) {
			n.Annotations = map[string]string{samplecrdv1.AnnotationReconcileRequestedAt: "now"}
		}, false},
		{"a requested reconcile was made", func(n *samplecrdv1.Network) {
			n.Annotations = map[string]string{samplecrdv1.AnnotationReconcileRequestedAt: "now"}
			n.Status.LastHandledReconcileAt = "now"
		}, true},
		{"the request was removed", func(n *samplecrdv1.Network) { n.Status.LastHandledReconcileAt = "now" }, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			network := declares("10.0.0.0/24", "")
			network.Status.Conditions = []metav1.Condition{{
				Type: samplecrdv1.ConditionReady, Status: metav1.ConditionFalse, Reason: samplecrdv1.ReasonReferenceNotFound, ObservedGeneration: network.Generation,
			}}
			test.change(network)
			equal(t, test.want, NewIdentity(network, owner.Cluster).HasAsked)
		})
	}
}

func TestWhichNetworksBelongToAnIdentity(t *testing.T) {
	mark := owner.Mark()
	otherUID := Owner{owner.Cluster, "33333333-0000-0000-0000-000000000000"}.Mark()
	otherCluster := Owner{"other", owner.UID}.Mark()
	for _, test := range []struct {
		name    string
		mark    string
		subnets []string // descriptions
		id      string   // the known one; the network's is n
		marks   bool
		covers  bool
	}{
		{"the mark is the proof", mark, nil, "", true, true},
		{"text before the mark does not matter", "our web " + mark, nil, "", true, true},
		{"text after the mark does", mark + " web", nil, "", false, false},
		{"one marked subnet of several", "somebody's own", []string{"", otherUID, mark}, "n", false, true},
		{"without the mark, the ID alone proves nothing", "", []string{""}, "n", false, false},
		{"a marked subnet alone proves nothing", "", []string{mark}, "", false, false},
		{"a marked subnet on a network with another ID", "", []string{mark}, "m", false, false},
		{"another Network's mark", otherUID, []string{mark}, "n", false, false},
		{"another cluster's mark", otherCluster, []string{mark}, "n", false, false},
		{"another Network's subnet", "", []string{otherUID}, "n", false, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			network := &Network{ID: "n", Description: test.mark}
			for _, description := range test.subnets {
				network.Subnets = append(network.Subnets, Subnet{Description: description})
			}
			identity := Identity{Owner: owner, NetworkID: test.id}
			equal(t, test.marks, identity.Marks(network))
			equal(t, test.covers, identity.covers(network))
		})
	}
}

// A stored spec may be from any CustomResourceDefinition. It is either refused as invalid, or
// gives a CIDR without host bits and a gateway inside it or none. go test -fuzz=FuzzDesired
// ./pkg/neutron searches.
func FuzzDesired(f *testing.F) {
	for _, seed := range [][2]string{
		{"192.168.0.0/16", "192.168.0.1"}, {"192.168.1.0/16", "192.168.1.1"}, {"192.168.0.0/16", ""}, {"192.168.0.0/16", "None"}, {"192.168.0.0/16", "none"},
		{"192.168.0.0/16", "10.0.0.1"}, {"192.168.0.0/16", "::ffff:192.168.0.1"}, {"::ffff:192.168.0.0/112", "192.168.0.1"}, {"fd00::/64", "fd00::1"},
		{"fd00::/64", "fd00::1%eth0"}, {"fd00::%eth0/64", "fd00::1"}, {"0.0.0.0/0", "0.0.0.0"}, {"::/0", "::"}, {"10.0.0.0/32", "10.0.0.0"},
		{"10.0.0.0/33", ""}, {"10.0.0.0/-1", ""}, {"10.0.0.0/08", ""}, {"010.0.0.0/8", ""}, {"10.0.0.0", ""}, {" 10.0.0.0/8", ""}, {"10.0.0.0/8\n", ""}, {"", ""},
	} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, cidr, gateway string) {
		network := declares(cidr, gateway)
		desired, err := NewDesired(network, "cluster")
		if err != nil {
			if ReasonOf(err) != Invalid || !strings.HasPrefix(err.Error(), "spec.") || strings.ContainsAny(err.Error(), "\n\r\x1b") {
				t.Errorf("got %q", err)
			}
			return
		}
		subnet := desired.Subnets[0]
		written, err := netip.ParsePrefix(cidr)
		if err != nil || subnet.CIDR != written.Masked() || subnet.CIDR.Addr().Zone() != "" {
			t.Errorf("%q became %s", cidr, subnet.CIDR)
		}
		switch gateway {
		case "", samplecrdv1.GatewayNone:
			if subnet.Gateway.IsValid() || subnet.NoGateway != (gateway != "") {
				t.Errorf("%q became %+v", gateway, subnet)
			}
		default:
			if subnet.NoGateway || !subnet.CIDR.Contains(subnet.Gateway) || subnet.Gateway.Zone() != "" {
				t.Errorf("%q in %s became %+v", gateway, subnet.CIDR, subnet)
			}
		}
		if owner, marked := OwnerOf(desired.Network.Mark); !marked || owner.UID != network.UID {
			t.Errorf("the mark is of %+v", owner)
		}
		if _, creates := at(View{Desired: desired}, &Observed{}).Next().(CreateNetwork); !creates {
			t.Error("the plan does not begin with the network")
		}
	})
}
