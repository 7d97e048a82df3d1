#!/usr/bin/env bash
# Fetches Neutron, Keystone and MariaDB (40 MB), and unpacks them into hack/_output/neutron/root.
# What is installed on this machine already is used from there. Exits with 3 if they cannot be had.
# shellcheck source-path=SCRIPTDIR disable=SC1091,SC2153
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
. "$HERE/../apt.sh"

unavailable() { say "the real Neutron cannot be had here: $*"; exit "$UNAVAILABLE"; }

# Other releases have another Neutron, which starts and answers differently.
on_debian_12
fetch --no-install-recommends --download-only install \
  neutron-server keystone mariadb-server-core mariadb-client-core python3-sqlalchemy-ext
