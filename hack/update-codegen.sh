#!/usr/bin/env bash
# Generates the deep copies and the registration of the API types, the clientset, the
# listers, the informers, the apply configurations and the CRDs from pkg/apis, and copies files
# into the Helm chart.
# The root go.mod has the version of k8s.io/code-generator, hack/go.mod that of
# controller-gen. The generators are built in hack/_output.
set -o errexit -o nounset -o pipefail

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
MODULE=github.com/samplecrd/samplecrd-controller
# With -trimpath, what was compiled for the control plane is not compiled again.
GOFLAGS="$(go env GOFLAGS) -trimpath"
export GOFLAGS
export GOBIN=${GOBIN:-$ROOT/hack/_output/bin}
BOILERPLATE=$ROOT/hack/boilerplate.go.txt
cd "$ROOT"

# go list prints no folder for a module that is not downloaded yet.
go mod download k8s.io/code-generator
# shellcheck source=/dev/null
source "$(go list -m -f '{{.Dir}}' k8s.io/code-generator)/kube_codegen.sh"

kube::codegen::gen_helpers --boilerplate "$BOILERPLATE" pkg/apis
kube::codegen::gen_register --boilerplate "$BOILERPLATE" pkg/apis

# The fake clientset and server-side apply need the schema of our types. The OpenAPI
# definitions behind it are in hack's module, because the controller does not need them.
# api-violations.list lists the API rule violations of apimachinery, and one of ours: the rule
# wants Ipv6 as the Go name of ipv6.
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

# controller-gen keeps the line breaks of the Go comments, and kubectl explain shows them within
# sentences. Join the lines of each paragraph; an empty line, an item of a list and an indented
# line stay lines of their own.
for CRD in artifacts/crd/*_*.yaml; do
  awk '
    function flush() { if (text != "") print text; text = "" }
    { match($0, /^ */); indent = RLENGTH }
    inside && NF && indent < within { flush(); inside = 0 }
    !inside { print; if (/^ *description: \|-$/) { inside = 1; within = indent + 2 } next }
    !NF { flush(); print; next }
    text == "" || indent > within || substr($0, indent + 1) ~ /^([-*]|[0-9]+[.)]) / { flush(); text = $0; next }
    { text = text " " substr($0, indent + 1) }
    END { flush() }
  ' "$CRD" >"$CRD.joined"
  mv "$CRD.joined" "$CRD"
done

# Helm reads no files outside the folder of a chart.
FILES=artifacts/helm/samplecrd-controller/files
mkdir -p "$FILES"
cp artifacts/crd/*_*.yaml artifacts/deploy/admission/deletion-policy.yaml artifacts/monitoring/alerts.yaml artifacts/monitoring/dashboard.json "$FILES/"
