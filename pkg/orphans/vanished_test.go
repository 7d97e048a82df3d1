// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package orphans

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/networks"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	kubefake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
	"github.com/samplecrd/samplecrd-controller/pkg/clouds"
	"github.com/samplecrd/samplecrd-controller/pkg/live"
	"github.com/samplecrd/samplecrd-controller/pkg/neutron"
	"github.com/samplecrd/samplecrd-controller/pkg/neutron/embedded"
)

// vanishedLab is a lab with a Vanished.
type vanishedLab struct {
	*lab
	*Vanished
	secrets *kubefake.Clientset
	all     *clouds.Clouds
	// changed receives something when a Secret, or the cloud of one, was read.
	changed chan struct{}
	// ids are the networks in Neutron by the UID of their owner.
	ids map[types.UID]string
}

func newVanishedLab(t *testing.T, secrets ...runtime.Object) *vanishedLab {
	t.Helper()
	l := &vanishedLab{lab: newLab(t, RemoveNone), secrets: kubefake.NewClientset(secrets...), changed: make(chan struct{}, 100), ids: map[types.UID]string{}}
	ctx, cancel := context.WithCancel(klog.NewContext(context.Background(), klog.Logger{}))
	l.all = clouds.New(ctx, l.cloud, clouds.Options{Client: l.secrets, NewCloud: func(config neutron.Config, _ bool) *neutron.Cloud {
		return neutron.NewCloud(config.Name, neutron.NewClient(config, neutron.ClientOptions{Timeout: 10 * time.Second}), testCluster, time.Hour)
	}})
	t.Cleanup(func() { cancel(); l.all.Wait() })
	l.all.AddHandlers(clouds.Handlers{
		Drift: func(types.UID) {}, Released: func(clouds.Ref) {},
		CredentialsChanged: func(cache.ObjectName) { l.changed <- struct{}{} },
		LabelsChanged:      func(string) {},
	})
	l.Vanished = NewVanished(live.NewNetworks(l.kube), l.all, testCluster)
	l.must(l.cloud.Observer().Relist(l.ctx))
	return l
}

// vanish adds a Network, default/web, that is gone, and whose network Neutron has.
func (l *vanishedLab) vanish(uid types.UID, changes ...func(*samplecrdv1.Network)) *samplecrdv1.Network {
	l.Helper()
	l.ids[uid] = l.inNeutron("default/web", uid)
	n := &samplecrdv1.Network{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: uid, Finalizers: []string{samplecrdv1.Finalizer}},
		Status:     samplecrdv1.NetworkStatus{NetworkID: l.ids[uid]},
	}
	for _, change := range changes {
		change(n)
	}
	l.Add(n)
	return n
}

var webKey = cache.NewObjectName("default", "web")

// syncAll does what the work queue does with the name: it starts the vanished Networks, and calls
// Remove with the key of each that is remembered. It returns their errors.
func (l *vanishedLab) syncAll() error {
	var errs []error
	keys := append(slices.Collect(maps.Keys(l.Vanished.started)), l.Start(l.ctx, webKey)...)
	for _, key := range slices.SortedFunc(slices.Values(keys), func(a, b cache.ObjectName) int { return strings.Compare(a.Name, b.Name) }) {
		errs = append(errs, l.Remove(l.ctx, key))
	}
	return errors.Join(errs...)
}

// remove calls syncAll, and returns the requests that wrote to Neutron or read Kubernetes.
func (l *vanishedLab) remove() (requests []string, err error) {
	l.takeJournal()
	err = l.syncAll()
	for _, line := range l.takeJournal() {
		if !strings.HasPrefix(line, "GET ") {
			requests = append(requests, line)
		}
	}
	return requests, err
}

// left returns the UIDs of the owners whose networks Neutron still has.
func (l *vanishedLab) left() (uids []string) {
	for _, uid := range slices.Sorted(maps.Keys(l.ids)) {
		if l.exists(l.ids[uid]) {
			uids = append(uids, string(uid))
		}
	}
	return uids
}

// remembered returns the UIDs of the Networks that are tried again.
func (l *vanishedLab) remembered() (uids []string) {
	for _, n := range l.Vanished.started {
		uids = append(uids, string(n.UID))
	}
	slices.Sort(uids)
	return uids
}

func (l *vanishedLab) description(uid types.UID) string {
	l.Helper()
	n, err := networks.Get(l.ctx, l.users, l.ids[uid]).Extract()
	l.must(err)
	return n.Description
}

func TestFinalizerBypassed(t *testing.T) {
	for _, test := range []struct {
		name      string
		finalizer string
		deleted   bool
		want      bool
	}{
		{"it has the finalizer and was not marked for deletion", samplecrdv1.Finalizer, false, true},
		{"it was marked for deletion, and somebody removed the rest", samplecrdv1.Finalizer, true, false},
		{"it has another finalizer", "example.com/other", false, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			n := &samplecrdv1.Network{ObjectMeta: metav1.ObjectMeta{Finalizers: []string{test.finalizer}}}
			if test.deleted {
				n.DeletionTimestamp = new(metav1.Unix(1, 0))
			}
			equal(t, test.want, FinalizerBypassed(n))
		})
	}
}

func TestWhatAVanishedNetworkLeftIsRemoved(t *testing.T) {
	const (
		read, deleted, updated = "Kubernetes get", "DELETE networks 204", "PUT networks 200"
	)
	for _, test := range []struct {
		name   string
		change func(*samplecrdv1.Network) // of the vanished Network
		before func(*vanishedLab)
		// requests are those to Kubernetes and those that write to Neutron.
		requests []string
		left     bool
		marked   bool
		log      string // is contained in the log
	}{
		{"it is deleted", func(*samplecrdv1.Network) {}, nil, []string{read, deleted}, false, false, "Removing the network of"},
		{"it is retained", func(n *samplecrdv1.Network) { n.Spec.DeletionPolicy = samplecrdv1.DeletionRetain }, nil, []string{read, updated}, true, false, "Removing the network of"},
		{"it is paused", func(n *samplecrdv1.Network) { n.Annotations = map[string]string{samplecrdv1.AnnotationPaused: "true"} }, nil, nil, true, true, ""},
		{"the Network exists", func(*samplecrdv1.Network) {}, func(l *vanishedLab) { l.inKubernetes("web", "u", true) }, []string{read}, true, true, ""},
		{"another Network has its name", func(*samplecrdv1.Network) {}, func(l *vanishedLab) { l.inKubernetes("web", "v", true) }, []string{read, deleted}, false, false, "Removing the network of"},
		{"the status names no network yet", func(n *samplecrdv1.Network) { n.Status.NetworkID = "" }, nil, []string{read, deleted}, false, false, "Removing the network of"},
		{"another client has removed the mark", func(*samplecrdv1.Network) {}, func(l *vanishedLab) {
			l.must(networks.Update(l.ctx, l.users, l.ids["u"], networks.UpdateOpts{Description: new("")}).Err)
		}, nil, true, false, ""},
		{"it is in another cloud", func(n *samplecrdv1.Network) {
			n.Status = samplecrdv1.NetworkStatus{NetworkID: "n", Cloud: "other", ProjectID: "p"}
		}, func(l *vanishedLab) {
			// The project of this cloud has a network that does not carry the mark.
			l.must(networks.Update(l.ctx, l.users, l.ids["u"], networks.UpdateOpts{Description: new("")}).Err)
		}, nil, true, false, "in cloud \\\"other\\\""},
		{"the Secret of its credentials does not exist", func(n *samplecrdv1.Network) {
			n.Spec.CloudCredentialsRef = &samplecrdv1.CloudCredentialsReference{SecretName: "creds", CloudName: "theirs"}
		}, (*vanishedLab).awaitSecret, nil, true, true, "Secret creds: it does not exist"},
	} {
		t.Run(test.name, func(t *testing.T) {
			l := newVanishedLab(t)
			l.vanish("u", test.change)
			if test.before != nil {
				test.before(l)
			}
			requests, err := l.remove()
			l.must(err)
			equal(t, test.requests, requests)
			equal(t, test.left, l.exists(l.ids["u"]))
			if test.left {
				equal(t, test.marked, l.description("u") != "")
			}
			// It is forgotten, and its credentials are released.
			equal(t, 0, len(l.Vanished.added)+len(l.Vanished.started))
			equal(t, clouds.Ref{}, l.all.RefOfKey(keyOf(&samplecrdv1.Network{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "u"}})))
			requests, err = l.remove()
			l.must(err)
			equal(t, 0, len(requests))
			if got := l.log.String(); !strings.Contains(got, test.log) || test.log == "" && strings.Contains(got, "vanished") {
				t.Errorf("the log is %q, want %q in it", got, test.log)
			}
		})
	}
}

// awaitSecret waits until the Secret of the credentials was read.
func (l *vanishedLab) awaitSecret() {
	l.Helper()
	hold := make(chan struct{})
	l.secrets.PrependReactor("list", "secrets", func(clienttesting.Action) (bool, runtime.Object, error) {
		<-hold
		return false, nil, nil
	})
	// The first call starts to watch it. The back-off of the queue has to try again.
	if err := l.syncAll(); neutron.ReasonOf(err) != neutron.Unavailable {
		l.Errorf("got %v, want that the cloud is not ready", err)
	}
	equal(l.T, []string{"u"}, l.remembered())
	close(hold)
	l.awaitChange()
}

func (l *vanishedLab) awaitChange() {
	l.Helper()
	select {
	case <-l.changed:
	case <-time.After(time.Minute):
		l.Fatal("no handler was called")
	}
}

func TestAFailedRemovalIsTriedAgain(t *testing.T) {
	for _, test := range []struct {
		name  string
		fail  func(*vanishedLab) (repair func())
		want  neutron.ErrorReason // "": an error of Kubernetes
		error string
	}{
		{"Neutron is away", func(l *vanishedLab) func() {
			l.server.SetFault(func(r *http.Request) *embedded.Fault {
				if r.Method == http.MethodDelete {
					return &embedded.Fault{Status: http.StatusBadGateway}
				}
				return nil
			})
			return func() { l.server.SetFault(nil) }
		}, neutron.Unavailable, "remove what a vanished Network left: delete network: "},
		{"Kubernetes is away", func(l *vanishedLab) func() {
			reactors := l.kube.ReactionChain
			l.kubernetesFails("get")
			return func() { l.kube.ReactionChain = reactors }
		}, "", errKubernetes.Error()},
	} {
		t.Run(test.name, func(t *testing.T) {
			l := newVanishedLab(t)
			l.vanish("u")
			repair := test.fail(l)
			for range 2 {
				_, err := l.remove()
				equal(t, test.want, neutron.ReasonOf(err))
				if err == nil || !strings.Contains(err.Error(), test.error) {
					t.Errorf("got %v, want %q in it", err, test.error)
				}
				equal(t, []string{"u"}, l.left())
				equal(t, []string{"u"}, l.remembered())
			}
			repair()
			_, err := l.remove()
			l.must(err)
			equal(t, []string(nil), l.left())
			equal(t, []string(nil), l.remembered())
		})
	}
}

func TestSeveralVanishedNetworksOfOneName(t *testing.T) {
	l := newVanishedLab(t)
	for _, uid := range []types.UID{"u", "v", "w"} {
		l.vanish(uid)
	}
	other := &samplecrdv1.Network{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "other", UID: "x"}}
	l.ids["x"] = l.inNeutron("default/other", "x")
	l.Add(other)
	_, err := ports.Create(l.ctx, l.users, ports.CreateOpts{NetworkID: l.ids["v"], DeviceOwner: "compute:nova"}).Extract()
	l.must(err)
	// The one that fails is tried again. It holds up no other.
	_, err = l.remove()
	equal(t, neutron.InUse, neutron.ReasonOf(err))
	equal(t, []string{"v", "x"}, l.left())
	equal(t, []string{"v"}, l.remembered())
	l.deletePorts()
	_, err = l.remove()
	l.must(err)
	equal(t, []string{"x"}, l.left()) // the Network of another name is not started
	for _, key := range l.Start(l.ctx, cache.MetaObjectToName(other)) {
		l.must(l.Remove(l.ctx, key))
	}
	equal(t, []string(nil), l.left())
	equal(t, 0, len(l.Vanished.added)+len(l.Vanished.started))
}

func TestStartReturnsEachKeyOnce(t *testing.T) {
	l := newVanishedLab(t)
	// Before anything was started, no key has anything to remove.
	n := l.vanish("u")
	l.must(l.Remove(l.ctx, keyOf(n)))
	equal(t, []string{"u"}, l.left())
	equal(t, 0, len(l.Start(l.ctx, cache.NewObjectName("other", "web"))))
	keys := l.Start(l.ctx, webKey)
	equal(t, []cache.ObjectName{keyOf(n)}, keys)
	equal(t, 0, len(l.Start(l.ctx, webKey)))
	equal(t, true, IsVanishedKey(keys[0]))
	equal(t, false, IsVanishedKey(webKey))
}

// The queue asks for the group when a key is added to it, so it must be known by then.
func TestAVanishedNetworksKeyHasTheGroupOfItsCredentialsFromTheStart(t *testing.T) {
	l := newVanishedLab(t)
	l.vanish("u")
	l.vanish("v", func(n *samplecrdv1.Network) {
		n.Spec.CloudCredentialsRef = &samplecrdv1.CloudCredentialsReference{SecretName: "creds", CloudName: "theirs"}
	})
	var groups []bool
	for _, key := range l.Start(l.ctx, webKey) {
		groups = append(groups, l.all.GroupOf(key, nil) == clouds.Group{})
	}
	equal(t, []bool{true, false}, groups)
	equal(t, true, l.all.GroupOf(webKey, nil) == clouds.Group{})
}

func (l *vanishedLab) deletePorts() {
	l.Helper()
	pages, err := ports.List(l.users, ports.ListOpts{}).AllPages(l.ctx)
	l.must(err)
	all, err := ports.ExtractPorts(pages)
	l.must(err)
	for _, port := range all {
		l.deletePort(port.ID)
	}
}

// deletePort deletes a port, and lets all clouds notice it.
func (l *vanishedLab) deletePort(id string) {
	l.Helper()
	l.must(ports.Delete(l.ctx, l.users, id).Err)
	for _, cloud := range l.all.List() {
		l.must(cloud.RelistPorts(l.ctx))
	}
}

// The credentials of a vanished Network stay in use until nothing is left, beside those of the
// Network that has its name now.
func TestAVanishedNetworkKeepsItsOwnCredentials(t *testing.T) {
	l := newVanishedLab(t)
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "creds"}, Data: map[string][]byte{"clouds.yaml": l.server.CloudsYAML("theirs")}}
	l.must(l.secrets.Tracker().Add(secret))
	gone := l.vanish("u", func(n *samplecrdv1.Network) {
		n.Spec.CloudCredentialsRef = &samplecrdv1.CloudCredentialsReference{SecretName: "creds", CloudName: "theirs"}
	})
	port, err := ports.Create(l.ctx, l.users, ports.CreateOpts{NetworkID: l.ids["u"], DeviceOwner: "compute:nova"}).Extract()
	l.must(err)
	for {
		_, err := l.remove()
		if neutron.ReasonOf(err) == neutron.InUse {
			break
		}
		if neutron.ReasonOf(err) != neutron.Unavailable || !strings.Contains(err.Error(), clouds.ErrNotReady.Error()) {
			t.Fatalf("got %v, want that the cloud is not ready", err)
		}
		l.awaitChange()
	}
	l.all.Forget(webKey) // as the sync of a Network that is gone
	equal(t, 2, len(l.all.List()))
	equal(t, clouds.RefOf(gone), l.all.RefOfKey(keyOf(gone)))
	l.deletePort(port.ID)
	_, err = l.remove()
	l.must(err)
	equal(t, []string(nil), l.left())
	equal(t, 1, len(l.all.List()))
	if !strings.Contains(l.log.String(), "Removing the network of a vanished Network") {
		t.Error(l.log.String())
	}
	equal(t, fmt.Sprint("default/web/", gone.UID), keyOf(gone).String())
}
