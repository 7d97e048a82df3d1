#!/usr/bin/env bash
# Fails if hack/update-codegen.sh would change a file, and prints the difference. It
# generates in a copy, so that the checkout does not change.
set -o errexit -o nounset -o pipefail

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
COPY=$ROOT/hack/_output/verify-codegen
GENERATED=(pkg/apis pkg/generated hack/openapi artifacts/crd artifacts/helm/samplecrd-controller/files)
export GOBIN=$ROOT/hack/_output/bin

rm -rf "$COPY"
mkdir -p "$COPY"
trap 'rm -rf "$COPY"' EXIT
tar -C "$ROOT" --exclude=./.git --exclude=./hack/_output --exclude=./samplecrd-controller -cf - . | tar -C "$COPY" -xf -
# Delete the generated files first: otherwise a file that is no longer generated stays.
rm -rf "$COPY/pkg/generated" "$COPY"/artifacts/crd/*.yaml "$COPY/artifacts/helm/samplecrd-controller/files"
find "$COPY/pkg/apis" "$COPY/hack/openapi" -name 'zz_generated.*' -delete
"$COPY/hack/update-codegen.sh" >"$COPY/log" 2>&1 || { cat "$COPY/log" >&2; exit 1; }

for path in "${GENERATED[@]}"; do
  if ! diff -Naupr "$ROOT/$path" "$COPY/$path"; then
    echo "$path is out of date: run hack/update-codegen.sh" >&2
    exit 1
  fi
done
