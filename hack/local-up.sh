#!/usr/bin/env bash
# The main job in one command: a Kubernetes control plane, a Neutron, the controller,
# and a Network that becomes a network. -h says more; -once does the whole walkthrough.
set -o errexit -o nounset -o pipefail

HACK=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
command -v go >/dev/null || { echo "local-up.sh: Go is not installed: see https://go.dev/doc/install" >&2; exit 1; }
[ -x "$HACK/_output/bin/local-up" ] || echo "==> fetching and building what local-up itself needs; the first time this takes a minute" >&2
go -C "$HACK" build -o _output/bin/local-up ./localup
cd "$HACK/.."
exec "$HACK/_output/bin/local-up" "$@"
