// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package clouds

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"

	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
	"github.com/samplecrd/samplecrd-controller/pkg/neutron"
	"github.com/samplecrd/samplecrd-controller/pkg/neutron/embedded"
)

// listOwn lists the controller's own cloud.
func (l *lab) listOwn() {
	l.Helper()
	must(l, l.Own().Observer().Relist(l.Context()))
}

func key(name string) cache.ObjectName { return cache.NewObjectName("team", name) }

// naming returns a Network that references the credentials, or none if the name of the Secret is "".
func naming(secret string, changes ...func(*samplecrdv1.Network)) *samplecrdv1.Network {
	n := &samplecrdv1.Network{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "web"}}
	if secret != "" {
		n.Spec.CloudCredentialsRef = &samplecrdv1.CloudCredentialsReference{SecretName: secret, CloudName: "mycloud"}
	}
	for _, change := range changes {
		change(n)
	}
	return n
}

func beingDeleted(n *samplecrdv1.Network) { n.DeletionTimestamp = new(metav1.Unix(1, 0)) }

func equal(t *testing.T, want, got any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// The zero name stands for the controller's own credentials. A list that fails ends the wait too.
func TestTheControllersOwnCloudIsReadyAfterItsFirstList(t *testing.T) {
	for _, failure := range []int{0, http.StatusServiceUnavailable} {
		l := newLab(t)
		l.neutron.SetFault(func(r *http.Request) *embedded.Fault { return &embedded.Fault{Status: failure} })
		if cloud, err := l.For(t.Context(), key("a"), naming("")); cloud != nil || !errors.Is(err, ErrNotReady) {
			t.Errorf("got %v, %v, want ErrNotReady", cloud, err)
		}
		l.running.Go(func() { l.RunOwn(l.Clouds.ctx) })
		equal(t, cache.ObjectName{}, <-l.told)
		if cloud, err := l.For(t.Context(), key("a"), naming("")); cloud != l.Own() || err != nil {
			t.Errorf("got %v, %v", cloud, err)
		}
	}
}

func TestCredentialsAreReleasedWithTheLastNetworkThatUsesThem(t *testing.T) {
	l := newLab(t)
	l.put(l.secret("creds", "one"))
	l.untilFor(key("a"), naming("creds"), ready)
	l.untilFor(key("b"), naming("creds"), ready)
	l.untilFor(key("b"), naming("creds"), ready) // counts once
	expect := func(clouds int, released ...Ref) {
		t.Helper()
		equal(t, clouds+1, len(l.List())) // and the controller's own
		equal(t, released, l.released)
	}
	expect(1)
	l.Forget(key("a"))
	l.Forget(key("a")) // a second call does nothing
	l.Forget(key("c")) // never referenced any credentials
	equal(t, Ref{}, l.RefOfKey(key("a")))
	expect(1)
	other := Ref{Source: key("other"), CloudName: "mycloud"}
	l.untilFor(key("b"), naming("other"), says("it does not exist"))
	equal(t, other, l.RefOfKey(key("b")))
	expect(0, ref)
	equal(t, map[cache.ObjectName]Ref{key("b"): other}, l.groups.refs)
	equal(t, 1, len(l.inUse))
	equal(t, 1, l.inUse[other].users)

	// The Network no longer references credentials.
	l.listOwn()
	_, err := l.For(t.Context(), key("b"), naming(""))
	must(t, err)
	expect(0, ref, other)
	if len(l.groups.refs)+len(l.inUse)+len(l.secrets) > 0 {
		t.Errorf("refs %v, in use %v, secrets %v", l.groups.refs, l.inUse, l.secrets)
	}
}

func TestTwoCloudsOfOneSecretAreReleasedSeparately(t *testing.T) {
	l := newLab(t)
	second := naming("creds", func(n *samplecrdv1.Network) { n.Spec.CloudCredentialsRef.CloudName = "mycloud-two" })
	l.put(l.secret("creds", "one"))
	l.untilFor(key("a"), naming("creds"), ready)
	l.untilFor(key("b"), second, ready)
	l.Forget(key("a"))
	equal(t, []Ref{ref}, l.released)
	equal(t, 2, len(l.List()))
	equal(t, 1, len(l.secrets)) // the other Network still needs it
	l.Forget(key("b"))
	equal(t, []Ref{ref, RefOf(second)}, l.released)
	equal(t, 1, len(l.List()))
	equal(t, 0, len(l.secrets))
}

// Networks can name any number of them, one after the other.
func TestNamesThatASecretDoesNotHaveAreNotKept(t *testing.T) {
	l := newLab(t)
	l.put(l.secret("creds", "one"))
	l.untilFor(key("a"), naming("creds"), ready)
	for i := range 100 {
		_, err := l.For(t.Context(), key("b"), naming("creds", func(n *samplecrdv1.Network) {
			n.Spec.CloudCredentialsRef.CloudName = fmt.Sprint("none-", i)
		}))
		equal(t, neutron.NoCredentials, neutron.ReasonOf(err))
	}
	l.Forget(key("b"))
	equal(t, 0, len(l.secrets[ref.Source].file.refusals))
}

func TestADeletedNetworkKeepsTheCloudIfItsNamespaceIsBeingDeleted(t *testing.T) {
	terminating := func(n *corev1.Namespace) { n.DeletionTimestamp = new(metav1.Unix(1, 0)) }
	const cloud, missing = "mycloud", "it does not exist"
	for _, test := range []struct {
		name      string
		namespace func(*corev1.Namespace)
		network   *samplecrdv1.Network
		seen      bool   // whether the Secret was seen before it was deleted
		readErr   error  // of the namespace
		want      string // the name of the cloud that the Secret named, or part of the error
		again     bool   // whether it asks again, because the namespace can be deleted later
	}{
		{"both are being deleted", terminating, naming("creds", beingDeleted), true, nil, cloud, false},
		{"the Network is not being deleted", terminating, naming("creds"), true, nil, missing, false},
		{"the namespace is not being deleted", func(*corev1.Namespace) {}, naming("creds", beingDeleted), true, nil, missing, true},
		{"this process has not seen the Secret", terminating, naming("creds", beingDeleted), false, nil, missing, false},
		{"the controller may not read namespaces", terminating, naming("creds", beingDeleted), true, apierrors.NewForbidden(corev1.Resource("namespaces"), "team", errors.New("no permission")), missing, true},
		{"the namespace cannot be read", terminating, naming("creds", beingDeleted), true, errAway, errAway.Error(), false},
	} {
		t.Run(test.name, func(t *testing.T) {
			namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team"}}
			test.namespace(namespace)
			l := newLab(t, namespace)
			l.kube.PrependReactor("get", "namespaces", func(clienttesting.Action) (bool, runtime.Object, error) {
				return test.readErr != nil, nil, test.readErr
			})
			l.until(ref, says(missing))
			key, _ := networkWith(ref)
			if test.seen {
				l.put(l.secret("creds", "one"))
				l.until(ref, ready)
				if _, err := l.For(t.Context(), key, test.network); err != nil {
					t.Errorf("the Secret is there, and is not used: %v", err) // the namespace does not matter
				}
				l.remove(l.secret("creds", "one"))
				l.until(ref, says(missing))
			}
			got, err := l.For(t.Context(), key, test.network)
			if err != nil {
				equal(t, test.want == missing, neutron.ReasonOf(err) == neutron.NoCredentials)
				equal(t, true, strings.Contains(err.Error(), test.want))
				equal(t, test.again, neutron.RetryAfterOf(err) >= time.Minute)
				return
			}
			equal(t, test.want, got.Name())
		})
	}
}

var errAway = errors.New("connection refused")

func TestHandlersAreCalled(t *testing.T) {
	l := newLab(t)
	l.untilFor(key("a"), naming("creds"), says("it does not exist"))
	l.put(l.secret("creds", "one"))
	theirs := l.untilFor(key("a"), naming("creds"), ready)
	for i, cloud := range []*neutron.Cloud{l.Own(), theirs} {
		owner := neutron.Owner{Cluster: "cluster", UID: types.UID(fmt.Sprint("uid-", i))}
		must(t, cloud.Observer().Relist(t.Context()))
		_, err := cloud.Client().CreateNetwork(t.Context(), map[string]any{"name": "web", "description": owner.Mark()})
		must(t, err)
		for len(l.drifted) > 0 {
			<-l.drifted
		}
		must(t, cloud.Observer().Relist(t.Context()))
		select {
		case got := <-l.drifted:
			equal(t, owner.UID, got)
		default:
			t.Errorf("the drift in cloud %s was not reported", cloud.Name())
		}
	}
}

func TestOnlyWhatWaitsForTheCloudIsWokenWhenItAnswersAgain(t *testing.T) {
	l := newLab(t)
	l.put(l.secret("creds", "one"))
	theirs := l.untilFor(key("a"), naming("creds"), ready)
	away := &neutron.Error{Op: "authenticate", Reason: neutron.Unauthenticated}
	l.Own().SyncEnded("waits", away)
	l.Own().SyncEnded("in-use", &neutron.Error{Op: "delete subnet", Reason: neutron.InUse})
	l.Own().SyncEnded("synced", away)
	l.Own().SyncEnded("synced", nil)
	theirs.SyncEnded("elsewhere", away)

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	recovered := make(chan struct{}, 1)
	l.Own().Observer().OnRecovery(func() { recovered <- struct{}{} })
	l.Own().Observer().RelistSoon()
	l.running.Go(func() { l.Own().Observer().Run(ctx) })
	select {
	case <-recovered:
	case <-time.After(patience):
		t.Fatal("the recovery was not reported")
	}
	equal(t, 1, len(l.drifted))
	equal(t, types.UID("waits"), <-l.drifted)
}

func TestExplain(t *testing.T) {
	l := newLab(t)
	refused := fmt.Errorf("sync: %w", &neutron.Error{Op: "authenticate", Reason: neutron.Unauthenticated, Message: "wrong password"})
	away := &neutron.Error{Op: "list networks", Reason: neutron.Unavailable, Message: "no answer in time"}
	for _, test := range []struct {
		name    string
		network *samplecrdv1.Network
		err     error
		want    string
	}{
		{"refused credentials of a Secret", naming("creds"), refused, "Secret creds, key clouds.yaml, cloud mycloud: sync: authenticate: wrong password"},
		{"refused credentials of the controller", naming(""), refused, refused.Error()},
		{"an error that is not about credentials", naming("creds"), away, away.Error()},
		{"an error that is not Neutron's", naming("creds"), errAway, errAway.Error()},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := l.Explain(test.network, test.err)
			equal(t, test.want, got.Error())
			if !errors.Is(got, test.err) {
				t.Errorf("%v does not wrap the error", got)
			}
		})
	}
	if err := l.Explain(naming("creds"), nil); err != nil {
		t.Errorf("no error became %v", err)
	}
}

func TestGroupOf(t *testing.T) {
	l := newLab(t)
	same := naming("same")
	other := naming("creds", func(n *samplecrdv1.Network) { n.Spec.CloudCredentialsRef.CloudName = "other" })
	equal(t, true, l.GroupOf(key("a"), naming("")) == Group{})
	// Any number of names that lead nowhere has one turn.
	unread := l.GroupOf(key("a"), naming("creds"))
	equal(t, true, unread == l.GroupOf(key("b"), same))
	equal(t, true, unread == l.GroupOf(key("b"), naming("", func(n *samplecrdv1.Network) {
		n.Spec.CloudCredentialsRef = &samplecrdv1.CloudCredentialsReference{ClusterCloudName: "none"}
	})))
	equal(t, false, unread == l.GroupOf(cache.NewObjectName("other", "a"), naming("creds", in("other"))))
	equal(t, false, unread == Group{})
	for _, name := range []string{"creds", "same"} {
		l.put(l.secret(name, "one"))
	}
	l.untilFor(key("a"), naming("creds"), ready)
	l.untilFor(key("b"), same, ready)
	before := l.GroupOf(key("a"), naming("creds"))
	equal(t, true, before == l.GroupOf(key("b"), same))
	equal(t, true, before == l.GroupOf(key("a"), nil))
	equal(t, false, before == l.GroupOf(key("a"), other))
	equal(t, false, before == Group{})

	// The content changes: the requests with the old one must not hold up the new one.
	l.put(l.secret("creds", "two"))
	for l.GroupOf(key("a"), naming("creds")) == before {
		<-l.told
	}
	equal(t, true, before == l.GroupOf(key("b"), same))

	l.Forget(key("a"))
	l.Forget(key("b"))
	equal(t, true, l.GroupOf(key("a"), nil) == Group{})
	equal(t, 0, len(l.groups.refs)+len(l.groups.known))
}

// Networks that name many Secrets, which need not exist, do not take the memory of the controller.
func TestHowManyCloudsMayBeUsed(t *testing.T) {
	l := newLab(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team", DeletionTimestamp: new(metav1.Unix(1, 0))}})
	l.options.Limits = Limits{PerNamespace: 2, Total: 3}
	in := func(namespace, secret string, changes ...func(*samplecrdv1.Network)) (cache.ObjectName, *samplecrdv1.Network) {
		n := naming(secret, changes...)
		n.Namespace, n.Name = namespace, "net-"+secret
		return cache.MetaObjectToName(n), n
	}
	expect := func(key cache.ObjectName, network *samplecrdv1.Network, says string) {
		t.Helper()
		_, err := l.For(t.Context(), key, network)
		if says == "" && errors.Is(err, ErrNotReady) || says == "" && neutron.ReasonOf(err) == neutron.NoCredentials && strings.Contains(err.Error(), "does not exist") {
			return
		}
		if says == "" || neutron.ReasonOf(err) != neutron.NoCredentials || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: got %v, want %q", key, err, says)
		}
	}
	const here, all = "may use 2 clouds of Secrets", "may use 3 clouds of Secrets"
	a, first := in("team", "a")
	b, second := in("team", "b")
	c, third := in("team", "c")
	expect(a, first, "")
	expect(b, second, "")
	expect(c, third, here)
	expect(a, first, "") // it has its place
	d, other := in("others", "d")
	expect(d, other, "")
	e, more := in("others", "e")
	expect(e, more, all)
	equal(t, 3, len(l.secrets))
	equal(t, 3, len(l.inUse))
	equal(t, Ref{}, l.RefOfKey(c))

	// A Network that is in Neutron already must be kept, and be deleted.
	hadACloud := func(n *samplecrdv1.Network) { n.Status.Cloud = "cloud" }
	f, known := in("team", "f", func(n *samplecrdv1.Network) { n.Status.NetworkID = "id" })
	expect(f, known, "")
	mayBeDeleted := func(key cache.ObjectName, network *samplecrdv1.Network) {
		t.Helper()
		if _, err := l.For(t.Context(), key, network); err != nil && strings.Contains(err.Error(), "may use") {
			t.Errorf("the deletion of %s is held up: %v", key, err)
		}
	}
	g, deleted := in("team", "g", beingDeleted)
	mayBeDeleted(g, deleted)
	// These have no status: its user may have written the finalizer of each.
	const twice = "may use 4 clouds of Secrets"
	h, another := in("team", "h", beingDeleted)
	expect(h, another, twice)
	if _, err := l.For(t.Context(), h, another); strings.Contains(err.Error(), "nothing can be created") {
		t.Errorf("it waits for room, and not for an administrator: %v", err)
	}
	l.Forget(g)
	for <-l.told != RefOf(another).Source { // there is room for it
	}
	mayBeDeleted(h, another)
	i, last := in("team", "i", beingDeleted, hadACloud)
	mayBeDeleted(i, last)
	for _, key := range []cache.ObjectName{f, h, i} {
		l.Forget(key)
	}

	// Those for which there was no room are told when there is.
	l.Forget(a)
	told := map[cache.ObjectName]bool{}
	for !told[RefOf(third).Source] || !told[RefOf(more).Source] {
		told[<-l.told] = true
	}
	expect(c, third, "")
	expect(e, more, all)
	l.Forget(e)
	equal(t, 0, len(l.crowded))
}
