#!/usr/bin/env bash
# Runs all test suites, or the named ones, and prints a summary:
#   hack/test.sh [SUITE...]
# The suites are:
#   lint         formatting, go vet, staticcheck, links and names in the pages, the workflows, the
#                mutants that are written by hand fit the code; known vulnerabilities, if VULNDB
#                in the environment names a database: see hack/vulncheck.sh
#   codegen      the generated code is up to date
#   unit         go test -race -short ./..., the systematic tests, and the simulation; without a
#                cluster or a network
#   contract     the embedded Neutron answers like the real one; the manifests of artifacts/use find
#                the network of a Network
#   e2e          the controller on a real control plane, with the real kubectl
#   faults       processes of the controller that are killed, suspended and cut off, and a real API server that is
#                killed and restored, with the embedded and the real Neutron
#   release      the release artifacts: binaries, images, install.yaml, SBOMs; the Helm chart; what
#                Argo CD, Flux and Helm show; exported manifests, and the oldest Kubernetes
#   monitoring   alerts, dashboard and metrics, with a real Prometheus
#   node         the Deployment on a real node: kubelet, containerd, runc; needs Linux and root
#   traffic      what machines on the networks notice of each field and of each example, with the
#                agents of the real Neutron; needs Linux and root
#   changes      which packets each change of a Network costs those machines; needs the same
#   walkthrough  hack/local-up.sh -once, with the embedded Neutron; then with the real one and
#                -traffic, which needs Linux and root, and is killed at its end
# The suites from e2e on need the control plane. It is built first if it is not up to date,
# which takes minutes. The real Neutron, Prometheus and containerd come from Debian 12's
# packages. If they are not available, the tests that need them are skipped; with CI=true in
# the environment these tests fail instead.
set -o nounset -o pipefail

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
LOGS=$ROOT/hack/_output/test
BIN=$ROOT/hack/_output/bin
SUITES=(lint codegen unit contract e2e faults release monitoring node traffic changes walkthrough)
# client-go panics when a test changes an object in an informer's cache.
export KUBE_CACHE_MUTATION_DETECTOR=true

lint() {
  local unformatted
  unformatted=$(find . -name '*.go' -not -path './hack/_output/*' -print0 | xargs -0 gofmt -l) || return 1
  [ -z "$unformatted" ] || { echo "not formatted with gofmt: $unformatted"; return 1; }
  local -x GOFLAGS
  GOFLAGS="$(go env GOFLAGS) -trimpath" # see tests
  go vet ./... && go -C hack vet "${HACK_LIGHT[@]}" || return 1
  go -C hack build -o "$BIN/" honnef.co/go/tools/cmd/staticcheck || return 1
  # shellcheck disable=SC2046 # package paths have no spaces
  "$BIN/staticcheck" $(go list ./... | grep -v /pkg/generated) && (cd hack && "$BIN/staticcheck" "${HACK_LIGHT[@]}") || return 1
  go -C hack test -count=1 ./docs ./mutants || return 1
  echo "--- PASS: lint" # without it, the summary would have no test but a skipped one
  hack/vulncheck.sh
}

# The packages of hack's module that do not import Kubernetes itself.
CONTROL_PLANE_LIGHT=(./controlplane/build/... ./controlplane/cluster/... ./controlplane/internal/... ./controlplane/supervisor/...)
HACK_LIGHT=(./bench/... ./chaos/... ./contract/... ./docs ./e2e/... ./export ./gitops/... ./helm/... ./internal/... ./localup/... ./monitoring/... ./mutants ./neutron/... ./node ./node/pause ./oldest
  ./openapi/models-schema/... ./release/... ./rules ./traffic "${CONTROL_PLANE_LIGHT[@]}")

codegen() { hack/verify-codegen.sh; }

# tests runs go test. At its end it prints the output of each failed or skipped test again,
# because the output of tests that run in parallel is mixed. lint runs go vet. Without symbols for a debugger, the
# executables are linked in less time. With -trimpath, what was compiled for the control plane, for the controller or in
# another clone is not compiled again. The time is only a limit for what hangs: on a new machine, a suite also compiles.
tests() {
  go -C "$ROOT/hack" build -trimpath -o "$BIN/" gotest.tools/gotestsum &&
    "$BIN/gotestsum" --format standard-verbose --no-color -- -vet=off -trimpath -ldflags=-w -timeout 80m "$@"
}

# Tests that try very many cases one after another, or that read or keep very much. They need minutes under the race detector,
# which finds nothing in them that it does not find in the others.
SYSTEMATIC='TestAClusterCopied|TestADefaultThatCannotBeRestoredHolds|TestAListThatFailsForEver|TestAListThatIsNone|TestAListWithTooMuch|TestActorsAtEveryRequest|TestAfterAnOverflow|TestAnAnswerOfKeystoneTakes|TestAnEdit|TestAnObstacle|TestAnOutageCosts|TestAnyBackup|TestAnyStartingState|TestAStatusCanBeWritten|TestDeletionAfterARestore|TestEachChange|TestEveryCrashPoint|TestEveryScenarioIsMoved|TestKeepingOneNetwork|TestManyNetworksOf|TestManyThat|TestNetworksThatFail|TestNothingIrreversible|TestOtherCredentials|TestRelistMakesFew|TestRelistWithImports|TestSubnetsThatAreListedByNetwork|TestTheEmbeddedNeutronRefuses|TestTheLongestList|TestTheModel|TestTheOtherIPv6Subnet|TestThePageWithTheLongest|TestTokenRefused|TestTooManyOwnNetworks|TestTwoInstallations|TestWhatIsCachedStaysValid|FuzzThePlan'

# The simulation runs in both: one seed with the race detector and the detector of mutations, all of them without. The race
# detector does not sleep for a second at the end of each package. The tests of one package more than there are CPUs run at a
# time, because those of some packages mostly wait.
unit() {
  GORACE=atexit_sleep_ms=0 tests -race -short -p $(($(getconf _NPROCESSORS_ONLN) + 1)) -skip "$SYSTEMATIC" ./... &&
    KUBE_CACHE_MUTATION_DETECTOR=false tests -run "$SYSTEMATIC|TestSimulation" . ./pkg/neutron ./pkg/orphans ./pkg/status
}

# hack_tests runs tests of hack's module. Their results are never cached, because they build
# the controller and start programs that Go's test cache does not know.
hack_tests() { (cd hack && tests -count=1 "$@"); }

contract() { hack_tests -parallel 4 ./contract/...; }

# e2e begins with the package that takes longest.
e2e() { control_plane && hack_tests -race ./e2e/... "${CONTROL_PLANE_LIGHT[@]}" ./bench/...; }

faults() { control_plane && hack_tests ./chaos; }

release() { control_plane && hack_tests ./release/... ./gitops/... ./helm/... ./export ./oldest ./rules; }

monitoring() { control_plane && hack_tests ./monitoring/...; }

node() { control_plane && hack_tests ./node; }

traffic() { control_plane && hack_tests -skip TestChanges ./traffic ./neutron/...; }

changes() { control_plane && hack_tests -run TestChanges ./traffic; }

walkthrough() { control_plane && hack/local-up.sh -once && echo "--- PASS: hack/local-up.sh -once" && hack_tests ./localup; }

# control_plane prints the progress of the build to the terminal, not to the log.
control_plane() { go run -C hack -trimpath ./controlplane/build 2>&4; }

# count prints how many tests in a suite's log have that result. It ignores the repeated
# output at the end of the log. A suite that has no Go tests is one test.
count() { sed -E '/^=== (Skipped|Failed|Errors)$/,$d' "$2" | grep -cE "^ *--- $1: " || true; }

# repeated prints those parts of the repeated output at the end of a suite's log, at most
# 200 lines for each test.
repeated() {
  awk -v parts="^=== ($1)\$" '/^=== (Skipped|Failed|Errors)$/ {on = $0 ~ parts} /^=== (FAIL|SKIP): / {n = 0} on && n++ < 200' "$2"
}

# usually prints how long the suite takes: what it took here last time, or else on two cores.
usually() {
  local seconds
  seconds=$(cat "$LOGS/$1.seconds" 2>/dev/null) || case $1 in
    lint) seconds=60 ;;
    codegen) seconds=15 ;;
    unit) seconds=250 ;;
    contract) seconds=125 ;;
    e2e) seconds=360 ;;
    faults) seconds=140 ;;
    release) seconds=90 ;;
    monitoring) seconds=120 ;;
    node) seconds=210 ;;
    traffic) seconds=150 ;;
    changes) seconds=165 ;;
    walkthrough) seconds=230 ;;
    *) seconds=14400 ;;
  esac
  if [ "$seconds" -lt 120 ]; then echo "$seconds s"; else echo "$(((seconds + 30) / 60)) min"; fi
}

# run runs a suite, and writes what the summary says of it to LOGS/SUITE.result. It may run in the background.
run() {
  local suite=$1 log=$LOGS/$1.log started=$SECONDS failed=0
  echo "==> $suite (usually $(usually "$suite"))"
  "$suite" >"$log" 2>&1 </dev/null || failed=1
  local p f s took=$((SECONDS - started))
  p=$(count PASS "$log") f=$(count FAIL "$log") s=$(count SKIP "$log")
  if [ $((p + f + s)) = 0 ] || { [ $failed = 1 ] && [ "$f" = 0 ]; }; then
    p=$((p + 1 - failed)) f=$((f + failed))
  fi
  if [ $failed = 1 ]; then
    echo "--- $suite failed:"
    if grep -q '^=== Failed$' "$log"; then repeated 'Failed|Errors' "$log"; else tail -n 30 "$log"; fi
    echo "--- full log: $log"
  else
    echo "$took" >"$LOGS/$suite.seconds"
  fi
  echo "$p $f $s $took" >"$LOGS/$suite.result"
}

# summarize prints the results of the suites. It fails if a test failed, or if a suite has no result.
summarize() {
  local suite p f s took passed=0 failed=0 skipped=0
  echo
  for suite; do
    read -r p f s took <"$LOGS/$suite.result" || return 1
    printf '%-12s %4d passed %4d failed %4d skipped %5ds\n' "$suite" "$p" "$f" "$s" "$took"
    [ "$s" = 0 ] || { repeated Skipped "$LOGS/$suite.log"; grep -E '^--- SKIP: hack/' "$LOGS/$suite.log"; }
    passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
  done
  echo "$passed passed, $failed failed, $skipped skipped"
  [ $failed = 0 ]
}

# run_all runs the suites that compute one after another. Those that mostly wait run beside them. In this order not more than two real
# Neutrons run at the same time, because each needs a core. traffic and changes run alone: their
# agents and machines need the rest.
run_all() {
  hack/neutron/fetch.sh >"$LOGS/fetch.log" 2>&1 & # while the first suites compute; those that need it say what is wrong
  in_turn lint codegen unit contract
  set -m # a process group of its own, which ends with this script
  in_turn monitoring node walkthrough &
  set +m
  # shellcheck disable=SC2064 # the group that was just started
  trap "kill -- -$! 2>/dev/null" EXIT
  in_turn e2e faults release
  wait
  in_turn traffic changes
}

in_turn() { local suite; for suite; do run "$suite"; done; }

main() {
  cd "$ROOT" || exit 1
  mkdir -p "$LOGS"
  exec 4>&2
  local suite
  for suite; do
    [[ " ${SUITES[*]} " == *" $suite "* ]] || { echo "test.sh: unknown suite $suite; the suites are: ${SUITES[*]}" >&2; exit 2; }
  done
  # Results that cannot be removed, those of another user, would be taken for this run's.
  rm -f "$LOGS"/*.result && [ -w "$LOGS" ] || { echo "test.sh: cannot write to $LOGS" >&2; exit 1; }
  if [ $# = 0 ]; then
    run_all
    set -- "${SUITES[@]}"
  else
    for suite; do run "$suite"; done
  fi
  summarize "$@"
}

main "$@"
