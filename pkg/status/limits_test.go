// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
	"github.com/samplecrd/samplecrd-controller/pkg/neutron"
)

// monster is more of each than Neutron has, for an import of a network with thousands of subnets: the declared ones
// differ in long lists, and another one is attached to the router in the status.
func monster(observe bool) neutron.View {
	var routes []string
	for i := range 20 {
		routes = append(routes, fmt.Sprintf("2001:db8:ffff:%04x::/64 via 2001:db8:eeee:eeee:eeee:eeee:eeee:%04x", i, i))
	}
	identity := neutron.Identity{
		Owner: neutron.Owner{Cluster: "c", UID: "u"}, Import: "n", Imported: true, ReadOnly: observe,
		RouterRecorded: true, RouterID: "r", PortIDs: map[string]string{"00004998-0000-0000-0000-000000000000": "p"},
	}
	var desired neutron.Desired
	observed := &neutron.Observed{Network: neutron.Network{ID: "n", Name: strings.Repeat("é", 255)}, RoutersKnown: true}
	observed.Tags = neutron.NewTags(identity.Owner.ImportTag())
	for i := range 5000 {
		cidr := netip.MustParsePrefix(fmt.Sprintf("2001:db8:%x::/64", i))
		s := neutron.Subnet{ID: fmt.Sprintf("%08d-0000-0000-0000-000000000000", i), CIDR: cidr, Gateway: cidr.Addr().Next(),
			Routes: neutron.Routes(strings.Join(routes[1:], ", ")), Pools: neutron.Pools(strings.Repeat("2001:db8::1-2001:db8::2, ", 60) + "2001:db8::1-2001:db8::2")}
		if i%500 == 499 { // the last is among them
			desired.Subnets = append(desired.Subnets, neutron.DesiredSubnet{Label: fmt.Sprint("s", i), CIDR: cidr, Routes: neutron.Routes(strings.Join(routes, ", ")), Pools: "2001:db8::5-2001:db8::6"})
		}
		observed.Subnets = append(observed.Subnets, s)
	}
	last := observed.Subnets[4998]
	observed.Interfaces = []neutron.Interface{{PortID: "p", RouterID: "r", SubnetID: last.ID, Address: last.Gateway}}
	router := neutron.Router{ID: "r", Description: identity.Owner.Mark()}
	router.Gateway.IPs = neutron.ExternalIPs(strings.Repeat("198.51.100.1, ", 4999) + "198.51.100.1")
	observed.Routers = []neutron.Router{router}
	return neutron.View{Identity: identity, Desired: desired, Observed: observed}
}

// A status that the API server refuses would hold up all that waits for it, and tell nothing.
func TestAStatusCanBeWrittenWhateverNeutronHas(t *testing.T) {
	for _, test := range []struct {
		name    string
		observe bool
		change  func(*Outcome)
	}{
		{"observed", true, func(*Outcome) {}},
		{"managed", false, func(*Outcome) {}},
		{"an error that is longer than allowed", false, func(o *Outcome) {
			o.Err = &neutron.Error{Op: "spec.cidr", Reason: neutron.Invalid, Message: strings.Repeat("é", 100_000)}
		}},
		{"strangers' subnets and interfaces", false, func(o *Outcome) {
			o.Unmanaged, o.UnmanagedInterfaces = make([]neutron.Subnet, 5000), make([]neutron.Interface, 5000)
			for i := range o.UnmanagedInterfaces {
				o.UnmanagedInterfaces[i].PortID = fmt.Sprint(i)
			}
		}},
		{"an import that differs", false, func(o *Outcome) {
			v := monster(false)
			o.TakenOver, o.Differences, o.Steps = v.Current(), v.Differences(), []neutron.Step{neutron.ImportNetwork{}}
		}},
		{"many steps", false, func(o *Outcome) {
			o.Steps = slices.Repeat([]neutron.Step{neutron.SetTags{Tags: neutron.NewTags(strings.Repeat("é", 255))}}, 100)
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			view := monster(test.observe)
			o := Outcome{Observation: Observing(view)}
			test.change(&o)
			network := newNetwork()
			network.Annotations = map[string]string{samplecrdv1.AnnotationReconcileRequestedAt: strings.Repeat("x", 250<<10)}
			next := Compute(network, o)
			expectValid(t, next)
			if len(o.Unmanaged) > 0 && !strings.Contains(Ready(&next).Message, " and 4995 more") {
				t.Errorf("not only the first subnets are named: %s", Ready(&next).Message)
			}
			for i, s := range view.Subnets {
				if next.Subnets[i].Name != s.Label {
					t.Errorf("the subnet %d is %+v, want %s", i, next.Subnets[i], s.Label)
				}
			}
			if !slices.ContainsFunc(next.Subnets, func(s samplecrdv1.SubnetStatus) bool { return s.RouterPortID == "p" }) {
				t.Error("the subnet with an interface is missing: nothing else says that the interface is the Network's")
			}
			if event := EventFor(network, o, &next); event != nil && len(event.Message) > 1024 || event != nil && !utf8.ValidString(event.Message) {
				t.Errorf("the event has %d bytes: %q", len(event.Message), event.Message)
			}
			network.Status = next
			if again := Compute(network, o); !Equal(&next, &again) {
				t.Error("the status changes without a reason")
			}
		})
	}
}

func TestAMessageSaysHowMuchMoreThereIs(t *testing.T) {
	view := monster(true)
	message := Ready(new(Compute(newNetwork(), Outcome{Observation: Observing(view)}))).Message
	differences := view.Differences()
	for _, want := range []string{"host routes of subnet 2001:db8:1f3::/64", fmt.Sprintf(" … and %d more", len(differences)-strings.Count(message, "the spec has")), "status.subnets has 200 of 5000 subnets"} {
		if !strings.Contains(message, want) {
			t.Errorf("%q is not in\n%s", want, message)
		}
	}
}

func TestTextsAreCutBetweenCharacters(t *testing.T) {
	for _, test := range []struct {
		name  string
		texts []string
		limit int
		want  string
	}{
		{"all", []string{"a", "b"}, 4, "a; b"},
		{"the last one has no room", []string{"aaaa", "bbbb", strings.Repeat("c", 40)}, 30, "aaaa; bbbb; … and 1 more"},
		{"the first one has no room", []string{strings.Repeat("é", 40), "b"}, 31, "ééééé …; … and 1 more"},
		{"the first one has no room, and the others would", []string{strings.Repeat("é", 40), "", ""}, 32, "éééééé …; … and 2 more"},
		{"the first one has no room, and the last would", []string{strings.Repeat("😀", 40), ""}, 34, "😀😀😀 …; … and 1 more"},
		{"one that has no room", []string{strings.Repeat("é", 40)}, 15, "ééééé …"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := joined(test.texts, "; ", test.limit)
			if got != test.want || len(got) > test.limit {
				t.Errorf("got %q, of %d bytes, want %q", got, len(got), test.want)
			}
		})
	}
}

// expectValid checks the limits in the schema of the CustomResourceDefinition, and that the status has room in a
// request to etcd.
func expectValid(t *testing.T, status samplecrdv1.NetworkStatus) {
	t.Helper()
	text, err := os.ReadFile("../../artifacts/crd/samplecrd.k8s.io_networks.yaml")
	must(t, err)
	var crd map[string]any
	must(t, yaml.Unmarshal(text, &crd))
	versions, _, _ := unstructured.NestedSlice(crd, "spec", "versions")
	schema, found, err := unstructured.NestedMap(versions[0].(map[string]any), "schema", "openAPIV3Schema", "properties", "status")
	if err != nil || !found {
		t.Fatal("there is no schema of the status:", err)
	}
	raw, err := json.Marshal(status)
	must(t, err)
	if len(raw) > 512<<10 {
		t.Errorf("the status has %d bytes", len(raw))
	}
	var value any
	must(t, json.Unmarshal(raw, &value))
	limits := 0
	checkLimits(t, "status", schema, value, &limits)
	if limits == 0 {
		t.Error("the schema has no limits")
	}
}

// checkLimits compares a value with the limits in its schema, and counts them.
func checkLimits(t *testing.T, path string, schema map[string]any, value any, limits *int) {
	t.Helper()
	exceeds := func(name string, length int) {
		limit, has := schema[name].(float64)
		if has {
			*limits++
		}
		if has && length > int(limit) {
			t.Errorf("%s: %d is more than its %s, %v", path, length, name, limit)
		}
	}
	switch v := value.(type) {
	case string:
		exceeds("maxLength", utf8.RuneCountInString(v))
	case []any:
		exceeds("maxItems", len(v))
		for _, item := range v {
			checkLimits(t, path+"[]", schema["items"].(map[string]any), item, limits)
		}
	case map[string]any:
		properties, _ := schema["properties"].(map[string]any)
		for name, property := range v {
			checkLimits(t, path+"."+name, properties[name].(map[string]any), property, limits)
		}
	}
}
