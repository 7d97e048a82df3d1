# Sourced by the scripts in this folder: shell options, paths and process control.
# shellcheck shell=bash disable=SC2034
set -o errexit -o nounset -o pipefail

HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)
OUTPUT=$(dirname "$HERE")/_output/neutron
ROOT=$OUTPUT/root

# The exit code when the packages are not available. Callers may count this as skipped.
UNAVAILABLE=3

say() { echo "${0##*/}: $*" >&2; }
die() { say "$*"; exit 1; }

# use_state sets STATE to the state folder's real path, which running uses to recognize
# processes.
use_state() {
  mkdir -p "$1"
  STATE=$(cd "$1" && pwd -P)
}

# use_packages sets the environment for programs that are unpacked, and not installed. All
# Python programs load sitecustomize.py from etc, and Neutron and its agents find localredis.py there.
use_packages() {
  export PYTHONPATH=$ROOT/usr/lib/python3/dist-packages:$STATE/etc PYTHONWARNINGS=ignore PYTHONNOUSERSITE=1 LC_ALL=C.UTF-8
  export PATH=$STATE/run/bin:$ROOT/usr/sbin:$ROOT/usr/bin:$ROOT/sbin:$ROOT/bin:/usr/sbin:/usr/bin:/sbin:/bin
  local dir
  for dir in "$ROOT"/lib/*-linux-gnu "$ROOT"/usr/lib/*-linux-gnu; do
    LD_LIBRARY_PATH=$dir${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
    [ ! -d "$dir/xtables" ] || export XTABLES_LIBDIR=$dir/xtables
  done
  export LD_LIBRARY_PATH
}

# running reports whether the process of that pid file belongs to this state folder. By now
# another process may have that pid.
running() {
  local pid
  pid=$(cat "$STATE/run/$1.pid" 2>/dev/null) && [ -n "$pid" ] &&
    tr '\0' ' ' 2>/dev/null <"/proc/$pid/cmdline" | grep -qF -- "$STATE/"
}

# ended reports whether no process of the group runs. Those that have ended are still there for kill until their parent asks for
# their exit codes, and process 1, the parent of those that start puts into the background, may take seconds for that.
ended() {
  kill -0 -- "-$1" 2>/dev/null || return 0
  local file line fields
  for file in /proc/[0-9]*/stat; do
    { read -r line <"$file"; } 2>/dev/null || continue
    read -ra fields <<<"${line##*) }" # the state, the parent, the group
    [ "${fields[2]}" != "$1" ] || [ "${fields[0]}" = Z ] || return 1
  done
}

# stop ends a process and its whole process group.
stop() {
  local pid
  if running "$1"; then
    pid=$(cat "$STATE/run/$1.pid")
    kill -"${2:-TERM}" -- "-$pid" 2>/dev/null || true
    for _ in $(seq 100); do
      ! ended "$pid" || break
      sleep 0.1
    done
    kill -KILL -- "-$pid" 2>/dev/null || true
  fi
  rm -f "$STATE/run/$1.pid"
}
