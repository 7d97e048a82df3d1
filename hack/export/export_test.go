// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package export_test validates the manifests of the subcommand export as an API server does: with
// the schema and the CEL rules of the CustomResourceDefinition.
package export_test

import (
	"math/rand/v2"
	"testing"

	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"

	"github.com/samplecrd/samplecrd-controller/hack/internal/crd"
	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
	"github.com/samplecrd/samplecrd-controller/pkg/command/export"
	"github.com/samplecrd/samplecrd-controller/pkg/testing/existing"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func networks(t *testing.T) *crd.Schema {
	t.Helper()
	s, err := crd.Ours("networks")
	must(t, err)
	return s
}

func validate(t *testing.T, s *crd.Schema, object map[string]any) field.ErrorList {
	t.Helper()
	before, err := yaml.Marshal(object)
	must(t, err)
	if pruning.Prune(object, s.Structural, true); !equalYAML(t, before, object) {
		t.Errorf("the schema lacks fields of\n%s", before)
	}
	errs := validation.ValidateCustomResource(nil, object, s.OpenAPI)
	errs = append(errs, listtype.ValidateListSetsAndMaps(nil, s.Structural, object)...)
	broken, _ := s.Broken(t.Context(), object, nil)
	return append(errs, broken...)
}

func equalYAML(t *testing.T, before []byte, object map[string]any) bool {
	t.Helper()
	var old map[string]any
	must(t, yaml.Unmarshal(before, &old))
	return equality.Semantic.DeepEqual(old, object)
}

func TestEveryManifestIsValid(t *testing.T) {
	s := networks(t)
	valid := 0
	for seed := range uint64(400) {
		for _, m := range export.Manifests(existing.Networks(rand.New(rand.NewPCG(seed, 0)), 3), export.Options{
			Namespace: "team", Project: "project-1", Credentials: &samplecrdv1.CloudCredentialsReference{SecretName: "openstack", CloudName: "mycloud"},
		}) {
			text, err := m.YAML()
			must(t, err)
			if m.Network == nil {
				continue
			}
			var object map[string]any
			if err := yaml.UnmarshalStrict(text, &object); err != nil {
				t.Fatalf("seed %d: %v\n%s", seed, err, text)
			}
			if errs := validate(t, s, object); len(errs) > 0 {
				t.Fatalf("seed %d: %v\n%s", seed, errs.ToAggregate(), text)
			}
			valid++
		}
	}
	if valid < 1000 {
		t.Errorf("only %d networks were tried", valid)
	}
}

func TestTheValidatorFindsWhatTheAPIServerRefuses(t *testing.T) {
	s := networks(t)
	for _, tt := range []struct{ why, spec string }{
		{"a CEL rule", `{cidr: 10.0.0.0/24, gateway: 10.0.1.1}`},
		{"a CEL rule of the list", `{cidr: 10.0.0.0/24, dnsNameservers: [10.0.0.1, 10.0.0.1]}`},
		{"the schema", `{cidr: 10.0.0.0/24, mtu: 1}`},
		{"a set", `{cidr: 10.0.0.0/24, tags: [a, a]}`},
	} {
		object := map[string]any{}
		must(t, yaml.Unmarshal([]byte("{apiVersion: samplecrd.k8s.io/v1, kind: Network, metadata: {name: a, namespace: b}, spec: "+tt.spec+"}"), &object))
		if len(validate(t, s, object)) == 0 {
			t.Errorf("%s: %s is accepted", tt.why, tt.spec)
		}
	}
}
