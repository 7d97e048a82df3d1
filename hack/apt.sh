# Sourced by the scripts that fetch packages of Debian. They set OUTPUT, a folder to work in, and
# ROOT, the one into which the packages are unpacked, and have a function unavailable, which ends
# them where the packages cannot be had.
# shellcheck shell=bash disable=SC2154

# fetch downloads what apt-get would with these arguments, and unpacks it, once. Nothing is
# installed, and none of the packages' own scripts run.
fetch() {
  [ ! -e "$ROOT/.complete" ] || return 0
  command -v apt-get >/dev/null || unavailable "this system has no apt-get"
  mkdir -p "$OUTPUT"
  exec 8>"$OUTPUT/fetch.lock"
  flock 8
  [ ! -e "$ROOT/.complete" ] || return 0
  echo "${0##*/}: fetching packages; see $OUTPUT/fetch.log" >&2
  rm -rf "$OUTPUT/archives" "$OUTPUT/lists" "$ROOT"
  mkdir -p "$OUTPUT/archives/partial" "$OUTPUT/lists/partial" "$ROOT"
  # This machine's own lists of packages may be missing, or so old that they name versions
  # without their security updates; and two machines are to fetch the same.
  local lists=(-o Dir::State::lists="$OUTPUT/lists")
  { apt_get -o APT::Update::Error-Mode=any update && apt_get "$@"; } || with_old_lists "$@" ||
    unavailable "apt-get failed: $(tail -n 1 "$OUTPUT/fetch.log")"
  # None, if all of them are installed.
  local package
  for package in "$OUTPUT"/archives/*.deb; do
    [ ! -e "$package" ] || dpkg-deb -x "$package" "$ROOT"
  done
  rm -rf "$OUTPUT/archives" "$OUTPUT/lists"
  touch "$ROOT/.complete"
}

# with_old_lists is for when new lists cannot be had, or name what cannot be fetched.
with_old_lists() {
  echo "${0##*/}: apt-get failed; once more, with this machine's own lists of packages" >&2
  rm -f "$OUTPUT"/archives/*.deb
  lists=()
  apt_get "$@"
}

# apt_get keeps to folders of its own, so that it need not be root.
apt_get() {
  (cd "$OUTPUT/archives" && apt-get -qq --yes -o Debug::NoLocking=1 -o APT::Sandbox::User= -o Acquire::Retries=2 \
    -o Dir::Cache::archives="$OUTPUT/archives" -o Dir::Cache::pkgcache= -o Dir::Cache::srcpkgcache= \
    "${lists[@]}" "$@") </dev/null >>"$OUTPUT/fetch.log" 2>&1
}

# on_debian_12 is for what differs from release to release.
on_debian_12() { grep -qsx VERSION_CODENAME=bookworm /etc/os-release || unavailable "this is not Debian 12"; }
