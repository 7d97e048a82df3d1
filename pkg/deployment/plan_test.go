// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package deployment

import (
	"flag"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
)

func prefixes(texts ...string) []netip.Prefix {
	var all []netip.Prefix
	for _, text := range texts {
		all = append(all, netip.MustParsePrefix(text))
	}
	return all
}

func TestLowestFree(t *testing.T) {
	tests := []struct {
		name  string
		pool  string
		bits  int
		taken []netip.Prefix
		want  string // "" for none
	}{
		{"the first is taken", "10.0.0.0/16", 24, prefixes("10.0.0.0/24"), "10.0.1.0/24"},
		{"a gap is filled", "10.0.0.0/16", 24, prefixes("10.0.0.0/24", "10.0.2.0/24"), "10.0.1.0/24"},
		{"something smaller takes the block in which it is", "10.0.0.0/16", 24, prefixes("10.0.0.128/30"), "10.0.1.0/24"},
		{"something larger takes many", "10.0.0.0/16", 24, prefixes("10.0.0.0/18"), "10.0.64.0/24"},
		{"what encloses the pool takes all", "10.0.0.0/16", 24, prefixes("10.0.0.0/8"), ""},
		{"another family takes nothing", "10.0.0.0/16", 24, prefixes("::/0"), "10.0.0.0/24"},
		{"a pool of one block that is taken", "10.0.0.0/24", 24, prefixes("10.0.0.0/24"), ""},
		{"enough addresses, but not in one block", "10.0.0.0/24", 25, prefixes("10.0.0.64/26", "10.0.0.128/26"), ""},
		{"blocks larger than the pool", "10.0.0.0/24", 23, nil, ""},
		{"the end of all addresses", "255.255.254.0/23", 24, prefixes("255.255.254.0/24"), "255.255.255.0/24"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, ok := lowestFree(netip.MustParsePrefix(tt.pool), tt.bits, tt.taken)
			if ok != (tt.want != "") || ok && got.String() != tt.want {
				t.Errorf("got %v, %v, want %q", got, ok, tt.want)
			}
		})
	}
	if got, ok := lowestFree(netip.Prefix{}, 24, nil); ok {
		t.Errorf("got %v from an empty pool", got)
	}
}

// blocks returns all blocks of a small pool, in order.
func blocks(pool netip.Prefix, bits int) []netip.Prefix {
	var all []netip.Prefix
	for addr := pool.Addr(); pool.Contains(addr); {
		block := netip.PrefixFrom(addr, bits)
		all = append(all, block)
		for block.Contains(addr) {
			addr = addr.Next()
		}
	}
	return all
}

var seed = flag.Uint64("seed", 1, "what random tests do")

func TestLowestFreeReturnsTheSameBlockAsALinearSearch(t *testing.T) {
	seed := *seed
	random := rand.New(rand.NewPCG(seed, 0))
	for _, pool := range prefixes("10.1.0.0/24", "fd00::a00/120") {
		width := pool.Addr().BitLen()
		for range 500 {
			bits := pool.Bits() + random.IntN(7)
			var taken []netip.Prefix
			for range random.IntN(20) {
				addr := pool.Addr().AsSlice()
				addr[len(addr)-1] = byte(random.Uint32())
				at, _ := netip.AddrFromSlice(addr)
				taken = append(taken, netip.PrefixFrom(at, width-random.IntN(8)).Masked())
			}
			var want netip.Prefix
			for _, block := range blocks(pool, bits) {
				if !overlapsAny(block, taken) {
					want = block
					break
				}
			}
			if got, ok := lowestFree(pool, bits, taken); got != want || ok != want.IsValid() {
				t.Fatalf("seed %d: /%d of %s without %v: got %v, %v, want %v", seed, bits, pool, taken, got, ok, want)
			}
		}
	}
}

func TestParse(t *testing.T) {
	tests := []struct {
		name, cidr, gateway string
		want                request
		err                 string
	}{
		{"a CIDR", "10.1.0.0/24", "", request{cidr: "10.1.0.0/24"}, ""},
		{"a gateway", "10.1.0.0/24", "10.1.0.9", request{cidr: "10.1.0.0/24", gateway: "10.1.0.9"}, ""},
		{"no gateway", "10.1.0.0/24", "None", request{cidr: "10.1.0.0/24", gateway: "None"}, ""},
		{"bits beyond the prefix length", "10.1.0.7/24", "10.1.0.9", request{cidr: "10.1.0.7/24", gateway: "10.1.0.9"}, ""},
		{"IPv6", "fd00::/64", "fd00::9", request{cidr: "fd00::/64", gateway: "fd00::9"}, ""},
		{"auto", "auto", "", request{auto: true}, ""},
		{"auto without a gateway", "auto", "None", request{auto: true, gateway: "None"}, ""},
		{"auto with an address, which may be outside the block", "auto", "10.1.0.9", request{}, "is not possible with samplecrd.k8s.io/network-cidr: auto, only None is"},
		{"nothing", "", "", request{}, `network-cidr: "" must be an address`},
		{"a blank", " 10.1.0.0/24", "", request{}, "must be an address and a prefix length"},
		{"a gateway outside", "10.1.0.0/24", "10.2.0.9", request{}, `network-gateway: "10.2.0.9" must be an address inside 10.1.0.0/24`},
		{"a gateway of the other family", "10.1.0.0/24", "fd00::1", request{}, "must be an address inside"},
		{"a very long value is cut", strings.Repeat("x", 1000), "", request{}, `"` + strings.Repeat("x", 64) + `"… must be an address`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := parse(map[string]string{
				samplecrdv1.AnnotationNetworkCIDR: tt.cidr, samplecrdv1.AnnotationNetworkGateway: tt.gateway, samplecrdv1.AnnotationNetworkTemplate: "shared",
			})
			if err == nil {
				tt.want.templateName = "shared"
			}
			if got != tt.want || (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
				t.Errorf("got %+v, %v, want %+v, %q", got, err, tt.want, tt.err)
			}
		})
	}
}

// fromPool returns a reference to the subnet pool of that name.
func fromPool(name string, prefixLength int32) *samplecrdv1.SubnetPoolSpec {
	return &samplecrdv1.SubnetPoolSpec{NeutronReference: samplecrdv1.NeutronReference{Name: name}, PrefixLength: prefixLength}
}

func TestChooseRange(t *testing.T) {
	shared, old := fromPool("shared", 24), fromPool("old", 26)
	with := func(cidr string, pool *samplecrdv1.SubnetPoolSpec, allocated string) *samplecrdv1.Network {
		return &samplecrdv1.Network{
			ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{samplecrdv1.AnnotationAllocatedCIDR: allocated}},
			Spec:       samplecrdv1.NetworkSpec{SubnetSpec: samplecrdv1.SubnetSpec{CIDR: cidr, SubnetPool: pool}},
		}
	}
	tests := []struct {
		name     string
		network  *samplecrdv1.Network
		flag     *samplecrdv1.SubnetPoolSpec
		block    string
		wantPool *samplecrdv1.SubnetPoolSpec
	}{
		{"no Network, and no subnet pool", nil, nil, "", nil},
		{"no Network", nil, shared, "", shared},
		{"an allocated block is kept", with("10.0.0.0/24", nil, "10.0.0.0/24"), shared, "10.0.0.0/24", nil},
		{"it is kept after an edit of the CIDR", with("10.0.9.0/24", nil, "10.0.0.0/24"), shared, "10.0.0.0/24", nil},
		{"it is kept after an edit that names a subnet pool", with("", old, "10.0.0.0/24"), shared, "10.0.0.0/24", nil},
		{"a block that is none", with("10.0.0.0/24", nil, "x"), shared, "", shared},
		{"another subnet pool is kept", with("", old, ""), shared, "", old},
		{"a subnet pool is kept if the flag is gone", with("", old, ""), nil, "", old},
		{"a CIDR that was not allocated", with("10.0.0.0/24", nil, ""), shared, "", shared},
		{"a CIDR that was not allocated, and no subnet pool", with("10.0.0.0/24", nil, ""), nil, "", nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if block, pool := chooseRange(tt.network, tt.flag); block != tt.block || pool != tt.wantPool {
				t.Errorf("got %q, %+v, want %q, %+v", block, pool, tt.block, tt.wantPool)
			}
		})
	}
}

func TestASubnetPoolIsNamedByItsNameOrID(t *testing.T) {
	const id = "0aca7b50-0c3a-4bdd-9a2b-2ac1d1f7c0de"
	for _, tt := range []struct {
		value string
		want  samplecrdv1.NeutronReference
	}{
		{"shared", samplecrdv1.NeutronReference{Name: "shared"}},
		{id, samplecrdv1.NeutronReference{ID: id}},
		{"{" + id + "}", samplecrdv1.NeutronReference{Name: "{" + id + "}"}}, // Parse accepts it, Neutron does not
	} {
		want := &samplecrdv1.SubnetPoolSpec{NeutronReference: tt.want, PrefixLength: 26}
		if diff := cmp.Diff(want, subnetPool(tt.value, 26)); diff != "" {
			t.Errorf("%s (-want +got)\n%s", tt.value, diff)
		}
	}
	if got := subnetPool("", 26); got != nil {
		t.Errorf("got %+v without a name", got)
	}
}

func TestEveryDeploymentNameHasItsOwnLabelValue(t *testing.T) {
	seen := map[string]string{}
	for _, name := range []string{
		"a", "web", "web.example.com", strings.Repeat("a", 63), strings.Repeat("a", 64), strings.Repeat("a", 253), strings.Repeat("a", 252) + "b",
		strings.Repeat("a", 53) + "-" + strings.Repeat("b", 20), strings.Repeat("a", 53) + "." + strings.Repeat("b", 20),
	} {
		value := labelValue(name)
		if wrong := validation.IsValidLabelValue(value); len(wrong) > 0 {
			t.Errorf("%s: %v", value, wrong)
		}
		if len(name) <= 63 && value != name {
			t.Errorf("%s became %s", name, value)
		}
		if other, ok := seen[value]; ok {
			t.Errorf("%s and %s have the same label", name, other)
		}
		seen[value] = name
	}
}

// aDeployment and aNetwork return the objects for the tests of pure functions.
func aDeployment(cidr string) *appsv1.Deployment {
	return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{
		Namespace: "default", Name: "web", UID: "uid-1", Annotations: map[string]string{samplecrdv1.AnnotationNetworkCIDR: cidr},
	}}
}

func aNetwork(r request, changes ...func(*samplecrdv1.Network)) *samplecrdv1.Network {
	n := newNetwork(aDeployment(""), r)
	n.UID, n.ResourceVersion = "uid-n", "7"
	for _, change := range changes {
		change(n)
	}
	return n
}

func TestAdoptionKeepsOtherOwners(t *testing.T) {
	other := metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: "c", UID: "uid-c"}
	mine := metav1.OwnerReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "web", UID: "uid-1"}
	n := aNetwork(request{cidr: "10.1.0.0/24"}, func(n *samplecrdv1.Network) { n.OwnerReferences = []metav1.OwnerReference{mine, other} })
	before := n.DeepCopy()
	patch, err := patchFor(n, aDeployment(""), request{cidr: "10.1.0.0/24"})
	if err != nil {
		t.Fatal(err)
	}
	want := []metav1.OwnerReference{other, *metav1.NewControllerRef(aDeployment(""), deploymentKind)}
	if diff := cmp.Diff(any(want), patch["metadata"].(map[string]any)["ownerReferences"]); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if diff := cmp.Diff(before, n); diff != "" {
		t.Errorf("the Network in the cache was changed:\n%s", diff)
	}
}

func TestObstacle(t *testing.T) {
	owner := func(kind, name, uid string) func(*samplecrdv1.Network) {
		return func(n *samplecrdv1.Network) {
			yes := true
			n.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: kind, Name: name, UID: types.UID("uid-" + uid), Controller: &yes}}
		}
	}
	none := func(n *samplecrdv1.Network) { n.OwnerReferences = nil }
	unlabelled := func(n *samplecrdv1.Network) { n.Labels = nil }
	deleted := func(n *samplecrdv1.Network) { now := metav1.Now(); n.DeletionTimestamp = &now }
	tests := []struct {
		name    string
		changes []func(*samplecrdv1.Network)
		reason  string
		says    string
	}{
		{"its own", nil, "", ""},
		{"no owner, with the label: it can be adopted", []func(*samplecrdv1.Network){none}, "", ""},
		{"no owner, without the label", []func(*samplecrdv1.Network){none, unlabelled}, samplecrdv1.EventNetworkNotOwned, "label it samplecrd.k8s.io/deployment=web"},
		{"owned by another object", []func(*samplecrdv1.Network){owner("StatefulSet", "db", "2")}, samplecrdv1.EventNetworkNotOwned, "belongs to StatefulSet db"},
		{"owned by another Deployment", []func(*samplecrdv1.Network){owner("Deployment", "db", "2")}, samplecrdv1.EventNetworkNotOwned, "belongs to Deployment db"},
		{"owned by an object of another kind with its name", []func(*samplecrdv1.Network){owner("StatefulSet", "web", "2")}, samplecrdv1.EventNetworkNotOwned, "belongs to StatefulSet web"},
		{"owned by an earlier Deployment of its name", []func(*samplecrdv1.Network){owner("Deployment", "web", "0")}, samplecrdv1.EventNetworkBeingDeleted, "earlier Deployment"},
		{"its own, being deleted", []func(*samplecrdv1.Network){deleted}, samplecrdv1.EventNetworkBeingDeleted, "is being deleted"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := obstacle(aNetwork(request{cidr: "10.1.0.0/24"}, tt.changes...), aDeployment(""))
			if got == nil {
				got = &event{}
			}
			if got.reason != tt.reason || !strings.Contains(got.message, tt.says) {
				t.Errorf("got %+v, want %s with %q", got, tt.reason, tt.says)
			}
		})
	}
	if got := obstacle(nil, aDeployment("")); got != nil {
		t.Errorf("got %+v without a Network, want nil", got)
	}
}

func TestTrimKeepsOnlyTheFieldsThatASyncReads(t *testing.T) {
	now := metav1.Now()
	replicas := int32(3)
	want := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{
		Namespace: "default", Name: "web", UID: "uid-1", ResourceVersion: "7", DeletionTimestamp: &now,
		Annotations: map[string]string{
			samplecrdv1.AnnotationNetworkCIDR: "auto", samplecrdv1.AnnotationNetworkGateway: "", samplecrdv1.AnnotationNetworkTemplate: "shared",
		},
	}}
	full := want.DeepCopy()
	full.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubectl"}}
	full.Labels = map[string]string{"app": "web"}
	full.Annotations["kubectl.kubernetes.io/last-applied-configuration"] = "{}"
	full.Spec.Replicas, full.Status.Replicas = &replicas, 3
	got, err := Trim(full)
	if diff := cmp.Diff(any(want), got); err != nil || diff != "" {
		t.Errorf("(-want +got)\n%s%v", diff, err)
	}
	if other, err := Trim("no Deployment"); err != nil || other != "no Deployment" {
		t.Errorf("got %v, %v", other, err)
	}
}

func TestNetworkNeedsSync(t *testing.T) {
	tests := []struct {
		name   string
		change func(*samplecrdv1.Network)
		want   bool
	}{
		{"nothing", func(*samplecrdv1.Network) {}, false},
		{"the status", func(n *samplecrdv1.Network) { n.Status.CIDR, n.ResourceVersion = "10.1.0.0/24", "8" }, false},
		{"a finalizer", func(n *samplecrdv1.Network) { n.Finalizers = []string{samplecrdv1.Finalizer} }, false},
		{"a label of another client", func(n *samplecrdv1.Network) { n.Labels["team"] = "a" }, false},
		{"the spec", func(n *samplecrdv1.Network) { n.Generation++ }, true},
		{"the UID", func(n *samplecrdv1.Network) { n.UID = "uid-o" }, true},
		{"the owner", func(n *samplecrdv1.Network) { n.OwnerReferences = nil }, true},
		{"our label", func(n *samplecrdv1.Network) { delete(n.Labels, samplecrdv1.LabelDeployment) }, true},
		{"the allocated block", func(n *samplecrdv1.Network) { n.Annotations = nil }, true},
		{"the template", func(n *samplecrdv1.Network) { n.Annotations[samplecrdv1.AnnotationAppliedTemplate] = "shared" }, true},
		{"its deletion", func(n *samplecrdv1.Network) { now := metav1.Now(); n.DeletionTimestamp = &now }, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			before := aNetwork(request{auto: true, cidr: "10.1.0.0/24"})
			now := before.DeepCopy()
			tt.change(now)
			if got := networkNeedsSync(before, now); got != tt.want {
				t.Errorf("got %v", got)
			}
		})
	}
}
