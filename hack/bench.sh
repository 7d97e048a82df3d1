#!/usr/bin/env bash
# Measures the controller between a real control plane and a Neutron, and prints a table.
# Figures as JSON and curves as SVG are written to hack/_output/bench.
#   hack/bench.sh [-n 500] [-runs 5] [-latency 50ms] [-connections 32] [SCENARIO...]
# -h lists the flags and the scenarios.
set -o errexit -o nounset -o pipefail

HACK=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
command -v go >/dev/null || { echo "bench.sh: Go is not installed: see https://go.dev/doc/install" >&2; exit 1; }
go -C "$HACK" build -o _output/bin/bench ./bench
cd "$HACK/.."
exec "$HACK/_output/bin/bench" "$@"
