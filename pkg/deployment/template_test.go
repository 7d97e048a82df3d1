// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package deployment

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
	informers "github.com/samplecrd/samplecrd-controller/pkg/generated/informers/externalversions/samplecrd/v1"
)

// fullSpec returns a spec in which every field is set.
func fullSpec() samplecrdv1.NetworkSpec {
	return samplecrdv1.NetworkSpec{
		SubnetSpec: samplecrdv1.SubnetSpec{
			CIDR:            "10.9.0.0/24",
			SubnetPool:      fromPool("old", 24),
			Gateway:         "10.9.0.1",
			DNSNameservers:  []samplecrdv1.IPAddress{"192.0.2.53", "2001:db8::53", "192.0.2.54"},
			AllocationPools: []samplecrdv1.AllocationPool{{Start: "10.9.0.100", End: "10.9.0.200"}},
			HostRoutes: []samplecrdv1.HostRoute{
				{Destination: "10.98.0.0/16", NextHop: "10.9.0.254"},
				{Destination: "10.99.0.0/16", NextHop: "192.0.2.1"},
				{Destination: "2001:db8:1::/48", NextHop: "2001:db8::1"},
			},
			EnableDHCP: new(false),
			IPv6:       &samplecrdv1.IPv6Spec{AddressMode: samplecrdv1.IPv6ModeSLAAC},
		},
		AdditionalSubnets:     []samplecrdv1.AdditionalSubnet{{Name: "v6", SubnetSpec: samplecrdv1.SubnetSpec{CIDR: "fd00:9::/64"}}},
		Router:                &samplecrdv1.RouterSpec{ExternalNetwork: &samplecrdv1.NeutronReference{Name: "public"}},
		MTU:                   new(int32(1400)),
		PortSecurityEnabled:   new(true),
		DNSDomain:             "team.example.org.",
		Tags:                  []samplecrdv1.Tag{"team-a"},
		Shared:                true,
		SharedWith:            []samplecrdv1.Share{{ProjectID: "p"}},
		External:              true,
		Provider:              &samplecrdv1.ProviderSpec{NetworkType: "vlan"},
		AvailabilityZoneHints: []samplecrdv1.AvailabilityZone{"nova"},
		CloudCredentialsRef:   &samplecrdv1.CloudCredentialsReference{SecretName: "team-cloud", CloudName: "mycloud"},
		DeletionPolicy:        samplecrdv1.DeletionRetain, ManagementPolicy: samplecrdv1.ManagementObserve, Import: &samplecrdv1.ImportSpec{NetworkID: "n"},
	}
}

func aTemplate(changes ...func(*samplecrdv1.Network)) *samplecrdv1.Network {
	n := &samplecrdv1.Network{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "shared"}, Spec: fullSpec()}
	for _, change := range changes {
		change(n)
	}
	return n
}

// from returns the request for this CIDR and gateway with that template.
func from(template *samplecrdv1.Network, cidr, gateway string) request {
	return request{cidr: cidr, gateway: gateway, templateName: template.Name, template: template}
}

func TestNewNetworkTakesOverFromTheTemplate(t *testing.T) {
	router, mtu := &samplecrdv1.RouterSpec{ExternalNetwork: &samplecrdv1.NeutronReference{Name: "public"}}, new(int32(1400))
	credentials := &samplecrdv1.CloudCredentialsReference{SecretName: "team-cloud", CloudName: "mycloud"}
	tests := []struct {
		name    string
		request request
		want    samplecrdv1.SubnetSpec
	}{
		{"IPv4", request{cidr: "10.1.0.0/24", gateway: "10.1.0.9"}, samplecrdv1.SubnetSpec{
			CIDR: "10.1.0.0/24", Gateway: "10.1.0.9", EnableDHCP: new(false),
			DNSNameservers: []samplecrdv1.IPAddress{"192.0.2.53", "192.0.2.54"},
			HostRoutes:     []samplecrdv1.HostRoute{{Destination: "10.99.0.0/16", NextHop: "192.0.2.1"}},
		}},
		{"IPv6", request{cidr: "fd00:1::/64"}, samplecrdv1.SubnetSpec{
			CIDR: "fd00:1::/64", EnableDHCP: new(false),
			DNSNameservers: []samplecrdv1.IPAddress{"2001:db8::53"},
			HostRoutes:     []samplecrdv1.HostRoute{{Destination: "2001:db8:1::/48", NextHop: "2001:db8::1"}},
			IPv6:           &samplecrdv1.IPv6Spec{AddressMode: samplecrdv1.IPv6ModeSLAAC},
		}},
		{"a subnet pool, whose IP family is not known", request{auto: true, subnetPool: fromPool("shared", 24), gateway: "None"}, samplecrdv1.SubnetSpec{
			SubnetPool: fromPool("shared", 24), Gateway: "None", EnableDHCP: new(false),
			DNSNameservers: []samplecrdv1.IPAddress{"192.0.2.53", "2001:db8::53", "192.0.2.54"},
			HostRoutes:     []samplecrdv1.HostRoute{},
		}},
		{"a subnet pool, with the prefix length that IPv6 modes need", request{auto: true, subnetPool: fromPool("shared", 64)}, samplecrdv1.SubnetSpec{
			SubnetPool: fromPool("shared", 64), EnableDHCP: new(false),
			DNSNameservers: []samplecrdv1.IPAddress{"192.0.2.53", "2001:db8::53", "192.0.2.54"},
			HostRoutes:     []samplecrdv1.HostRoute{},
			IPv6:           &samplecrdv1.IPv6Spec{AddressMode: samplecrdv1.IPv6ModeSLAAC},
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			template := aTemplate()
			tt.request.templateName, tt.request.template = template.Name, template
			n := newNetwork(aDeployment(""), tt.request)
			want := samplecrdv1.NetworkSpec{
				SubnetSpec: tt.want, Router: router, MTU: mtu, PortSecurityEnabled: new(true), DNSDomain: "team.example.org.",
				Tags: []samplecrdv1.Tag{"team-a"}, Shared: true, SharedWith: []samplecrdv1.Share{{ProjectID: "p"}}, CloudCredentialsRef: credentials,
			}
			if diff := cmp.Diff(want, n.Spec); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
			if diff := cmp.Diff(map[string]string{samplecrdv1.AnnotationAppliedTemplate: "shared"}, n.Annotations); diff != "" {
				t.Errorf("annotations (-want +got)\n%s", diff)
			}
			if diff := cmp.Diff(aTemplate(), template); diff != "" {
				t.Errorf("the template in the cache was changed:\n%s", diff)
			}
		})
	}
}

// The next hops of a Network are in its own subnets.
func TestRoutesOfTheRouterAreNotTakenOver(t *testing.T) {
	route := func(nextHop samplecrdv1.IPAddress) []samplecrdv1.HostRoute {
		return []samplecrdv1.HostRoute{{Destination: "10.99.0.0/16", NextHop: nextHop}}
	}
	external, existing := &samplecrdv1.NeutronReference{Name: "public"}, &samplecrdv1.NeutronReference{Name: "main"}
	template := samplecrdv1.NetworkSpec{Router: &samplecrdv1.RouterSpec{ExternalNetwork: external, Routes: route("10.0.0.7")}}
	for _, test := range []struct{ router, template, want *samplecrdv1.RouterSpec }{
		{nil, template.Router, &samplecrdv1.RouterSpec{ExternalNetwork: external}},
		{&samplecrdv1.RouterSpec{ExternalNetwork: external, Routes: route("10.1.0.7")}, template.Router, &samplecrdv1.RouterSpec{ExternalNetwork: external, Routes: route("10.1.0.7")}},
		{&samplecrdv1.RouterSpec{ExternalNetwork: external, Routes: route("10.1.0.7")}, &samplecrdv1.RouterSpec{Existing: existing}, &samplecrdv1.RouterSpec{Existing: existing}},
		{&samplecrdv1.RouterSpec{ExternalNetwork: external, Routes: route("10.1.0.7")}, nil, nil},
	} {
		spec := samplecrdv1.NetworkSpec{SubnetSpec: samplecrdv1.SubnetSpec{CIDR: "10.1.0.0/24"}, Router: test.router}
		takeOver(&spec, &samplecrdv1.NetworkSpec{Router: test.template})
		if diff := cmp.Diff(test.want, spec.Router); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
	}
	if len(template.Router.Routes) == 0 {
		t.Error("the template was changed")
	}
}

// TestEveryFieldIsTakenOverOrStays fails if a field is added without a decision.
func TestEveryFieldIsTakenOverOrStays(t *testing.T) {
	const takenOver, stays = true, false
	decisions := map[string]bool{
		"CIDR": stays, "SubnetPool": stays, "Gateway": stays, "AllocationPools": stays, "AdditionalSubnets": stays, "External": stays, "Provider": stays, "AvailabilityZoneHints": stays,
		"CloudCredentialsRef": stays, "DeletionPolicy": stays, "Import": stays, "ManagementPolicy": stays,
		"DNSNameservers": takenOver, "HostRoutes": takenOver, "EnableDHCP": takenOver, "IPv6": takenOver, "Router": takenOver, "MTU": takenOver,
		"PortSecurityEnabled": takenOver, "DNSDomain": takenOver, "Tags": takenOver, "Shared": takenOver, "SharedWith": takenOver,
	}
	full, bare := fullSpec(), samplecrdv1.NetworkSpec{SubnetSpec: samplecrdv1.SubnetSpec{CIDR: "fd00:1::/64"}}
	set, cleared := bare, fullSpec()
	cleared.CIDR = bare.CIDR
	takeOver(&set, &full)
	takeOver(&cleared, &samplecrdv1.NetworkSpec{})
	for _, field := range reflect.VisibleFields(reflect.TypeFor[samplecrdv1.NetworkSpec]()) {
		if field.Anonymous {
			continue
		}
		decision, ok := decisions[field.Name]
		value := func(spec samplecrdv1.NetworkSpec) reflect.Value {
			return reflect.ValueOf(spec).FieldByIndex(field.Index)
		}
		if !ok || value(full).IsZero() {
			t.Errorf("add %s to decisions and to fullSpec", field.Name)
		}
		if want := decision || field.Name == "CIDR"; value(set).IsZero() == want {
			t.Errorf("%s: taken over %v, want %v", field.Name, !want, want)
		}
		if value(cleared).IsZero() != decision {
			t.Errorf("%s: cleared %v, want %v", field.Name, !decision, decision)
		}
	}
}

func TestPatchFor(t *testing.T) {
	fixed, auto := request{cidr: "10.1.0.0/24", gateway: "10.1.0.9"}, request{auto: true, cidr: "10.1.0.0/24"}
	pooled := request{auto: true, subnetPool: fromPool("shared", 24)}
	follows := from(aTemplate(), "10.1.0.0/24", "")
	without := request{cidr: "10.1.0.0/24"}
	existing := aTemplate(func(n *samplecrdv1.Network) {
		n.Spec.Router = &samplecrdv1.RouterSpec{Existing: &samplecrdv1.NeutronReference{ID: "5a"}}
	})
	edited := func(change func(*samplecrdv1.NetworkSpec)) *samplecrdv1.Network {
		return aNetwork(follows, func(n *samplecrdv1.Network) { change(&n.Spec) })
	}
	all := map[string]any{
		"dnsNameservers": nil, "hostRoutes": nil, "enableDHCP": nil, "router": nil, "mtu": nil, "portSecurityEnabled": nil,
		"dnsDomain": nil, "tags": nil, "shared": nil, "sharedWith": nil,
	}
	unset := map[string]any{"annotations": map[string]any{samplecrdv1.AnnotationAppliedTemplate: nil}}
	tests := []struct {
		name           string
		network        *samplecrdv1.Network
		request        request
		metadata, spec map[string]any // both nil for no patch
		description    string
	}{
		{"in order", aNetwork(fixed), fixed, nil, nil, ""},
		{"in order, auto", aNetwork(auto), auto, nil, nil, ""},
		{"labels and annotations of another client", aNetwork(fixed, func(n *samplecrdv1.Network) {
			n.Labels["team"], n.Annotations = "a", map[string]string{"note": "b"}
		}), fixed, nil, nil, ""},
		{"another CIDR", aNetwork(fixed), request{cidr: "10.1.0.0/16", gateway: "10.1.0.9"}, nil, map[string]any{"cidr": "10.1.0.0/16"}, "cidr 10.1.0.0/16"},
		{"another gateway", aNetwork(fixed), request{cidr: "10.1.0.0/24", gateway: "None"}, nil, map[string]any{"gateway": "None"}, "gateway None"},
		{"another CIDR, and no gateway any more", aNetwork(fixed), request{cidr: "10.2.0.0/24"}, nil,
			map[string]any{"cidr": "10.2.0.0/24", "gateway": nil}, "cidr 10.2.0.0/24, gateway chosen by Neutron"},
		{"label changed by hand", aNetwork(fixed, func(n *samplecrdv1.Network) { n.Labels[samplecrdv1.LabelDeployment] = "x" }), fixed,
			map[string]any{"labels": map[string]any{samplecrdv1.LabelDeployment: "web"}}, map[string]any{}, "labels and annotations"},
		{"auto becomes explicit", aNetwork(auto), without,
			map[string]any{"annotations": map[string]any{samplecrdv1.AnnotationAllocatedCIDR: nil}}, map[string]any{}, "labels and annotations"},
		{"explicit becomes auto", aNetwork(without), auto,
			map[string]any{"annotations": map[string]any{samplecrdv1.AnnotationAllocatedCIDR: "10.1.0.0/24"}}, map[string]any{}, "labels and annotations"},
		{"in order, from a subnet pool", aNetwork(pooled), pooled, nil, nil, ""},
		{"explicit becomes a subnet pool", aNetwork(fixed), pooled, nil,
			map[string]any{"cidr": nil, "gateway": nil, "subnetPool": map[string]any{"name": "shared", "prefixLength": 24}},
			"gateway chosen by Neutron, cidr /24 from subnet pool shared"},
		{"a subnet pool becomes explicit", aNetwork(pooled), fixed, nil,
			map[string]any{"cidr": "10.1.0.0/24", "gateway": "10.1.0.9", "subnetPool": nil}, "cidr 10.1.0.0/24, gateway 10.1.0.9"},
		{"an edit replaced the allocated block by a subnet pool", aNetwork(auto, func(n *samplecrdv1.Network) {
			n.Spec.CIDR, n.Spec.SubnetPool = "", fromPool("shared", 24)
		}), auto, nil, map[string]any{"cidr": "10.1.0.0/24", "subnetPool": nil}, "cidr 10.1.0.0/24"},

		{"in order, with a template", aNetwork(follows), follows, nil, nil, ""},
		{"a field that is taken over was edited", edited(func(s *samplecrdv1.NetworkSpec) { s.DNSNameservers = nil }), follows, nil,
			map[string]any{"dnsNameservers": []any{"192.0.2.53", "192.0.2.54"}}, "dnsNameservers of Network shared"},
		{"a field that is taken over was added", aNetwork(from(aTemplate(func(n *samplecrdv1.Network) { n.Spec.MTU = nil }), "10.1.0.0/24", ""), func(n *samplecrdv1.Network) {
			n.Spec.MTU = new(int32(9000))
		}), from(aTemplate(func(n *samplecrdv1.Network) { n.Spec.MTU = nil }), "10.1.0.0/24", ""), nil, map[string]any{"mtu": nil}, "mtu of Network shared"},
		{"fields of its own were edited", edited(func(s *samplecrdv1.NetworkSpec) {
			s.DeletionPolicy, s.AllocationPools = samplecrdv1.DeletionRetain, []samplecrdv1.AllocationPool{{Start: "10.1.0.100", End: "10.1.0.200"}}
			s.AdditionalSubnets = []samplecrdv1.AdditionalSubnet{{Name: "v6", SubnetSpec: samplecrdv1.SubnetSpec{CIDR: "fd00:2::/64"}}}
		}), follows, nil, nil, ""},
		{"another router: nothing of the old one remains", aNetwork(follows), from(existing, "10.1.0.0/24", ""), nil,
			map[string]any{"router": map[string]any{"externalNetwork": nil, "existing": map[string]any{"id": "5a"}}}, "router of Network shared"},
		{"no tags is not the same as tags left alone", aNetwork(follows), from(aTemplate(func(n *samplecrdv1.Network) { n.Spec.Tags = []samplecrdv1.Tag{} }), "10.1.0.0/24", ""), nil,
			map[string]any{"tags": []any{}}, "tags of Network shared"},
		{"another IP family", aNetwork(follows), from(aTemplate(), "fd00:1::/64", ""), nil, map[string]any{
			"cidr": "fd00:1::/64", "dnsNameservers": []any{"2001:db8::53"}, "ipv6": map[string]any{"addressMode": "slaac"},
			"hostRoutes": []any{map[string]any{"destination": "2001:db8:1::/48", "nextHop": "2001:db8::1"}},
		}, "cidr fd00:1::/64, dnsNameservers, hostRoutes, ipv6 of Network shared"},
		{"its record was removed", aNetwork(follows, func(n *samplecrdv1.Network) { n.Annotations = nil }), follows,
			map[string]any{"annotations": map[string]any{samplecrdv1.AnnotationAppliedTemplate: "shared"}}, map[string]any{}, "labels and annotations"},
		{"no template any more", aNetwork(follows), without, unset, all,
			"dnsDomain, dnsNameservers, enableDHCP, hostRoutes, mtu, portSecurityEnabled, router, shared, sharedWith, tags removed, because there is no template any more"},
		{"there was no template", aNetwork(without, func(n *samplecrdv1.Network) {
			n.Spec = fullSpec()
			n.Spec.CIDR, n.Spec.SubnetPool, n.Spec.Gateway = "10.1.0.0/24", nil, ""
		}), without, nil, nil, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var want map[string]any
			if tt.metadata != nil || tt.spec != nil {
				want = map[string]any{"metadata": map[string]any{"uid": "uid-n", "resourceVersion": "7"}, "spec": tt.spec}
				for name, value := range tt.metadata {
					want["metadata"].(map[string]any)[name] = value
				}
			}
			before := tt.network.DeepCopy()
			got, err := patchFor(tt.network, aDeployment(""), tt.request)
			if diff := cmp.Diff(fmt.Sprint(want), fmt.Sprint(got)); err != nil || diff != "" {
				t.Errorf("(-want +got)\n%s%v", diff, err)
			}
			if got != nil && describeChanges(got, tt.request) != tt.description {
				t.Errorf("described as %q, want %q", describeChanges(got, tt.request), tt.description)
			}
			if diff := cmp.Diff(before, tt.network); diff != "" {
				t.Errorf("the Network in the cache was changed:\n%s", diff)
			}
		})
	}
}

func TestTemplateObstacle(t *testing.T) {
	bare := from(aTemplate(), "10.1.0.0/24", "")
	own := aNetwork(bare)
	other := aNetwork(bare, func(n *samplecrdv1.Network) { n.Spec.CloudCredentialsRef = nil })
	now := metav1.Now()
	tests := []struct {
		name     string
		network  *samplecrdv1.Network
		template *samplecrdv1.Network
		as       string
		says     string // "" for no obstacle
	}{
		{"a template", own, aTemplate(), "shared", ""},
		{"its own Network", own, own, "web", `Network "web" of annotation samplecrd.k8s.io/network-template cannot be the template of this Deployment: it is the Deployment's own`},
		{"no such Network", own, nil, "shared", "does not exist"},
		{"being deleted", own, aTemplate(func(n *samplecrdv1.Network) { n.DeletionTimestamp = &now }), "shared", "is being deleted"},
		{"a template with a template", own, aTemplate(func(n *samplecrdv1.Network) {
			n.Annotations = map[string]string{samplecrdv1.AnnotationAppliedTemplate: "first"}
		}), "shared", `takes over from Network "first" itself; name that one`},
		{"other credentials", other, aTemplate(), "shared", "has other credentials than Network web"},
		{"no name of an object", nil, nil, strings.Repeat("x", 100), strings.Repeat("x", 64) + `"… of annotation`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := templateObstacle(tt.network, aDeployment(""), request{cidr: "10.1.0.0/24", templateName: tt.as, template: tt.template})
			if (got == nil) != (tt.says == "") || got != nil && (got.reason != samplecrdv1.EventNetworkTemplateUnusable || !strings.Contains(got.message, tt.says)) {
				t.Errorf("got %+v, want %q", got, tt.says)
			}
		})
	}
}

// template sets the annotation of the Deployment of testKey. "-" removes it.
func (f *fixture) template(name string) {
	f.t.Helper()
	f.editDeployment(testKey.Name, func(d *appsv1.Deployment) {
		metav1.SetMetaDataAnnotation(&d.ObjectMeta, samplecrdv1.AnnotationNetworkTemplate, name)
		if name == "-" {
			delete(d.Annotations, samplecrdv1.AnnotationNetworkTemplate)
		}
	})
}

// share creates the template with these DNS servers, or changes it.
func (f *fixture) share(servers ...samplecrdv1.IPAddress) {
	f.t.Helper()
	n := f.find("shared")
	if n == nil {
		f.stray("shared", "10.9.0.0/24", func(n *samplecrdv1.Network) { n.Generation, n.Spec.DNSNameservers = 1, servers })
		return
	}
	n.Spec.DNSNameservers = servers
	n.Generation++
	f.api.Put(n)
}

func (f *fixture) expectServers(want ...samplecrdv1.IPAddress) {
	f.t.Helper()
	if diff := cmp.Diff(want, f.get(testKey.Name).Spec.DNSNameservers, cmpopts.EquateEmpty()); diff != "" {
		f.t.Errorf("DNS servers (-want +got):\n%s", diff)
	}
}

func TestTheNetworkFollowsItsTemplate(t *testing.T) {
	f := newFixture(t, "10.0.0.0/16", 24)
	f.share("192.0.2.53")
	f.deploy("web", "auto", "-")
	f.template("shared")
	f.mustSync()
	f.expectJournal("list networks", "get networks", "create networks")
	f.expectEvents(samplecrdv1.EventNetworkCreated)
	f.expectCIDR("web", "10.0.0.0/24")
	f.expectServers("192.0.2.53")
	f.mustSync()
	f.expectJournal()

	for _, step := range []struct {
		what string
		do   func()
		want []samplecrdv1.IPAddress
	}{
		{"an edit of the template", func() { f.share("192.0.2.54", "192.0.2.53") }, []samplecrdv1.IPAddress{"192.0.2.54", "192.0.2.53"}},
		{"an edit of the Network", func() { f.edit(func(n *samplecrdv1.Network) { n.Spec.DNSNameservers = nil }) }, []samplecrdv1.IPAddress{"192.0.2.54", "192.0.2.53"}},
		{"an edit of the record", func() {
			f.edit(func(n *samplecrdv1.Network) { delete(n.Annotations, samplecrdv1.AnnotationAppliedTemplate) })
		}, []samplecrdv1.IPAddress{"192.0.2.54", "192.0.2.53"}},
		{"the template sets nothing", func() { f.share() }, nil},
		{"the template sets it again", func() { f.share("192.0.2.55") }, []samplecrdv1.IPAddress{"192.0.2.55"}},
	} {
		step.do()
		f.mustSync()
		f.expectServers(step.want...)
		f.expectJournal("get deployments", "get networks", "patch networks")
		f.expectEvents(samplecrdv1.EventNetworkUpdated)
		f.mustSync()
		f.expectJournal()
	}

	f.template("-")
	f.mustSync()
	f.expectServers()
	f.expectJournal("get deployments", "patch networks")
	f.expectEvents(samplecrdv1.EventNetworkUpdated)
	if diff := cmp.Diff(map[string]string{samplecrdv1.AnnotationAllocatedCIDR: "10.0.0.0/24"}, f.get("web").Annotations); diff != "" {
		t.Errorf("annotations (-want +got):\n%s", diff)
	}
	// From now on the field belongs to the users.
	f.edit(func(n *samplecrdv1.Network) { n.Spec.DNSNameservers = []samplecrdv1.IPAddress{"192.0.2.99"} })
	f.mustSync()
	f.expectServers("192.0.2.99")
	f.expectJournal()
}

func TestATemplateThatCannotBeUsedIsReportedOnceAndChangesNothing(t *testing.T) {
	f := newFixture(t, "10.0.0.0/16", 24)
	f.deploy("web", "auto", "-")
	f.template("shared")
	for range 2 {
		f.mustSync()
	}
	f.expectEvents(samplecrdv1.EventNetworkTemplateUnusable)
	f.expectJournal()
	if n := f.find("web"); n != nil || f.controller.allocator.isReserved(testKey) {
		t.Errorf("created without the template, or reserved: %+v", n)
	}

	f.share("192.0.2.53")
	f.mustSync()
	f.expectServers("192.0.2.53")
	f.expectEvents(samplecrdv1.EventNetworkCreated)
	f.takeJournal()

	template := f.get("shared")
	template.Finalizers = []string{samplecrdv1.Finalizer}
	f.api.Delete(f.api.Put(template))
	f.mustSync()
	f.annotate("10.7.0.0/24", "-")
	f.template("shared")
	f.mustSync()
	f.api.Remove("default", "shared")
	f.mustSync()
	f.expectEvents(samplecrdv1.EventNetworkTemplateUnusable)
	f.template("web")
	f.mustSync()
	f.mustSync()
	f.expectEvents(samplecrdv1.EventNetworkTemplateUnusable)
	f.expectJournal()
	f.expectCIDR("web", "10.0.0.0/24")
	f.expectServers("192.0.2.53")

	f.template("-")
	f.mustSync()
	f.expectCIDR("web", "10.7.0.0/24")
	f.expectServers()
}

func TestCredentialsAreTakenOverWhenTheNetworkIsCreatedOnly(t *testing.T) {
	f := newFixture(t, "", 0)
	team := &samplecrdv1.CloudCredentialsReference{SecretName: "team-cloud", CloudName: "mycloud"}
	f.stray("shared", "10.9.0.0/24", func(n *samplecrdv1.Network) { n.Spec.CloudCredentialsRef, n.Spec.MTU = team, new(int32(1400)) })
	f.deploy("web", "10.1.0.0/24", "-")
	f.mustSync()
	f.template("shared")
	f.mustSync()
	f.mustSync()
	f.expectEvents(samplecrdv1.EventNetworkCreated, samplecrdv1.EventNetworkTemplateUnusable)
	f.expectSpec("10.1.0.0/24", "")

	f.api.Delete(f.get("web")) // by a user, as the event says
	f.mustSync()
	f.expectEvents(samplecrdv1.EventNetworkCreated)
	if n := f.get("web"); cmp.Diff(team, n.Spec.CloudCredentialsRef) != "" || n.Spec.MTU == nil {
		t.Errorf("got %+v", n.Spec)
	}
	f.template("-")
	f.mustSync()
	if n := f.get("web"); cmp.Diff(team, n.Spec.CloudCredentialsRef) != "" || n.Spec.MTU != nil {
		t.Errorf("after the template: got %+v", n.Spec)
	}
}

func TestAStaleTemplateIsNotTakenOver(t *testing.T) {
	tests := map[string]func(*fixture){
		"edited": func(f *fixture) { f.share("192.0.2.54") },
		"gone":   func(f *fixture) { f.api.Remove("default", "shared") },
		"being deleted": func(f *fixture) {
			n := f.get("shared")
			n.Finalizers = []string{samplecrdv1.Finalizer}
			f.api.Delete(n)
		},
	}
	for name, change := range tests {
		for _, existing := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, the Network exists: %v", name, existing), func(t *testing.T) {
				f := newFixture(t, "10.0.0.0/16", 24)
				f.share("192.0.2.53")
				f.deploy("web", "auto", "-")
				if existing {
					f.mustSync()
				}
				f.template("shared")
				f.refresh()
				change(f)
				f.takeJournal()
				if err := f.sync("web"); !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
					t.Errorf("got %v", err)
				}
				if journal := f.takeJournal(); slices.Contains(journal, "create networks") || slices.Contains(journal, "patch networks") {
					t.Errorf("there was a write: %v", journal)
				}
				if f.controller.allocator.isReserved(testKey) {
					t.Error("the block stays reserved")
				}
			})
		}
	}
}

func TestHandlersOfNetworksEnqueueTheDeploymentsThatTakeOver(t *testing.T) {
	f := newFixture(t, "", 0)
	for _, name := range []string{"web", "api", "other", "plain"} {
		f.deploy(name, "10.1.0.0/24", "-")
		f.editDeployment(name, func(d *appsv1.Deployment) { d.Annotations[samplecrdv1.AnnotationNetworkTemplate] = "shared" })
	}
	f.editDeployment("other", func(d *appsv1.Deployment) { d.Annotations[samplecrdv1.AnnotationNetworkTemplate] = "another" })
	f.editDeployment("plain", func(d *appsv1.Deployment) { delete(d.Annotations, samplecrdv1.AnnotationNetworkCIDR) })
	f.share("192.0.2.53")
	f.refresh()
	h := f.controller.networkHandlers()
	before := f.get("shared")

	h.AddFunc(before)
	f.expectQueued("api", "web")
	now := before.DeepCopy()
	now.Status.CIDR, now.ResourceVersion = "10.9.0.0/24", "99"
	h.UpdateFunc(before, now)
	f.expectQueued()
	now.Generation++
	h.UpdateFunc(before, now)
	f.expectQueued("api", "web")
	h.DeleteFunc(informers.DeletedNetwork{FinalStateUnknown: &cache.DeletedFinalStateUnknown{Key: "default/shared"}})
	f.expectQueued("api", "web")
	elsewhere := before.DeepCopy()
	elsewhere.Namespace = "elsewhere"
	h.AddFunc(elsewhere)
	f.expectQueued()
}
