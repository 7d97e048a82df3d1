#!/bin/sh
# The script of a machine's DHCP client, udhcpc: sets the address, the routes and the MTU of the
# lease, and prints the lease.
[ "$1" = bound ] || exit 0
# A lease that is renewed interrupts nothing.
ip -4 address show dev "$interface" | grep -qF " $ip/$mask " ||
  { ip -4 address flush dev "$interface" && ip address add "$ip/$mask" dev "$interface"; }
[ -z "$mtu" ] || ip link set "$interface" mtu "$mtu"
printf '%s\n' "address=$ip/$mask" "routers=$router" "dns=$dns" "mtu=$mtu" "routes=$staticroutes"
# A client that gets static routes ignores the routers: the default route is among the static ones.
# shellcheck disable=SC2086 # pairs of a destination and a router
set -- ${staticroutes:-${router:+0.0.0.0/0 ${router%% *}}}
while [ $# -gt 1 ]; do
  via="via $2 onlink"
  [ "$2" != 0.0.0.0 ] || via=
  # shellcheck disable=SC2086 # several words
  ip route replace "$1" $via dev "$interface"
  shift 2
done
