#!/usr/bin/env bash
# Fetches containerd, runc and the CNI plugins (36 MB), and unpacks them into
# hack/_output/node/root. Exits with 3 if they cannot be had.
# shellcheck source-path=SCRIPTDIR disable=SC1091,SC2034
set -o errexit -o nounset -o pipefail

HACK=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
OUTPUT=$HACK/_output/node
ROOT=$OUTPUT/root
. "$HACK/apt.sh"

unavailable() { echo "${0##*/}: $*" >&2; exit 3; }

# Others have other versions, which have not been tried.
on_debian_12
# What they need besides, libc and libseccomp, every Debian has.
fetch download containerd runc containernetworking-plugins
