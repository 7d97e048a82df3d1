#!/usr/bin/env bash
# Fetches containerd, runc and the CNI plugins (36 MB), and unpacks them into
# hack/_output/node/root. Exits with 3 if they are not available.
# shellcheck source-path=SCRIPTDIR disable=SC1091,SC2034
set -o errexit -o nounset -o pipefail

HACK=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
OUTPUT=$HACK/_output/node
ROOT=$OUTPUT/root
. "$HACK/apt.sh"

unavailable() { echo "${0##*/}: $*" >&2; exit 3; }

# Other releases have other versions, which are not tested.
on_debian_12
# Their other dependencies, libc and libseccomp, are part of every Debian.
fetch download containerd runc containernetworking-plugins
