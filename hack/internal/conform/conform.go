// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package conform checks objects against the OpenAPI schemas of a Kubernetes API.
package conform

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/yannh/kubeconform/pkg/resource"
	"github.com/yannh/kubeconform/pkg/validator"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Checker runs kubeconform with schemas that it reads from OpenAPI documents: by default
// kubeconform downloads its schemas. It is not safe for concurrent use.
type Checker struct {
	// folder has a file for each kind.
	folder    string
	document  func(schema.GroupVersion) ([]byte, error)
	validator validator.Validator
}

// New returns a Checker that writes its files to an empty folder. document returns the OpenAPI v3
// document of an API group's version, as JSON.
func New(folder string, document func(schema.GroupVersion) ([]byte, error)) (*Checker, error) {
	v, err := validator.New([]string{folder + "/{{.ResourceKind}}.json"}, validator.Opts{Strict: true})
	return &Checker{folder: folder, document: document, validator: v}, err
}

// Check returns an error that says how the object violates the schema of its kind. A field that
// the schema does not have is a violation.
func (c *Checker) Check(object *unstructured.Unstructured) error {
	if err := c.writeSchema(object.GroupVersionKind()); err != nil {
		return err
	}
	text, err := json.Marshal(object)
	if err != nil {
		return err
	}
	if result := c.validator.ValidateResource(resource.Resource{Bytes: text}); result.Status != validator.Valid {
		return fmt.Errorf("%v %v", result.Err, result.ValidationErrors)
	}
	return nil
}

// writeSchema writes the schema of a kind, with all schemas that it refers to, unless the file
// exists.
func (c *Checker) writeSchema(kind schema.GroupVersionKind) error {
	file := filepath.Join(c.folder, strings.ToLower(kind.Kind)+".json")
	if _, err := os.Stat(file); err == nil {
		return nil
	}
	text, err := c.document(kind.GroupVersion())
	if err != nil {
		return err
	}
	var document struct {
		Components struct {
			Schemas map[string]map[string]any `json:"schemas"`
		} `json:"components"`
	}
	if err := json.Unmarshal(text, &document); err != nil {
		return err
	}
	ref := ""
	for name, s := range document.Components.Schemas {
		refuseUnknownFields(s)
		if kinds, _, _ := unstructured.NestedSlice(s, "x-kubernetes-group-version-kind"); len(kinds) == 1 && kinds[0].(map[string]any)["kind"] == kind.Kind {
			ref = "#/components/schemas/" + name
		}
	}
	if ref == "" {
		return fmt.Errorf("the document of %s has no schema of %s", kind.GroupVersion(), kind.Kind)
	}
	text, err = json.Marshal(map[string]any{"$ref": ref, "components": document.Components})
	if err != nil {
		return err
	}
	return os.WriteFile(file, text, 0o600)
}

// refuseUnknownFields makes a schema and the schemas in it strict.
func refuseUnknownFields(s map[string]any) {
	properties, _ := s["properties"].(map[string]any)
	if properties != nil && s["additionalProperties"] == nil && s["x-kubernetes-preserve-unknown-fields"] == nil {
		s["additionalProperties"] = false
	}
	for _, property := range properties {
		refuseUnknownFields(property.(map[string]any))
	}
	for _, key := range []string{"items", "additionalProperties"} {
		if of, ok := s[key].(map[string]any); ok {
			refuseUnknownFields(of)
		}
	}
}
