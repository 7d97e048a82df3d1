#!/usr/bin/env bash
# Runs a command where the agents run that up.sh -agents started, with the namespaces of
# routers and machines: in.sh ip netns; in.sh ip netns exec NAME ping 10.60.0.1
#   in.sh [-state DIR] COMMAND...
# The state folder is that of up.sh (default hack/_output/neutron/state).
# shellcheck source-path=SCRIPTDIR disable=SC1091,SC2153
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

main() {
  local state=$OUTPUT/state pid
  if [ "${1:-}" = -state ]; then
    state=$2
    shift 2
  fi
  [ $# -gt 0 ] || die "the arguments are [-state DIR] COMMAND..."
  [ -d "$state" ] && use_state "$state" && running agents || die "no agents run in $state; up.sh -agents starts them"
  pid=$(cat "$STATE/run/agents.pid")
  use_packages
  exec nsenter --target "$pid" --net --mount --pid="/proc/$pid/ns/pid_for_children" --wd="$PWD" -- "$@"
}

main "$@"
