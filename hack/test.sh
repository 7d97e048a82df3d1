#!/usr/bin/env bash
# Runs the tests, all of them or the suites that are named, and sums up:
#   lint         formatting, go vet, staticcheck, links and names in the README files
#   codegen      generated code is what the generators make
#   unit         go test -race ./..., which needs no cluster and no network
#   contract     the embedded Neutron answers as the real one does
#   e2e          the controller, on a real control plane, with the real kubectl
#   faults       the controller under faults and kills, on the embedded and the real Neutron
#   release      what a release is made of: binaries, images, install.yaml, SBOMs
#   monitoring   alerts, dashboard and metrics, with a real Prometheus
#   node         the Deployment on a real node: kubelet, containerd, runc; it takes Linux and root
#   walkthrough  hack/local-up.sh -once, on either Neutron
#   chaos        faults, at length: ten seeds, and controllers that are broken on purpose.
#                It takes hours, and runs only when it is named
# The control plane is built for the last ones if it has not been: that takes minutes.
# Where the real Neutron, Prometheus or containerd cannot be had (they come from Debian 12's
# packages), what needs them is skipped; but with CI=true in the environment that is a failure.
set -o nounset -o pipefail

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
LOGS=$ROOT/hack/_output/test
BIN=$ROOT/hack/_output/bin
SUITES=(lint codegen unit contract e2e faults release monitoring node walkthrough)
# client-go panics when a test changes an object in an informer's cache.
export KUBE_CACHE_MUTATION_DETECTOR=true

lint() {
  local unformatted
  unformatted=$(find . -name '*.go' -not -path './hack/_output/*' -print0 | xargs -0 gofmt -l) || return 1
  [ -z "$unformatted" ] || { echo "not gofmt'ed: $unformatted"; return 1; }
  go vet ./... && go -C hack vet "${HACK_LIGHT[@]}" || return 1
  go -C hack build -o "$BIN/" honnef.co/go/tools/cmd/staticcheck || return 1
  # shellcheck disable=SC2046 # package paths hold no blanks
  "$BIN/staticcheck" $(go list ./... | grep -v /pkg/generated) && (cd hack && "$BIN/staticcheck" "${HACK_LIGHT[@]}") || return 1
  go -C hack test -count=1 ./docs
}

# What of hack's module can be compiled without Kubernetes.
CONTROL_PLANE_LIGHT=(./controlplane/build/... ./controlplane/cluster/... ./controlplane/internal/... ./controlplane/supervisor/...)
HACK_LIGHT=(./bench/... ./chaos/... ./contract/... ./docs ./e2e/... ./internal/... ./localup/... ./monitoring/... ./neutron/... ./node ./node/pause
  ./openapi/models-schema/... ./release/... "${CONTROL_PLANE_LIGHT[@]}")

codegen() { hack/verify-codegen.sh; }

# tests runs go test, and tells at the end of each test that failed or was skipped what it has
# printed: in the output of tests that run at the same time, that is all over the place.
tests() {
  go -C "$ROOT/hack" build -o "$BIN/" gotest.tools/gotestsum &&
    "$BIN/gotestsum" --format standard-verbose --no-color -- "$@"
}

unit() { tests -race ./...; }

# hack_tests runs tests of hack's module, which are never taken from the cache: they build the
# controller, and start what Go does not know of.
hack_tests() { (cd hack && tests -count=1 "$@"); }

contract() { hack_tests -race -timeout 30m ./contract/...; }

e2e() { control_plane && hack_tests -race -timeout 20m "${CONTROL_PLANE_LIGHT[@]}" ./bench/... ./e2e/...; }

faults() { control_plane && hack_tests -timeout 40m -run 'TestChaos$|TestChaosReal|TestChaosReplicas$|TestMutationsFit' ./chaos/...; }

release() { control_plane && hack_tests -timeout 20m ./release/...; }

monitoring() { control_plane && hack_tests -timeout 20m ./monitoring/...; }

node() { control_plane && hack_tests -timeout 20m ./node; }

chaos() { control_plane && hack_tests -timeout 6h -run 'TestChaosLong|TestChaosReplicasLong|TestOracle' ./chaos/... -long; }

walkthrough() { control_plane && hack/local-up.sh -once && on_real_neutron hack/local-up.sh -once -neutron=real; }

# on_real_neutron runs a command, and takes it for skipped if the real Neutron cannot be had.
on_real_neutron() {
  hack/neutron/fetch.sh
  case $? in
    0) "$@" ;;
    3) [ "${CI:-}" != true ] && echo "--- SKIP: $*: the real Neutron cannot be had here" ;;
    *) return 1 ;;
  esac
}

# control_plane shows its progress to who waits for it, not to the log.
control_plane() { go run -C hack ./controlplane/build 2>&4; }

# count prints how many tests of a suite's log ended so, without those told at its end; a
# suite that is no Go test is one test.
count() { sed -E '/^=== (Skipped|Failed|Errors)$/,$d' "$2" | grep -cE "^ *--- $1: " || true; }

# told prints those parts at the end of a suite's log, of each test no more than so many lines.
told() {
  awk -v parts="^=== ($1)\$" '/^=== (Skipped|Failed|Errors)$/ {on = $0 ~ parts} /^=== (FAIL|SKIP): / {n = 0} on && n++ < 200' "$2"
}

run() {
  local suite=$1 log=$LOGS/$1.log started=$SECONDS failed=0
  echo "==> $suite"
  "$suite" >"$log" 2>&1 </dev/null || failed=1
  local p f s
  p=$(count PASS "$log") f=$(count FAIL "$log") s=$(count SKIP "$log")
  if [ $((p + f + s)) = 0 ] || { [ $failed = 1 ] && [ "$f" = 0 ]; }; then
    p=$((p + 1 - failed)) f=$((f + failed))
  fi
  if [ $failed = 1 ]; then
    if grep -q '^=== Failed$' "$log"; then told 'Failed|Errors' "$log"; else tail -n 30 "$log"; fi
    echo "--- all of it: $log"
  fi
  SUMMARY+=("$(printf '%-12s %4d passed %4d failed %4d skipped %5ds' "$suite" "$p" "$f" "$s" $((SECONDS - started)))")
  [ "$s" = 0 ] || SUMMARY+=("$(told Skipped "$log"; grep -E '^--- SKIP: hack/' "$log")")
  PASSED=$((PASSED + p)) FAILED=$((FAILED + f)) SKIPPED=$((SKIPPED + s))
}

main() {
  cd "$ROOT" || exit 1
  mkdir -p "$LOGS"
  exec 4>&2
  local suite
  SUMMARY=() PASSED=0 FAILED=0 SKIPPED=0
  [ $# -gt 0 ] || set -- "${SUITES[@]}"
  for suite; do
    [[ " ${SUITES[*]} chaos " == *" $suite "* ]] || { echo "test.sh: no suite $suite; there are: ${SUITES[*]} chaos" >&2; exit 2; }
  done
  for suite; do run "$suite"; done
  echo
  printf '%s\n' "${SUMMARY[@]}" "$PASSED passed, $FAILED failed, $SKIPPED skipped"
  [ $FAILED = 0 ]
}

main "$@"
