#!/usr/bin/env bash
# Fetches Neutron, Keystone and MariaDB (40 MB), and what Neutron's agents and the machines on
# its networks run (3 MB), and unpacks them into hack/_output/neutron/root. Packages that are
# already installed on this machine are used from there. Exits with 3 if the packages are not
# available.
# shellcheck source-path=SCRIPTDIR disable=SC1091,SC2153
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
. "$HERE/../apt.sh"

unavailable() { say "the real Neutron is not available here: $*"; exit "$UNAVAILABLE"; }

# Other releases have other versions of Neutron, which start and answer differently.
on_debian_12
fetch --no-install-recommends --download-only install \
  neutron-server keystone mariadb-server-core mariadb-client-core python3-sqlalchemy-ext \
  redis-server dnsmasq-base dnsmasq-utils iptables ipset conntrack radvd iputils-arping iputils-ping busybox iproute2
