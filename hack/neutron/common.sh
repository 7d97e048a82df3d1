# Sourced by the scripts beside it: the options, and where things are.
# shellcheck shell=bash disable=SC2034
set -o errexit -o nounset -o pipefail

HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)
OUTPUT=$(dirname "$HERE")/_output/neutron
ROOT=$OUTPUT/root

# What callers may count as skipped: the packages cannot be had here.
UNAVAILABLE=3

say() { echo "${0##*/}: $*" >&2; }
die() { say "$*"; exit 1; }

# use_state makes the state folder known by its real path: processes are recognised by it.
use_state() {
  mkdir -p "$1"
  STATE=$(cd "$1" && pwd -P)
}

# running says whether the process of that pid file is one of this state folder: a pid may
# have been given to somebody else's process since.
running() {
  local pid
  pid=$(cat "$STATE/run/$1.pid" 2>/dev/null) && [ -n "$pid" ] &&
    tr '\0' ' ' <"/proc/$pid/cmdline" 2>/dev/null | grep -qF -- "$STATE/"
}

# stop ends a process and, with it, whatever it has started.
stop() {
  local pid
  if running "$1"; then
    pid=$(cat "$STATE/run/$1.pid")
    kill -"${2:-TERM}" -- "-$pid" 2>/dev/null || true
    for _ in $(seq 100); do
      kill -0 -- "-$pid" 2>/dev/null || break
      sleep 0.1
    done
    kill -KILL -- "-$pid" 2>/dev/null || true
  fi
  rm -f "$STATE/run/$1.pid"
}
