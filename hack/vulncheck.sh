#!/usr/bin/env bash
# Reports known vulnerabilities in the code that the controller calls, with govulncheck:
#   hack/vulncheck.sh [-db DATABASE] [PACKAGE...]
# DATABASE is a folder with the Go vulnerability database, the content of
# https://vuln.go.dev/vulndb.zip, or a URL like https://vuln.go.dev. The default is VULNDB in
# the environment. Without a database nothing is checked, and the script does not fail. The
# exit code is 3 if there are vulnerabilities.
set -o errexit -o nounset -o pipefail

HACK=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
DB=${VULNDB:-}
case ${1:-} in
  -db) DB=${2:?-db needs a folder or a URL}; shift 2 ;;
  -*) sed -n '2,/^set/s/^# \?//p' "${BASH_SOURCE[0]}" >&2; exit 2 ;;
esac

[ -n "$DB" ] || { echo "--- SKIP: hack/vulncheck.sh: there is no database of vulnerabilities: name one with -db, or VULNDB in the environment"; exit 0; }
if [[ $DB != *://* ]]; then
  # govulncheck finds no vulnerabilities in a folder without these files.
  [ -s "$DB/index/db.json" ] && [ -s "$DB/index/modules.json" ] ||
    { echo "vulncheck.sh: $DB is not a database: it has no index/db.json or no index/modules.json" >&2; exit 1; }
  echo "vulncheck.sh: $DB: $(cat "$DB/index/db.json")"
  DB=file://$(cd "$DB" && pwd)
fi
go -C "$HACK" build -o _output/bin/ golang.org/x/vuln/cmd/govulncheck
cd "$HACK/.."
exec "$HACK/_output/bin/govulncheck" -db "$DB" "${@:-./...}"
