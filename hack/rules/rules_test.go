// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package rules_test compares the CEL rules of the Network's CustomResourceDefinition, which are
// written for speed, with plain ones, and measures what they cost.
package rules_test

import (
	"flag"
	"math/rand/v2"
	"regexp"
	"runtime/debug"
	"slices"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"sigs.k8s.io/yaml"

	"github.com/samplecrd/samplecrd-controller/hack/internal/crd"
)

const (
	fast = "../../artifacts/crd/samplecrd.k8s.io_networks.yaml"
	// plain has the rules as they were first: one for each mistake, without regard to their cost.
	plain = "testdata/networks.yaml"
)

func read(t testing.TB, file string) *crd.Schema {
	t.Helper()
	s, err := crd.Read(file)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func network(spec map[string]any) map[string]any {
	if spec == nil {
		return nil
	}
	return map[string]any{
		"apiVersion": "samplecrd.k8s.io/v1", "kind": "Network",
		"metadata": map[string]any{"name": "a", "namespace": "b"},
		"spec":     spec,
	}
}

// refusals returns the errors of an update, or of a creation if before is nil.
func refusals(t testing.TB, s *crd.Schema, spec, before map[string]any) (texts []string) {
	errs, _ := s.Broken(t.Context(), network(spec), network(before))
	for _, err := range errs {
		texts = append(texts, err.Error())
	}
	slices.Sort(texts)
	return texts
}

// Each spec is created, and updated without a change, as the controller does. A valid one is edited.
func TestTheRulesRefuseTheSameInTheSameWords(t *testing.T) {
	const parts, specs = 8, 250
	// Each access to a field of an object makes garbage, and little is kept. This takes a third of the time away.
	percent := debug.SetGCPercent(400)
	t.Cleanup(func() { debug.SetGCPercent(percent) })
	for part := range uint64(parts) {
		t.Run(strconv.FormatUint(part, 10), func(t *testing.T) {
			t.Parallel()
			fast, plain := read(t, fast), read(t, plain)
			compare := func(spec, before map[string]any) []string {
				got, want := refusals(t, fast, spec, before), refusals(t, plain, spec, before)
				if diff := cmp.Diff(want, got); diff != "" {
					text, _ := yaml.Marshal(map[string]any{"before": before, "spec": spec})
					t.Fatalf("the refusals differ (-plain +fast):\n%s\n%s", diff, text)
				}
				return got
			}
			g := generator{rand.New(rand.NewPCG(part, 0))}
			accepted, refused := 0, 0
			for range specs {
				spec := g.spec()
				compare(spec, nil)
				compare(spec, spec)
				before := g.spec()
				for len(refusals(t, fast, before, nil)) > 0 {
					before = g.spec()
				}
				compare(before, nil)
				if len(compare(g.edited(before), before)) > 0 {
					refused++
				} else {
					accepted++
				}
			}
			if accepted < specs/10 || refused < specs/10 {
				t.Errorf("%d edits were accepted and %d refused", accepted, refused)
			}
		})
	}
}

var index = regexp.MustCompile(`\[\d+\]`)

// Each of the plain rules is broken by some spec of the test above.
func TestTheSpecsBreakEachRule(t *testing.T) {
	plain := read(t, plain)
	missing := map[string]bool{}
	schemaOf(plain.Structural, "", func(path string, s *schema.Structural) {
		for i, rule := range s.XValidations {
			missing[path+rule.FieldPath+": "+rule.Message] = true
			s.XValidations[i].MessageExpression = ""
		}
	})
	plain.Compile()
	all := len(missing)
	g := generator{rand.New(rand.NewPCG(0, 0))}
	for range 10000 {
		before := g.spec()
		for _, of := range [][2]map[string]any{{before, nil}, {g.edited(before), before}} {
			errs, _ := plain.Broken(t.Context(), network(of[0]), network(of[1]))
			for _, err := range errs {
				delete(missing, "."+index.ReplaceAllString(err.Field, "")+": "+err.Detail)
			}
		}
		if len(missing) == 0 {
			break
		}
	}
	for rule := range missing {
		t.Error("no spec breaks", rule)
	}
	if all < 70 {
		t.Errorf("there are only %d rules", all)
	}
}

// schemaOf calls do with each part of a schema and its path, without the indexes of lists.
func schemaOf(s *schema.Structural, path string, do func(path string, s *schema.Structural)) {
	do(path, s)
	if s.Items != nil {
		schemaOf(s.Items, path, do)
	}
	for name, property := range s.Properties {
		schemaOf(&property, path+"."+name, do)
		s.Properties[name] = property
	}
}

var file = flag.String("crd", fast, "the `file` with the rules to measure")

// What the rules cost at a creation, and at an update that leaves the spec alone: the time and
// memory here, and the units by which the API server limits them. Each access to a field of an
// object costs the API server about 300 bytes for each field that the object can have.
func BenchmarkRules(b *testing.B) {
	for _, of := range []struct{ name, spec string }{
		{"small", `{cidr: 10.0.0.0/24, gateway: 10.0.0.1}`},
		{"large", `{cidr: 10.0.0.0/24, gateway: 10.0.0.1, dnsNameservers: [10.0.0.53, 192.0.2.53], allocationPools: [{start: 10.0.0.100, end: 10.0.0.200}], hostRoutes: [{destination: 10.99.0.0/16, nextHop: 10.0.0.254}], enableDHCP: true,
additionalSubnets: [{name: v6, cidr: "fd00:1::/64", ipv6: {addressMode: slaac, raMode: slaac}}, {name: more, cidr: 10.0.1.0/24, dnsNameservers: [10.0.0.53]}], router: {externalNetwork: {name: public}},
cloudCredentialsRef: {secretName: openstack, cloudName: mycloud}, tags: [blue, green, red], dnsDomain: example.org., mtu: 1450}`},
	} {
		var spec map[string]any
		if err := yaml.Unmarshal([]byte(of.spec), &spec); err != nil {
			b.Fatal(err)
		}
		for name, before := range map[string]map[string]any{"create": nil, "unchanged": spec} {
			b.Run(of.name+"/"+name, func(b *testing.B) {
				s := read(b, *file)
				b.ReportAllocs()
				for b.Loop() {
					errs, cost := s.Broken(b.Context(), network(spec), network(before))
					if len(errs) > 0 {
						b.Fatal(errs)
					}
					b.ReportMetric(float64(cost), "cost/op")
				}
			})
		}
	}
}
