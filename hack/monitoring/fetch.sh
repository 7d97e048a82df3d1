#!/usr/bin/env bash
# Fetches Prometheus (20 MB), unpacks it into hack/_output/prometheus/root, and prints the folder
# of its executables. Exits with 3 if it cannot be had.
# shellcheck source-path=SCRIPTDIR disable=SC1091,SC2034
set -o errexit -o nounset -o pipefail

HACK=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
OUTPUT=$HACK/_output/prometheus
ROOT=$OUTPUT/root
. "$HACK/apt.sh"

unavailable() { echo "${0##*/}: Prometheus cannot be had here: $*" >&2; exit 3; }

# The package alone: what it depends on is for its web pages.
fetch download prometheus
"$ROOT/usr/bin/promtool" --version >>"$OUTPUT/fetch.log" 2>&1 || {
  rm "$ROOT/.complete"
  unavailable "its executables do not run here"
}
echo "$ROOT/usr/bin"
