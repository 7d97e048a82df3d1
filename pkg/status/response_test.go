// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
	"github.com/samplecrd/samplecrd-controller/pkg/neutron"
	"github.com/samplecrd/samplecrd-controller/pkg/neutron/embedded"
)

// A reason without a row would have no condition, and no delay of its own.
func TestEachReasonHasAResponse(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "../neutron/errors.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	declared := 0
	ast.Inspect(file, func(node ast.Node) bool {
		spec, isValue := node.(*ast.ValueSpec)
		if !isValue {
			return true
		}
		if kind, isNamed := spec.Type.(*ast.Ident); isNamed && kind.Name == "ErrorReason" {
			declared++
			reason, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
			if _, hasRow := responses[neutron.ErrorReason(reason)]; !hasRow {
				t.Errorf("%s has no row in response.go: %v", reason, err)
			}
		}
		return true
	})
	equal(t, len(responses), declared)
}

// Each reason of an error of Neutron is a row of the table, and each has a row here.
func TestConditions(t *testing.T) {
	const resync, backOff = 5 * time.Minute, 0
	const words = "sync: create subnet: Neutron's own words"
	rows := []struct {
		reason    neutron.ErrorReason
		ready     string        // the reason of Ready=False; "" if the status does not say it
		also      string        // the other condition that is True
		after     time.Duration // when it is tried again
		retriedOn string        // what is waited for
	}{
		{neutron.Invalid, "InvalidSpec", "Stalled", resync, "an edit"},
		{neutron.Forbidden, "Forbidden", "Stalled", resync, "a right"},
		{neutron.OtherCloud, "OtherCloud", "Stalled", resync, "credentials of the cloud that the status names"},
		{neutron.OtherOwner, "OtherOwner", "Stalled", resync, "the network's mark"},
		{neutron.ImportNotFound, "NetworkNotFound", "Stalled", resync, "the network to import"},
		{neutron.ImportRefused, "ImportRefused", "Stalled", resync, "an edit, or the network's mark"},
		{neutron.AdminStateDown, "AdminStateDown", "Stalled", resync, "a list that shows it switched on"},
		{neutron.Paused, "Paused", "", resync, "the annotation"},
		{neutron.NoCredentials, "NoCredentials", "Reconciling", resync, "the Secret"},
		{neutron.NotPermitted, "CloudNotPermitted", "Stalled", resync, "the label of the namespace, or the ClusterCloud"},
		{neutron.Unauthenticated, "AuthenticationFailed", "Reconciling", time.Minute, "a person who corrects the password"},
		{neutron.OverQuota, "QuotaExceeded", "Reconciling", time.Minute, "a person who raises the quota"},
		{neutron.NoZone, "ReferenceNotFound", "Reconciling", time.Minute, "a person who adds the zone"},
		{neutron.NoSegment, "NoSegmentAvailable", "Reconciling", time.Minute, "a person who adds segments"},
		{neutron.PoolEmpty, "SubnetPoolExhausted", "Reconciling", time.Minute, "a block that is free again"},
		{neutron.Unresolved, "ReferenceNotFound", "Reconciling", time.Minute, "a person who creates what the spec names"},
		{neutron.InUse, "InUse", "Reconciling", time.Minute, "the end of the ports, in case nothing enqueues the Network then"},
		{neutron.Unrecorded, "Progressing", "Reconciling", time.Millisecond, "its own status"},
		{neutron.Unavailable, "NeutronUnavailable", "Reconciling", backOff, "an answer"},
		{neutron.Stale, "", "", backOff, "the next read: two writers must not overwrite each other endlessly"},
		{neutron.NotFound, "", "", backOff, "the next read"},
	}
	equal(t, len(rows), len(responses))
	for _, row := range rows {
		t.Run(fmt.Sprintf("%s waits for %s", row.reason, row.retriedOn), func(t *testing.T) {
			err := fmt.Errorf("sync: %w", neutronError(row.reason))
			delay, known := RetryAfter(err, resync)
			equal(t, row.after, delay)
			equal(t, row.after != backOff, known)
			equal(t, row.ready != "", IsReported(err))
			if row.ready != "" {
				expectConditions(t, Outcome{Err: err}, row.ready, row.also, words)
			}
		})
	}
	t.Run("success", func(t *testing.T) { expectConditions(t, Outcome{}, "Available", "", "Neutron matches the spec") })
	t.Run("an error of Kubernetes is not reported, and not final", func(t *testing.T) {
		err := errors.New("oops")
		_, known := RetryAfter(err, resync)
		equal(t, false, known || IsReported(err) || IsReported(nil))
		expectConditions(t, Outcome{Err: err}, "NeutronUnavailable", "Reconciling", "oops")
	})
	t.Run("an outage since a known time", func(t *testing.T) {
		expectConditions(t, Outcome{CloudState: CloudState{Away: longAgo.Time, IsOutage: true}, Err: neutronError(neutron.Unavailable)}, "NeutronUnavailable", "Reconciling",
			"Neutron has not been available since 2026-01-01T00:00:00Z: create subnet: Neutron's own words")
	})
}

// expectConditions checks the conditions that follow from the outcome, whatever they were before.
func expectConditions(t *testing.T, o Outcome, reason, also, message string) {
	t.Helper()
	conditions := func(reason, also, message string) []metav1.Condition {
		if reason == "Available" {
			return []metav1.Condition{condition("Ready", "True", reason, message)}
		}
		all := []metav1.Condition{condition("Ready", "False", reason, message)}
		if also != "" {
			all = append(all, condition(also, "True", reason, message))
		}
		return all
	}
	o.Observed, o.Subnets = haveNetwork(), haveSubnets("")
	for _, before := range [][]metav1.Condition{nil, {ready()}, conditions("InvalidSpec", "Stalled", "x"), conditions("InUse", "Reconciling", "x")} {
		byType := cmpopts.SortSlices(func(a, b metav1.Condition) bool { return a.Type < b.Type })
		equal(t, conditions(reason, also, message), Compute(newNetwork(before...), o).Conditions, whenever, byType)
	}
}

func TestNeutronsOwnRetryAfterComesFirst(t *testing.T) {
	for _, reason := range []neutron.ErrorReason{neutron.Unavailable, neutron.Invalid} {
		delay, known := RetryAfter(errors.Join(errors.New("write the status"), &neutron.Error{Reason: reason, RetryAfter: 7 * time.Second}), time.Minute)
		equal(t, true, known && delay == 7*time.Second)
	}
}

func TestIsPremature(t *testing.T) {
	server, err := embedded.Start("127.0.0.1:0", embedded.Options{})
	must(t, err)
	config, err := neutron.ParseConfig("test", server.CloudsYAML("test"))
	must(t, err)
	t.Cleanup(func() { _ = server.Close() })
	newCloud := func(config neutron.Config) *neutron.Cloud {
		client := neutron.NewClient(config, neutron.ClientOptions{Timeout: time.Minute})
		t.Cleanup(client.Close)
		return neutron.NewCloud("test", client, "cluster", time.Hour)
	}
	failing, listed := newCloud(away(t)), newCloud(config)
	must(t, listed.Observer().Relist(t.Context()))
	if err := failing.Observer().Relist(t.Context()); err == nil {
		t.Fatal("the list did not fail")
	}
	unavailable := neutronError(neutron.Unavailable)
	edited := newNetwork(ready())
	edited.Generation++
	deleted := newNetwork(ready())
	deleted.DeletionTimestamp = new(metav1.Unix(1, 0))
	for _, test := range []struct {
		name    string
		cloud   *neutron.Cloud
		network *samplecrdv1.Network
		err     error
		want    bool
	}{
		{"nothing contradicts the status", failing, newNetwork(ready()), unavailable, true},
		{"refused credentials are reported", failing, newNetwork(ready()), neutronError(neutron.Unauthenticated), false},
		{"the next step waits for the status", failing, newNetwork(ready()), neutronError(neutron.Unrecorded), false},
		{"Neutron was listed", listed, newNetwork(ready()), unavailable, false},
		{"the cloud is not known", nil, newNetwork(ready()), unavailable, false},
		{"the Network was not ready", failing, newNetwork(condition("Ready", "False", "InUse", "x")), unavailable, false},
		{"the Network was edited", failing, edited, unavailable, false},
		{"the Network is being deleted", failing, deleted, unavailable, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			equal(t, test.want, IsPremature(test.cloud, test.network, test.err))
		})
	}
}
