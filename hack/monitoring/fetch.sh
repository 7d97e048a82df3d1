#!/usr/bin/env bash
# Fetches Debian's package of Prometheus with apt, and unpacks it into
# hack/_output/prometheus/root. Nothing is installed and none of the package's own scripts
# run. It prints the folder of the executables. Where the package cannot be had, the exit
# code is 3.
# shellcheck source-path=SCRIPTDIR disable=SC1091,SC2153
. "$(dirname "${BASH_SOURCE[0]}")/../neutron/common.sh"

OUTPUT=$(dirname "$OUTPUT")/prometheus
ROOT=$OUTPUT/root

unavailable() { say "Prometheus cannot be had here: $*"; exit "$UNAVAILABLE"; }

# apt_get keeps to folders of its own, so that it need not be root.
apt_get() {
  (cd "$OUTPUT" && apt-get -qq -o Debug::NoLocking=1 -o APT::Sandbox::User= -o Acquire::Retries=2 "${LISTS[@]}" "$@") \
    </dev/null >>"$OUTPUT/fetch.log" 2>&1
}

# The package alone: what it depends on is for its web pages.
download() { apt_get download prometheus; }

# update_lists is for a machine whose lists of packages are missing or old.
update_lists() {
  mkdir -p "$OUTPUT/lists/partial"
  LISTS=(-o Dir::State::lists="$OUTPUT/lists")
  apt_get update
}

fetch() {
  [ ! -e "$ROOT/.complete" ] || return 0
  command -v apt-get >/dev/null || unavailable "this system has no apt-get"
  mkdir -p "$OUTPUT"
  exec 8>"$OUTPUT/fetch.lock"
  flock 8
  [ ! -e "$ROOT/.complete" ] || return 0
  say "fetching the package (20 MB); see $OUTPUT/fetch.log"
  LISTS=()
  rm -f "$OUTPUT"/*.deb
  download || { update_lists && download; } || unavailable "apt-get failed: $(tail -n 1 "$OUTPUT/fetch.log")"
  mkdir -p "$ROOT"
  dpkg-deb -x "$OUTPUT"/prometheus_*.deb "$ROOT"
  "$ROOT/usr/bin/promtool" --version >>"$OUTPUT/fetch.log" 2>&1 || unavailable "its executables do not run here"
  rm -rf "$OUTPUT"/*.deb "$OUTPUT/lists"
  touch "$ROOT/.complete"
}

fetch
echo "$ROOT/usr/bin"
