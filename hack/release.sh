#!/usr/bin/env bash
# Makes the artifacts of a release: binaries, images, install.yaml, SBOMs and checksums; and
# with a key, signatures and provenance.
#   hack/release.sh [-o FOLDER] [-image NAME] [-key FILE | -keyless] [VERSION]
#   hack/release.sh -verify FOLDER -key FILE
# -h lists the flags. It needs Go and Git, but not Docker.
set -o errexit -o nounset -o pipefail

HACK=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
command -v go >/dev/null || { echo "release.sh: Go is not installed: see https://go.dev/doc/install" >&2; exit 1; }
go -C "$HACK" build -trimpath -o _output/bin/release ./release
cd "$HACK/.."
exec "$HACK/_output/bin/release" "$@"
