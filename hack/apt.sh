# Sourced by the scripts that fetch Debian packages. They set OUTPUT, a working folder, and
# ROOT, the folder that the packages are unpacked into. They define a function "unavailable"
# that exits when the packages are not available.
# shellcheck shell=bash disable=SC2154

# fetch calls apt-get with these arguments to download packages, and unpacks them, once for
# each list of arguments. Nothing is installed, and the packages' own scripts do not run.
fetch() {
  ! fetched "$@" || return 0
  command -v apt-get >/dev/null || unavailable "this system has no apt-get"
  mkdir -p "$OUTPUT"
  exec 8>"$OUTPUT/fetch.lock"
  flock 8
  ! fetched "$@" || return 0
  echo "${0##*/}: fetching packages; see $OUTPUT/fetch.log" >&2
  rm -rf "$OUTPUT/archives" "$OUTPUT/lists" "$ROOT"
  mkdir -p "$OUTPUT/archives/partial" "$OUTPUT/lists/partial" "$ROOT"
  # This machine's package lists may be missing, or too old to have the latest security
  # updates. New lists also make two machines fetch the same versions.
  local lists=(-o Dir::State::lists="$OUTPUT/lists")
  { apt_get -o APT::Update::Error-Mode=any update && apt_get "$@"; } || with_old_lists "$@" ||
    unavailable "apt-get failed: $(tail -n 1 "$OUTPUT/fetch.log")"
  # There is no file if all packages are already installed.
  local package
  for package in "$OUTPUT"/archives/*.deb; do
    [ ! -e "$package" ] || dpkg-deb -x "$package" "$ROOT"
  done
  rm -rf "$OUTPUT/archives" "$OUTPUT/lists"
  echo "$*" >"$ROOT/.complete"
}

# fetched reports whether the last fetch had the same arguments, and was not interrupted.
fetched() { [ "$(cat "$ROOT/.complete" 2>/dev/null)" = "$*" ]; }

# with_old_lists tries again with this machine's package lists, if new lists are not
# available or name packages that cannot be fetched.
with_old_lists() {
  echo "${0##*/}: apt-get failed; trying again with this machine's own package lists" >&2
  rm -f "$OUTPUT"/archives/*.deb
  lists=()
  apt_get "$@"
}

# apt_get uses only its own folders, so that it does not need root.
apt_get() {
  (cd "$OUTPUT/archives" && apt-get -qq --yes -o Debug::NoLocking=1 -o APT::Sandbox::User= -o Acquire::Retries=2 \
    -o Dir::Cache::archives="$OUTPUT/archives" -o Dir::Cache::pkgcache= -o Dir::Cache::srcpkgcache= \
    "${lists[@]}" "$@") </dev/null >>"$OUTPUT/fetch.log" 2>&1
}

# on_debian_12 exits on other releases, whose packages differ.
on_debian_12() { grep -qsx VERSION_CODENAME=bookworm /etc/os-release || unavailable "this is not Debian 12"; }
