// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package clouds

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"
	"sigs.k8s.io/yaml"

	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
	"github.com/samplecrd/samplecrd-controller/pkg/neutron"
)

const system = "samplecrd-system"

// spareLab is a lab of a process that has just started, with spare credentials.
type spareLab struct {
	*lab
	log ktesting.Buffer
	// changed receives a value when a handler is called.
	changed chan struct{}
}

// newSpareLab starts Clouds in a Kubernetes that has these objects and a namespace that is being
// deleted.
func newSpareLab(t *testing.T, namespace string, prepare func(*spareLab), objects ...runtime.Object) *spareLab {
	t.Helper()
	l := &spareLab{lab: newLab(t, objects...), changed: make(chan struct{}, 1000)}
	l.add(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team", DeletionTimestamp: new(metav1.Unix(1, 0))}})
	if prepare != nil {
		prepare(l)
	}
	logger := ktesting.NewLogger(ktesting.NopTL{}, ktesting.NewConfig(ktesting.BufferLogs(true), ktesting.Verbosity(1)))
	l.log = logger.GetSink().(ktesting.Underlier).GetBuffer()
	ctx, cancel := context.WithCancel(klog.NewContext(context.Background(), logger))
	options := l.Clouds.options
	options.ClusterResourceNamespace = namespace
	l.Clouds = New(ctx, options.NewCloud(neutron.Config{Name: "own"}), options)
	l.AddHandlers(Handlers{
		Drift: func(types.UID) { l.changed <- struct{}{} },
		SecretChanged: func(name cache.ObjectName) {
			l.told <- name
			l.changed <- struct{}{}
		},
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

// spare returns a labelled Secret with the clouds mycloud, of project one, and mycloud-two.
func (l *spareLab) spare(name string, changes ...func(*corev1.Secret)) *corev1.Secret {
	return l.secret(name, "one", append([]func(*corev1.Secret){func(s *corev1.Secret) {
		s.Namespace, s.Labels = system, map[string]string{samplecrdv1.LabelCloudCredentials: "true"}
		without("mycloud-admin")(s)
	}}, changes...)...)
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

// open waits until the clouds of these spare credentials have been listed, and no others are open.
func (l *spareLab) open(want ...Ref) {
	l.Helper()
	err := wait.PollUntilContextTimeout(l.Context(), time.Millisecond, patience, true, func(context.Context) (bool, error) {
		l.Clouds.mu.Lock()
		defer l.Clouds.mu.Unlock()
		for _, ref := range want {
			if !strings.HasPrefix(l.spares.states[ref], "in use for project ") {
				return false, nil
			}
		}
		return len(l.spares.states) == len(want), nil
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
	_, err = l.options.NewCloud(config).Client().CreateNetwork(klog.NewContext(l.Context(), klog.Logger{}), fields)
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

func spareRef(secret, cloudName string) Ref {
	return Ref{Secret: cache.NewObjectName(system, secret), CloudName: cloudName}
}

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

func TestSpareCredentialsLeadToTheNetworkThatWasLost(t *testing.T) {
	const needs = "an administrator can finish the deletion with credentials for "
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
				l.add(l.spare("all"))
				l.add(l.spare("unlabelled", func(s *corev1.Secret) { s.Labels = map[string]string{samplecrdv1.LabelCloudCredentials: "false"} }))
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

func TestSpareCredentialsChangeWhileANetworkWaits(t *testing.T) {
	unlabelled := func(s *corev1.Secret) { s.Labels = map[string]string{} }
	l := newSpareLab(t, system, func(l *spareLab) { l.add(l.spare("late", unlabelled)) })
	network := lost(one)
	is := func(want string) func() bool {
		return func() bool {
			cloud, err := l.For(t.Context(), key("web"), network)
			return want != "" && err == nil && cloud.Name() == want || want == "" && neutron.ReasonOf(err) == neutron.NoCredentials
		}
	}
	l.await("the Network has no credentials", is(""))

	// Each step tells the Networks that wait: otherwise await would not call For again.
	for _, step := range []struct {
		name   string
		change func(*corev1.Secret)
		want   string
	}{
		{"the label is added", func(*corev1.Secret) {}, "mycloud"},
		{"the entry is removed", without("mycloud"), ""},
		{"the entry is added", func(*corev1.Secret) {}, "mycloud"},
		{"the label is removed", unlabelled, ""},
		{"the label is added, but the password is wrong", func(s *corev1.Secret) {
			s.Data[keyCloudsYAML] = []byte(strings.ReplaceAll(string(s.Data[keyCloudsYAML]), "password-of-one", "wrong"))
		}, ""},
		{"the password is corrected", func(*corev1.Secret) {}, "mycloud"},
		{"the Secret is not YAML", func(s *corev1.Secret) { s.Data[keyCloudsYAML] = []byte("password: *hunter2") }, ""},
		{"the Secret is corrected", func(*corev1.Secret) {}, "mycloud"},
	} {
		l.put(l.spare("late", step.change))
		l.await(step.name, is(step.want))
	}
	l.remove(l.spare("late"))
	l.await("the Secret is deleted", is(""))
	l.open()
	l.Forget(key("web"))
	if n := len(l.List()); n != 1 || len(l.secrets)+len(l.inUse)+len(l.spares.waiting)+len(l.groups.refs)+len(l.groups.spares)+len(l.groups.contents) > 0 {
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

func TestSpareCredentialsOfTheSameContentShareACloud(t *testing.T) {
	l := newSpareLab(t, system, func(l *spareLab) {
		l.add(l.spare("a", without("mycloud-two")))
		l.add(l.spare("b", without("mycloud-two")))
		l.add(l.secret("creds", "one", without("mycloud-admin"), without("mycloud-two"))) // of a Network
	})
	l.open(spareRef("a", "mycloud"), spareRef("b", "mycloud"))
	if name, err := l.settled(naming("creds")); name != "mycloud" || err != nil {
		t.Errorf("got %s, %v", name, err)
	}
	if n, logins := len(l.list()), first(l.calls()); n != 1 || logins != 1 {
		t.Errorf("%d clouds and %d log-ins, want one each", n, logins)
	}
	l.remove(l.spare("a"))
	l.open(spareRef("b", "mycloud"))
	l.Forget(key("web"))
	if n := len(l.list()); n != 1 {
		t.Errorf("%d clouds are open, but a Secret is left", n)
	}
	l.remove(l.spare("b"))
	l.open()
	if n := len(l.list()); n != 0 {
		t.Errorf("%d clouds are open", n)
	}
}

func first(a, _ int) int { return a }

func TestSpareCredentialsCannotBeRead(t *testing.T) {
	t.Parallel() // it waits for an informer that tries again
	right := &right{denied: true}
	l := newSpareLab(t, system, func(l *spareLab) {
		l.add(l.spare("all"))
		l.add(l.secret("creds", "one"))
		guardIn(system, right, l.kube)
	})
	// The Secrets of Networks are read nevertheless.
	if name, err := l.settled(naming("creds")); name != "mycloud" || err != nil {
		t.Errorf("got %s, %v", name, err)
	}
	gone := lost(one, func(n *samplecrdv1.Network) { n.Spec.CloudCredentialsRef.SecretName = "gone" })
	if _, err := l.settled(gone); neutron.ReasonOf(err) != neutron.NoCredentials || !strings.Contains(err.Error(), "in a Secret in namespace samplecrd-system, whose Secrets the controller may not read now: see artifacts/") {
		t.Errorf("got %v", err)
	}
	// It is logged after For knows it, and before the handler is called.
	logged := func() int {
		return strings.Count(l.log.String(), "Cannot read the Secrets with spare credentials, will try again")
	}
	l.await("it is logged", func() bool { return logged() > 0 })
	right.set(true)
	l.await("the right was granted", func() bool {
		cloud, err := l.For(t.Context(), key("web"), gone)
		return err == nil && cloud.Name() == "mycloud"
	})
	if n := logged(); n != 1 {
		t.Errorf("it is logged %d times:\n%s", n, l.log.String())
	}
}

// guardIn makes the fake clientset check the permission in one namespace.
func guardIn(namespace string, r *right, kube *fake.Clientset) {
	refuse := func(a clienttesting.Action) bool { return a.GetNamespace() == namespace && r.refuse() }
	kube.PrependReactor("list", "secrets", func(a clienttesting.Action) (bool, runtime.Object, error) { return refuse(a), nil, noRight })
	kube.PrependWatchReactor("secrets", func(a clienttesting.Action) (bool, watch.Interface, error) { return refuse(a), nil, noRight })
}

func TestWithoutANamespaceForThemThereAreNoSpareCredentials(t *testing.T) {
	l := newSpareLab(t, "", func(l *spareLab) { l.add(l.spare("all")) })
	_, err := l.settled(lost(one))
	const want = "Secret creds: it does not exist, and nothing can be created because the namespace is being deleted; " +
		"the controller has no namespace for credentials of an administrator (-cluster-resource-namespace): see artifacts/deploy/README.md#deleted-namespaces"
	if neutron.ReasonOf(err) != neutron.NoCredentials || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
	for _, action := range l.kube.Actions() {
		if action.GetNamespace() == system {
			t.Errorf("got a request: %v", action)
		}
	}
}

func TestTheMessageForANetworkThatNeedsSpareCredentials(t *testing.T) {
	l := newSpareLab(t, system, nil)
	_, err := l.settled(lost(one))
	const want = "Secret creds: it does not exist, and nothing can be created because the namespace is being deleted; an administrator can finish the deletion " +
		`with credentials for project "id-of-one" in region "RegionOne", in a Secret in namespace samplecrd-system: see artifacts/deploy/README.md#deleted-namespaces`
	if err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
	file, _, _ := strings.Cut(runbook, "#")
	text, err := os.ReadFile("../../" + file)
	if err != nil || !strings.Contains(string(text), "\n## Deleted namespaces\n") {
		t.Errorf("%s leads nowhere: %v", runbook, err)
	}
}

func TestANetworkMayNameASecretWithSpareCredentials(t *testing.T) {
	l := newSpareLab(t, system, func(l *spareLab) { l.add(l.spare("all", without("mycloud-two"))) })
	l.open(spareRef("all", "mycloud"))
	network := naming("all", func(n *samplecrdv1.Network) { n.Namespace = system })
	if name, err := l.settled(network); name != "mycloud" || err != nil {
		t.Errorf("got %s, %v", name, err)
	}
	l.put(l.spare("all", without("mycloud-two"), func(s *corev1.Secret) { s.Labels = nil }))
	l.open()
	if name, err := l.settled(network); name != "mycloud" || err != nil || len(l.list()) != 1 {
		t.Errorf("without the label: got %s, %v, %d clouds", name, err, len(l.list()))
	}
	l.Forget(key("web"))
	if n := len(l.list()); n != 0 {
		t.Errorf("%d clouds are open", n)
	}
	if want := []Ref{spareRef("all", "mycloud")}; !slices.Equal(l.released, want) {
		t.Errorf("released %v, want %v", l.released, want)
	}
}

// A key takes turns with those of the cloud that it works in.
func TestTheGroupOfANetworkThatUsesSpareCredentials(t *testing.T) {
	l := newSpareLab(t, system, func(l *spareLab) { l.add(l.spare("all")) })
	gone := lost(two)
	if name, err := l.settled(gone); name != "mycloud-two" || err != nil {
		t.Fatalf("got %s, %v", name, err)
	}
	spare := Group{content: load(l.spare("all"), nil).content, cloudName: "mycloud-two"}
	equal(t, true, l.GroupOf(key("web"), gone) == spare)
	equal(t, true, l.GroupOf(key("web"), nil) == spare)
	refused := &neutron.Error{Op: "authenticate", Reason: neutron.Unauthenticated, Message: "wrong password"}
	equal(t, "Secret samplecrd-system/all, key clouds.yaml, cloud mycloud-two: authenticate: wrong password", l.Explain(gone, refused).Error())

	l.remove(l.spare("all"))
	l.await("the Network has no credentials", func() bool {
		_, err := l.For(t.Context(), key("web"), gone)
		return neutron.ReasonOf(err) == neutron.NoCredentials
	})
	equal(t, true, l.GroupOf(key("web"), gone) == Group{ref: ref})
	equal(t, "Secret creds, key clouds.yaml, cloud mycloud: authenticate: wrong password", l.Explain(gone, refused).Error())
	l.Forget(key("web"))
	equal(t, true, l.GroupOf(key("web"), nil) == Group{})
}

// The credentials that the process has seen may be of no use any more.
func TestSpareCredentialsGoBeforeThoseThatWereSeenLast(t *testing.T) {
	l := newSpareLab(t, system, func(l *spareLab) { l.add(l.secret("creds", "one")) })
	gone := lost(two)
	before, err := l.settled(gone)
	if before != "mycloud" || err != nil {
		t.Fatalf("got %s, %v", before, err)
	}
	l.remove(l.secret("creds", "one"))
	l.await("the Secret is gone", func() bool {
		_, last, err := l.acquire(key("web"), ref, true)
		return last != nil && neutron.ReasonOf(err) == neutron.NoCredentials
	})
	if name, err := l.settled(gone); name != "mycloud" || err != nil {
		t.Errorf("got %s, %v", name, err)
	}
	l.put(l.spare("all"))
	l.await("the spare credentials are used", func() bool {
		cloud, err := l.For(t.Context(), key("web"), gone)
		return err == nil && cloud.Name() == "mycloud-two"
	})
}

func TestSpareEntriesAreBounded(t *testing.T) {
	l := newSpareLab(t, system, nil)
	text := "clouds:\n"
	for i := range maxSpares + 1 {
		text += fmt.Sprintf("  cloud-%02d: {}\n", i)
	}
	entries := l.spareEntries(l.spare("many", func(s *corev1.Secret) { s.Data[keyCloudsYAML] = []byte(text) }))
	if len(entries) != maxSpares || entries[maxSpares-1] != "cloud-31" || !strings.Contains(l.log.String(), "has too many clouds") {
		t.Errorf("got %d: %v", len(entries), entries)
	}
}
