#!/usr/bin/env bash
# Starts a Kubernetes control plane, a Neutron and the controller, and creates a Network
# that becomes a Neutron network. -once runs the whole walkthrough and stops; -h lists the
# flags.
set -o errexit -o nounset -o pipefail

HACK=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
command -v go >/dev/null || { echo "local-up.sh: Go is not installed: see https://go.dev/doc/install" >&2; exit 1; }
[ -x "$HACK/_output/bin/local-up" ] || echo "==> fetching and building local-up and its dependencies; the first time this takes about a minute" >&2
go -C "$HACK" build -o _output/bin/local-up ./localup
cd "$HACK/.."
exec "$HACK/_output/bin/local-up" "$@"
