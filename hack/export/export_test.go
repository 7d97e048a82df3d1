// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package export_test validates the manifests of the subcommand export as an API server does: with
// the schema and the CEL rules of the CustomResourceDefinition.
package export_test

import (
	"math/rand/v2"
	"os"
	"testing"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"sigs.k8s.io/yaml"

	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
	"github.com/samplecrd/samplecrd-controller/pkg/command/export"
	"github.com/samplecrd/samplecrd-controller/pkg/testing/existing"
)

// validator validates objects as the API server does.
type validator struct {
	openAPI    validation.SchemaValidator
	structural *schema.Structural
	rules      *cel.Validator
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func newValidator(t *testing.T) *validator {
	t.Helper()
	text, err := os.ReadFile("../../artifacts/crd/samplecrd.k8s.io_networks.yaml")
	must(t, err)
	var crd apiextensionsv1.CustomResourceDefinition
	must(t, yaml.Unmarshal(text, &crd))
	var props apiextensions.JSONSchemaProps
	must(t, apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(crd.Spec.Versions[0].Schema.OpenAPIV3Schema, &props, nil))
	v := &validator{}
	if v.structural, err = schema.NewStructural(&props); err != nil {
		t.Fatal(err)
	}
	if v.openAPI, _, err = validation.NewSchemaValidator(&props); err != nil {
		t.Fatal(err)
	}
	v.rules = cel.NewValidator(v.structural, true, celconfig.PerCallLimit)
	return v
}

func (v *validator) validate(t *testing.T, object map[string]any) field.ErrorList {
	t.Helper()
	before, err := yaml.Marshal(object)
	must(t, err)
	if pruning.Prune(object, v.structural, true); !equalYAML(t, before, object) {
		t.Errorf("the schema lacks fields of\n%s", before)
	}
	errs := validation.ValidateCustomResource(nil, object, v.openAPI)
	errs = append(errs, listtype.ValidateListSetsAndMaps(nil, v.structural, object)...)
	broken, _ := v.rules.Validate(t.Context(), nil, v.structural, object, nil, celconfig.RuntimeCELCostBudget)
	return append(errs, broken...)
}

func equalYAML(t *testing.T, before []byte, object map[string]any) bool {
	t.Helper()
	var old map[string]any
	must(t, yaml.Unmarshal(before, &old))
	return equality.Semantic.DeepEqual(old, object)
}

func TestEveryManifestIsValid(t *testing.T) {
	v := newValidator(t)
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
			if errs := v.validate(t, object); len(errs) > 0 {
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
	v := newValidator(t)
	for _, tt := range []struct{ why, spec string }{
		{"a CEL rule", `{cidr: 10.0.0.0/24, gateway: 10.0.1.1}`},
		{"a CEL rule of the list", `{cidr: 10.0.0.0/24, dnsNameservers: [10.0.0.1, 10.0.0.1]}`},
		{"the schema", `{cidr: 10.0.0.0/24, mtu: 1}`},
		{"a set", `{cidr: 10.0.0.0/24, tags: [a, a]}`},
	} {
		object := map[string]any{}
		must(t, yaml.Unmarshal([]byte("{apiVersion: samplecrd.k8s.io/v1, kind: Network, metadata: {name: a, namespace: b}, spec: "+tt.spec+"}"), &object))
		if len(v.validate(t, object)) == 0 {
			t.Errorf("%s: %s is accepted", tt.why, tt.spec)
		}
	}
}
