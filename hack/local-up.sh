#!/usr/bin/env bash
# Starts a Kubernetes control plane, a Neutron and the controller, and applies the example,
# which becomes a network in Neutron. -h shows the flags; -once runs the whole walkthrough, and
# -neutron=real -traffic starts machines on networks of Neutron.
set -o errexit -o nounset -o pipefail

HACK=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
command -v go >/dev/null || { echo "local-up.sh: Go is not installed: see https://go.dev/doc/install" >&2; exit 1; }
[ -x "$HACK/_output/bin/local-up" ] || echo "==> downloading and building local-up itself; the first time this takes a minute" >&2
go -C "$HACK" build -trimpath -o _output/bin/local-up ./localup
cd "$HACK/.."
exec "$HACK/_output/bin/local-up" "$@"
