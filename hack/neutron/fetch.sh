#!/usr/bin/env bash
# Fetches Neutron, Keystone and MariaDB with apt and unpacks them into
# hack/_output/neutron/root. Nothing is installed and none of the packages' own scripts
# run. What is installed on this machine already is used from there.
# shellcheck source-path=SCRIPTDIR disable=SC1091,SC2153
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

PACKAGES=(neutron-server keystone mariadb-server-core mariadb-client-core python3-sqlalchemy-ext)

unavailable() { say "the real Neutron cannot be had here: $*"; exit "$UNAVAILABLE"; }

# apt_get keeps to folders of its own, so that it need not be root.
apt_get() {
  apt-get -qq --yes --no-install-recommends -o Debug::NoLocking=1 -o APT::Sandbox::User= -o Acquire::Retries=2 \
    -o Dir::Cache::archives="$OUTPUT/archives" "${LISTS[@]}" "$@" </dev/null >>"$OUTPUT/fetch.log" 2>&1
}

download() { apt_get --download-only install "${PACKAGES[@]}"; }

# update_lists is for a machine whose lists of packages are missing or old.
update_lists() {
  mkdir -p "$OUTPUT/lists/partial"
  LISTS=(-o Dir::State::lists="$OUTPUT/lists")
  apt_get update
}

main() {
  [ ! -e "$ROOT/.complete" ] || return 0
  # Other releases have another Neutron, which starts and answers differently.
  grep -qsx VERSION_CODENAME=bookworm /etc/os-release || unavailable "this is not Debian 12"
  command -v apt-get >/dev/null || unavailable "this system has no apt-get"
  mkdir -p "$OUTPUT"
  exec 8>"$OUTPUT/fetch.lock"
  flock 8
  [ ! -e "$ROOT/.complete" ] || return 0
  say "fetching the packages (40 MB); see $OUTPUT/fetch.log"
  LISTS=()
  mkdir -p "$OUTPUT/archives/partial"
  download || { update_lists && download; } || unavailable "apt-get failed: $(tail -n 1 "$OUTPUT/fetch.log")"
  mkdir -p "$ROOT"
  # None, if all of them are installed.
  local package
  for package in "$OUTPUT"/archives/*.deb; do
    [ ! -e "$package" ] || dpkg-deb -x "$package" "$ROOT"
  done
  rm -rf "$OUTPUT/archives" "$OUTPUT/lists"
  touch "$ROOT/.complete"
}

main
