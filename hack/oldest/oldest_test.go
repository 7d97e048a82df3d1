// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package oldest_test compiles all CEL expressions of artifacts with the functions that the oldest
// supported Kubernetes has.
package oldest_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	celgo "github.com/google/cel-go/cel"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/model"
	"k8s.io/apimachinery/pkg/util/version"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/environment"

	"github.com/samplecrd/samplecrd-controller/hack/internal/crd"
)

// A new expression may use only what the version before the API server's has too, so that the
// cluster can go back to that version. So the oldest Kubernetes, 1.31, allows what 1.30 has.
var (
	allowedByTheOldest = version.MajorMinor(1, 30)
	allowedBefore      = version.MajorMinor(1, 29)
)

func TestTheOldestKubernetesCompilesTheRulesOfTheCRDs(t *testing.T) {
	n, errs := compileCRDs(t, allowedByTheOldest)
	if n < 30 {
		t.Errorf("the CRDs have only %d rules", n)
	}
	for _, err := range errs {
		t.Error(err)
	}
}

func TestTheOldestKubernetesCompilesThePolicies(t *testing.T) {
	n, errs := compilePolicies(t, allowedByTheOldest)
	if n < 30 {
		t.Errorf("the policies have only %d expressions", n)
	}
	for _, err := range errs {
		t.Error(err)
	}
}

// If this fails, an older Kubernetes may do, and pkg/README.md names the wrong one.
func TestKubernetesBeforeTheOldestDoesNotCompileThem(t *testing.T) {
	for what, compile := range map[string]func(*testing.T, *version.Version) (int, []error){"CRDs": compileCRDs, "policies": compilePolicies} {
		_, errs := compile(t, allowedBefore)
		if err := errors.Join(errs...); err == nil || !strings.Contains(err.Error(), "undeclared reference to 'cidr'") {
			t.Errorf("%s: want an error for cidr, got %v", what, err)
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// compileCRDs compiles the rules of both CRDs, and returns their number.
func compileCRDs(t *testing.T, allowed *version.Version) (n int, errs []error) {
	t.Helper()
	for _, name := range []string{"clusterclouds", "networks"} {
		more, moreErrs := compileCRD(t, name, allowed)
		n, errs = n+more, append(errs, moreErrs...)
	}
	return n, errs
}

func compileCRD(t *testing.T, name string, allowed *version.Version) (n int, errs []error) {
	t.Helper()
	crd, err := crd.Ours(name)
	must(t, err)
	isRoot := true
	visitor := schema.Visitor{Structural: func(s *schema.Structural) bool {
		results, err := cel.Compile(s, model.SchemaDeclType(s, isRoot), celconfig.PerCallLimit, environment.MustBaseEnvSet(allowed), cel.NewExpressionsEnvLoader())
		isRoot = false
		errs = append(errs, err)
		for i, result := range results {
			n++
			if result.Error != nil {
				errs = append(errs, fmt.Errorf("%s: %w", s.XValidations[i].Rule, result.Error))
			}
			if result.MessageExpressionError != nil {
				errs = append(errs, fmt.Errorf("%s: %w", s.XValidations[i].MessageExpression, result.MessageExpressionError))
			}
		}
		return false
	}}
	visitor.Visit(crd.Structural)
	return n, slices.DeleteFunc(errs, func(err error) bool { return err == nil })
}

// expression is a CEL expression of a policy.
type expression struct {
	name, text string
	kind       *celgo.Type
}

func (e expression) GetName() string            { return e.name }
func (e expression) GetExpression() string      { return e.text }
func (e expression) ReturnTypes() []*celgo.Type { return []*celgo.Type{e.kind} }

// compilePolicies compiles the expressions of the policies, and returns their number.
func compilePolicies(t *testing.T, allowed *version.Version) (n int, errs []error) {
	t.Helper()
	for _, policy := range policies(t) {
		compiler, err := plugincel.NewCompositedCompiler(environment.MustBaseEnvSet(allowed))
		must(t, err)
		hasParams := plugincel.OptionalVariableDeclarations{HasParams: policy.Spec.ParamKind != nil}
		check := func(result plugincel.CompilationResult) {
			n++
			if result.Error != nil {
				errs = append(errs, fmt.Errorf("%s: %s: %w", policy.Name, result.ExpressionAccessor.GetExpression(), result.Error))
			}
		}
		for _, v := range policy.Spec.Variables {
			check(compiler.CompileAndStoreVariable(expression{v.Name, v.Expression, celgo.AnyType}, hasParams, environment.NewExpressions))
		}
		var all []expression
		for _, c := range policy.Spec.MatchConditions {
			all = append(all, expression{c.Name, c.Expression, celgo.BoolType})
		}
		for _, v := range policy.Spec.Validations {
			all = append(all, expression{"", v.Expression, celgo.BoolType})
			if v.MessageExpression != "" {
				all = append(all, expression{"", v.MessageExpression, celgo.StringType})
			}
		}
		for _, e := range all {
			check(compiler.CompileCELExpression(e, hasParams, environment.NewExpressions))
		}
	}
	return n, errs
}

// policies returns the ValidatingAdmissionPolicies of artifacts/deploy/admission.
func policies(t *testing.T) (found []*admissionregistrationv1.ValidatingAdmissionPolicy) {
	t.Helper()
	files, err := filepath.Glob("../../artifacts/deploy/admission/*-policy.yaml")
	must(t, err)
	for _, file := range files {
		text, err := os.ReadFile(file)
		must(t, err)
		decoder := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096)
		for {
			policy := &admissionregistrationv1.ValidatingAdmissionPolicy{}
			if err := decoder.Decode(policy); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			if policy.Kind == "ValidatingAdmissionPolicy" {
				found = append(found, policy)
			}
		}
	}
	if len(found) != 4 {
		t.Fatalf("want four policies, got %d", len(found))
	}
	return found
}

// What networks-policy.yaml refuses for a mistake in its parameters, rules-policy.yaml refuses too.
func TestBothPoliciesFindTheSameMistakes(t *testing.T) {
	mistakes := map[string][]string{}
	for _, policy := range policies(t) {
		for i, v := range policy.Spec.Variables {
			if i == 0 { // the ConfigMap, which each of them finds in another place
				continue
			}
			mistakes[policy.Name] = append(mistakes[policy.Name], v.Name+": "+v.Expression)
			if v.Name == "mistakes" {
				break
			}
		}
	}
	if got, want := mistakes["samplecrd-networks-rules"], mistakes["samplecrd-networks"]; !slices.Equal(got, want) {
		t.Errorf("the policies differ:\n%q\n%q", got, want)
	}
}
