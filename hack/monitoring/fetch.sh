#!/usr/bin/env bash
# Fetches Prometheus (20 MB), unpacks it into hack/_output/prometheus/root, and prints the
# folder of its executables. Exits with 3 if it is not available.
# shellcheck source-path=SCRIPTDIR disable=SC1091,SC2034
set -o errexit -o nounset -o pipefail

HACK=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
OUTPUT=$HACK/_output/prometheus
ROOT=$OUTPUT/root
. "$HACK/apt.sh"

unavailable() { echo "${0##*/}: Prometheus is not available here: $*" >&2; exit 3; }

# Only this package: its dependencies are for its web pages.
fetch download prometheus
"$ROOT/usr/bin/promtool" --version >>"$OUTPUT/fetch.log" 2>&1 || {
  rm "$ROOT/.complete"
  unavailable "its executables do not run here"
}
echo "$ROOT/usr/bin"
