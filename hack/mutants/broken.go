// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

// broken is a controller that is broken by hand, as somebody could write it by mistake.
type broken struct {
	name, file string
	// edits are pairs of what is there, once, and what stands there instead.
	edits []string
	// run matches those tests of the package tests that notice; where they are "", the simulation does.
	tests, run string
}

var brokenByHand = []broken{
	{"look-up-by-mark-disabled", "pkg/neutron/cloud.go", []string{
		"found, err = c.client.FindNetworks(ctx, identity.Owner.Mark())",
		"found, err = nil, nil",
	}, "./pkg/neutron", "^TestFindPrefersTheNetworkInTheStatus$"},
	{"finalizer-put-on-late", "controller.go", []string{
		"patched, added, err := c.live.AddFinalizerIfNeeded(ctx, network)",
		"patched, added, err := network, !live.HasFinalizer(network), error(nil)",
		"	return network, status.Outcome{Observation: status.Observing(view), ",
		"	if err == nil {\n\t\tlate, _, lateErr := c.live.AddFinalizerIfNeeded(ctx, network)\n\t\tif lateErr != nil {\n" +
			"\t\t\treturn network, status.Outcome{Err: lateErr}\n\t\t}\n\t\tnetwork = late\n\t}\n" +
			"	return network, status.Outcome{Observation: status.Observing(view), ",
	}, ".", "^TestSyncHandler$"},
	{"list-errors-dropped", "pkg/neutron/list.go", []string{
		"return listError(op, err)\n\t\t}\n\t\tif l.read == before {",
		"return nil\n\t\t}\n\t\tif l.read == before {",
	}, "./pkg/neutron", "^TestAFindThatFailsDoesNotChangeTheCache$"},
	{"live-read-ignored", "pkg/live/live.go", []string{
		"if changed := changes(cached, live); len(changed) > 0 {",
		"if changed := changes(cached, live); len(changed) > 100 {",
	}, "./pkg/live", "^TestVerify$"},
	{"no-live-read", "controller.go", []string{
		"return c.live.Verify(ctx, network)",
		"return nil",
	}, ".", "^TestNetworkThatARestoredAPIServerHasLostStaysInNeutron$"},
	{"region-of-the-credentials-only", "pkg/neutron/place.go", []string{
		"if len(regions) > 1 {",
		"if false {",
		"place.Region = regions[0]",
		"place.Region = endpoint.Region",
	}, "./pkg/neutron", "^TestANetworkOfAnotherPlaceIsNotCreatedAgain$"},
	{"place-of-the-first-session-only", "pkg/neutron/client.go", []string{
		"if before, ok := c.Place(); ok && before != place {",
		"if before, ok := c.Place(); ok {\n\t\tplace = before\n\t}\n\tif before, ok := c.Place(); ok && before != place {",
	}, "./pkg/neutron", "^TestATokenOfAnotherPlaceIsNotUsed$"},
	{"restored-network-not-synced", "controller.go", []string{
		"case live.IsRestored(before, now):",
		"case false:",
	}, ".", "^TestWhyToSync$"},
	{"twins-delete-each-others-orphans", "pkg/orphans/finder.go", []string{
		"f.neverOwned[at] = neverOwned",
		"f.neverOwned[at] = nil",
	}, "./pkg/orphans", "^TestAnotherInstallationWithTheSameClusterIDIsReported$"},
	{"lost-write-never-forgotten", "pkg/live/live.go", []string{
		"if now.Sub(missing.reread) >= rereadDelay {",
		"if now.IsZero() {",
	}, "./pkg/live", "^TestACacheThatStaysBehindIsCheckedLessAndLessOften$"},
	{"lease-given-up-before-the-drain", "pkg/election/election.go", []string{
		"context.WithCancel(context.WithoutCancel(ctx))",
		"context.WithCancel(ctx)",
		"case <-ended:\n\tcase",
		"case <-ended:\n\t\te.release(context.WithoutCancel(ctx))\n\t\treturn <-result\n\tcase",
	}, "./pkg/election", "^TestTheLeaseIsHeldUntilTheWorkIsDoneAndThenTakenAtOnce$"},
	{"no-look-at-the-lease-before-a-request", "pkg/election/election.go", []string{
		"if !e.Leads() {",
		"if false {",
	}, "./pkg/election", "^TestAReplicaThatLosesTheLeaseIsStopped$"},
	{"no-live-read-before-a-subnet-is-attached", "pkg/neutron/effects.go", []string{
		"return effect{repairs: []string{fieldInterface}}",
		"return effect{isReversible: true, repairs: []string{fieldInterface}}",
	}, "", ""},
	{"imports-are-deleted-by-default", "pkg/apis/samplecrd/v1/types.go", []string{
		`return n.Spec.DeletionPolicy == DeletionRetain || n.Spec.DeletionPolicy == "" && n.Spec.Import != nil`,
		`return n.Spec.DeletionPolicy == DeletionRetain`,
	}, ".", "^TestEveryCrashPointOfEveryScenario$"},
	{"no-live-read-before-an-import", "pkg/neutron/effects.go", []string{
		"return effect{onlyUpdates: true, repairs: []string{fieldNetworkMark}}",
		"return effect{isReversible: true, onlyUpdates: true, repairs: []string{fieldNetworkMark}}",
	}, "", ""},
	{"region-of-a-status-ignored", "pkg/neutron/cloud.go", []string{
		`sameRegion := from.place.Region == now.Region || from.place.Region == "" && session.onlyRegion`, "sameRegion := true",
	}, ".", "^TestRegionThatIsAddedLosesNoNetwork$"},
	{"place-of-a-lost-answer-forgotten", "pkg/neutron/take.go", []string{
		"case isKnown:", "case isKnown && false:",
	}, ".", "^TestTheSecretLeadsElsewhereAfterACreationThatFailed$"},
	{"place-of-a-new-session-not-compared", "pkg/neutron/client.go", []string{
		"if before, ok := c.Place(); ok && before != place {", "if before, ok := c.Place(); false && ok {",
	}, ".", "^TestTokenRefusedAtEveryRequest$"},
	{"pause-not-in-the-live-read", "pkg/live/live.go", []string{
		`{"the annotation " + samplecrdv1.AnnotationPaused, cached.IsPaused() != live.IsPaused()},`, "",
	}, ".", "^(TestActorsAtEveryRequest|TestNothingIrreversibleIsDoneWhenTheNetworkHasChangedPastTheCache)$"},
	{"finalizer-not-in-the-live-read", "pkg/live/live.go", []string{
		`{"the finalizer", HasFinalizer(cached) != HasFinalizer(live)},`, "",
	}, ".", "^TestActorsAtEveryRequest$"},
	{"one-failure-is-an-outage", "pkg/neutron/circuit.go", []string{
		"return c.since, c.failures >= enough || c.failures > 0 && !c.answered", "return c.since, true",
	}, ".", "^TestActorsAtEveryRequest$"},
	{"clouds-have-no-turns", "pkg/fair/order.go", []string{
		"	o.turns = slices.Delete(o.turns, i, i+1)\n	if w.count > 0 {\n		o.turns = append(o.turns, w)\n	}\n",
		"	if w.count == 0 {\n		o.turns = slices.Delete(o.turns, i, i+1)\n	}\n",
	}, "./pkg/fair", "^TestNoGroupWaitsForEver$"},
	{"no-cluster-cloud-for-the-lost", "pkg/clouds/clouds.go", []string{
		"spare, spareErr := c.spareFor(key, network)", "var spare *neutron.Cloud\n\tvar spareErr error",
	}, "./pkg/clouds", "^TestAClusterCloudGoesBeforeTheCredentialsThatWereSeenLast$"},
	{"permission-not-asked", "pkg/clouds/clouds.go", []string{
		"if err := c.checkPermission(key, network); err != nil {", "if err := error(nil); err != nil {",
	}, "./pkg/clouds", "^TestWhoMayUseACloud$"},
	{"deletion-needs-a-permission", "pkg/clouds/permission.go", []string{
		"if !network.DeletionTimestamp.IsZero() || key != cache.MetaObjectToName(network) {", "if key != cache.MetaObjectToName(network) {",
	}, "./pkg/clouds", "^TestWhoMayUseACloud$"},
	{"labels-change-unnoticed", "pkg/clouds/permission.go", []string{
		"if !maps.Equal(before.Labels, now.Labels) {", "if false && !maps.Equal(before.Labels, now.Labels) {",
	}, "./pkg/clouds", "^TestPermissionsChange$"},
	{"secrets-of-networks-are-trusted", "pkg/clouds/clouds.go", []string{
		"	if group.isOffered {\n		servers = nil", "	if true {\n		servers = nil",
	}, "./pkg/clouds", "^TestAClusterCloudIsTrusted$"},
	{"waits-for-ports-ignored", "pkg/neutron/converge.go", []string{
		"	return c.waits.check(identity.Owner.UID, ports)\n", "	_ = c.waits.check(identity.Owner.UID, ports)\n	return nil\n",
	}, ".", "^TestActorsAtEveryRequest$"},
	{"one-obsolete-subnet-only", "pkg/neutron/plan.go", []string{
		"create.Replaces = append(create.Replaces, s.ID)", "create.Replaces = []string{s.ID}",
	}, "./pkg/neutron", "^TestPortsOnAnyObsoleteSubnetPreventTheReplacement$"},
	{"list-not-found-is-not-found", "pkg/neutron/list.go", []string{
		"Unavailable, Invalid, NotFound)", "Unavailable, Invalid)",
	}, "./pkg/neutron", "^TestAListThatIsNotFoundProvesNothing$"},
	{"changes-of-failed-syncs-forgotten", "pkg/status/unrecorded.go", []string{
		"	u.changes[key] = c\n", "	delete(u.changes, key)\n",
	}, ".", "^TestActorsAtEveryRequest$"},
	{"vanished-on-the-word-of-a-restored-server", "controller.go", []string{
		"return err // the next sync finds the outcome's error again",
		"if errors.Is(err, live.ErrGone) {\n\t\t\t\tc.vanished.Add(network)\n\t\t\t}\n\t\t\treturn err",
	}, ".", "^TestNetworkThatARestoredAPIServerHasLostStaysInNeutron$"},
	{"subnets-of-other-projects-not-listed", "pkg/neutron/listnetworks.go", []string{
		"return networks, c.readMissing(ctx, networks, func(i int) int { return int(found[i].SubnetCount) })", "return networks, nil",
	}, ".", "^TestUnmanagedSubnetOfAnotherProjectIsReportedOnce$"},
	{"too-many-networks-are-an-error", "pkg/neutron/observer.go", []string{
		"if errors.Is(err, errTooMany) {", "if false && errors.Is(err, errTooMany) {",
	}, "./pkg/neutron", "^TestAfterAnOverflowOnlyWhatWasReadIsKnownAndNothingFails$"},
	{"clouds-do-not-know-of-each-other", "pkg/clouds/clouds.go", []string{
		"	observer.Join(c.own.Observer())\n", "",
	}, ".", "^TestOtherCredentialsInEveryScenario$"},
	{"router-before-its-status", "pkg/neutron/steps.go", []string{
		"if !i.RouterRecorded {", "if false {",
		"if !i.RouterRecorded || !s.IsOwn && i.RouterID != s.Router {", "if s.IsOwn && false {",
	}, "./pkg/neutron", "^TestTheRouterIsRecordedFirst$"},
	{"own-router-not-looked-for", "pkg/neutron/routers.go", []string{
		"routers = slices.DeleteFunc(routers, func(r Router) bool { return r.Description != mark })", "routers = nil",
	}, "./pkg/neutron", "^TestARoutedNetworkReadsLiveIfItsRoutersAreNotKnown$"},
	{"half-interface-is-attached", "pkg/neutron/routerplan.go", []string{
		"return i.Confirmed || v.PortIDs[i.SubnetID] == i.PortID", "return true",
	}, "./pkg/neutron", "^TestAHalfInterfaceIsCured$"},
	{"interfaces-on-strangers-subnets", "pkg/neutron/ownership.go", []string{
		"s != nil && i.owns(s) &&", "s != nil &&",
	}, "./pkg/neutron", "^TestWhatPreventsTheRemovalOfARoutedNetwork$"},
	{"interfaces-known-by-their-port-alone", "pkg/neutron/ownership.go", []string{
		`!(v.Import != "" && v.PortIDs[s.ID] == i.PortID)`, `!(v.Import != "" && slices.Contains(slices.Collect(maps.Values(v.PortIDs)), i.PortID))`,
		`"fmt"`, "\"fmt\"\n\t\"maps\"",
	}, "./pkg/neutron", "^TestTheOtherIPv6SubnetOfAnImportStaysConnected$"},
	{"other-addresses-of-our-port-ignored", "pkg/neutron/blockers.go", []string{
		"return i.SubnetID == ip.SubnetID && p.GoesWith(i)", "return p.GoesWith(i)",
	}, "./pkg/neutron", "^TestWhatPreventsTheRemovalOfARoutedNetwork$"},
	{"what-is-switched-off-is-ready", "pkg/neutron/converge.go", []string{
		", v.checkAdminState())", ")",
	}, "./pkg/neutron", "^TestWhatIsSwitchedOffIsNotConnected$"},
	{"floating-ips-ignored", "pkg/neutron/preconditions.go", []string{
		"	before(anyStep, \"no floating IPs depend on the interface\", (*lookahead).checkFloatingIPs),\n", "",
	}, "./pkg/neutron", "^TestFloatingIPsKeepEverythingAsItIs$"},
	{"obsolete-router-stays", "pkg/neutron/plan.go", []string{
		"return v.obsoleteRouter()", "return nil",
	}, "./pkg/neutron", "^TestThePlanOfRouters$"},
	{"detached-before-the-next-is-attached", "pkg/neutron/plan.go", []string{
		"	if step := v.nextForRouter(); step != nil {\n		return step\n	}\n", "",
		"	return v.obsoleteRouter()\n",
		"	if step := v.nextForRouter(); step != nil {\n		return step\n	}\n	return v.obsoleteRouter()\n",
	}, "./pkg/neutron", "^TestTheCIDROfAnAttachedSubnetChanges$"},
	{"ports-not-checked-before-the-detach", "pkg/neutron/preconditions.go", []string{
		"case DeleteNetwork, UnshareNetwork:", "case DetachSubnet:",
	}, "./pkg/neutron", "^TestTheCIDROfAnAttachedSubnetChanges$"},
	{"first-of-two-equal-subnets-taken", "pkg/neutron/plan.go", []string{
		"if found == nil || v.rank(subnet, s) > v.rank(subnet, found) {", "if found == nil {",
	}, "./pkg/neutron", "^TestNext$"},
	{"share-not-recorded", "pkg/neutron/steps.go", []string{
		"if !slices.Contains(i.SharedWith, s.Project) {", "if slices.Contains(i.SharedWith, s.Project) && false {",
	}, "./pkg/neutron", "^TestNextForShares$"},
	{"shares-of-others-ended", "pkg/neutron/plan.go", []string{
		`s != nil && s.ID != "" && isObsolete`, `s != nil && isObsolete`,
	}, "./pkg/neutron", "^TestNextForShares$"},
	{"policy-not-read-before-the-end-of-sharing", "pkg/neutron/preconditions.go", []string{
		"share == nil || *share != s.Share", "share == nil && false",
	}, "./pkg/neutron", "^TestAPolicyThatBecameAnothers$"},
	{"refused-share-holds-up-the-rest", "pkg/neutron/converge.go", []string{
		"if !isRefusal(err) && ReasonOf(err) != OverQuota {", "if true {",
	}, "./pkg/neutron", "^TestAProjectThatStaysHoldsUpNothing$"},
	{"old-list-of-pools-believed", "pkg/neutron/preconditions.go", []string{
		"if err == nil && age > maxNamesAge {", "if err == nil && age < 0 {",
	}, "./pkg/neutron", "^TestAnotherPoolThatHasChangedSinceItWasListed$"},
	{"pools-of-other-projects-found-by-name", "pkg/neutron/routing.go", []string{
		`if ref.ID != "" || !pool.IsForeign {`, "if true {",
	}, "./pkg/neutron", "^TestAPoolOfAnotherProject$"},
	{"tags-of-other-imports-ignored", "pkg/neutron/importplan.go", []string{
		"for _, other := range ImportersOf(network.Tags) {", `for _, other := range ImportersOf("") {`,
	}, "./pkg/neutron", "^TestWhatIsDoneAboutAnImport$"},
	{"import-not-confirmed", "pkg/neutron/import.go", []string{
		"fresh, err = c.confirm(ctx, identity.Owner, fresh.ID)", "fresh, err = c.client.getNetwork(ctx, fresh.ID)",
	}, "./pkg/neutron", "^TestTwoImportsAtTheSameMoment$"},
	{"mark-that-was-not-confirmed-forgotten", "pkg/neutron/import.go", []string{
		"		c.observer.Invalidate(identity.Owner.UID) // the network may have the tag, whatever the error says\n", "",
	}, "./pkg/neutron", "^TestAnUnconfirmedImportIsRemoved$"},
	{"observed-networks-are-changed", "pkg/neutron/plan.go", []string{
		`if v.Import != "" && (v.ReadOnly || !v.Observed.Exists()) {`, `if v.Import != "" && !v.Observed.Exists() {`,
	}, "./pkg/neutron", "^TestWhatIsDoneAboutAnImport$"},
	{"observed-networks-are-removed", "pkg/neutron/converge.go", []string{
		"	if identity.ReadOnly {\n		return &observed.Network, nil\n	}\n", "",
	}, "./pkg/neutron", "^TestRemoveAnImport$"},
	{"subnets-that-were-taken-over-are-deleted", "pkg/neutron/plan.go", []string{
		"v.isCreated(s) && !declared[s.ID]", "v.isOurs(s) && !declared[s.ID]",
	}, "./pkg/neutron", "^TestPlanOfAnImport$"},
	{"only-the-next-step-is-checked", "pkg/neutron/ahead.go", []string{
		"	if len(plan) == 1 {\n		return 0,", "	if len(plan) > 0 {\n		return 0,",
	}, ".", "^TestAnEditThatCannotBeCompletedCostsNothing$"},
	{"subnets-not-read-before-the-detach", "pkg/neutron/preconditions.go", []string{
		"	if l.isListed {", "	if true {",
	}, ".", "^TestAnEditMeetsAnObstacleThatNoListHasShownYet$"},
	{"subnets-of-the-external-network-ignored", "pkg/neutron/preconditions.go", []string{
		"if other.CIDR.Overlaps(s.CIDR) {", "if !isExternal && other.CIDR.Overlaps(s.CIDR) {",
	}, ".", "^TestAnEditThatCannotBeCompletedCostsNothing$"},
	{"no-attachment-tried-before-the-detach", "pkg/neutron/ahead.go", []string{
		"err = l.tryAttachments(ctx, guard)", "err = nil",
	}, ".", "^TestAnEditThatCannotBeCompletedCostsNothing$"},
	{"gateway-inside-a-pool-not-foreseen", "pkg/neutron/preconditions.go", []string{
		`if pool := after.Pools.containing(after.Gateway); pool != "" {`, "if pool := after.Pools.containing(after.Gateway); false {",
	}, ".", "^TestAnEditThatCannotBeCompletedCostsNothing$"},
	{"range-of-a-lost-answer-not-used", "pkg/neutron/allocation.go", []string{
		"{v.isRecorded, isNamed, isAny}", "{v.isRecorded}",
		"	isAny := func(*DesiredSubnet, *Subnet) bool { return true }\n", "",
	}, "./pkg/neutron", "^TestASubnetFromAPoolWhoseAnswerWasLost$"},
	{"subnet-goes-while-its-pool-is-not-known", "pkg/neutron/plan.go", []string{
		"waits := effect.takesAway && !v.isResolved() ||", "waits := effect.takesAway && !v.Router.isResolved() ||",
		"step != nil || !v.isResolved() {", "step != nil || !v.Router.isResolved() {",
	}, "./pkg/neutron", "^TestNextForSubnetPools$"},
	{"subnet-of-another-pool-created-beside", "pkg/neutron/allocation.go", []string{
		"d.CIDR.Overlaps(other.CIDR) || d.version() == versionOf(other.CIDR) && d.poolID() != other.PoolID", "d.CIDR.Overlaps(other.CIDR)",
	}, "./pkg/neutron", "^TestNextForSubnetPools$"},
	{"strangers-range-taken-over", "pkg/neutron/ownership.go", []string{
		"v.isRecorded(&d, s) && isNamed(&d, s)", "v.isRecorded(&d, s)",
	}, "./pkg/neutron", "^TestAnImportLeavesAStrangersSubnetFromThePoolAlone$"},
	{"forgotten-pool-taken-for-none", "pkg/neutron/routing.go", []string{
		"	return SubnetPool{}, 0, &Error{Op: field, Reason: Unresolved,", "	return SubnetPool{}, 0, nil\n}\n\nvar _ = func(field, id string) (SubnetPool, time.Duration, error) {\n	return SubnetPool{}, 0, &Error{Op: field, Reason: Unresolved,",
	}, "./pkg/neutron", "^TestAPoolThatIsForgottenAfterItWasFound$"},
	{"routes-not-looked-for", "pkg/neutron/preconditions.go", []string{
		"	before(laterStep, \"no route of the router depends on the interface\", (*lookahead).checkRoutes),\n", "",
	}, ".", "^TestAnEditThatCannotBeCompletedCostsNothing$"},
	{"routes-not-removed-before-the-detach", "pkg/neutron/plan.go", []string{
		"v.freeing(v.Observed, v.next())", "v.next()",
	}, "./pkg/neutron", "^TestThePlanOfRoutes$"},
	{"routes-of-others-removed", "pkg/neutron/routes.go", []string{
		"return i.AllRoutes || i.Routes.has(route)", "return true",
	}, "./pkg/neutron", "^TestARemovalRemovesTheRoutesOfTheOwner$"},
	{"routes-removed-as-they-were-observed", "pkg/neutron/take.go", []string{
		"return now.without(s.Routes)", `return ""`,
	}, "./pkg/neutron", "^TestOnlyTheOwnersRoutesAreRemoved$"},
	{"routes-set-before-they-are-recorded", "pkg/neutron/steps.go", []string{
		`		if s.Routes.without(i.Routes) != "" {`, "		if false {",
	}, "./pkg/neutron", "^TestThePlanOfRoutes$"},
	{"next-hops-not-looked-at", "pkg/neutron/preconditions.go", []string{
		"	before(plannedStep, \"the router has the subnets of the next hops\", (*lookahead).checkNextHops),\n", "",
	}, ".", "^TestAnEditThatCannotBeCompletedCostsNothing$"},
	{"hidden-subnets-ignored", "pkg/neutron/preconditions.go", []string{
		"		if l.observed.subnet(id) == nil {", "		if false && id != \"\" {",
	}, "./pkg/neutron", "^TestAHiddenSubnetPreventsAReplacement$"},
	{"default-not-tried-before-the-detach", "pkg/neutron/ahead.go", []string{
		"err = l.tryDefault(ctx, plan[0])", "err = nil",
	}, "./pkg/neutron", "^TestASubnetIsNotDetachedForADefaultThatCannotBeRestored$"},
	{"attachment-tried-without-a-gateway", "pkg/neutron/preconditions.go", []string{
		"existing.Gateway == gateway && isReleased", "isReleased",
	}, "./pkg/neutron", "^TestTheRouterChangesAfterTheGatewayWasTakenAway$"},
	{"mark-of-an-import-looked-at-once", "pkg/neutron/converge.go", []string{
		"if !retain && identity.keeps(&observed.Network) {", "if done == 0 && !retain && identity.keeps(&observed.Network) {",
	}, "./pkg/neutron", "^TestAnImportThatLosesItsMarkDuringTheDeletionIsNotDeleted$"},
	{"another-mark-of-an-import-looked-at-once", "pkg/neutron/converge.go", []string{
		"retain = identity.keeps(&observed.Network)\n", "retain = true\n",
	}, "./pkg/neutron", "^TestAnImportThatHasNoOtherMarkAnyMoreIsDeleted$"},
	{"quota-not-looked-at", "pkg/neutron/preconditions.go", []string{
		"if !isKnown || quota.Limit < 0 ||", "if true || !isKnown || quota.Limit < 0 ||",
	}, ".", "^TestAnEditThatCannotBeCompletedCostsNothing$"},
	{"refused-default-holds-up-the-rest", "pkg/neutron/plan.go", []string{
		"		if len(defaults) > 0 {\n			return subnet, defaults\n", "		if false {\n			return subnet, defaults\n",
	}, ".", "^TestADefaultThatCannotBeRestoredHoldsUpNothing$"},
	{"ports-for-snat-are-a-strangers", "pkg/neutron/ports.go", []string{
		"return p.ID == i.PortID || p.DeviceOwner == centralizedSNAT &&", "return p.ID == i.PortID || false &&",
	}, ".", "^TestEveryCrashPointWithDistributedRouters$"},
	{"all-wait-for-the-own-cloud", "controller.go", []string{
		"	logger.Info(\"Starting workers\", \"count\", workers)\n", "	select {\n	case <-c.clouds.Own().Observer().FirstListDone():\n	case <-ctx.Done():\n		return ctx.Err()\n	}\n	logger.Info(\"Starting workers\", \"count\", workers)\n",
	}, ".", "^TestAnOwnCloudThatDoesNotAnswerTheFirstListHoldsUpNobodyElse$"},
	{"one-object-is-an-outage", "pkg/neutron/circuit.go", []string{
		"isAboutObject := isFailure && isChange(request.Method, request.URL.Path)", "isAboutObject := false",
	}, ".", "^TestNetworksThatFailForEverCostTheOthersNothing$"},
	{"cached-routers-forgotten", "pkg/neutron/relist.go", []string{
		"return c.keepRouting(owned), nil", "return joinRouting(owned, nil, nil, false), nil",
	}, ".", "^TestAListThatFailsForEverCostsTheOthersNothing$"},
	{"addresses-taken-from-ports", "pkg/neutron/preconditions.go", []string{
		"case DeleteNetwork, UnshareNetwork:", "case DeleteSubnet:",
	}, "./pkg/neutron", "^TestARestoredBackupDoesNotTakeAddressesFromPorts$"},
	{"names-lead-to-what-is-gone", "pkg/neutron/routing.go", []string{
		"if ReasonOf(err) != Unresolved {", "if true {",
	}, "./pkg/neutron", "^TestANameOfSomethingThatWasMadeAgain$"},
	{"refused-log-ins-not-counted", "pkg/neutron/client.go", []string{
		"c.refused.attempts++", "c.refused.attempts = 0",
	}, "./pkg/neutron", "^TestWrongCredentialsDoNotLockTheAccount$"},
	{"those-that-were-woken-are-woken-again", "pkg/neutron/recovery.go", []string{
		"if waits {", "if waits || !waits {",
	}, "./pkg/neutron", "^TestWhoIsWokenWhenTheCloudAnswersAgain$"},
	{"turns-not-given-back", "pkg/retry/retry.go", []string{
		"if last, ok := l.turns[key]; ok && last.at.After(now) {", "if last, ok := l.turns[key]; false && ok {",
	}, "./pkg/retry", "^TestRetriesThatAreOvertakenLeaveNoDebt$"},
	{"additional-subnets-are-free-ranges", "pkg/deployment/allocator.go", []string{
		"return additionalCIDRsOf(network).Insert(parseCIDRs(texts)...)", "return sets.New(parseCIDRs(texts)...)",
	}, "./pkg/deployment", "^TestAutoAvoidsEverySubnetOfEveryNetwork$"},
	{"messages-have-no-limit", "pkg/status/limits.go", []string{
		"	if len(text) <= limit {\n", "	if len(text) >= 0 {\n",
	}, "./pkg/status", "^TestAStatusCanBeWrittenWhateverNeutronHas$"},
	{"certificates-not-read-again", "pkg/neutron/connections.go", []string{
		"if sameTLS(c.tls, config.TLS) {", "if true {",
	}, "./pkg/neutron", "^TestTheServerHasANewAuthorityBeforeTheFile$"},
	{"marks-of-imports-name-no-cluster", "pkg/neutron/mark.go", []string{
		"	sum := sha256.Sum256([]byte(cluster))\n	return hex.EncodeToString(sum[:])[:clusterDigits]\n", "	return strings.Repeat(\"0\", clusterDigits)\n",
	}, ".", "^TestAClusterCopiedAtAnyWriteDoesNotTouchImports$"},
	{"older-marks-are-any-clusters", "pkg/neutron/importtag.go", []string{
		"i.isOld() && isUID(o.Cluster)\n", "i.isOld()\n",
	}, ".", "^TestACopiedClusterDoesNotTakeAnOlderMarkForItsOwn$"},
	{"plan-foresees-the-next-step-only", "pkg/neutron/preview.go", []string{
		"failing, err = l.checkAll(ctx, plan)", "failing, err = l.checkAll(ctx, plan[:min(1, len(plan))])",
	}, "./pkg/neutron", "^TestPreviewForetellsWhatConvergeDoes$"},
	{"no-free-segment-is-an-outage", "pkg/neutron/errors.go", []string{
		"NoSegment, // 503", "Unavailable, // 503",
	}, ".", "^TestNetworksThatFailForEverCostTheOthersNothing$"},
	{"no-patience-with-a-list-that-fails", "pkg/neutron/observer.go", []string{
		"if isFirst || o.isAway() || ReasonOf(err) != Unavailable {", "if isFirst || !isFirst {",
	}, ".", "^TestAListThatFailsForEverCostsTheOthersNothing$"},
	{"cached-imports-forgotten", "pkg/neutron/import.go", []string{
		`case !mayStay(ctx, err, "imported networks of other projects"):`, "default:",
	}, "./pkg/neutron", "^TestWhatIsCachedStaysValidIfSomeListsFail$"},
	{"own-cloud-takes-all-workers", "pkg/fair/order.go", []string{
		"if o.limits.Own == 0 {", "if true {",
	}, "./pkg/fair", "^TestASlowCloudLeavesWorkersToTheOthers$"},
	{"one-tenant-takes-all-workers", "pkg/fair/order.go", []string{
		"return o.tenants[namespace] < 2*left", "return true",
	}, "./pkg/fair", "^TestASlowCloudLeavesWorkersToTheOthers$"},
	{"second-room-wakes-nobody", "pkg/fair/order.go", []string{
		"if q.order.hasRoom() {", "if false {",
	}, "./pkg/fair", "^TestNothingIsLost$"},
	{"sync-without-an-end", "pkg/neutron/turn.go", []string{
		"time.Now().After(t.ends)", "t.ends.IsZero()",
	}, "./pkg/neutron", "^TestASyncBeginsNoRequestAfterTwoMinutes$"},
	{"servers-of-secrets-are-quoted", "pkg/neutron/client.go", []string{
		"if config.Untrusted {", "if false {",
	}, "./pkg/neutron", "^TestNothingCanBeReadThroughTheCloudOfASecret$"},
	{"forwardings-of-floating-ips-ignored", "pkg/neutron/routers.go", []string{
		"for _, w := range f.Forwardings {", "for _, w := range f.Forwardings[:0] {",
	}, "./pkg/neutron", "^TestFloatingIPsKeepEverythingAsItIs$"},
	{"external-network-deleted-under-floating-ips", "pkg/neutron/preconditions.go", []string{
		"	if !s.Network.External {\n", "	if true {\n",
	}, "./pkg/neutron", "^TestAnExternalNetworkIsNotDeletedUnderFloatingIPs$"},
	{"ports-as-they-were-before-the-look-ahead", "pkg/neutron/ahead.go", []string{
		"if _, isDeletion := steps[0].(DeleteSubnet); !isDeletion {", "if true {",
	}, "./pkg/neutron", "^TestAPortThatComesDuringTheLookAheadKeepsItsAddress$"},
	{"half-interface-cured-without-a-live-read", "pkg/neutron/attach.go", []string{
		`return &Error{Op: "attach subnet", Reason: Stale, Message: "what an earlier request has left was removed"}`,
		"_, err := c.client.AttachSubnet(ctx, s.Router, s.Subnet)\n	return err",
	}, "./pkg/neutron", "^TestAHalfInterfaceIsCured$"},
	{"status-has-all-subnets", "pkg/status/limits.go", []string{
		"	if len(o.Subnets) <= maxSubnets {\n		return o.Subnets\n", "	if true {\n		return o.Subnets\n",
	}, "./pkg/status", "^TestAStatusCanBeWrittenWhateverNeutronHas$"},
	{"removal-ends-before-routers-were-listed", "pkg/neutron/routing.go", []string{
		"if observed.RoutersKnown || c.routing.hasList() {", "if true {",
	}, "./pkg/neutron", "^TestARouterThatABackupLacksIsRemovedAlsoIfItCannotBeListed$"},
	{"owners-of-listed-routers-forgotten", "pkg/neutron/routing.go", []string{
		"r.owners = r.owners.Union(sets.KeySet(marked))", "r.owners = r.owners.Union(nil)",
	}, "./pkg/neutron", "^TestARouterThatABackupLacksIsRemovedAlsoIfItCannotBeListed$"},
	{"move-marks-routers-first", "pkg/neutron/handover.go", []string{
		"	if h.From.marks(observed.Description) {\n		moves = append(moves, Move{MoveNetwork, observed.ID})\n	}\n", "",
		"	return moves\n}\n\n// oldTags", "	if h.From.marks(observed.Description) {\n		moves = append(moves, Move{MoveNetwork, observed.ID})\n	}\n	return moves\n}\n\n// oldTags",
	}, "", ""},
	{"move-removes-the-only-tag", "pkg/neutron/handover.go", []string{
		"if h.Import != \"\" && len(oldTags) > 0 && !observed.namesCluster(h.To) {", "if false {",
	}, "", ""},
	{"move-removes-the-old-tag-before-other-marks", "pkg/neutron/handover.go", []string{
		"moves = append(moves, Move{RemoveTag, observed.ID})",
		"if moves = append(moves, Move{RemoveTag, observed.ID}); moves[0].Kind != AddTag {\n\t\t\tslices.Reverse(moves)\n\t\t}",
	}, "./pkg/neutron", "^TestTheTagsOfAHandover$"},
	{"move-does-not-wait-for-the-old-controller", "pkg/command/move/mover.go", []string{
		"case !hasHandledPause(&old):", "case false:",
	}, "", ""},
	{"move-takes-what-another-network-here-owns", "pkg/command/move/match.go", []string{
		"return uid != t.Network.UID && i.here[uid]", "return false",
	}, "", ""},
}
