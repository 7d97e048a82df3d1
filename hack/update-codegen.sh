#!/usr/bin/env bash
# Generates all generated code: deep copies and registration of the API types, the CRD, the
# clientset, listers, informers and apply configurations. The generators have the versions
# in hack/go.mod, and are built in hack/_output.
set -o errexit -o nounset -o pipefail

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
MODULE=github.com/samplecrd/samplecrd-controller
export GOBIN=${GOBIN:-$ROOT/hack/_output/bin}
BOILERPLATE=$ROOT/hack/boilerplate.go.txt
cd "$ROOT"

# The module's folder does not exist before the module is downloaded.
go -C hack mod download k8s.io/code-generator
# shellcheck source=/dev/null
source "$(go -C hack list -m -f '{{.Dir}}' k8s.io/code-generator)/kube_codegen.sh"

kube::codegen::gen_helpers --boilerplate "$BOILERPLATE" pkg/apis
kube::codegen::gen_register --boilerplate "$BOILERPLATE" pkg/apis

# The fake clientset and server-side apply need the schema of our types. It is printed from
# OpenAPI definitions, which are in hack's module because nothing else needs them.
# api-violations.list has apimachinery's known violations of the API rules; violations in
# our types are errors.
kube::codegen::gen_openapi --boilerplate "$BOILERPLATE" \
  --report-filename hack/openapi/api-violations.list \
  --output-dir hack/openapi --output-pkg "$MODULE/hack/openapi" pkg/apis
schema=$(mktemp)
trap 'rm -f "$schema"' EXIT
go -C hack run ./openapi/models-schema >"$schema"

kube::codegen::gen_client --boilerplate "$BOILERPLATE" \
  --with-watch --with-applyconfig --applyconfig-openapi-schema "$schema" \
  --output-dir pkg/generated --output-pkg "$MODULE/pkg/generated" pkg/apis

go -C hack build -o "$GOBIN/" sigs.k8s.io/controller-tools/cmd/controller-gen
"$GOBIN/controller-gen" crd paths=./pkg/apis/... output:crd:dir=artifacts/crd
