// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package clouds

import (
	"context"
	"errors"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"
	"sigs.k8s.io/yaml"

	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
	clientset "github.com/samplecrd/samplecrd-controller/pkg/generated/clientset/versioned"
	samplecrdclient "github.com/samplecrd/samplecrd-controller/pkg/generated/clientset/versioned/typed/samplecrd/v1"
	"github.com/samplecrd/samplecrd-controller/pkg/neutron"
	"github.com/samplecrd/samplecrd-controller/pkg/testing/restapi"
)

const system = "samplecrd-system"

// spareLab is a lab of a process that has just started, with ClusterClouds.
type spareLab struct {
	*lab
	log ktesting.Buffer
	// admin creates ClusterClouds, and right is that of the controller to read them.
	admin samplecrdclient.ClusterCloudInterface
	right right
	// changed receives a value when a handler is called.
	changed chan struct{}
}

// newSpareLab starts Clouds in a Kubernetes that has these objects and a namespace that is being
// deleted.
func newSpareLab(t *testing.T, namespace string, prepare func(*spareLab), changes ...func(*Options)) *spareLab {
	t.Helper()
	l := &spareLab{lab: newLab(t), changed: make(chan struct{}, 1000)}
	api := restapi.New(0, map[string]restapi.Kind{"clusterclouds": {Name: "ClusterCloud"}}, nil)
	networks := clientset.NewForConfigOrDie(&rest.Config{Host: "http://kubernetes", Transport: api.Transport(restapi.Client{Before: l.right.fault})})
	l.admin = clientset.NewForConfigOrDie(&rest.Config{Host: "http://kubernetes", Transport: api.Transport(restapi.Client{})}).SamplecrdV1().ClusterClouds()
	l.add(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team", DeletionTimestamp: new(metav1.Unix(1, 0))}})
	if prepare != nil {
		prepare(l)
	}
	logger := ktesting.NewLogger(ktesting.NopTL{}, ktesting.NewConfig(ktesting.BufferLogs(true), ktesting.Verbosity(1)))
	l.log = logger.GetSink().(ktesting.Underlier).GetBuffer()
	ctx, cancel := context.WithCancel(klog.NewContext(context.Background(), logger))
	options := l.Clouds.options
	options.ClusterResourceNamespace, options.Networks = namespace, networks
	for _, change := range changes {
		change(&options)
	}
	l.Clouds = New(ctx, options.NewCloud(neutron.Config{Name: "own"}, false), options)
	l.AddHandlers(Handlers{
		Drift: func(types.UID) { l.changed <- struct{}{} },
		CredentialsChanged: func(name cache.ObjectName) {
			l.told <- name
			l.changed <- struct{}{}
		},
		LabelsChanged: func(string) { l.changed <- struct{}{} },
		Released: func(ref Ref) {
			l.release(ref)
			l.changed <- struct{}{}
		},
	})
	t.Cleanup(func() {
		cancel()
		l.Wait()
	})
	return l
}

func (l *spareLab) add(object runtime.Object) {
	l.Helper()
	must(l, l.kube.Tracker().Add(object))
}

// spare returns a Secret of the administrator's with the clouds mycloud, of project one, and mycloud-two.
func (l *spareLab) spare(name string, changes ...func(*corev1.Secret)) *corev1.Secret {
	return l.secret(name, "one", append([]func(*corev1.Secret){func(s *corev1.Secret) { s.Namespace = system }, without("mycloud-admin")}, changes...)...)
}

// offer creates or updates a ClusterCloud for that cloud of the Secret, which nobody may use.
func (l *spareLab) offer(name, secret, cloudName string, changes ...func(*samplecrdv1.ClusterCloud)) {
	l.Helper()
	offer := &samplecrdv1.ClusterCloud{ObjectMeta: metav1.ObjectMeta{Name: name}}
	offer.Spec = samplecrdv1.ClusterCloudSpec{SecretName: secret, CloudName: cloudName}
	for _, change := range changes {
		change(offer)
	}
	_, err := l.admin.Update(l.Context(), offer, metav1.UpdateOptions{})
	if apierrors.IsNotFound(err) {
		_, err = l.admin.Create(l.Context(), offer, metav1.CreateOptions{})
	}
	must(l, err)
}

// offerAll creates a ClusterCloud for each cloud of the Secret, of the same name.
func (l *spareLab) offerAll(secret string) {
	l.add(l.spare(secret))
	l.offer("mycloud", secret, "mycloud")
	l.offer("mycloud-two", secret, "mycloud-two")
}

func (l *spareLab) withdraw(name string) {
	l.Helper()
	must(l, l.admin.Delete(l.Context(), name, metav1.DeleteOptions{}))
}

// await waits until the condition is true. It is checked each time that a handler was called.
func (l *spareLab) await(what string, condition func() bool) {
	l.Helper()
	timeout := time.After(patience)
	for !condition() {
		select {
		case <-l.changed:
		case <-timeout:
			l.Fatalf("timed out waiting until %s; the log is:\n%s", what, l.log.String())
		}
	}
}

// open waits until the clouds of these ClusterClouds have been listed, and there are no others.
func (l *spareLab) open(want ...string) {
	l.Helper()
	err := wait.PollUntilContextTimeout(l.Context(), time.Millisecond, patience, true, func(context.Context) (bool, error) {
		l.Clouds.mu.Lock()
		defer l.Clouds.mu.Unlock()
		for _, name := range want {
			if o := l.offers.all[name]; o == nil || !strings.HasPrefix(o.state, "in use for project ") && !strings.HasPrefix(o.state, "for nobody, because ") {
				return false, nil
			}
		}
		return len(l.offers.all) == len(want), nil
	})
	if err != nil {
		l.Fatalf("these are not open: %v; the log is:\n%s", want, l.log.String())
	}
}

// createNetwork makes a network with the Network's mark in a cloud.
func (l *spareLab) createNetwork(cloudName string, owner types.UID) {
	l.Helper()
	config, err := neutron.ParseConfig(cloudName, l.neutron.CloudsYAML("mycloud"))
	must(l, err)
	fields := map[string]any{"name": "web", "description": neutron.Owner{Cluster: "cluster", UID: owner}.Mark()}
	_, err = l.options.NewCloud(config, false).Client().CreateNetwork(klog.NewContext(l.Context(), klog.Logger{}), fields)
	must(l, err)
}

// settled calls For until it returns something else than ErrNotReady. It returns the name of the
// cloud, or the error.
func (l *spareLab) settled(network *samplecrdv1.Network) (name string, err error) {
	l.Helper()
	l.await("For returns a result", func() bool {
		var cloud *neutron.Cloud
		if cloud, err = l.For(l.Context(), key("web"), network); err == nil {
			name = cloud.Name()
		}
		return !errors.Is(err, ErrNotReady)
	})
	return name, err
}

// one and two are where mycloud and mycloud-two are.
var (
	one = neutron.Place{Project: "id-of-one", Region: "RegionOne"}
	two = neutron.Place{Project: "id-of-two", Region: "RegionOne"}
)

// lost is a Network that is being deleted, in a namespace that is being deleted, whose Secret
// this process has never seen. It was created in that place.
func lost(place neutron.Place, changes ...func(*samplecrdv1.Network)) *samplecrdv1.Network {
	n := naming("creds", beingDeleted, func(n *samplecrdv1.Network) {
		n.UID = "uid-of-web"
		n.Status.NetworkID, n.Status.Cloud = "11111111-1111-4111-8111-111111111111", "mycloud"
		n.Status.ProjectID, n.Status.Region = place.Project, place.Region
	})
	for _, change := range changes {
		change(n)
	}
	return n
}

func TestAClusterCloudLeadsToTheNetworkThatWasLost(t *testing.T) {
	const needs = "an administrator can finish the deletion with a ClusterCloud for "
	for _, test := range []struct {
		name   string
		place  neutron.Place
		change func(*samplecrdv1.Network)
		mark   string // the cloud that has a network with the mark
		want   string // the cloud, or part of the error
	}{
		{"the second place", two, nil, "", "mycloud-two"},
		{"another region", neutron.Place{Project: one.Project, Region: "r"}, nil, "", `in region "r"`},
		{"another place, although the mark is here", neutron.Place{Project: "p", Region: one.Region}, nil, "mycloud", needs + `project "p"`},
		{"an old status without a region, and the mark is here", neutron.Place{Project: two.Project}, nil, "mycloud-two", "mycloud-two"},
		{"an old status without a region, and the mark is in another project", neutron.Place{Project: two.Project}, nil, "mycloud", needs},
		{"a status without a place, and the mark is here", neutron.Place{}, nil, "mycloud-two", "mycloud-two"},
		{"a status without a place, and no mark", neutron.Place{}, nil, "", needs + "the cloud of its network"},
		{"a Network that is not being deleted", one, func(n *samplecrdv1.Network) { n.DeletionTimestamp = nil }, "", "key clouds.yaml must contain the credentials"},
		{"a namespace that is not being deleted", one, func(n *samplecrdv1.Network) { n.Namespace = "other" }, "", "key clouds.yaml must contain the credentials"},
		{"a namespace that is gone", one, func(n *samplecrdv1.Network) { n.Namespace = "gone" }, "", "key clouds.yaml must contain the credentials"},
		{"its own Secret is usable", two, func(n *samplecrdv1.Network) { n.Spec.CloudCredentialsRef.SecretName = "usable" }, "", "usable"},
		{"its own Secret is not usable", two, func(n *samplecrdv1.Network) { n.Spec.CloudCredentialsRef.SecretName = "unusable" }, "", "mycloud-two"},
	} {
		t.Run(test.name, func(t *testing.T) {
			l := newSpareLab(t, system, func(l *spareLab) {
				l.offerAll("all")
				l.add(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "other"}})
				l.add(l.secret("unusable", "one", func(s *corev1.Secret) { s.Data = nil }))
				l.add(l.secret("usable", "one", func(s *corev1.Secret) {
					s.Data[keyCloudsYAML] = []byte(strings.ReplaceAll(string(s.Data[keyCloudsYAML]), `"mycloud"`, `"usable"`))
				}))
				if test.mark != "" {
					l.createNetwork(test.mark, "uid-of-web")
				}
			})
			network := lost(test.place)
			if test.change != nil {
				test.change(network)
			}
			if network.Spec.CloudCredentialsRef.SecretName == "usable" {
				network.Spec.CloudCredentialsRef.CloudName = "usable"
			}
			switch name, err := l.settled(network); {
			case err != nil:
				if neutron.ReasonOf(err) != neutron.NoCredentials || !strings.Contains(err.Error(), test.want) {
					t.Errorf("got %v, want %q", err, test.want)
				}
			case name != test.want:
				t.Errorf("got %s, want %s", name, test.want)
			}
		})
	}
}

func TestAClusterCloudChangesWhileANetworkWaits(t *testing.T) {
	l := newSpareLab(t, system, func(l *spareLab) { l.add(l.spare("late")) })
	network := lost(one)
	is := func(want string) func() bool {
		return func() bool {
			cloud, err := l.For(t.Context(), key("web"), network)
			return want != "" && err == nil && cloud.Name() == want || want == "" && neutron.ReasonOf(err) == neutron.NoCredentials
		}
	}
	l.await("the Network has no credentials", is(""))

	secret := func(changes ...func(*corev1.Secret)) func() {
		return func() { l.put(l.spare("late", changes...)) }
	}
	offer := func(secret, cloudName string) func() { return func() { l.offer("late", secret, cloudName) } }
	// Each step tells the Networks that wait: otherwise await would not call For again.
	for _, step := range []struct {
		name string
		do   func()
		want string
	}{
		{"it is created", offer("late", "mycloud"), "mycloud"},
		{"the entry is removed", secret(without("mycloud")), ""},
		{"the entry is added", secret(), "mycloud"},
		{"it names the entry of another project", offer("late", "mycloud-two"), ""},
		{"it names the entry again", offer("late", "mycloud"), "mycloud"},
		{"it names a Secret that does not exist", offer("none", "mycloud"), ""},
		{"it names the Secret again", offer("late", "mycloud"), "mycloud"},
		{"the password is wrong", secret(func(s *corev1.Secret) {
			s.Data[keyCloudsYAML] = []byte(strings.ReplaceAll(string(s.Data[keyCloudsYAML]), "password-of-one", "wrong"))
		}), ""},
		{"the password is corrected", secret(), "mycloud"},
		{"the Secret is not YAML", secret(func(s *corev1.Secret) { s.Data[keyCloudsYAML] = []byte("password: *hunter2") }), ""},
		{"the Secret is corrected", secret(), "mycloud"},
		{"the Secret is deleted", func() { l.remove(l.spare("late")) }, ""},
		{"the Secret is created again", secret(), "mycloud"},
		{"it is deleted", func() { l.withdraw("late") }, ""},
	} {
		step.do()
		l.await(step.name, is(step.want))
	}
	l.open()
	l.Forget(key("web"))
	if n := len(l.List()); n != 1 || len(l.secrets)+len(l.inUse)+len(l.lost)+len(l.groups.refs)+len(l.groups.spares)+len(l.groups.known) > 0 {
		t.Errorf("%d clouds are open; %+v", n, l.Clouds)
	}
	if strings.Contains(l.log.String(), "hunter2") || strings.Contains(l.log.String(), "password-of") {
		t.Error("the log contains a password")
	}
}

// without removes an entry from the clouds.yaml.
func without(entry string) func(*corev1.Secret) {
	return func(s *corev1.Secret) {
		var file map[string]map[string]any
		if err := yaml.Unmarshal(s.Data[keyCloudsYAML], &file); err != nil {
			panic(err)
		}
		delete(file["clouds"], entry)
		s.Data[keyCloudsYAML], _ = yaml.Marshal(file)
	}
}

// What an administrator vouches for is not shared with the Secret of a namespace.
func TestClusterCloudsOfTheSameContentShareACloud(t *testing.T) {
	l := newSpareLab(t, system, func(l *spareLab) {
		l.add(l.spare("a"))
		l.add(l.spare("b"))
		l.add(l.secret("creds", "one", without("mycloud-admin"))) // of a Network
		l.offer("a", "a", "mycloud")
		l.offer("b", "b", "mycloud")
	})
	l.open("a", "b")
	equal(t, 1, len(l.list()))
	if name, err := l.settled(naming("creds")); name != "mycloud" || err != nil {
		t.Errorf("got %s, %v", name, err)
	}
	if n, logins := len(l.list()), first(l.calls()); n != 2 || logins != 2 {
		t.Errorf("%d clouds and %d log-ins, want two each", n, logins)
	}
	l.Forget(key("web"))
	l.withdraw("a")
	l.open("b")
	equal(t, 1, len(l.list()))
	l.withdraw("b")
	l.open()
	equal(t, 0, len(l.list()))
}

func first(a, _ int) int { return a }

func TestClusterCloudsCannotBeRead(t *testing.T) {
	t.Parallel() // it waits for an informer that tries again
	l := newSpareLab(t, system, func(l *spareLab) {
		l.right.set(false)
		l.offerAll("all")
		l.add(l.secret("creds", "one"))
	})
	// The Secrets of Networks are read nevertheless.
	if name, err := l.settled(naming("creds")); name != "mycloud" || err != nil {
		t.Errorf("got %s, %v", name, err)
	}
	gone := lost(one, func(n *samplecrdv1.Network) { n.Spec.CloudCredentialsRef.SecretName = "gone" })
	l.await("it cannot be finished", func() bool {
		_, err := l.For(t.Context(), key("web"), gone)
		return neutron.ReasonOf(err) == neutron.NoCredentials && strings.Contains(err.Error(), "; the controller cannot read those now: see artifacts/")
	})
	l.await("one that names a ClusterCloud says so too", func() bool {
		_, err := l.For(t.Context(), key("other"), using("mycloud"))
		return says("ClusterCloud mycloud: it cannot be read: ")(nil, err)
	})
	logged := func() int { return strings.Count(l.log.String(), "Cannot read the ClusterClouds, will try again") }
	l.right.set(true)
	l.await("the right was granted", func() bool {
		cloud, err := l.For(t.Context(), key("web"), gone)
		return err == nil && cloud.Name() == "mycloud"
	})
	if n := logged(); n != 1 {
		t.Errorf("it is logged %d times:\n%s", n, l.log.String())
	}
}

// The CRD was installed late, and there is no ClusterCloud yet.
func TestClusterCloudsCanBeReadAndThereAreNone(t *testing.T) {
	t.Parallel() // it waits for an informer that tries again
	l := newSpareLab(t, system, func(l *spareLab) { l.right.set(false) })
	expect := func(what string) {
		t.Helper()
		l.await(what, func() bool {
			_, err := l.For(t.Context(), key("web"), using("none"))
			return says("ClusterCloud none: "+what)(nil, err)
		})
	}
	expect("it cannot be read: ")
	l.right.set(true)
	expect("it does not exist")
}

// fault refuses requests while the right is missing.
func (r *right) fault(*restapi.Request) restapi.Fault {
	if r.refuse() {
		return restapi.Fault{Status: http.StatusForbidden}
	}
	return restapi.Fault{}
}

func TestWithoutANamespaceForTheirSecretsThereAreNoClusterClouds(t *testing.T) {
	l := newSpareLab(t, "", func(l *spareLab) { l.offerAll("all") })
	_, err := l.settled(lost(one))
	const want = "Secret creds: it does not exist, and nothing can be created because the namespace is being deleted; " +
		"the controller has no namespace for the Secrets of ClusterClouds (-cluster-resource-namespace): see artifacts/deploy/procedures.md#deleted-namespaces"
	if neutron.ReasonOf(err) != neutron.NoCredentials || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
	if _, err := l.settled(using("mycloud")); !says("ClusterCloud mycloud: the controller has no namespace for the Secrets of ClusterClouds; ")(nil, err) {
		t.Errorf("got %v", err)
	}
	for _, action := range l.kube.Actions() {
		if action.GetNamespace() == system || action.Matches("list", "namespaces") {
			t.Errorf("got a request: %v", action)
		}
	}
}

func TestTheMessageForANetworkThatNeedsAClusterCloud(t *testing.T) {
	l := newSpareLab(t, system, nil)
	_, err := l.settled(lost(one))
	const want = "Secret creds: it does not exist, and nothing can be created because the namespace is being deleted; an administrator can finish the deletion " +
		`with a ClusterCloud for project "id-of-one" in region "RegionOne": see artifacts/deploy/procedures.md#deleted-namespaces`
	if err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
	file, _, _ := strings.Cut(runbook, "#")
	text, err := os.ReadFile("../../" + file)
	if err != nil || !strings.Contains(string(text), "\n## Deleted namespaces\n") {
		t.Errorf("%s leads nowhere: %v", runbook, err)
	}
}

// A key takes turns with those of the cloud that it works in.
func TestTheGroupOfANetworkThatAClusterCloudFinishes(t *testing.T) {
	l := newSpareLab(t, system, func(l *spareLab) { l.offerAll("all") })
	gone := lost(two)
	if name, err := l.settled(gone); name != "mycloud-two" || err != nil {
		t.Fatalf("got %s, %v", name, err)
	}
	spare := Group{content: contentOf(l.spare("all")), cloudName: "mycloud-two", isOffered: true}
	equal(t, true, l.GroupOf(key("web"), gone) == spare)
	equal(t, true, l.GroupOf(key("web"), nil) == spare)
	refused := &neutron.Error{Op: "authenticate", Reason: neutron.Unauthenticated, Message: "wrong password"}
	equal(t, "ClusterCloud mycloud-two: authenticate: wrong password", l.Explain(gone, refused).Error())

	l.withdraw("mycloud-two")
	l.await("the Network has no credentials", func() bool {
		_, err := l.For(t.Context(), key("web"), gone)
		return neutron.ReasonOf(err) == neutron.NoCredentials
	})
	equal(t, true, l.GroupOf(key("web"), gone) == Group{ref: Ref{Source: cache.ObjectName{Namespace: "team"}}})
	equal(t, "Secret creds, key clouds.yaml, cloud mycloud: authenticate: wrong password", l.Explain(gone, refused).Error())
	l.Forget(key("web"))
	equal(t, true, l.GroupOf(key("web"), nil) == Group{})
}

// The credentials that the process has seen may be of no use any more.
func TestAClusterCloudGoesBeforeTheCredentialsThatWereSeenLast(t *testing.T) {
	l := newSpareLab(t, system, func(l *spareLab) { l.add(l.secret("creds", "one")) })
	gone := lost(two)
	before, err := l.settled(gone)
	if before != "mycloud" || err != nil {
		t.Fatalf("got %s, %v", before, err)
	}
	l.remove(l.secret("creds", "one"))
	l.await("the Secret is gone", func() bool {
		_, last, err := l.acquire(key("web"), ref, Limits{})
		return last != nil && neutron.ReasonOf(err) == neutron.NoCredentials
	})
	if name, err := l.settled(gone); name != "mycloud" || err != nil {
		t.Errorf("got %s, %v", name, err)
	}
	l.offerAll("all")
	l.await("the ClusterCloud is used", func() bool {
		cloud, err := l.For(t.Context(), key("web"), gone)
		return err == nil && cloud.Name() == "mycloud-two"
	})
}
