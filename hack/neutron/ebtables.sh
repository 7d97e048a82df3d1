#!/bin/sh
# ebtables for the bridge agent. That of Debian 12 fails to delete a rule with --among-src, and the
# agent, which deletes one when a port changes, would try again for ever, and do nothing else. Such
# a rule is the first one of its chain.
all=" $* "
case $all in
*" -D "*" --among-src "*)
  chain=${all#* -D }
  exec xtables-nft-multi ebtables -t nat -D "${chain%% *}" 1
  ;;
esac
exec xtables-nft-multi ebtables "$@"
