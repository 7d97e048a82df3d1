// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package orphans

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/config/clouds"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/layer3/routers"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/networks"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/subnets"
	"github.com/prometheus/client_golang/prometheus/testutil"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"

	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
	"github.com/samplecrd/samplecrd-controller/pkg/generated/clientset/versioned/fake"
	informers "github.com/samplecrd/samplecrd-controller/pkg/generated/informers/externalversions"
	typed "github.com/samplecrd/samplecrd-controller/pkg/generated/informers/externalversions/samplecrd/v1"
	"github.com/samplecrd/samplecrd-controller/pkg/neutron"
	"github.com/samplecrd/samplecrd-controller/pkg/neutron/embedded"
)

// lab is a Finder with a fake clientset and an embedded Neutron.
type lab struct {
	*testing.T
	kube     *fake.Clientset
	informer typed.TypedNetworkInformer
	cached   cache.Indexer
	server   *embedded.Server
	cloud    *neutron.Cloud
	clouds   []*neutron.Cloud
	// users is the client with which users change Neutron.
	users  *gophercloud.ServiceClient
	finder *Finder
	ctx    context.Context
	log    *bytes.Buffer

	mu      sync.Mutex
	journal []string
}

func newLab(t *testing.T, removal Removal) *lab {
	t.Helper()
	project := embedded.Project{Name: "samplecrd", ID: "project-1", Password: "secret"}
	server, err := embedded.Start("127.0.0.1:0", embedded.Options{Projects: []embedded.Project{project}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	return newLabOn(t, server, removal)
}

// newLabOn returns a lab whose Neutron may have other labs.
func newLabOn(t *testing.T, server *embedded.Server, removal Removal) *lab {
	t.Helper()
	l := &lab{T: t, kube: fake.NewClientset(), server: server, log: &bytes.Buffer{}}
	l.ctx = klog.NewContext(t.Context(), textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(l.log))))
	l.cloud = l.newCloud("cloud")
	l.clouds = []*neutron.Cloud{l.cloud}
	l.users = l.openStack()
	l.informer = informers.NewSharedInformerFactory(l.kube, 0).Samplecrd().V1().Networks()
	l.cached = l.informer.Informer().GetIndexer()
	l.restart(removal)
	l.kube.PrependReactor("*", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
		l.note("Kubernetes " + action.GetVerb())
		return false, nil, nil
	})
	server.Observe(func(r embedded.Request) {
		if path, ok := strings.CutPrefix(r.Path, "v2.0/"); ok {
			collection, _, _ := strings.Cut(path, "/")
			l.note(r.Method + " " + collection + " " + strconv.Itoa(r.Status))
		}
	})
	return l
}

// restart replaces the Finder, as a restart of the controller does.
func (l *lab) restart(removal Removal) {
	l.finder = NewFinder(l.kube, l.informer, Options{Removal: removal, Clouds: func() []*neutron.Cloud { return l.clouds }})
}

func (l *lab) must(err error) {
	l.Helper()
	if err != nil {
		l.Fatal(err)
	}
}

func (l *lab) newCloud(name string) *neutron.Cloud {
	return l.newCloudOn(l.server, name, false)
}

// newCloudOn returns a cloud whose servers may have been named by users.
func (l *lab) newCloudOn(server *embedded.Server, name string, isUntrusted bool) *neutron.Cloud {
	l.Helper()
	config, err := neutron.ParseConfig("test", server.CloudsYAML("test"))
	l.must(err)
	config.Untrusted = isUntrusted
	client := neutron.NewClient(config, neutron.ClientOptions{Timeout: 10 * time.Second, UserAgent: "finder"})
	l.Cleanup(client.Close)
	return neutron.NewCloud(name, client, testCluster, time.Hour)
}

func (l *lab) openStack() *gophercloud.ServiceClient {
	l.Helper()
	auth, endpoint, _, err := clouds.Parse(clouds.WithCloudName("test"), clouds.WithCloudsYAML(bytes.NewReader(l.server.CloudsYAML("test"))))
	l.must(err)
	provider, err := openstack.AuthenticatedClient(l.ctx, auth)
	l.must(err)
	client, err := openstack.NewNetworkV2(provider, endpoint)
	l.must(err)
	return client
}

func (l *lab) note(line string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.journal = append(l.journal, line)
}

func (l *lab) takeJournal() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	taken := l.journal
	l.journal = nil
	return taken
}

// inNeutron creates a network for the owner of that UID and returns its ID.
func (l *lab) inNeutron(name string, uid types.UID) string {
	l.Helper()
	n, err := l.cloud.Client().CreateNetwork(l.Context(), map[string]any{"name": name, "description": neutron.Owner{Cluster: testCluster, UID: uid}.Mark()})
	l.must(err)
	return n.ID
}

// inKubernetes creates a Network. It does not add it to the cache if the cache is stale.
func (l *lab) inKubernetes(name string, uid types.UID, stale bool) {
	l.Helper()
	n := &samplecrdv1.Network{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: uid}}
	l.must(l.kube.Tracker().Add(n))
	if !stale {
		l.must(l.cached.Add(n))
	}
}

// fill creates n Networks with their networks, and one orphan. It returns the ID of the
// orphan.
func (l *lab) fill(n int) string {
	l.Helper()
	for i := range n {
		name := fmt.Sprintf("net-%d", i)
		l.inKubernetes(name, types.UID("u-"+name), false)
		l.inNeutron("default/"+name, types.UID("u-"+name))
	}
	return l.inNeutron("default/gone", "u-gone")
}

// relist relists all clouds and then looks for orphans.
func (l *lab) relist() error {
	l.Helper()
	for _, cloud := range l.clouds {
		l.must(cloud.Observer().Relist(l.ctx))
	}
	l.takeJournal()
	return l.finder.find(l.ctx)
}

// exists reports whether Neutron has the network.
func (l *lab) exists(id string) bool {
	l.Helper()
	err := networks.Get(l.ctx, l.users, id).Err
	if err != nil && !gophercloud.ResponseCodeIs(err, http.StatusNotFound) {
		l.Fatal(err)
	}
	return err == nil
}

// ids returns the network IDs of the orphans that the Finder lists.
func (l *lab) ids() (ids []string) {
	for _, orphan := range l.finder.List() {
		ids = append(ids, orphan.NetworkID)
	}
	return ids
}

func (l *lab) counts(want string) {
	l.Helper()
	const head = "# HELP samplecrd_orphans Networks in Neutron, and routers without a network, that have the mark of this cluster but whose Network is gone.\n# TYPE samplecrd_orphans gauge\n"
	l.must(testutil.CollectAndCompare(l.finder, strings.NewReader(head+want+"\n")))
	problems, err := testutil.CollectAndLint(l.finder)
	l.must(err)
	if len(problems) > 0 {
		l.Error(problems)
	}
}

func TestASteadyStateCostsNoRequest(t *testing.T) {
	l := newLab(t, RemoveAll)
	l.fill(3)
	l.inKubernetes("gone", "u-gone", false)
	for range 3 {
		l.must(l.relist())
		equal(t, 0, len(l.takeJournal()))
	}
	l.counts(`samplecrd_orphans{cloud="cloud"} 0`)
}

func TestAStaleCacheCostsOneList(t *testing.T) {
	l := newLab(t, RemoveAll)
	id := l.fill(3)
	l.inKubernetes("gone", "u-gone", true)
	for range 3 {
		l.must(l.relist())
		equal(t, []string{"Kubernetes list"}, l.takeJournal())
	}
	equal(t, true, l.exists(id))
	equal(t, 0, len(l.finder.List()))
	equal(t, "", l.log.String())
}

func TestAnOrphanIsLoggedOnceListedAndCounted(t *testing.T) {
	l := newLab(t, RemoveNone)
	id := l.fill(2)
	before := time.Now().Truncate(time.Second)
	l.counts("")
	for range 3 {
		l.must(l.relist())
		equal(t, []string{"Kubernetes list"}, l.takeJournal())
	}
	equal(t, true, l.exists(id))
	got := l.finder.List()
	equal(t, 1, len(got))
	equal(t, []string{"cloud", id, "default/gone", "u-gone"}, []string{got[0].Cloud, got[0].NetworkID, got[0].Name, string(got[0].OwnerUID)})
	if got[0].Since.Before(before) || got[0].Since.After(time.Now()) || got[0].Ports != nil {
		t.Errorf("got %+v", got[0])
	}
	l.counts(`samplecrd_orphans{cloud="cloud"} 1`)
	equal(t, 1, strings.Count(l.log.String(), "\n"))
	for _, want := range []string{"its Network is gone", id, "u-gone", `delete-orphans="false"`} {
		if !strings.Contains(l.log.String(), want) {
			t.Errorf("%q does not say %q", l.log.String(), want)
		}
	}
	// The Network is restored from a backup.
	l.inKubernetes("gone", "u-gone", true)
	l.must(l.relist())
	l.counts(`samplecrd_orphans{cloud="cloud"} 0`)
}

// inNeutronRouted creates a network with a subnet that is attached to a router with the owner's
// mark. It returns the IDs of the network, the subnet and the router.
func (l *lab) inNeutronRouted(name string, uid types.UID) (network, subnet, router string) {
	l.Helper()
	mark := neutron.Owner{Cluster: testCluster, UID: uid}.Mark()
	network = l.inNeutron(name, uid)
	s, err := subnets.Create(l.ctx, l.users, subnets.CreateOpts{NetworkID: network, IPVersion: 4, CIDR: "10.0.0.0/24", Description: mark}).Extract()
	l.must(err)
	router = l.inNeutronRouter(name, mark)
	l.attach(router, s.ID)
	return network, s.ID, router
}

func (l *lab) inNeutronRouter(name, description string) string {
	l.Helper()
	r, err := routers.Create(l.ctx, l.users, routers.CreateOpts{Name: name, Description: description}).Extract()
	l.must(err)
	return r.ID
}

// attach attaches a subnet to a router as a user does. It returns the ID of the port.
func (l *lab) attach(router, subnet string) string {
	l.Helper()
	info, err := routers.AddInterface(l.ctx, l.users, router, routers.AddInterfaceOpts{SubnetID: subnet}).Extract()
	l.must(err)
	return info.PortID
}

func (l *lab) detach(router, subnet string) {
	l.Helper()
	l.must(routers.RemoveInterface(l.ctx, l.users, router, routers.RemoveInterfaceOpts{SubnetID: subnet}).Err)
}

func (l *lab) routerExists(id string) bool {
	l.Helper()
	err := routers.Get(l.ctx, l.users, id).Err
	if err != nil && !gophercloud.ResponseCodeIs(err, http.StatusNotFound) {
		l.Fatal(err)
	}
	return err == nil
}

// writes returns the requests of the journal that changed Neutron.
func (l *lab) writes() (writes []string) {
	for _, line := range l.takeJournal() {
		if !strings.HasPrefix(line, "GET ") && !strings.HasPrefix(line, "Kubernetes ") {
			writes = append(writes, line)
		}
	}
	return writes
}

func TestTheRouterOfAnOrphanIsDeletedWithIt(t *testing.T) {
	l := newLab(t, RemoveFew)
	l.fill(3)
	l.inKubernetes("gone", "u-gone", false) // the orphan of fill has an owner
	network, _, router := l.inNeutronRouted("default/routed", "u-routed")
	l.must(l.relist())
	equal(t, []string{network}, l.ids())
	equal(t, "", l.finder.List()[0].RouterID)
	l.counts(`samplecrd_orphans{cloud="cloud"} 1`)
	l.must(l.relist())
	equal(t, []string{"PUT routers 200", "DELETE routers 204", "DELETE networks 204"}, l.writes())
	equal(t, false, l.exists(network) || l.routerExists(router))
	equal(t, 0, len(l.finder.List()))

	// Now no Network has a router, so the next list finds none, and those after it look for none.
	l.must(l.cloud.Observer().Relist(l.ctx))
	l.takeJournal()
	l.must(l.cloud.Observer().Relist(l.ctx))
	equal(t, []string{"GET networks 200", "GET subnets 200"}, l.takeJournal())
}

// Neutron detaches no subnet under a route. The Network that may have declared it is gone.
func TestTheRoutesOfAnOrphansRouterAreRemoved(t *testing.T) {
	l := newLab(t, RemoveFew)
	l.fill(3)
	l.inKubernetes("gone", "u-gone", false)
	network, _, router := l.inNeutronRouted("default/routed", "u-routed")
	subnet, err := subnets.List(l.users, subnets.ListOpts{NetworkID: network}).AllPages(l.ctx)
	l.must(err)
	all, err := subnets.ExtractSubnets(subnet)
	l.must(err)
	hop := netip.MustParsePrefix(all[0].CIDR).Addr().Next().Next().Next()
	_, err = routers.Update(l.ctx, l.users, router, routers.UpdateOpts{Routes: &[]routers.Route{{DestinationCIDR: "10.99.0.0/16", NextHop: hop.String()}}}).Extract()
	l.must(err)
	l.must(l.relist())
	l.takeJournal()
	l.must(l.relist())
	equal(t, []string{"PUT routers 200", "PUT routers 200", "DELETE routers 204", "DELETE networks 204"}, l.writes())
	equal(t, false, l.exists(network) || l.routerExists(router))
}

func TestARouterWithoutANetworkIsAnOrphan(t *testing.T) {
	l := newLab(t, RemoveFew)
	l.fill(20)
	l.inKubernetes("gone", "u-gone", false)
	mark := neutron.Owner{Cluster: testCluster, UID: "u-routed"}.Mark()
	first, second := l.inNeutronRouter("default/routed", mark), l.inNeutronRouter("default/routed", mark)
	// Neither is an orphan: the Network of one of them exists, and the mark of the other is another cluster's.
	owned := l.inNeutronRouter("default/net-0", neutron.Owner{Cluster: testCluster, UID: "u-net-0"}.Mark())
	l.inKubernetes("new", "u-new", false)
	early := l.inNeutronRouter("default/new", neutron.Owner{Cluster: testCluster, UID: "u-new"}.Mark())
	theirs := l.inNeutronRouter("default/routed", neutron.Owner{Cluster: "other", UID: "u-routed"}.Mark())

	l.must(l.relist())
	got := l.finder.List()
	equal(t, 2, len(got))
	for i, id := range slices.Sorted(slices.Values([]string{first, second})) {
		equal(t, []string{"cloud", "", id, "default/routed", "u-routed"}, []string{got[i].Cloud, got[i].NetworkID, got[i].RouterID, got[i].Name, string(got[i].OwnerUID)})
		equal(t, false, got[i].NeverOwned)
		equal(t, 1, strings.Count(l.log.String(), `routerID="`+id))
	}
	equal(t, false, strings.Contains(l.log.String(), `networkID=""`))
	l.counts(`samplecrd_orphans{cloud="cloud"} 2`)
	equal(t, 0, len(l.writes()))

	l.must(l.relist())
	equal(t, []string{"DELETE routers 204", "DELETE routers 204"}, l.writes())
	equal(t, false, l.routerExists(first) || l.routerExists(second))
	equal(t, true, l.routerExists(owned) && l.routerExists(early) && l.routerExists(theirs))
	equal(t, 0, len(l.finder.List()))
	l.must(l.relist())
	equal(t, 0, len(l.finder.List()))
}

func TestARoutedOrphanIsLeftAloneFor(t *testing.T) {
	type change func(l *lab, network, subnet, router string)
	verb := func(verb string) change { return func(l *lab, _, _, _ string) { l.kubernetesFails(verb) } }
	use := func(l *lab, _, _, router string) {
		n, err := networks.Create(l.ctx, l.users, networks.CreateOpts{Name: "a user's"}).Extract()
		l.must(err)
		s, err := subnets.Create(l.ctx, l.users, subnets.CreateOpts{NetworkID: n.ID, IPVersion: 4, CIDR: "10.1.0.0/24"}).Extract()
		l.must(err)
		l.attach(router, s.ID)
	}
	for _, test := range []struct {
		name string
		// alone means that the router has no network.
		alone bool
		// first is called before the first relist, then after the second relist and before the
		// comparison.
		first, then change
		fails       bool
		log         string
	}{
		{name: "an interface of a user's router", first: func(l *lab, network, _, _ string) {
			s, err := subnets.Create(l.ctx, l.users, subnets.CreateOpts{NetworkID: network, IPVersion: 4, CIDR: "10.2.0.0/24"}).Extract()
			l.must(err)
			l.attach(l.inNeutronRouter("a user's", ""), s.ID)
		}, log: "ports=1"},
		{name: "an interface of its router on a user's network", first: use, log: "whose router is in use"},
		{name: "an interface of a router without a network", alone: true, first: use, log: "whose router is in use"},
		{name: "a change of a router without a network since the relist", alone: true, then: func(l *lab, _, _, router string) {
			l.must(routers.Update(l.ctx, l.users, router, routers.UpdateOpts{Name: "other"}).Err)
		}},
		{name: "the removal of the router's mark", alone: true, then: func(l *lab, _, _, router string) {
			l.must(routers.Update(l.ctx, l.users, router, routers.UpdateOpts{Description: new("")}).Err)
		}},
		{name: "a network that has appeared beside the router", alone: true, then: func(l *lab, _, _, _ string) { l.inNeutron("default/routed", "u-routed") }},
		{name: "a list of routers that fails", then: func(l *lab, _, _, _ string) { l.neutronFails("GET", "routers") }, fails: true},
		{name: "a router that cannot be detached", then: func(l *lab, _, _, _ string) { l.neutronFails("PUT", "routers") }, fails: true},
		{name: "a Network of a router that cannot be read", alone: true, first: verb("get"), fails: true},
		{name: "a Network of a router that the list leaves out", alone: true, first: func(l *lab, _, _, _ string) {
			l.inKubernetes("routed", "u-routed", true)
			l.kubernetesForgets("u-routed")
		}, fails: true},
	} {
		t.Run(test.name, func(t *testing.T) {
			l := newLab(t, RemoveAll)
			l.fill(3)
			l.inKubernetes("gone", "u-gone", false)
			network, subnet, router := l.inNeutronRouted("default/routed", "u-routed")
			if test.alone {
				l.detach(router, subnet)
				l.must(networks.Delete(l.ctx, l.users, network).Err)
			}
			if test.first != nil {
				test.first(l, network, subnet, router)
			}
			_ = l.relist()
			for range 2 {
				l.must(l.cloud.Observer().Relist(l.ctx))
				if test.then != nil {
					test.then(l, network, subnet, router)
					test.then = nil
				}
				err := l.finder.find(l.ctx)
				l.server.SetFault(nil)
				equal(t, test.fails, err != nil)
				equal(t, true, l.routerExists(router))
				equal(t, !test.alone, l.exists(network))
				if test.log == "" {
					break // the next relist shows the change
				}
			}
			equal(t, test.log != "", strings.Count(l.log.String(), "Left an orphan") == 1)
			if !strings.Contains(l.log.String(), test.log) {
				t.Errorf("%q does not say %q", l.log.String(), test.log)
			}
		})
	}
}

func TestAnOrphanIsDeletedAfterTheSecondRelist(t *testing.T) {
	l := newLab(t, RemoveFew)
	id := l.fill(2)
	// A network of another cluster, one without a mark, and one of a user with the same name.
	theirs := neutron.Owner{Cluster: "other", UID: "u-gone"}.Mark()
	for _, description := range []string{theirs, "", "a user's"} {
		l.must(networks.Create(l.ctx, l.users, networks.CreateOpts{Name: "default/gone", Description: description}).Err)
	}
	// There is a new Network with that name.
	l.inKubernetes("gone", "u-new", false)
	// Neutron deletes the ports of DHCP itself.
	l.must(ports.Create(l.ctx, l.users, ports.CreateOpts{NetworkID: id, DeviceOwner: "network:dhcp"}).Err)

	l.must(l.relist())
	equal(t, []string{"Kubernetes list"}, l.takeJournal())
	// A second comparison without a new relist does not count.
	l.must(l.finder.find(l.ctx))
	equal(t, 0, len(l.takeJournal()))
	equal(t, true, l.exists(id))

	l.must(l.relist())
	equal(t, []string{"Kubernetes list", "GET networks 200", "GET subnets 200", "GET ports 200", "Kubernetes get", "DELETE networks 204"}, l.takeJournal())
	equal(t, false, l.exists(id))
	l.counts(`samplecrd_orphans{cloud="cloud"} 0`)
	equal(t, 0, len(l.ids()))
	l.must(l.relist())
	equal(t, 0, len(l.takeJournal()))
	var left []string
	pages, err := networks.List(l.users, networks.ListOpts{}).AllPages(l.ctx)
	l.must(err)
	all, err := networks.ExtractNetworks(pages)
	l.must(err)
	for _, n := range all {
		left = append(left, n.Name)
	}
	slices.Sort(left)
	equal(t, []string{"default/gone", "default/gone", "default/gone", "default/net-0", "default/net-1"}, left)
	if !strings.Contains(l.log.String(), "Deleted an orphan from Neutron") {
		t.Error(l.log.String())
	}
}

// errKubernetes is an error of the connection to Kubernetes.
var errKubernetes = errors.New("connection refused")

// kubernetesFails makes requests of that verb fail.
func (l *lab) kubernetesFails(verb string) {
	l.kube.PrependReactor(verb, "networks", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, errKubernetes })
}

// kubernetesForgets removes the Networks with those UIDs from the list.
func (l *lab) kubernetesForgets(uids ...types.UID) {
	l.kube.PrependReactor("list", "networks", func(action clienttesting.Action) (bool, runtime.Object, error) {
		object, err := l.kube.Tracker().List(action.GetResource(), action.GetResource().GroupVersion().WithKind("Network"), "")
		list := object.(*samplecrdv1.NetworkList)
		list.Items = slices.DeleteFunc(list.Items, func(n samplecrdv1.Network) bool { return slices.Contains(uids, n.UID) })
		return true, list, err
	})
}

// neutronFails makes requests of that method for that collection fail.
func (l *lab) neutronFails(method, collection string) {
	l.server.SetFault(func(r *http.Request) *embedded.Fault {
		if r.Method == method && strings.Contains(r.URL.Path, "/v2.0/"+collection) && r.UserAgent() != "" && !strings.HasPrefix(r.UserAgent(), "gophercloud") {
			return &embedded.Fault{Status: http.StatusBadGateway}
		}
		return nil
	})
}

func TestAnOrphanIsLeftAloneFor(t *testing.T) {
	type change func(l *lab, id string)
	rename := func(l *lab, id string) {
		name := "default/other"
		l.must(networks.Update(l.ctx, l.users, id, networks.UpdateOpts{Name: &name}).Err)
	}
	addPort := func(l *lab, id string) {
		l.must(ports.Create(l.ctx, l.users, ports.CreateOpts{NetworkID: id, DeviceOwner: "compute:nova"}).Err)
	}
	beforeDeletion := func(do change) change {
		return func(l *lab, id string) {
			var once sync.Once
			l.server.SetFault(func(r *http.Request) *embedded.Fault {
				if r.Method == http.MethodDelete {
					once.Do(func() { do(l, id) })
				}
				return nil
			})
		}
	}
	for _, test := range []struct {
		name string
		// first is called before the first relist, then after the second relist and before the
		// comparison.
		first, then  change
		fails, stays bool
	}{
		{name: "a second page of Networks that fails", first: func(l *lab, _ string) { l.pages(1) }, fails: true, stays: true},
		{name: "a Network that the list leaves out", first: func(l *lab, _ string) {
			l.inKubernetes("gone", "u-gone", true)
			l.kubernetesForgets("u-gone")
		}, fails: true, stays: true},
		{name: "a Network that cannot be read", first: func(l *lab, _ string) { l.kubernetesFails("get") }, fails: true, stays: true},
		{name: "a port", first: addPort, stays: true},
		{name: "a list of ports that fails", then: func(l *lab, _ string) { l.neutronFails("GET", "ports") }, fails: true, stays: true},
		{name: "a network that cannot be read", then: func(l *lab, _ string) { l.neutronFails("GET", "networks") }, fails: true, stays: true},
		{name: "a change since the relist", then: rename, stays: true},
		{name: "a mark that was removed since the relist", then: func(l *lab, id string) {
			nothing := ""
			l.must(networks.Update(l.ctx, l.users, id, networks.UpdateOpts{Description: &nothing}).Err)
		}, stays: true},
		{name: "a change directly before the deletion", then: beforeDeletion(rename), stays: true},
		{name: "a port directly before the deletion", then: beforeDeletion(addPort), stays: true},
		{name: "nothing: a name without a namespace", first: func(l *lab, id string) {
			name := "no namespace"
			l.must(networks.Update(l.ctx, l.users, id, networks.UpdateOpts{Name: &name}).Err)
			l.kubernetesFails("get")
		}},
		{name: "nothing: another client has deleted it", then: func(l *lab, id string) { l.must(networks.Delete(l.ctx, l.users, id).Err) }},
		{name: "nothing"},
	} {
		t.Run(test.name, func(t *testing.T) {
			l := newLab(t, RemoveAll)
			id := l.fill(3)
			if test.first != nil {
				test.first(l, id)
			}
			_ = l.relist()
			l.must(l.cloud.Observer().Relist(l.ctx))
			if test.then != nil {
				test.then(l, id)
			}
			err := l.finder.find(l.ctx)
			l.server.SetFault(nil)
			equal(t, test.fails, err != nil)
			equal(t, test.stays, l.exists(id))
			if !l.exists(id) && slices.Contains(l.ids(), id) {
				t.Error("the orphan is still listed")
			}
		})
	}
}

// pages makes Kubernetes list one Network per page. It answers good pages and then fails.
func (l *lab) pages(good int) {
	l.kube.PrependReactor("list", "networks", func(action clienttesting.Action) (bool, runtime.Object, error) {
		object, err := l.kube.Tracker().List(action.GetResource(), action.GetResource().GroupVersion().WithKind("Network"), "")
		l.must(err)
		list := object.(*samplecrdv1.NetworkList)
		options := action.(clienttesting.ListActionImpl).ListOptions
		if options.Limit != pageSize || options.ResourceVersion != "" {
			l.Errorf("%+v is not a live list with pages", options)
		}
		at, _ := strconv.Atoi(options.Continue)
		if at >= good {
			return true, nil, errKubernetes
		}
		if at+1 < len(list.Items) {
			list.Continue = strconv.Itoa(at + 1)
		}
		list.Items = list.Items[at : at+1]
		return true, list, nil
	})
}

func TestAllPagesOfNetworksCount(t *testing.T) {
	l := newLab(t, RemoveAll)
	id := l.fill(3)
	l.pages(3)
	l.must(l.relist())
	equal(t, []string{id}, l.ids())
}

func TestAChangeDuringTheListOfNetworksMakesNoOrphan(t *testing.T) {
	l := newLab(t, RemoveAll)
	id := l.fill(3)
	l.must(l.cloud.Observer().Relist(l.ctx))
	l.kube.PrependReactor("list", "networks", func(clienttesting.Action) (bool, runtime.Object, error) {
		if _, relists := l.cloud.Observer().All(); relists == 0 {
			t.Error("Kubernetes was listed before Neutron")
		}
		// A worker deletes one network and creates another one.
		l.cloud.Observer().Delete("u-gone", id)
		l.cloud.Observer().Update("u-new", &neutron.Observed{Network: neutron.Network{ID: "new"}})
		return false, nil, nil
	})
	l.must(l.finder.find(l.ctx))
	equal(t, 0, len(l.ids()))
	equal(t, "", l.log.String())
}

func TestSightingsStartAgainAfterAnOwnerWasMissingInTheList(t *testing.T) {
	l := newLab(t, RemoveFew)
	id := l.fill(3)
	l.inKubernetes("gone", "u-gone", true)
	l.kubernetesForgets("u-gone")
	l.must(l.relist())
	if err := l.relist(); !errors.Is(err, errOwnerExists) {
		t.Fatalf("got %v", err)
	}
	// Now the Network is deleted, but one relist is not enough.
	l.must(l.kube.Tracker().Delete(samplecrdv1.Resource("networks").WithVersion("v1"), "default", "gone"))
	l.must(l.relist())
	equal(t, true, l.exists(id))
	l.must(l.relist())
	equal(t, false, l.exists(id))
}

func TestPortsAreCountedAndLoggedOnce(t *testing.T) {
	l := newLab(t, RemoveFew)
	id := l.fill(3)
	port, err := ports.Create(l.ctx, l.users, ports.CreateOpts{NetworkID: id}).Extract()
	l.must(err)
	for range 4 {
		l.must(l.relist())
		if asked := l.takeJournal(); strings.Contains(strings.Join(asked, ","), "DELETE") {
			t.Errorf("got a DELETE although there are ports: %v", asked)
		}
	}
	equal(t, 1, *l.finder.List()[0].Ports)
	equal(t, 1, strings.Count(l.log.String(), "has ports on it"))
	l.must(ports.Delete(l.ctx, l.users, port.ID).ExtractErr())
	l.must(l.relist())
	equal(t, false, l.exists(id))
}

func TestOrphansAreCountedPerCloudInUse(t *testing.T) {
	l := newLab(t, RemoveNone)
	id := l.fill(2)
	l.clouds = append(l.clouds, l.newCloud("second"), l.newCloud("second"), l.newCloud("cloud"))
	l.must(l.relist())
	equal(t, []string{id, id, id, id}, l.ids())
	// The last cloud has the same name as the controller's own cloud.
	l.counts("samplecrd_orphans{cloud=\"(others)\"} 1\nsamplecrd_orphans{cloud=\"cloud\"} 1\nsamplecrd_orphans{cloud=\"second\"} 2")
	l.clouds = l.clouds[:1]
	equal(t, []string{id}, l.ids())
	l.counts(`samplecrd_orphans{cloud="cloud"} 1`)
	l.must(l.relist())
	equal(t, 1, len(l.finder.last))
}

func TestRunLooksForOrphansAfterWake(t *testing.T) {
	l := newLab(t, RemoveNone)
	listed := make(chan struct{})
	fail := true
	l.kube.PrependReactor("list", "networks", func(clienttesting.Action) (bool, runtime.Object, error) {
		<-listed
		defer func() { fail = false }()
		return fail, nil, errKubernetes
	})
	id := l.inNeutron("default/gone", "u-gone")
	l.cloud.Observer().OnRelist(l.finder.Wake)
	synced := make(chan struct{})
	close(synced)
	l.finder.synced = checker(synced)
	ctx, cancel := context.WithCancel(l.ctx)
	var run sync.WaitGroup
	run.Go(func() { l.finder.Run(ctx) })
	for range 2 {
		l.must(l.cloud.Observer().Relist(l.ctx))
		listed <- struct{}{}
	}
	l.must(l.cloud.Observer().Relist(l.ctx))
	listed <- struct{}{} // the previous list was compared
	cancel()
	run.Wait()
	equal(t, []string{id}, l.ids())
	equal(t, 1, strings.Count(l.log.String(), "Failed to look for orphans"))
}

func TestRunWaitsForTheCache(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked, synced := 0, make(chan struct{})
		f := &Finder{options: Options{Clouds: func() []*neutron.Cloud { asked++; return nil }}, synced: checker(synced), wake: make(chan struct{}, 1)}
		ctx, cancel := context.WithCancel(t.Context())
		var run sync.WaitGroup
		run.Go(func() { f.Run(ctx) })
		f.Wake()
		f.Wake()
		synctest.Wait()
		equal(t, 0, asked)
		close(synced)
		synctest.Wait()
		equal(t, 1, asked)
		cancel()
		run.Wait()
	})
}

// checker is a DoneChecker that is done when it is closed.
type checker chan struct{}

func (c checker) Name() string { return "Networks" }

func (c checker) Done() <-chan struct{} { return c }

// create creates a Network and its network, and returns the ID.
func (l *lab) create(name string, uid types.UID) string {
	l.Helper()
	l.inKubernetes(name, uid, false)
	return l.inNeutron("default/"+name, uid)
}

func TestAnotherInstallationWithTheSameClusterIDIsReported(t *testing.T) {
	for _, removal := range []Removal{RemoveNone, RemoveAll} {
		t.Run(removal.String(), func(t *testing.T) {
			l := newLab(t, removal)
			for i := range 3 {
				l.create(fmt.Sprint("net-", i), types.UID(fmt.Sprint("u-", i)))
			}
			l.must(l.relist())
			other := newLabOn(t, l.server, RemoveNone)
			theirs := other.create("theirs", "u-theirs")
			ours := l.inNeutron("default/net-0", "u-gone")
			l.finder.addDeleted("u-gone")
			for range 4 {
				l.must(l.relist())
			}
			equal(t, true, l.exists(theirs) && l.exists(ours))
			l.counts(`samplecrd_orphans{cloud="cloud"} 2`)
			for _, orphan := range l.finder.List() {
				equal(t, orphan.NetworkID == theirs, orphan.NeverOwned)
			}
			log := l.log.String()
			equal(t, 1, strings.Count(log, "another installation probably has the same cluster ID. No orphan"))
			equal(t, 2, strings.Count(log, "its Network is gone"))
			for _, want := range []string{`clusterID="` + testCluster, theirs, "u-theirs", "-cluster-id"} {
				if !strings.Contains(log, want) {
					t.Errorf("%q does not say %q", log, want)
				}
			}
			left := 0
			if removal != RemoveNone {
				left = 1
			}
			equal(t, left, strings.Count(log, "Left all orphans"))

			// The other installation remains when its network is gone.
			l.must(networks.Delete(l.ctx, l.users, theirs).Err)
			for range 3 {
				l.must(l.relist())
			}
			equal(t, true, l.exists(ours))

			// After a restart nothing is known of it.
			l.restart(removal)
			for range 3 {
				l.must(l.relist())
			}
			equal(t, removal == RemoveNone, l.exists(ours))
		})
	}
}

// A cloud is opened again when its Secret changes, and a ClusterCloud can lead to the same
// project as others.
func TestAnotherInstallationIsRememberedForAllCloudsOfThePlace(t *testing.T) {
	l := newLab(t, RemoveAll)
	l.create("net", "u-net")
	l.must(l.relist())
	theirs := newLabOn(t, l.server, RemoveNone).create("theirs", "u-theirs")
	l.must(l.relist())
	l.clouds = []*neutron.Cloud{l.newCloud("cloud"), l.newCloud("second")}
	for range 3 {
		l.must(l.relist())
	}
	equal(t, true, l.exists(theirs))
	equal(t, 1, strings.Count(l.log.String(), "another installation probably has the same cluster ID. No orphan"))
}

// Users can name a server that claims to be the place of the controller's own cloud, and shows any network there.
func TestAServerOfAUserSaysNothingAboutOtherClouds(t *testing.T) {
	l := newLab(t, RemoveAll)
	l.create("net", "u-net")
	orphan := l.inNeutron("default/gone", "u-gone")
	l.must(l.relist())
	theirs := newLab(t, RemoveNone)
	theirs.inNeutron("default/any", "u-any")
	for range maxSites + 2 {
		l.finder.neverOwned[site{neutron.Place{Region: fmt.Sprint(len(l.finder.neverOwned))}, true}] = &Orphan{}
	}
	l.clouds = append(l.clouds, l.newCloudOn(theirs.server, "a user's", true))
	for range 3 {
		l.must(l.relist())
	}
	own, _ := l.clouds[0].Client().Place()
	claimed, _ := l.clouds[1].Client().Place()
	equal(t, own, claimed)
	equal(t, false, l.exists(orphan))
	equal(t, 1, len(l.finder.neverOwned)) // too many are forgotten

	// What the controller's own cloud shows is true of the clouds of users, too.
	l = newLab(t, RemoveAll)
	l.create("net", "u-net")
	l.must(l.relist())
	fromElsewhere := newLabOn(t, l.server, RemoveNone).create("theirs", "u-theirs")
	l.clouds = append(l.clouds, l.newCloudOn(l.server, "a user's", true))
	for range 3 {
		l.must(l.relist())
	}
	equal(t, true, l.exists(fromElsewhere))
}

// Neutron may refuse to delete one of several orphans.
func TestAnOrphanThatCannotBeDeletedStopsNoOthers(t *testing.T) {
	l := newLab(t, RemoveAll)
	l.create("net", "u-net")
	ids := []string{l.inNeutron("default/a", "u-a"), l.inNeutron("default/b", "u-b"), l.inNeutron("default/c", "u-c")}
	slices.Sort(ids)
	l.server.SetFault(func(r *http.Request) *embedded.Fault {
		if r.Method == http.MethodDelete && strings.HasSuffix(r.URL.Path, ids[0]) {
			return &embedded.Fault{Status: http.StatusForbidden}
		}
		return nil
	})
	l.must(l.relist())
	err := l.relist()
	if err == nil || !strings.Contains(err.Error(), ids[0]) {
		t.Errorf("got %v, want an error for %s", err, ids[0])
	}
	equal(t, ids[:1], l.ids())
}

// What appears between the first list of one cloud and that of another one is new for the other one too.
func TestAnotherInstallationIsFoundByACloudThatIsOpenedLater(t *testing.T) {
	l := newLab(t, RemoveAll)
	l.create("net", "u-net")
	l.must(l.relist())
	theirs := newLabOn(t, l.server, RemoveNone).create("theirs", "u-theirs")
	l.clouds = append(l.clouds, l.newCloud("second"))
	for range 3 {
		l.must(l.clouds[1].Observer().Relist(l.ctx)) // the first one is not listed again
		l.must(l.finder.find(l.ctx))
	}
	equal(t, true, l.exists(theirs))
}

// Two installations with one cluster ID act in every order. A network that one of them creates
// after the first comparison of the other one is never deleted. An older one can be taken for
// an orphan: RemoveFew then deletes at most a tenth of the networks.
func TestTwoInstallationsWithOneClusterID(t *testing.T) {
	actions := []string{"a creates", "b creates", "a relists", "b relists"}
	deleted := map[Removal]int{}
	for n := range 4 * 4 * 4 {
		order := []string{actions[n%4], actions[n/4%4], actions[n/16]}
		// Each pair of actions occurs with each of these.
		number := n%4 + n/4%4 + n/16
		removal, few := []Removal{RemoveFew, RemoveAll}[number%2], number/2%2
		taken := twoInstallations(t, removal, few, order)
		if deleted[removal] += taken; removal == RemoveFew && taken > 1 {
			t.Errorf("%v: %d networks of 11 are deleted", order, taken)
		}
	}
	t.Logf("networks in use that were taken for orphans at the first comparison: %v", deleted)
}

// twoInstallations lets a, which has 10 networks, and b, which has few, act in that order. It
// returns how many networks are deleted that were older than the first comparison.
func twoInstallations(t *testing.T, removal Removal, few int, order []string) (taken int) {
	t.Helper()
	a := newLab(t, removal)
	defer a.server.Close()
	b := newLabOn(t, a.server, removal)
	type created struct {
		id, what string
		isNewer  bool
	}
	var all []created
	create := func(l, other *lab, what string) {
		uid := types.UID(fmt.Sprint("u-", len(all)))
		all = append(all, created{l.create(fmt.Sprint("net-", len(all)), uid), what, len(other.finder.last) > 0})
	}
	for range 10 {
		create(a, b, "first of a")
	}
	for range few {
		create(b, a, "first of b")
	}
	for _, action := range append(order, "a relists", "b relists", "a relists", "b relists", "b creates", "a relists", "a relists", "b relists") {
		switch action {
		case "a creates":
			create(a, b, action)
		case "b creates":
			create(b, a, action)
		case "a relists":
			a.must(a.relist())
		case "b relists":
			b.must(b.relist())
		}
	}
	for _, n := range all {
		if a.exists(n.id) {
			continue
		}
		if taken++; n.isNewer {
			t.Errorf("%v, %s, b has %d: the network of %q is deleted", order, removal.String(), few, n.what)
		}
	}
	return taken
}

func TestDeletedNetworksAreRemembered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kube := fake.NewClientset()
		factory := informers.NewSharedInformerFactory(kube, 0)
		f := NewFinder(kube, factory.Samplecrd().V1().Networks(), Options{})
		ctx, cancel := context.WithCancel(t.Context())
		factory.Start(ctx.Done())
		n := &samplecrdv1.Network{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "net", UID: "u"}}
		networks := kube.SamplecrdV1().Networks("default")
		synctest.Wait()
		if _, err := networks.Create(ctx, n, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		equal(t, false, f.deleted.has("u"))
		if err := networks.Delete(ctx, "net", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		equal(t, true, f.deleted.has("u"))
		cancel()
		factory.Shutdown()
	})
}
