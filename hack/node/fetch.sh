#!/usr/bin/env bash
# Fetches containerd, runc and the CNI plugins with apt and unpacks them into
# hack/_output/node/root. Nothing is installed. Exits with 3 if they cannot be had.
set -o errexit -o nounset -o pipefail

OUTPUT=$(dirname "$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)")/_output/node
ROOT=$OUTPUT/root
# What they need besides, libc and libseccomp, every Debian has.
PACKAGES=(containerd runc containernetworking-plugins)

say() { echo "${0##*/}: $*" >&2; }
unavailable() { say "$*"; exit 3; }

# apt_get keeps to folders of its own, so that it need not be root.
apt_get() { apt-get -qq -o APT::Sandbox::User= -o Acquire::Retries=2 "${LISTS[@]}" "$@" </dev/null >>"$OUTPUT/fetch.log" 2>&1; }

download() { (cd "$OUTPUT/archives" && apt_get download "${PACKAGES[@]}"); }

# update_lists is for a machine whose lists of packages are missing or old.
update_lists() {
  mkdir -p "$OUTPUT/lists/partial"
  LISTS=(-o Dir::State::lists="$OUTPUT/lists")
  apt_get update
}

main() {
  [ ! -e "$ROOT/.complete" ] || return 0
  # Others have other versions, which have not been tried.
  grep -qsx VERSION_CODENAME=bookworm /etc/os-release || unavailable "this is not Debian 12"
  mkdir -p "$OUTPUT"
  exec 8>"$OUTPUT/fetch.lock"
  flock 8
  [ ! -e "$ROOT/.complete" ] || return 0
  say "fetching the packages (36 MB); see $OUTPUT/fetch.log"
  rm -rf "$OUTPUT/archives" "$ROOT"
  mkdir -p "$OUTPUT/archives" "$ROOT"
  LISTS=()
  download || { update_lists && download; } || unavailable "apt-get failed: $(tail -n 1 "$OUTPUT/fetch.log")"
  local package
  for package in "$OUTPUT"/archives/*.deb; do
    dpkg-deb -x "$package" "$ROOT"
  done
  rm -rf "$OUTPUT/archives" "$OUTPUT/lists"
  touch "$ROOT/.complete"
}

main
