// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package live

import (
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"

	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
	"github.com/samplecrd/samplecrd-controller/pkg/generated/clientset/versioned/fake"
	"github.com/samplecrd/samplecrd-controller/pkg/testing/apiserver"
)

// lab is an API server with one Network, default/web, as it was when it was cached.
type lab struct {
	*testing.T
	*Networks
	kube   *fake.Clientset
	api    *apiserver.Server
	cached *samplecrdv1.Network
	// journal has the requests to the API server.
	journal []string
	// fail returns the error of a request; nil if it is executed.
	fail func(apiserver.Request) error
}

func newLab(t *testing.T, changes ...func(*samplecrdv1.Network)) *lab {
	l := &lab{T: t, kube: fake.NewClientset()}
	l.api = apiserver.Install(l.kube)
	l.Networks = NewNetworks(l.kube)
	network := &samplecrdv1.Network{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", Generation: 3},
		Spec:       samplecrdv1.NetworkSpec{SubnetSpec: samplecrdv1.SubnetSpec{CIDR: "10.0.0.0/24"}},
		Status:     samplecrdv1.NetworkStatus{NetworkID: "n"},
	}
	for _, change := range changes {
		change(network)
	}
	l.cached = l.api.Put(network)
	l.api.Around(func(r apiserver.Request, do func() (runtime.Object, error)) (runtime.Object, error) {
		l.journal = append(l.journal, strings.TrimSuffix(r.Verb+" networks/"+r.Subresource, "/"))
		if l.fail != nil {
			if err := l.fail(r); err != nil {
				return nil, err
			}
		}
		return do()
	})
	return l
}

// stored returns the Network that the API server has; nil if it has none.
func (l *lab) stored() *samplecrdv1.Network {
	for _, n := range l.api.After(l.api.Changes()) {
		return n
	}
	return nil
}

// edit changes the stored Network, as another client does. The cached one stays as it is.
func (l *lab) edit(change func(*samplecrdv1.Network)) {
	n := l.stored()
	change(n)
	l.api.Put(n)
}

func (l *lab) remove() { l.api.Remove("default", "web") }

// recreate gives the name to another Network.
func (l *lab) recreate() {
	l.remove()
	l.api.Put(&samplecrdv1.Network{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", Generation: 3}, Status: l.cached.Status})
}

func (l *lab) expectJournal(want ...string) {
	l.Helper()
	equal(l.T, want, l.journal)
	l.journal = nil
}

func equal(t *testing.T, want, got any) {
	t.Helper()
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// expectError checks the error: nil, an error that is that one, or one that contains the text.
func expectError(t *testing.T, want any, err error) {
	t.Helper()
	switch want := want.(type) {
	case nil:
		if err != nil {
			t.Errorf("got %v", err)
		}
	case error:
		if !errors.Is(err, want) {
			t.Errorf("got %v, want %v", err, want)
		}
	case string:
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q in it", err, want)
		}
	}
}

// proxyError is the answer of a proxy, or of an API server that does not serve Networks.
var proxyError = apierrors.NewGenericServerResponse(http.StatusNotFound, "patch", samplecrdv1.Resource("networks"), "web", "404 page not found", 0, true)

var errAway = errors.New("connection refused")

func failWith(err error) func(apiserver.Request) error {
	return func(apiserver.Request) error { return err }
}

func removeFinalizers(n *samplecrdv1.Network)   { n.Finalizers = nil }
func withFinalizer(n *samplecrdv1.Network)      { n.Finalizers = []string{samplecrdv1.Finalizer} }
func withOtherFinalizer(n *samplecrdv1.Network) { n.Finalizers = []string{"example.com/other"} }
func withBothFinalizers(n *samplecrdv1.Network) {
	n.Finalizers = []string{"example.com/other", samplecrdv1.Finalizer, "example.com/third"}
}
func label(n *samplecrdv1.Network)         { n.Labels = map[string]string{"a": "b"} }
func withoutStatus(n *samplecrdv1.Network) { n.Status = samplecrdv1.NetworkStatus{} }

// checkFresh calls CheckFresh, and returns the delay if the cache is stale; 0 if it is fresh.
func (l *lab) checkFresh(cached *samplecrdv1.Network) time.Duration {
	l.Helper()
	err := l.CheckFresh(l.Context(), cached)
	var stale *StaleCacheError
	if err != nil && !errors.As(err, &stale) {
		l.Fatalf("got %v", err)
	}
	if stale == nil {
		return 0
	}
	if stale.RetryAfter <= 0 {
		l.Errorf("the delay is %s", stale.RetryAfter)
	}
	return stale.RetryAfter
}

// expectFresh calls CheckFresh.
func (l *lab) expectFresh(want bool, cached *samplecrdv1.Network) {
	l.Helper()
	equal(l.T, want, l.checkFresh(cached) == 0)
}

func TestTheCacheIsFreshWhenItHasOurLastWrite(t *testing.T) {
	l := newLab(t, withFinalizer)
	l.expectFresh(true, l.cached) // nothing was written
	old := l.cached
	expectError(t, nil, l.UpdateStatusIfNeeded(t.Context(), old, samplecrdv1.NetworkStatus{NetworkID: "n", MTU: 1}))
	l.expectFresh(false, old)
	l.expectFresh(false, old) // until the cache has it
	written := l.stored()
	l.expectFresh(true, written)
	l.expectFresh(true, old) // it was forgotten: a cache does not go back
	if len(l.written) != 0 {
		t.Errorf("%v is remembered", l.written)
	}

	// A later version than our own is fresh too.
	expectError(t, nil, l.UpdateStatusIfNeeded(t.Context(), written, samplecrdv1.NetworkStatus{NetworkID: "n", MTU: 2}))
	l.edit(label)
	l.expectFresh(true, l.stored())
}

func TestIsOwnWrite(t *testing.T) {
	at := func(l *lab, version string) *samplecrdv1.Network {
		n := l.cached.DeepCopy()
		n.ResourceVersion = version
		return n
	}
	l := newLab(t)
	if l.IsOwnWrite(at(l, l.cached.ResourceVersion)) {
		t.Error("a version before the first write counts as our own")
	}
	isOwn := false
	l.fail = func(apiserver.Request) error {
		isOwn = l.IsOwnWrite(l.cached)
		return nil
	}
	next := l.cached.Status
	next.NetworkID = "n2"
	expectError(t, nil, l.UpdateStatusIfNeeded(t.Context(), l.cached, next))
	written := l.stored()
	if !isOwn || !l.IsOwnWrite(written) || !l.IsOwnWrite(l.cached) {
		t.Errorf("during our own write: %v, its version: %v, the version before: %v, want all", isOwn, l.IsOwnWrite(written), l.IsOwnWrite(l.cached))
	}
	l.edit(func(n *samplecrdv1.Network) { n.Status.NetworkID = "n3" })
	if l.IsOwnWrite(l.stored()) {
		t.Error("the write of another client counts as our own")
	}
	l.fail = func(apiserver.Request) error { // the answer to the write is overtaken by the next write of another client
		l.IsOwnWrite(at(l, written.ResourceVersion+"0"))
		return nil
	}
	next.NetworkID = "n4"
	expectError(t, "the cache does not have the controller's last write, or has a later one", l.UpdateStatusIfNeeded(t.Context(), l.stored(), next))
	l.fail = func(apiserver.Request) error { return errors.New("no answer") }
	next.NetworkID = "n5"
	if err := l.UpdateStatusIfNeeded(t.Context(), l.stored(), next); err == nil {
		t.Fatal("the write succeeded")
	}
	if l.IsOwnWrite(at(l, l.stored().ResourceVersion+"0")) {
		t.Error("a write without an answer counts as our own")
	}
}

func TestClear(t *testing.T) {
	l := newLab(t)
	expectError(t, nil, l.UpdateStatusIfNeeded(t.Context(), l.cached, samplecrdv1.NetworkStatus{MTU: 1}))
	l.Clear("another")
	l.expectFresh(false, l.cached)
	l.Clear(l.cached.UID)
	l.expectFresh(true, l.cached)
	if len(l.written) != 0 {
		t.Errorf("%v is remembered", l.written)
	}
}

// await calls CheckFresh after each delay until the cache is fresh, for so long at most. It
// returns the number of calls, and the error if there was another one.
func (l *lab) await(atMost time.Duration) (calls int, err error) {
	for began := time.Now(); time.Since(began) < atMost; {
		calls++
		err := l.CheckFresh(l.Context(), l.cached)
		var stale *StaleCacheError
		if !errors.As(err, &stale) {
			return calls, err
		}
		time.Sleep(stale.RetryAfter) // of virtual time
	}
	return calls, errStillStale
}

var errStillStale = errors.New("the cache is still stale")

func TestACacheThatStaysBehindIsCheckedLessAndLessOften(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t)
		expectError(t, nil, l.UpdateStatusIfNeeded(t.Context(), l.cached, samplecrdv1.NetworkStatus{MTU: 1}))
		l.expectJournal("patch networks/status")
		equal(t, 20*time.Millisecond, l.checkFresh(l.cached))
		time.Sleep(20 * time.Millisecond)
		equal(t, 20*time.Millisecond, l.checkFresh(l.cached))
		calls, err := l.await(time.Minute)
		expectError(t, errStillStale, err)
		if calls > 70 {
			t.Errorf("%d checks in a minute", calls)
		}
		// The API server has the write, so the cache is behind. It is asked every 5 s or so.
		asked := len(l.journal)
		if asked < 9 || asked > 12 {
			t.Errorf("the API server was asked %d times in a minute", asked)
		}
		equal(t, time.Second, l.checkFresh(l.cached))
		l.cached = l.stored()
		l.expectFresh(true, l.cached)

		// The next write begins with short delays again.
		before := l.cached
		expectError(t, nil, l.UpdateStatusIfNeeded(t.Context(), before, samplecrdv1.NetworkStatus{MTU: 2}))
		equal(t, 20*time.Millisecond, l.checkFresh(before))
	})
}

func TestAWriteThatTheAPIServerHasLostIsForgotten(t *testing.T) {
	for _, test := range []struct {
		name string
		// change is what happens after the write.
		change func(*lab, int)
		want   any // the error that ends the wait
		lost   bool
	}{
		{"the cache is behind", func(*lab, int) {}, errStillStale, false},
		{"a backup from before the write", func(l *lab, changes int) { l.api.Restore(changes) }, nil, true},
		{"a backup from before the Network", func(l *lab, _ int) { l.api.Restore(0) }, ErrGone, true},
		{"a backup from before the Network, and another has its name", func(l *lab, _ int) { l.api.Restore(0); l.recreate() }, ErrGone, true},
		{"the API server is away", func(l *lab, _ int) { l.fail = failWith(errAway) }, errStillStale, false},
		{"a proxy answers", func(l *lab, _ int) { l.fail = failWith(proxyError) }, errStillStale, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLab(t)
				changes := l.api.Changes()
				expectError(t, nil, l.UpdateStatusIfNeeded(t.Context(), l.cached, samplecrdv1.NetworkStatus{MTU: 1}))
				l.journal = nil
				test.change(l, changes)
				_, err := l.await(4 * time.Second) // a cache may be that slow
				expectError(t, errStillStale, err)
				l.expectJournal()
				_, err = l.await(time.Minute)
				expectError(t, test.want, err)
				equal(t, test.lost, len(l.written) == 0)
				if test.lost {
					l.expectJournal("get networks")
				}
			})
		})
	}
}

func TestVerify(t *testing.T) {
	for _, test := range []struct {
		name     string
		change   func(*lab)
		want     any
		conflict bool
	}{
		{"it is the same", func(*lab) {}, nil, false},
		{"something else has changed", func(l *lab) { l.edit(label) }, nil, false},
		{"another Network has its name", (*lab).recreate, "it has changed since it was read: metadata.uid", true},
		{"a user pauses it and clears status.cloud", func(l *lab) {
			l.edit(func(n *samplecrdv1.Network) { pause(n); n.Status.Cloud = "" })
		}, "it has changed since it was read: the annotation samplecrd.k8s.io/paused, status.cloud", true},
		{"it is gone", (*lab).remove, "read the Network past the cache: ", false},
		{"the API server is away", func(l *lab) { l.fail = failWith(errAway) }, errAway, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			l := newLab(t, func(n *samplecrdv1.Network) { n.Status.Cloud = "cloud" })
			test.change(l)
			err := l.Verify(t.Context(), l.cached)
			expectError(t, test.want, err)
			equal(t, test.conflict, apierrors.IsConflict(err))
			l.expectJournal("get networks")
		})
	}
}

func pause(n *samplecrdv1.Network) {
	n.Annotations = map[string]string{samplecrdv1.AnnotationPaused: "true"}
}

// Each field of a Network is set in turn: either a decision rests on it, or it is one of those
// that none rests on. A new field needs such a decision too.
func TestChangesComparesAllThatADecisionRestsOn(t *testing.T) {
	const irrelevant = ""
	status := map[string]string{
		"networkID": "status.networkID", "subnetID": "status.subnetID", "imported": "status.imported",
		"cloud": "status.cloud", "projectID": "status.projectID", "region": "status.region",
		"subnets": "status.subnets", "router": "status.router", "sharedWith": "status.sharedWith",
		// What Neutron has is read there. These only say what was seen last.
		"observedGeneration": irrelevant, "cidr": irrelevant, "gateway": irrelevant, "mtu": irrelevant,
		"conditions": irrelevant, "lastHandledReconcileAt": irrelevant,
	}
	for name, field := range fields(t, &samplecrdv1.NetworkStatus{}) {
		want, known := status[name]
		if !known {
			t.Errorf("status.%s: does a decision rest on it?", name)
		}
		t.Run("status."+name, func(t *testing.T) {
			expectChange(t, want, func(n *samplecrdv1.Network) { setField(t, &n.Status, field) })
		})
	}
	for name, field := range fields(t, &samplecrdv1.NetworkSpec{}) {
		t.Run("spec."+name, func(t *testing.T) {
			expectChange(t, "spec", func(n *samplecrdv1.Network) { setField(t, &n.Spec, field) })
		})
	}
	for _, test := range []struct {
		name, want string
		set        func(*samplecrdv1.Network)
	}{
		{"UID", "metadata.uid", func(n *samplecrdv1.Network) { n.UID = "u" }},
		{"generation", "metadata.generation", func(n *samplecrdv1.Network) { n.Generation = 1 }},
		{"deletion", "metadata.deletionTimestamp", func(n *samplecrdv1.Network) { n.DeletionTimestamp = new(metav1.Unix(1, 0)) }},
		{"finalizer", "the finalizer", withFinalizer},
		{"pause", "the annotation " + samplecrdv1.AnnotationPaused, pause},
		{"another finalizer", irrelevant, withOtherFinalizer},
		{"another annotation", irrelevant, func(n *samplecrdv1.Network) { n.Annotations = map[string]string{"a": "b"} }},
		{"label", irrelevant, label},
		{"resourceVersion", irrelevant, func(n *samplecrdv1.Network) { n.ResourceVersion = "1" }},
		{"owner", irrelevant, func(n *samplecrdv1.Network) { n.OwnerReferences = []metav1.OwnerReference{{Name: "a"}} }},
	} {
		t.Run(test.name, func(t *testing.T) { expectChange(t, test.want, test.set) })
	}
}

// expectChange compares Networks with and without the change, in both directions.
func expectChange(t *testing.T, want string, change func(*samplecrdv1.Network)) {
	t.Helper()
	before, after := &samplecrdv1.Network{}, &samplecrdv1.Network{}
	change(after)
	var changed []string
	if want != "" {
		changed = []string{want}
	}
	equal(t, changed, changes(before, after))
	equal(t, changed, changes(after, before))
	equal(t, 0, len(changes(after, after.DeepCopy())))
}

// fields returns the indexes of the struct's fields by their names in JSON. The fields of an
// inline struct are among them.
func fields(t *testing.T, object any) map[string][]int {
	t.Helper()
	byName := map[string][]int{}
	for _, field := range reflect.VisibleFields(reflect.TypeOf(object).Elem()) {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if field.Anonymous {
			continue
		}
		if byName[name] != nil {
			t.Fatalf("two fields have the name %q", name)
		}
		byName[name] = field.Index
	}
	return byName
}

// setField gives the struct's field a value that is not zero.
func setField(t *testing.T, object any, index []int) {
	t.Helper()
	field := reflect.ValueOf(object).Elem().FieldByIndex(index)
	switch field.Kind() {
	case reflect.String:
		field.SetString("a")
	case reflect.Int32, reflect.Int64:
		field.SetInt(1)
	case reflect.Bool:
		field.SetBool(true)
	case reflect.Slice:
		field.Set(reflect.MakeSlice(field.Type(), 1, 1))
	case reflect.Pointer:
		field.Set(reflect.New(field.Type().Elem()))
	default:
		t.Fatalf("no value for a %s", field.Type())
	}
}

func TestIsGone(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(*lab)
		want   bool
		err    any
	}{
		{"it exists", func(*lab) {}, false, nil},
		{"it is gone", (*lab).remove, true, nil},
		{"another Network has its name", (*lab).recreate, true, nil},
		{"the API server is away", func(l *lab) { l.fail = failWith(errAway) }, false, errAway},
		{"a proxy answers", func(l *lab) { l.remove(); l.fail = failWith(proxyError) }, false, proxyError},
	} {
		t.Run(test.name, func(t *testing.T) {
			l := newLab(t)
			test.change(l)
			gone, err := l.IsGone(t.Context(), l.cached)
			equal(t, test.want, gone)
			expectError(t, test.err, err)
		})
	}
}

func TestRereadIfStatusless(t *testing.T) {
	hide := func(l *lab) { withoutStatus(l.cached) } // the cache has it without its status
	for _, test := range []struct {
		name     string
		change   func(*lab)
		want     string // the networkID of the Network that is returned
		err      any
		conflict bool
		journal  []string
	}{
		{"it has a status", func(*lab) {}, "n", nil, false, nil},
		{"it has the default of the CustomResourceDefinition", func(l *lab) {
			l.cached.Status = samplecrdv1.NetworkStatus{Conditions: []metav1.Condition{{Type: samplecrdv1.ConditionReady, Status: metav1.ConditionUnknown}}}
		}, "", nil, false, nil},
		{"the API server has its status", hide, "n", nil, false, []string{"patch networks/status"}},
		{"it is gone, or there is no status subresource", func(l *lab) { hide(l); l.remove() }, "", "the CustomResourceDefinition is too old", false, []string{"patch networks/status"}},
		{"another Network has its name", func(l *lab) { hide(l); l.recreate() }, "", "another Network has its name", true, []string{"patch networks/status"}},
		{"a proxy answers", func(l *lab) { hide(l); l.fail = failWith(proxyError) }, "", proxyError, false, []string{"patch networks/status"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			l := newLab(t)
			test.change(l)
			changes := l.api.Changes()
			got, err := l.RereadIfStatusless(t.Context(), l.cached)
			expectError(t, test.err, err)
			equal(t, test.conflict, apierrors.IsConflict(err))
			if err == nil {
				equal(t, test.want, got.Status.NetworkID)
			}
			l.expectJournal(test.journal...)
			equal(t, changes, l.api.Changes()) // nothing is written
			if test.err == proxyError && strings.Contains(err.Error(), "CustomResourceDefinition") {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestAddFinalizerIfNeeded(t *testing.T) {
	for _, test := range []struct {
		name     string
		before   func(*samplecrdv1.Network)
		change   func(*lab)
		added    bool
		err      any
		conflict bool
		journal  []string
		stored   []string // finalizers; nil if the Network is gone
	}{
		{"it has it", withFinalizer, func(*lab) {}, false, nil, false, nil, []string{samplecrdv1.Finalizer}},
		{"it has none", removeFinalizers, func(*lab) {}, true, nil, false, []string{"patch networks"}, []string{samplecrdv1.Finalizer}},
		{"other finalizers stay", withOtherFinalizer, func(*lab) {}, true, nil, false, []string{"patch networks"}, []string{"example.com/other", samplecrdv1.Finalizer}},
		{"the cache is outdated", withOtherFinalizer, func(l *lab) { l.edit(label) }, false, "add the finalizer: ", true, []string{"patch networks"}, []string{"example.com/other"}},
		{"it is gone", removeFinalizers, (*lab).remove, false, ErrGone, false, []string{"patch networks"}, nil},
		{"a proxy answers", removeFinalizers, func(l *lab) { l.fail = failWith(proxyError) }, false, proxyError, false, []string{"patch networks"}, []string{}},
	} {
		t.Run(test.name, func(t *testing.T) {
			l := newLab(t, test.before)
			test.change(l)
			before := l.cached.DeepCopy()
			got, added, err := l.AddFinalizerIfNeeded(t.Context(), l.cached)
			equal(t, test.added, added)
			expectError(t, test.err, err)
			equal(t, test.conflict, apierrors.IsConflict(err))
			equal(t, test.err == any(ErrGone), errors.Is(err, ErrGone))
			l.expectJournal(test.journal...)
			equal(t, before, l.cached) // it is the cache's
			l.expectFinalizers(test.stored)
			_, awaited := l.written[l.cached.UID]
			equal(t, test.added, awaited)
			if err == nil {
				equal(t, l.stored(), got)
			}
		})
	}
}

// expectFinalizers checks the finalizers of the stored Network; nil if it must be gone.
func (l *lab) expectFinalizers(want []string) {
	l.Helper()
	stored := l.stored()
	equal(l.T, want == nil, stored == nil)
	if stored != nil {
		equal(l.T, want, stored.Finalizers)
	}
}

func TestRemoveFinalizer(t *testing.T) {
	deleted := func(change func(*samplecrdv1.Network)) func(*samplecrdv1.Network) {
		return func(n *samplecrdv1.Network) {
			change(n)
			n.DeletionTimestamp = new(metav1.Unix(1, 0))
		}
	}
	for _, test := range []struct {
		name     string
		before   func(*samplecrdv1.Network)
		change   func(*lab)
		err      any
		conflict bool
		stored   []string // finalizers; nil if the Network is gone
	}{
		{"Kubernetes deletes the Network", deleted(withFinalizer), func(*lab) {}, nil, false, nil},
		{"other finalizers stay", deleted(withBothFinalizers), func(*lab) {}, nil, false, []string{"example.com/other", "example.com/third"}},
		{"the cache is outdated", deleted(withFinalizer), func(l *lab) { l.edit(label) }, "remove the finalizer: ", true, []string{samplecrdv1.Finalizer}},
		{"it is gone", deleted(withFinalizer), (*lab).remove, ErrGone, false, nil},
		{"a proxy answers", deleted(withFinalizer), func(l *lab) { l.fail = failWith(proxyError) }, proxyError, false, []string{samplecrdv1.Finalizer}},
	} {
		t.Run(test.name, func(t *testing.T) {
			l := newLab(t, test.before)
			test.change(l)
			before := l.cached.DeepCopy()
			err := l.RemoveFinalizer(t.Context(), l.cached)
			expectError(t, test.err, err)
			equal(t, test.conflict, apierrors.IsConflict(err))
			equal(t, test.err == any(ErrGone), errors.Is(err, ErrGone))
			l.expectJournal("patch networks")
			equal(t, before, l.cached) // it is the cache's
			l.expectFinalizers(test.stored)
		})
	}
}

func TestUpdateStatusIfNeeded(t *testing.T) {
	next := samplecrdv1.NetworkStatus{NetworkID: "n", MTU: 1450}
	patch, get := "patch networks/status", "get networks"
	for _, test := range []struct {
		name     string
		change   func(*lab)
		err      any
		conflict bool
		journal  []string
		written  bool
	}{
		{"it is the same", func(l *lab) { l.cached.Status = *next.DeepCopy() }, nil, false, nil, false},
		{"it differs", func(*lab) {}, nil, false, []string{patch}, true},
		{"the cache is outdated", func(l *lab) { l.edit(label) }, "write the status: ", true, []string{patch, get}, false},
		{"it is gone", (*lab).remove, ErrGone, false, []string{patch, get}, false},
		// Only the resourceVersion prevents the write of another Network's status.
		{"another Network has its name", (*lab).recreate, ErrGone, false, []string{patch, get}, false},
		{"a proxy answers", func(l *lab) { l.fail = failWith(proxyError) }, proxyError, false, []string{patch}, false},
		{"it cannot be read after a conflict", func(l *lab) {
			l.edit(label)
			l.fail = func(r apiserver.Request) error {
				if r.Verb == "get" {
					return errAway
				}
				return nil
			}
		}, "read the Network past the cache: ", false, []string{patch, get}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			l := newLab(t)
			test.change(l)
			err := l.UpdateStatusIfNeeded(t.Context(), l.cached, next)
			expectError(t, test.err, err)
			equal(t, test.conflict, apierrors.IsConflict(err))
			equal(t, test.err == any(ErrGone), errors.Is(err, ErrGone))
			l.expectJournal(test.journal...)
			stored := l.stored()
			equal(t, test.written, stored != nil && stored.Status.MTU == 1450)
			_, awaited := l.written[l.cached.UID]
			equal(t, test.written, awaited)
		})
	}
}

func TestTheStatusIsWrittenAsAMergePatch(t *testing.T) {
	l := newLab(t)
	next := *l.cached.Status.DeepCopy()
	next.MTU = 1450
	expectError(t, nil, l.UpdateStatusIfNeeded(t.Context(), l.cached, next))
	actions := l.kube.Actions()
	patch, ok := actions[len(actions)-1].(clienttesting.PatchActionImpl)
	if !ok || patch.PatchType != types.MergePatchType || patch.Subresource != "status" || patch.PatchOptions.FieldManager != fieldManager {
		t.Errorf("got %+v", actions[len(actions)-1])
	}
	equal(t, fmt.Sprintf(`{"metadata":{"resourceVersion":%q},"status":{"mtu":1450}}`, l.cached.ResourceVersion), string(patch.Patch))
}
