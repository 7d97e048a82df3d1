// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"os"
	"strings"
	"testing"

	"github.com/samplecrd/samplecrd-controller/hack/controlplane/cluster"
)

// alone is the control plane of TestWholeCluster.
var alone *plane

// TestWholeCluster has the tests that need a cluster for themselves: they change what is for all namespaces, use
// samplecrd-system, or have a controller that sees the Networks of all namespaces. They run one after another, on a
// control plane of their own, beside all others.
func TestWholeCluster(t *testing.T) {
	t.Parallel()
	alone = startAlone(t, "whole-cluster")
	t.Run("ReadinessWaitsForTheCRD", readinessWaitsForTheCRD)
	if err := alone.applyCRD(crdOfToday); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name string
		run  func(*testing.T)
	}{
		{"AdmissionPoliciesRefuseNewNetworks", admissionPoliciesRefuseNewNetworks},
		{"AdmissionPoliciesLetOldNetworksBeEdited", admissionPoliciesLetOldNetworksBeEdited},
		{"AdmissionPoliciesFindMistakesInTheirRules", admissionPoliciesFindMistakesInTheirRules},
		{"AdmissionPoliciesHoldForDeployments", admissionPoliciesHoldForDeployments},
		{"AdmissionPoliciesCanBeTriedFirst", admissionPoliciesCanBeTriedFirst},
		{"NetworksAreProtectedFromDeletion", networksAreProtectedFromDeletion},
		{"DeployIsOneCommandThatCanBeRepeated", deployIsOneCommandThatCanBeRepeated},
		{"DeployOverlaysOfAUser", deployOverlaysOfAUser},
		{"DeployedPodsAreAsRestrictedAsCanBe", deployedPodsAreAsRestrictedAsCanBe},
		{"DeployGrantsNetworksToEditAndView", deployGrantsNetworksToEditAndView},
		{"DeployedRightsAreAllUsedAndNoOthersAreTried", deployedRightsAreAllUsedAndNoOthersAreTried},
		{"OrphansAreReportedAndRemovedOnRequestOnly", orphansAreReportedAndRemovedOnRequestOnly},
		{"NetworksOfTheFirstReleaseAreReconciled", networksOfTheFirstReleaseAreReconciled},
		{"OlderCRDInBetweenLosesNoNetwork", olderCRDInBetweenLosesNoNetwork},
		{"FullNameReachesOurNetworksBesideOthers", fullNameReachesOurNetworksBesideOthers},
	} {
		t.Run(test.name, test.run)
	}
}

// startAlone starts a control plane for one test.
func startAlone(t *testing.T, folder string) *plane {
	t.Helper()
	executable, err := cluster.Build(t.Context(), os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	p, err := startPlane(t.Context(), executable, folder)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.controlPlane.Stop(); err != nil {
			t.Error(err)
		}
	})
	return p
}

// planeOf returns the control plane for the test.
func planeOf(t *testing.T) *plane {
	switch test, _, _ := strings.Cut(t.Name(), "/"); test {
	case "TestWholeCluster":
		return alone
	case "TestHostileTenants":
		return hostile
	}
	return shared
}
