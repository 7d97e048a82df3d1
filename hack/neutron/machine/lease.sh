#!/bin/sh
# The script of a machine's DHCP client, udhcpc: sets the address, the MTU and the routes of the
# lease, and prints the lease as JSON.
# shellcheck disable=SC2086,SC2154 # udhcpc sets the variables, which have lists of words
[ "$1" = bound ] || exit 0
list() {
  separator=
  for word; do printf '%s"%s"' "$separator" "$word"; separator=,; done
}
printf '{"address":"%s","mtu":%s,"routers":[%s],"dns":[%s],"routes":[' "$ip/$mask" "${mtu:-0}" "$(list $router)" "$(list $dns)"
# An address that stays is not removed: packets would be lost.
ip -4 -oneline address show dev "$interface" | grep -qF " $ip/$mask " || ip -4 address flush dev "$interface"
ip address replace "$ip/$mask" dev "$interface"
[ -z "$mtu" ] || ip link set "$interface" mtu "$mtu"
# A client that gets static routes ignores the routers: the default route is among the static ones.
set -- ${staticroutes:-${router:+0.0.0.0/0 ${router%% *}}}
separator=
while [ $# -gt 1 ]; do
  printf '%s{"destination":"%s","via":"%s"}' "$separator" "$1" "$2"
  separator=,
  via="via $2 onlink"
  [ "$2" != 0.0.0.0 ] || via=
  ip route replace "$1" $via dev "$interface"
  shift 2
done
printf ']}\n'
