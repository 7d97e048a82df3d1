#!/usr/bin/env bash
# Stops the Neutron that up.sh started, and nothing else.
#   -state DIR  its state folder (default hack/_output/neutron/state)
#   -purge      also removes the state folder
# shellcheck source-path=SCRIPTDIR disable=SC1091,SC2153
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

main() {
  local state=$OUTPUT/state purge=
  while [ $# -gt 0 ]; do
    case $1 in
      -state) state=$2; shift 2 ;;
      -purge) purge=1; shift ;;
      *) die "unknown option $1; the options are -state DIR and -purge" ;;
    esac
  done
  [ -d "$state" ] || exit 0
  use_state "$state"
  # The watcher itself may be the caller.
  [ "$(cat "$STATE/run/watch.pid" 2>/dev/null)" = "$PPID" ] || stop watch
  # On SIGTERM Neutron would wait until its clients close their connections. SIGKILL does no
  # harm to its database.
  stop neutron KILL &
  stop keystone KILL &
  stop agents KILL & # and the kernel ends all that is in their namespaces
  wait
  # A database that is removed needs no clean shutdown.
  stop mariadb ${purge:+KILL}
  rm -f "$STATE/run/watch.pid" "$STATE/run/parent"
  [ -z "$purge" ] || rm -rf "$STATE"
}

main "$@"
