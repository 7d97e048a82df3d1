// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package neutron

import (
	"net/http"
	"testing"

	"github.com/gophercloud/gophercloud/v2"
	"k8s.io/apimachinery/pkg/types"

	"github.com/samplecrd/samplecrd-controller/pkg/neutron/embedded"
)

func TestWhoIsWokenWhenTheCloudAnswersAgain(t *testing.T) {
	answered := func(op, method string, status int) error {
		return wrap(op, gophercloud.ErrUnexpectedResponseCode{Method: method, Actual: status})
	}
	var (
		noAnswer = &Error{Op: "update network", Reason: Unavailable, err: errAway}
		refused  = answered("update network", http.MethodPut, 500)
		noAccess = &Error{Op: "list networks", Reason: Unauthenticated}
		unsent   = ofAnother(refused)
	)
	const woken = "woken"
	for _, test := range []struct {
		name string
		// ends are how the syncs ended; woken is a recovery.
		ends []any
		want bool
	}{
		{"no sync failed", []any{nil}, false},
		{"Neutron did not answer", []any{noAnswer}, true},
		{"no request was sent", []any{unsent}, true},
		{"a read failed", []any{answered("list networks", http.MethodGet, 500)}, true},
		{"a read is refused", []any{answered("get network", http.MethodGet, 404)}, false},
		{"Keystone failed", []any{answered(authenticate, http.MethodPost, 500)}, true},
		{"Neutron is not in the catalog", []any{&Error{Op: findNeutron, Reason: Unavailable}}, true},
		{"the credentials are refused", []any{noAccess}, true},
		{"the credentials are refused again after it was woken", []any{noAccess, woken, noAccess}, true},
		{"Neutron refused the change", []any{refused}, false},
		{"ports are in the way", []any{&Error{Reason: InUse}}, false},
		{"an error of Kubernetes", []any{errAway}, false},
		{"the error is another now", []any{noAnswer, refused}, false},
		{"it was woken already", []any{noAnswer, woken}, false},
		{"it fails again after it was woken", []any{noAnswer, woken, noAnswer}, false},
		{"it was woken, and then no request was sent", []any{noAnswer, woken, unsent}, true},
		{"it fails again after a success", []any{noAnswer, woken, nil, noAnswer}, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			var r recovery
			for _, end := range test.ends {
				if end == woken {
					equal(t, []types.UID{owner.UID}, r.wake())
					continue
				}
				err, _ := end.(error)
				r.ended(owner.UID, err)
			}
			equal(t, test.want, len(r.wake()) == 1)
			r.ended(owner.UID, unsent)
			r.forget(owner.UID)
			equal(t, 0, len(r.owners))
		})
	}
}

// An outage can end between the request that was not sent and the end of its sync.
func TestASyncIsNotForgottenIfTheOutageEndsDuringIt(t *testing.T) {
	unsent := ofAnother(&Error{Op: "get network", Reason: Unavailable, away: true})
	w := newWorld(t, embedded.Options{})
	w.told = nil
	w.SyncEnded(owner.UID, &Error{Op: "get network", Reason: Unavailable, away: true})
	equal(t, []types.UID(nil), w.told)
	w.SyncEnded(owner.UID, unsent)
	equal(t, []types.UID{owner.UID}, w.told)
	w.observer.isAway = func() bool { return true }
	w.SyncEnded(owner.UID, unsent)
	equal(t, []types.UID{owner.UID}, w.told)

	// A sync before the first list would fail in the same way at once.
	w.lab.answer(replyTo("GET", networksPath, 500, ""))
	w.Cloud = NewCloud("test", w.lab.client(t), owner.Cluster, 0)
	w.Observer().AddHandler(func(types.UID) { t.Error("it is synced at once") })
	if err := w.Observer().Relist(t.Context()); err == nil {
		t.Fatal("the list succeeded")
	}
	w.observer.isAway = func() bool { return false }
	w.SyncEnded(owner.UID, unsent)
	(*Cloud)(nil).SyncEnded(owner.UID, unsent)
}
