// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package clouds

import (
	"errors"
	"net/netip"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"

	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
	"github.com/samplecrd/samplecrd-controller/pkg/neutron"
)

// using returns a Network in namespace good that names the ClusterCloud; with "", the controller's own cloud.
func using(clusterCloud string, changes ...func(*samplecrdv1.Network)) *samplecrdv1.Network {
	return naming("", append([]func(*samplecrdv1.Network){func(n *samplecrdv1.Network) {
		n.Namespace = "good"
		if clusterCloud != "" {
			n.Spec.CloudCredentialsRef = &samplecrdv1.CloudCredentialsReference{ClusterCloudName: clusterCloud}
		}
	}}, changes...)...)
}

func in(namespace string) func(*samplecrdv1.Network) {
	return func(n *samplecrdv1.Network) { n.Namespace = namespace }
}

// labelled returns a namespace whose label team has the value.
func labelled(name, team string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"team": team}, ResourceVersion: team}}
}

// forTeam makes a ClusterCloud for the namespaces of a team.
func forTeam(team string) func(*samplecrdv1.ClusterCloud) {
	return func(c *samplecrdv1.ClusterCloud) {
		c.Spec.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"team": team}}
	}
}

// newPermissionLab has namespaces of the teams a and b, and ClusterClouds.
func newPermissionLab(t *testing.T, changes ...func(*Options)) *spareLab {
	t.Helper()
	l := newSpareLab(t, system, func(l *spareLab) {
		l.add(labelled("good", "a"))
		l.add(labelled("bad", "b"))
		l.add(l.spare("all"))
		l.add(l.secret("creds", "two"))
		l.offer("for-a", "all", "mycloud", forTeam("a"))
		l.offer("for-all", "all", "mycloud", func(c *samplecrdv1.ClusterCloud) { c.Spec.NamespaceSelector = &metav1.LabelSelector{} })
		l.offer("for-nobody", "all", "mycloud")
		l.offer("invalid", "all", "mycloud", func(c *samplecrdv1.ClusterCloud) {
			c.Spec.NamespaceSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "team", Operator: "Is"}}}
		})
	}, changes...)
	l.running.Go(func() { l.RunOwn(l.Clouds.ctx) })
	return l
}

// ownFor reserves the controller's own cloud.
func ownFor(t *testing.T, selector string) func(*Options) {
	return func(o *Options) { must(t, o.OwnCloudNamespaces.Set(selector)) }
}

// result returns the name of the cloud, or the error, when that is not ErrNotReady.
func (l *spareLab) result(network *samplecrdv1.Network) (result string) {
	l.Helper()
	key := cache.MetaObjectToName(network)
	l.await("For returns a result", func() bool {
		cloud, err := l.For(l.Context(), key, network)
		if result = "reason " + string(neutron.ReasonOf(err)) + ": "; err == nil {
			result = cloud.Name()
		} else {
			result += err.Error()
		}
		return !errors.Is(err, ErrNotReady)
	})
	return result
}

func TestWhoMayUseACloud(t *testing.T) {
	const may, notOwn = "own", "reason NotPermitted: the controller's own cloud: namespace bad may not use it: name other credentials in spec.cloudCredentialsRef, or ask an administrator to label the namespace as -cloud-namespace-selector wants"
	notOffered := func(name, namespace string) string {
		return "reason NotPermitted: ClusterCloud " + name + ": namespace " + namespace + " may not use it: an administrator can label the namespace as its namespaceSelector wants"
	}
	for _, test := range []struct {
		name, own string
		network   *samplecrdv1.Network
		want      string
	}{
		{"its own cloud is for all", "", using("", in("bad")), may},
		{"its own cloud is for this team", "team=a", using(""), may},
		{"its own cloud is for another team", "team=a", using("", in("bad")), notOwn},
		{"its own cloud is for nobody", "!kubernetes.io/metadata.name,!team", using("", in("bad")), notOwn},
		{"another is being deleted", "team=a", using("", in("bad"), beingDeleted), may},
		{"one with a Secret needs no permission", "team=none", naming("creds"), "mycloud"},
		{"a ClusterCloud for this team", "team=none", using("for-a"), "mycloud"},
		{"a ClusterCloud for another team", "", using("for-a", in("bad")), notOffered("for-a", "bad")},
		{"what uses it already is deleted there", "", using("for-a", in("bad"), beingDeleted), "mycloud"},
		{"a ClusterCloud for all", "", using("for-all", in("bad")), "mycloud"},
		{"a ClusterCloud for nobody", "", using("for-nobody"), notOffered("for-nobody", "good")},
		{"an invalid selector", "", using("invalid"), `reason NotPermitted: ClusterCloud invalid: its namespaceSelector is invalid: "Is" is not a valid label selector operator`},
		{"a ClusterCloud that does not exist", "", using("none"), "reason NoCredentials: ClusterCloud none: it does not exist"},
	} {
		t.Run(test.name, func(t *testing.T) {
			l := newPermissionLab(t, ownFor(t, test.own))
			equal(t, test.want, l.result(test.network))
			if strings.HasPrefix(test.want, "reason NotPermitted") {
				equal(t, Ref{}, l.RefOfKey(cache.MetaObjectToName(test.network)))
			}
		})
	}
}

// A Network that is gone has another key.
func TestWhatAVanishedNetworkLeftNeedsNoPermission(t *testing.T) {
	l := newPermissionLab(t, ownFor(t, "team=none"))
	l.await("For returns the cloud", func() bool {
		cloud, err := l.For(t.Context(), cache.NewObjectName("bad", "web/uid"), using("", in("bad")))
		return err == nil && cloud == l.Own()
	})
}

// All that wait are told of each change.
func TestPermissionsChange(t *testing.T) {
	l := newPermissionLab(t, ownFor(t, "team=b"))
	namespaces := corev1.SchemeGroupVersion.WithResource("namespaces")
	label := func(team string) func() {
		return func() { must(t, l.kube.Tracker().Update(namespaces, labelled("good", team), "")) }
	}
	for _, step := range []struct {
		name         string
		do           func()
		own, offered bool // may be used
	}{
		{"at first", func() {}, false, true},
		{"the label is changed", label("b"), true, false},
		{"the label is changed again", label("a"), false, true},
		{"the ClusterCloud is for another team", func() { l.offer("for-a", "all", "mycloud", forTeam("b")) }, false, false},
		{"the label follows", label("b"), true, true},
		{"the ClusterCloud is for nobody", func() { l.offer("for-a", "all", "mycloud") }, true, false},
	} {
		step.do()
		for name, want := range map[string]bool{"": step.own, "for-a": step.offered} {
			l.await(step.name+": "+name, func() bool {
				_, err := l.For(t.Context(), cache.NewObjectName("good", "web"), using(name))
				return want == (err == nil) && want != (neutron.ReasonOf(err) == neutron.NotPermitted)
			})
		}
	}
}

// A namespace that the cache lacks is one that it does not have yet: the Network exists.
func TestANamespaceIsNotKnownYet(t *testing.T) {
	l := newPermissionLab(t)
	l.open("for-a", "for-all", "for-nobody", "invalid")
	late := using("for-a", in("late"))
	if _, err := l.For(t.Context(), cache.MetaObjectToName(late), late); !errors.Is(err, ErrNotReady) {
		t.Errorf("got %v, want ErrNotReady", err)
	}
	l.add(labelled("late", "a"))
	equal(t, "mycloud", l.result(late))
}

// Without the right, nobody knows who may use the cloud: neither at first nor later.
func TestNamespacesCannotBeRead(t *testing.T) {
	t.Parallel() // it waits for an informer that tries again
	namespaces := &right{denied: true}
	var watches watchGuard
	l := newSpareLab(t, system, func(l *spareLab) {
		l.add(labelled("good", "a"))
		l.add(l.spare("all"))
		l.offer("for-a", "all", "mycloud", forTeam("a"))
		denied := apierrors.NewForbidden(corev1.Resource("namespaces"), "", errors.New("no permission"))
		l.kube.PrependReactor("list", "namespaces", func(clienttesting.Action) (bool, runtime.Object, error) { return namespaces.refuse(), nil, denied })
		watches.of(l.kube, "namespaces", func() error {
			if namespaces.refuse() {
				return denied
			}
			return nil
		})
	}, ownFor(t, "team=a"))
	l.running.Go(func() { l.RunOwn(l.Clouds.ctx) })
	expect := func(refused bool) {
		t.Helper()
		for title, network := range map[string]*samplecrdv1.Network{"the controller's own cloud": using(""), "ClusterCloud for-a": using("for-a")} {
			l.await(title, func() bool {
				_, err := l.For(t.Context(), cache.MetaObjectToName(network), network)
				return refused == says(title+": the labels of namespaces cannot be read: ")(nil, err) && refused == (err != nil)
			})
		}
	}
	expect(true)
	namespaces.set(true)
	expect(false)
	late := using("", in("late")) // an old error says nothing of a namespace that is new
	if _, err := l.For(t.Context(), cache.MetaObjectToName(late), late); !errors.Is(err, ErrNotReady) {
		t.Errorf("got %v, want ErrNotReady", err)
	}
	watches.end(func() { namespaces.set(false) })
	expect(true)
	if n := strings.Count(l.log.String(), "Cannot read the labels of namespaces"); n != 2 {
		t.Errorf("it is logged %d times:\n%s", n, l.log.String())
	}
}

// Another error says nothing of what an administrator has decided.
func TestAnErrorOfTheFirstListOfNamespacesIsWaitedFor(t *testing.T) {
	t.Parallel() // it waits for an informer that tries again
	namespaces, asked := &right{denied: true}, make(chan struct{}, 100)
	l := newSpareLab(t, system, func(l *spareLab) {
		l.add(labelled("good", "a"))
		busy := apierrors.NewServiceUnavailable("etcd has no leader")
		l.kube.PrependReactor("list", "namespaces", func(clienttesting.Action) (bool, runtime.Object, error) {
			asked <- struct{}{}
			return namespaces.refuse(), nil, busy
		})
	}, ownFor(t, "team=a"))
	l.running.Go(func() { l.RunOwn(l.Clouds.ctx) })
	for range 2 { // the error of the first has been handled then
		<-asked
	}
	if _, err := l.For(t.Context(), cache.MetaObjectToName(using("")), using("")); !errors.Is(err, ErrNotReady) {
		t.Errorf("got %v, want ErrNotReady", err)
	}
	namespaces.set(true)
	equal(t, "own", l.result(using("")))
}

// watchGuard can end watches, and refuse new ones.
type watchGuard struct {
	mu   sync.Mutex
	open []watch.Interface
}

func (g *watchGuard) of(kube *fake.Clientset, resource string, refuse func() error) {
	kube.PrependWatchReactor(resource, func(a clienttesting.Action) (bool, watch.Interface, error) {
		g.mu.Lock()
		defer g.mu.Unlock()
		if err := refuse(); err != nil {
			return true, nil, err
		}
		w, err := kube.Tracker().Watch(a.GetResource(), a.GetNamespace())
		g.open = append(g.open, w)
		return true, w, err
	})
}

// end takes the right away, and ends the watches that it has allowed. None begins in between.
func (g *watchGuard) end(takeAway func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	takeAway()
	for _, w := range g.open {
		w.Stop()
	}
}

// A ClusterCloud that is gone is for nobody: its cloud closes with the last Network that used it.
func TestNobodyHoldsTheCloudOfAClusterCloudThatIsGone(t *testing.T) {
	l := newPermissionLab(t)
	l.open("for-a", "for-all", "for-nobody", "invalid")
	for _, name := range []string{"for-all", "for-nobody", "invalid"} {
		l.withdraw(name)
	}
	good, bad := using("for-a"), using("for-a", in("bad"))
	equal(t, "mycloud", l.result(good))
	l.withdraw("for-a")
	l.open()
	for _, n := range []*samplecrdv1.Network{bad, good} {
		equal(t, "reason NoCredentials: ClusterCloud for-a: it does not exist", l.result(n))
	}
	equal(t, 0, len(l.list()))
}

// The limits, the allowed Keystones and the denied addresses are for what users write. An administrator has written this.
func TestAClusterCloudIsTrusted(t *testing.T) {
	allowed, err := ParseURLs("https://keystone.example.com")
	must(t, err)
	for name, servers := range map[string]Servers{"allowed Keystones": {Allowed: allowed}, "denied addresses": {Denied: CIDRs{netip.MustParsePrefix("127.0.0.0/8")}}} {
		t.Run(name, func(t *testing.T) {
			var mu sync.Mutex
			var trusted []bool
			l := newPermissionLab(t, func(o *Options) {
				o.Servers, o.Limits = servers, Limits{PerNamespace: 1, Total: 1}
				newCloud := o.NewCloud
				o.NewCloud = func(c neutron.Config, isOffered bool) *neutron.Cloud {
					mu.Lock()
					defer mu.Unlock()
					if c.Name == "mycloud" {
						trusted = append(trusted, !c.Untrusted && c.Denied == nil)
						equal(t, isOffered, trusted[len(trusted)-1])
					}
					c.Untrusted, c.Denied = false, nil
					return newCloud(c, isOffered)
				}
			})
			equal(t, "mycloud", l.result(using("for-a")))
			equal(t, "mycloud", l.result(using("for-all", in("bad"))))
			want := []bool{true}
			if servers.Denied != nil {
				equal(t, "mycloud", l.result(naming("creds")))
				want = []bool{true, false}
			} else if result := l.result(naming("creds")); !strings.Contains(result, "-allowed-auth-urls") {
				t.Errorf("the Secret of a Network: %s", result)
			}
			mu.Lock()
			defer mu.Unlock()
			equal(t, want, trusted)
		})
	}
}

func TestSelectorIsAFlag(t *testing.T) {
	var s Selector
	if !s.all() || s.String() != "" {
		t.Errorf("the zero Selector is %q", s.String())
	}
	must(t, s.Set("team in (b,a), !x"))
	equal(t, "team in (a,b),!x", s.String())
	if err := s.Set("team=a b"); err == nil || !strings.Contains(err.Error(), "such as team=platform") {
		t.Errorf("got %v", err)
	}
}
