#!/usr/bin/env bash
# Measures the controller between a real control plane and a Neutron, and prints a table.
# It writes the figures as JSON and the curves as SVG to hack/_output/bench.
#   hack/bench.sh [-n 500] [-runs 5] [-latency 50ms] [-connections 32] [SCENARIO...]
# -h prints all flags and scenarios.
set -o errexit -o nounset -o pipefail

HACK=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
command -v go >/dev/null || { echo "bench.sh: Go is not installed: see https://go.dev/doc/install" >&2; exit 1; }
go -C "$HACK" build -trimpath -o _output/bin/bench ./bench
cd "$HACK/.."
exec "$HACK/_output/bin/bench" "$@"
