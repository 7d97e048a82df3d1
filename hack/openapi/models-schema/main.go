// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Command models-schema prints the OpenAPI v2 schema of the API types. applyconfiguration-gen
// reads from it which lists are maps, and by which key.
package main

import (
	"encoding/json"
	"log"
	"os"

	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/samplecrd/samplecrd-controller/hack/openapi"
)

func main() {
	definitions := openapi.GetOpenAPIDefinitions(func(name string) spec.Ref {
		return spec.MustCreateRef("#/definitions/" + name)
	})
	swagger := spec.Swagger{SwaggerProps: spec.SwaggerProps{
		Swagger:     "2.0",
		Info:        &spec.Info{InfoProps: spec.InfoProps{Title: "samplecrd.k8s.io", Version: "v1"}},
		Definitions: make(map[string]spec.Schema, len(definitions)),
	}}
	for name, definition := range definitions {
		swagger.Definitions[name] = definition.Schema
		// A type such as IntOrString has two schemas. The generator reads OpenAPI v2.
		if v2, ok := definition.Schema.Extensions[common.ExtensionV2Schema].(spec.Schema); ok {
			swagger.Definitions[name] = v2
		}
	}
	if err := json.NewEncoder(os.Stdout).Encode(swagger); err != nil {
		log.Fatalf("print the schema: %v", err)
	}
}
