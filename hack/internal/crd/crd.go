// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package crd validates objects as the API server does: with the schema and the CEL rules of a
// CustomResourceDefinition.
package crd

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/model"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/common"
	"sigs.k8s.io/yaml"

	"github.com/samplecrd/samplecrd-controller/hack/internal/stack"
)

// Schema is the schema of a CustomResourceDefinition's stored version.
type Schema struct {
	// OpenAPI validates all but the CEL rules, and lists that are sets or maps.
	OpenAPI    validation.SchemaValidator
	Structural *schema.Structural
	rules      *cel.Validator
}

// Ours returns the schema of a kind of this project, by the plural of its name.
func Ours(plural string) (*Schema, error) {
	root, err := stack.Root()
	if err != nil {
		return nil, err
	}
	return Read(filepath.Join(root, "artifacts", "crd", "samplecrd.k8s.io_"+plural+".yaml"))
}

// Read reads the file of a CustomResourceDefinition.
func Read(file string) (*Schema, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var crd apiextensionsv1.CustomResourceDefinition
	if err := yaml.UnmarshalStrict(text, &crd); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	at := slices.IndexFunc(crd.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool { return v.Storage })
	if at < 0 {
		return nil, fmt.Errorf("%s: no version is stored", file)
	}
	var props apiextensions.JSONSchemaProps
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(crd.Spec.Versions[at].Schema.OpenAPIV3Schema, &props, nil); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	s := &Schema{}
	if s.OpenAPI, _, err = validation.NewSchemaValidator(&props); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	if s.Structural, err = schema.NewStructural(&props); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	s.Compile()
	return s, nil
}

// Compile compiles the CEL rules again. It must be called after they were changed in Structural.
func (s *Schema) Compile() { s.rules = cel.NewValidator(s.Structural, true, celconfig.PerCallLimit) }

// Broken returns the errors of the CEL rules that an object breaks, and what their evaluation cost
// in the units of the API server. old is the object before an update; nil for a creation. Neither
// is validated against the rest of the schema.
func (s *Schema) Broken(ctx context.Context, object, old map[string]any) (errs field.ErrorList, cost int64) {
	var before any
	var options []cel.Option
	if old != nil {
		before = old
		options = append(options, cel.WithRatcheting(common.NewCorrelatedObject(object, old, &model.Structural{Structural: s.Structural})))
	}
	errs, left := s.rules.Validate(ctx, nil, s.Structural, object, before, celconfig.RuntimeCELCostBudget, options...)
	return errs, celconfig.RuntimeCELCostBudget - left
}
