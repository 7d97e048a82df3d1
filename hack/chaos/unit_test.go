/*
Copyright The samplecrd-controller Authors.

Licensed under the Apache License, Version 2.0 (the "License");
you may not use this file except in compliance with the License.
You may obtain a copy of the License at

    http://www.apache.org/licenses/LICENSE-2.0

Unless required by applicable law or agreed to in writing, software
distributed under the License is distributed on an "AS IS" BASIS,
WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
See the License for the specific language governing permissions and
limitations under the License.
*/

package chaos

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/samplecrd/samplecrd-controller/hack/internal/stack"
)

// unitMutation breaks the controller in a way that tests of the suite unit must notice.
type unitMutation struct {
	mutation
	// pkg is the package of the tests, run matches their names.
	pkg, run string
}

var unitMutations = []unitMutation{
	{mutation{name: "region-of-a-status-ignored", file: "pkg/neutron/cloud.go", edits: []string{
		`sameRegion := was.Region == now.Region || was.Region == "" && session.onlyRegion`, "sameRegion := true",
	}}, ".", "^TestRegionThatIsAddedLosesNoNetwork$"},
	{mutation{name: "place-of-a-new-session-not-compared", file: "pkg/neutron/client.go", edits: []string{
		"if before, ok := c.Place(); ok && before != place {", "if before, ok := c.Place(); false && ok {",
	}}, ".", "^TestTokenRefusedAtEveryRequest$"},
	{mutation{name: "pause-not-in-the-live-read", file: "pkg/live/live.go", edits: []string{
		`{"the annotation " + samplecrdv1.AnnotationPaused, cached.IsPaused() != live.IsPaused()},`, "",
	}}, ".", "^(TestActorsAtEveryRequest|TestNothingIrreversibleIsDoneWhenTheNetworkHasChangedPastTheCache)$"},
	{mutation{name: "finalizer-not-in-the-live-read", file: "pkg/live/live.go", edits: []string{
		`{"the finalizer", HasFinalizer(cached) != HasFinalizer(live)},`, "",
	}}, ".", "^TestActorsAtEveryRequest$"},
	{mutation{name: "one-failure-is-an-outage", file: "pkg/neutron/circuit.go", edits: []string{
		"return c.since, c.failures >= enough || c.failures > 0 && !c.answered", "return c.since, true",
	}}, ".", "^TestActorsAtEveryRequest$"},
	{mutation{name: "clouds-have-no-turns", file: "pkg/fair/order.go", edits: []string{
		"	o.turns = slices.Delete(o.turns, i, i+1)\n	if w.count > 0 {\n		o.turns = append(o.turns, w)\n	}\n",
		"	if w.count == 0 {\n		o.turns = slices.Delete(o.turns, i, i+1)\n	}\n",
	}}, "./pkg/fair", "^TestNoGroupWaitsForEver$"},
	{mutation{name: "no-spare-credentials", file: "pkg/clouds/clouds.go", edits: []string{
		"spare, spareErr := c.spareFor(key, network)", "var spare *neutron.Cloud\n\tvar spareErr error",
	}}, "./pkg/clouds", "^TestSpareCredentialsGoBeforeThoseThatWereSeenLast$"},
	{mutation{name: "waits-for-ports-ignored", file: "pkg/neutron/converge.go", edits: []string{
		"	return c.waits.check(identity.Owner.UID, s)\n", "	_ = c.waits.check(identity.Owner.UID, s)\n	return nil\n",
	}}, ".", "^TestActorsAtEveryRequest$"},
	{mutation{name: "one-obsolete-subnet-only", file: "pkg/neutron/plan.go", edits: []string{
		"create.Replaces = append(create.Replaces, s.ID)", "create.Replaces = []string{s.ID}",
	}}, "./pkg/neutron", "ReplacementOfTwoSubnets|PortsOnAnyObsoleteSubnet"},
	{mutation{name: "list-not-found-is-not-found", file: "pkg/neutron/list.go", edits: []string{
		"(e.Reason == Invalid || e.Reason == NotFound)", "e.Reason == Invalid",
	}}, ".", "^TestActorsAtEveryRequest$"},
	{mutation{name: "changes-of-failed-syncs-forgotten", file: "pkg/status/unrecorded.go", edits: []string{
		"	u.changes[key] = c\n", "	delete(u.changes, key)\n",
	}}, ".", "^TestActorsAtEveryRequest$"},
	{mutation{name: "vanished-on-the-word-of-a-restored-server", file: "controller.go", edits: []string{
		"return err // the next sync finds the outcome's error again",
		"if errors.Is(err, live.ErrGone) {\n\t\t\t\tc.vanished.Add(network)\n\t\t\t}\n\t\t\treturn err",
	}}, ".", "^TestNetworkThatARestoredAPIServerHasLostStaysInNeutron$"},
	{mutation{name: "subnets-of-other-projects-not-listed", file: "pkg/neutron/list.go", edits: []string{
		"return networks, c.attachMissing(ctx, networks, found)", "return networks, nil",
	}}, ".", "^TestUnmanagedSubnetOfAnotherProjectIsReportedOnce$"},
	{mutation{name: "too-many-networks-are-an-error", file: "pkg/neutron/observer.go", edits: []string{
		"if errors.Is(err, errTooMany) {", "if false && errors.Is(err, errTooMany) {",
	}}, ".", "^TestTooManyNetworksInNeutronDoNotStopTheWork$"},
	{mutation{name: "router-before-its-status", file: "pkg/neutron/routersteps.go", edits: []string{
		"func (CreateRouter) isRecorded(desired Desired) bool { return desired.RouterRecorded }",
		"func (CreateRouter) isRecorded(desired Desired) bool { return true }",
		"return desired.RouterRecorded && (s.IsOwn || desired.KnownRouter == s.Router)", "return true",
	}}, "./pkg/neutron", "^TestTheRouterIsRecordedFirst$"},
	{mutation{name: "own-router-not-looked-for", file: "pkg/neutron/routers.go", edits: []string{
		"routers = slices.DeleteFunc(routers, func(r Router) bool { return r.Description != mark })", "routers = nil",
	}}, "./pkg/neutron", "^TestALostAnswerOfARoutedNetwork$"},
	{mutation{name: "half-interface-is-attached", file: "pkg/neutron/routerplan.go", edits: []string{
		"return i.Confirmed || d.KnownPorts[i.SubnetID] == i.PortID", "return true",
	}}, "./pkg/neutron", "^TestAHalfInterfaceIsCured$"},
	{mutation{name: "interfaces-on-strangers-subnets", file: "pkg/neutron/routerplan.go", edits: []string{
		"s == nil || !isOurs(*d, s)", "s == nil",
	}}, "./pkg/neutron", "^TestAnInterfaceOnAStrangersSubnetIsNotManaged$"},
	{mutation{name: "interfaces-known-by-their-port-alone", file: "pkg/neutron/routerplan.go", edits: []string{
		`!(d.Import != "" && d.KnownPorts[s.ID] == i.PortID)`, `!(d.Import != "" && slices.Contains(slices.Collect(maps.Values(d.KnownPorts)), i.PortID))`,
		`import "slices"`, "import (\n\t\"maps\"\n\t\"slices\"\n)",
	}}, "./pkg/neutron", "^TestTheOtherIPv6SubnetOfAnImportStaysConnected$"},
	{mutation{name: "other-addresses-of-our-port-ignored", file: "pkg/neutron/ports.go", edits: []string{
		"return i.SubnetID == ip.SubnetID && p.GoesWith(i)", "return p.GoesWith(i)",
	}}, "./pkg/neutron", "^TestWhatPreventsTheRemovalOfARoutedNetwork$"},
	{mutation{name: "what-is-switched-off-is-ready", file: "pkg/neutron/converge.go", edits: []string{
		", checkAdminState(desired, observed))", ")",
	}}, "./pkg/neutron", "^TestWhatIsSwitchedOffIsNotConnected$"},
	{mutation{name: "floating-ips-ignored", file: "pkg/neutron/routersteps.go", edits: []string{
		"	return s.checkFloatingIPs(ctx, c)\n", "	return nil\n",
	}}, "./pkg/neutron", "^TestFloatingIPsKeepEverythingAsItIs$"},
	{mutation{name: "obsolete-router-stays", file: "pkg/neutron/plan.go", edits: []string{
		"return obsoleteRouter(desired, observed)", "return nil",
	}}, "./pkg/neutron", "^TestThePlanOfRouters$"},
	{mutation{name: "detached-before-the-next-is-attached", file: "pkg/neutron/plan.go", edits: []string{
		"	if step := nextForRouter(desired, observed); step != nil {\n		return step\n	}\n", "",
		"	return obsoleteRouter(desired, observed)\n",
		"	if step := nextForRouter(desired, observed); step != nil {\n		return step\n	}\n	return obsoleteRouter(desired, observed)\n",
	}}, "./pkg/neutron", "^TestTheCIDROfAnAttachedSubnetChanges$"},
	{mutation{name: "ports-not-checked-before-the-detach", file: "pkg/neutron/routersteps.go", edits: []string{
		`if scope := scopeOf(s, identity, observed); scope.op != "" {`, "if scope := scopeOf(s, identity, observed); false {",
	}}, "./pkg/neutron", "^TestTheCIDROfAnAttachedSubnetChanges$"},
	{mutation{name: "tags-of-other-imports-ignored", file: "pkg/neutron/import.go", edits: []string{
		"for _, other := range ImportersOf(network.Tags) {", `for _, other := range ImportersOf("") {`,
	}}, "./pkg/neutron", "^TestWhatIsDoneAboutAnImport$"},
	{mutation{name: "import-not-confirmed", file: "pkg/neutron/import.go", edits: []string{
		"fresh, err = c.confirm(ctx, identity.Owner, fresh.ID)", "fresh, err = c.client.getNetwork(ctx, fresh.ID)",
	}}, "./pkg/neutron", "^TestTwoImportsAtTheSameMoment$"},
	{mutation{name: "mark-that-was-not-confirmed-forgotten", file: "pkg/neutron/import.go", edits: []string{
		"		c.observer.Invalidate(identity.Owner.UID) // the network may have the tag, whatever the error says\n", "",
	}}, "./pkg/neutron", "^TestAnUnconfirmedImportIsRemoved$"},
	{mutation{name: "observed-networks-are-changed", file: "pkg/neutron/plan.go", edits: []string{
		`if desired.Import != "" && (desired.Observe || !observed.Exists()) {`, `if desired.Import != "" && !observed.Exists() {`,
	}}, "./pkg/neutron", "^TestWhatIsDoneAboutAnImport$"},
	{mutation{name: "observed-networks-are-removed", file: "pkg/neutron/converge.go", edits: []string{
		"	if identity.Observe {\n		return observed, nil\n	}\n", "",
	}}, "./pkg/neutron", "^TestRemoveAnImport$"},
	{mutation{name: "subnets-that-were-taken-over-are-deleted", file: "pkg/neutron/plan.go", edits: []string{
		"isCreated(desired, s) && !declared[s.ID]", "isOurs(desired, s) && !declared[s.ID]",
	}}, "./pkg/neutron", "^TestPlanOfAnImport$"},
	{mutation{name: "only-the-next-step-is-checked", file: "pkg/neutron/ahead.go", edits: []string{
		"	if len(plan) == 1 {\n		return 0,", "	if len(plan) > 0 {\n		return 0,",
	}}, ".", "^TestAnEditThatCannotBeCompletedCostsNothing$"},
	{mutation{name: "subnets-not-read-before-the-detach", file: "pkg/neutron/ahead.go", edits: []string{
		"	if l.isListed {", "	if true {",
	}}, ".", "^TestAnEditMeetsAnObstacleThatNoListHasShownYet$"},
	{mutation{name: "subnets-of-the-external-network-ignored", file: "pkg/neutron/ahead.go", edits: []string{
		"if other.CIDR.Overlaps(s.CIDR) {", "if !isExternal && other.CIDR.Overlaps(s.CIDR) {",
	}}, ".", "^TestAnEditThatCannotBeCompletedCostsNothing$"},
	{mutation{name: "no-attachment-tried-before-the-detach", file: "pkg/neutron/ahead.go", edits: []string{
		"err = l.tryAttachments(ctx, guard)", "err = nil",
	}}, ".", "^TestAnEditThatCannotBeCompletedCostsNothing$"},
	{mutation{name: "gateway-inside-a-pool-not-foreseen", file: "pkg/neutron/refusal.go", edits: []string{
		`if pool := after.Pools.containing(after.Gateway); pool != "" {`, "if pool := after.Pools.containing(after.Gateway); false {",
	}}, ".", "^TestAnEditThatCannotBeCompletedCostsNothing$"},
	{mutation{name: "routes-not-looked-for", file: "pkg/neutron/ahead.go", edits: []string{
		"err = s.checkRoutes(ctx, l.Cloud)", "_ = s",
	}}, ".", "^TestAnEditThatCannotBeCompletedCostsNothing$"},
	{mutation{name: "hidden-subnets-ignored", file: "pkg/neutron/ahead.go", edits: []string{
		"		if l.observed.subnet(id) == nil {", "		if false && id != \"\" {",
	}}, "./pkg/neutron", "^TestAnEditThatCannotBeCompletedCostsNothing$"},
	{mutation{name: "default-not-tried-before-the-detach", file: "pkg/neutron/ahead.go", edits: []string{
		"err = l.tryDefault(ctx, plan[0])", "err = nil",
	}}, "./pkg/neutron", "^TestASubnetIsNotDetachedForADefaultThatCannotBeRestored$"},
	{mutation{name: "attachment-tried-without-a-gateway", file: "pkg/neutron/ahead.go", edits: []string{
		"existing.Gateway == gateway && isReleased", "isReleased",
	}}, "./pkg/neutron", "^TestTheRouterChangesAfterTheGatewayWasTakenAway$"},
	{mutation{name: "mark-of-an-import-looked-at-once", file: "pkg/neutron/converge.go", edits: []string{
		"retain = retain || identity.keeps(observed) //", "retain = retain || done == 0 && identity.keeps(observed) //",
	}}, "./pkg/neutron", "^TestAnImportThatLosesItsMarkDuringTheDeletionIsNotDeleted$"},
	{mutation{name: "quota-not-looked-at", file: "pkg/neutron/ahead.go", edits: []string{
		"if !isKnown || quota.Limit < 0 ||", "if true || !isKnown || quota.Limit < 0 ||",
	}}, ".", "^TestAnEditThatCannotBeCompletedCostsNothing$"},
	{mutation{name: "refused-default-holds-up-the-rest", file: "pkg/neutron/plan.go", edits: []string{
		"		if len(defaults) > 0 {\n			return subnet, defaults\n", "		if false {\n			return subnet, defaults\n",
	}}, ".", "^TestADefaultThatCannotBeRestoredHoldsUpNothing$"},
	{mutation{name: "ports-for-snat-are-a-strangers", file: "pkg/neutron/ports.go", edits: []string{
		"return p.ID == i.PortID || p.DeviceOwner == centralizedSNAT &&", "return p.ID == i.PortID || false &&",
	}}, ".", "^TestEveryCrashPointWithDistributedRouters$"},
	{mutation{name: "all-wait-for-the-own-cloud", file: "controller.go", edits: []string{
		"	logger.Info(\"Starting workers\", \"count\", workers)\n", "	select {\n	case <-c.clouds.Own().Observer().FirstListDone():\n	case <-ctx.Done():\n		return ctx.Err()\n	}\n	logger.Info(\"Starting workers\", \"count\", workers)\n",
	}}, ".", "^TestAnOwnCloudThatDoesNotAnswerTheFirstListHoldsUpNobodyElse$"},
	{mutation{name: "one-object-is-an-outage", file: "pkg/neutron/circuit.go", edits: []string{
		"isAboutObject := isFailure && isChange(request.Method, request.URL.Path)", "isAboutObject := false",
	}}, ".", "^TestNetworksThatFailForEverCostTheOthersNothing$"},
	{mutation{name: "cached-routers-forgotten", file: "pkg/neutron/routing.go", edits: []string{
		"return c.keepRouting(cluster, networks), nil", "return networks, nil",
	}}, ".", "^TestAListThatFailsForEverCostsTheOthersNothing$"},
	{mutation{name: "addresses-taken-from-ports", file: "pkg/neutron/steps.go", edits: []string{
		"func (s DeleteSubnet) check(ctx context.Context, c *Cloud, identity Identity, observed *Network) error {\n", "func (s DeleteSubnet) check(ctx context.Context, c *Cloud, identity Identity, observed *Network) error {\n	if true {\n		return nil\n	}\n",
	}}, "./pkg/neutron", "^TestASubnetWithChosenAddressesIsNotTakenFromPorts$"},
	{mutation{name: "names-lead-to-what-is-gone", file: "pkg/neutron/routing.go", edits: []string{
		"if ReasonOf(err) != Unresolved || desired == nil {", "if true {",
	}}, "./pkg/neutron", "^TestANameOfSomethingThatWasMadeAgain$"},
	{mutation{name: "refused-log-ins-not-counted", file: "pkg/neutron/client.go", edits: []string{
		"c.refused.attempts++", "c.refused.attempts = 0",
	}}, "./pkg/neutron", "^TestWrongCredentialsDoNotLockTheAccount$"},
	{mutation{name: "those-that-were-woken-are-woken-again", file: "pkg/neutron/recovery.go", edits: []string{
		"if waits {", "if waits || !waits {",
	}}, "./pkg/neutron", "^TestWhoIsWokenWhenTheCloudAnswersAgain$"},
	{mutation{name: "turns-not-given-back", file: "pkg/retry/retry.go", edits: []string{
		"if last, ok := l.turns[key]; ok && last.at.After(now) {", "if last, ok := l.turns[key]; false && ok {",
	}}, "./pkg/retry", "^TestRetriesThatAreOvertakenLeaveNoDebt$"},
	{mutation{name: "additional-subnets-are-free-ranges", file: "pkg/deployment/allocator.go", edits: []string{
		"return additionalCIDRsOf(network).Insert(parseCIDRs(texts)...)", "return sets.New(parseCIDRs(texts)...)",
	}}, "./pkg/deployment", "^TestAutoAvoidsEverySubnetOfEveryNetwork$"},
	{mutation{name: "messages-have-no-limit", file: "pkg/status/limits.go", edits: []string{
		"	if len(text) <= limit {\n", "	if len(text) >= 0 {\n",
	}}, "./pkg/status", "^TestAStatusCanBeWrittenWhateverNeutronHas$"},
	{mutation{name: "certificates-not-read-again", file: "pkg/neutron/connections.go", edits: []string{
		"if sameTLS(c.tls, tls) {", "if true {",
	}}, ".", "^TestFilesThatRotateAtEveryRequest$"},
	{mutation{name: "marks-of-imports-name-no-cluster", file: "pkg/neutron/mark.go", edits: []string{
		"	sum := sha256.Sum256([]byte(cluster))\n	return hex.EncodeToString(sum[:])[:clusterDigits]\n", "	return strings.Repeat(\"0\", clusterDigits)\n",
	}}, ".", "^TestAClusterCopiedAtAnyRequestDoesNotTouchImports$"},
	{mutation{name: "older-marks-are-any-clusters", file: "pkg/neutron/import.go", edits: []string{
		"i.isOld() && isUID(o.Cluster)\n", "i.isOld()\n",
	}}, ".", "^TestACopiedClusterDoesNotTakeAnOlderMarkForItsOwn$"},
	{mutation{name: "plan-foresees-the-next-step-only", file: "pkg/neutron/preview.go", edits: []string{
		"failing, err = l.checkAll(ctx, plan)", "failing, err = l.checkAll(ctx, plan[:min(1, len(plan))])",
	}}, "./pkg/neutron", "^TestPreviewForetellsWhatConvergeDoes$"},
	{mutation{name: "no-free-segment-is-an-outage", file: "pkg/neutron/errors.go", edits: []string{
		"if errorType == noNetworkAvailable {", "if false {",
	}}, ".", "^TestNetworksThatFailForEverCostTheOthersNothing$"},
	{mutation{name: "no-patience-with-a-list-that-fails", file: "pkg/neutron/observer.go", edits: []string{
		"if isFirst || o.isAway() || ReasonOf(err) != Unavailable {", "if isFirst || !isFirst {",
	}}, ".", "^TestAListThatFailsForEverCostsTheOthersNothing$"},
	{mutation{name: "cached-imports-forgotten", file: "pkg/neutron/import.go", edits: []string{
		`case !mayStay(ctx, err, "imported networks of other projects"):`, "default:",
	}}, "./pkg/neutron", "^TestWhatIsCachedStaysValidIfSomeListsFail$"},
	{mutation{name: "own-cloud-takes-all-workers", file: "pkg/fair/order.go", edits: []string{
		"case o.limits.Own > 0:", "case false:",
	}}, "./pkg/fair", "^TestASlowCloudLeavesWorkersToTheOthers$"},
	{mutation{name: "forwardings-of-floating-ips-ignored", file: "pkg/neutron/routers.go", edits: []string{
		"for _, w := range f.Forwardings {", "for _, w := range f.Forwardings[:0] {",
	}}, "./pkg/neutron", "^TestFloatingIPsKeepEverythingAsItIs$"},
	{mutation{name: "external-network-deleted-under-floating-ips", file: "pkg/neutron/ports.go", edits: []string{
		"	if !network.External {\n", "	if true {\n",
	}}, "./pkg/neutron", "^TestAnExternalNetworkIsNotDeletedUnderFloatingIPs$"},
	{mutation{name: "ports-as-they-were-before-the-look-ahead", file: "pkg/neutron/ahead.go", edits: []string{
		"if _, isDeletion := steps[0].(DeleteSubnet); !isDeletion {", "if true {",
	}}, "./pkg/neutron", "^TestAPortThatComesDuringTheLookAheadKeepsItsAddress$"},
	{mutation{name: "half-interface-cured-without-a-live-read", file: "pkg/neutron/routersteps.go", edits: []string{
		`return &Error{Op: "attach subnet", Reason: Stale, Message: "what an earlier request has left was removed"}`,
		"_, err := c.client.AttachSubnet(ctx, s.Router, s.Subnet)\n	return err",
	}}, "./pkg/neutron", "^TestAHalfInterfaceIsCured$"},
	{mutation{name: "status-has-all-subnets", file: "pkg/status/limits.go", edits: []string{
		"	if len(o.Subnets) <= maxSubnets {\n		return o.Subnets\n", "	if true {\n		return o.Subnets\n",
	}}, "./pkg/status", "^TestAStatusCanBeWrittenWhateverNeutronHas$"},
}

// TestUnitMutationsFitTheCode is quick, so that they do not fall behind.
func TestUnitMutationsFitTheCode(t *testing.T) {
	for _, m := range unitMutations {
		if _, _, err := m.apply(); err != nil {
			t.Errorf("%s: %v", m.name, err)
		}
	}
}

// TestUnitTestsFindFaultWithBrokenControllers shows that those tests can fail.
func TestUnitTestsFindFaultWithBrokenControllers(t *testing.T) {
	needLong(t)
	dir := makeDir(t)
	root, err := stack.Root()
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range unitMutations {
		t.Run(m.name, func(t *testing.T) {
			overlay, err := m.writeOverlay(filepath.Join(dir, m.name))
			if err != nil {
				t.Fatal(err)
			}
			command := exec.CommandContext(t.Context(), "go", "test", "-count=1", "-overlay="+overlay, "-run="+m.run, m.pkg)
			command.Dir = root
			output, err := command.CombinedOutput()
			if err == nil || !strings.Contains(string(output), "--- FAIL: Test") {
				t.Fatalf("the tests did not fail: %v\n%s", err, output)
			}
			t.Logf("%d failures", strings.Count(string(output), "--- FAIL: Test"))
		})
	}
}
