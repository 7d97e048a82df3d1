#!/bin/sh
# The ebtables of Neutron's bridge agent. Whenever a port or its network changes, the agent deletes the
# rule that lets the port's MAC address through, and adds it again. Debian 12's ebtables (1.8.9) cannot
# delete a rule with --among-src, so the agent would try again for ever, and connect no port meanwhile.
# Here the rule stays. It is the same one, as long as the port's MAC address does not change.
case "$*" in *" -D "*" --among-src "*) exit 0 ;; esac
exec xtables-nft-multi ebtables "$@"
