// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/google/uuid"
	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/attributestags"
	externalnet "github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/external"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/layer3/routers"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/subnetpools"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/networks"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/subnets"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/samplecrd/samplecrd-controller/hack/controlplane/cluster"
	"github.com/samplecrd/samplecrd-controller/hack/internal/stack"
	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
	clientset "github.com/samplecrd/samplecrd-controller/pkg/generated/clientset/versioned"
	samplecrdclient "github.com/samplecrd/samplecrd-controller/pkg/generated/clientset/versioned/typed/samplecrd/v1"
	"github.com/samplecrd/samplecrd-controller/pkg/neutron/embedded"
	"github.com/samplecrd/samplecrd-controller/pkg/testing/oracle"
)

const (
	namespace = "chaos"
	// users is how many users there are, replicas how many processes the controller has at a time, and legacies
	// how many networks are imported, each by two Networks.
	users    = 6
	replicas = 3
	legacies = 3
)

// world has everything that takes part in one run.
type world struct {
	plan
	*tally
	dir, binary  string
	controlPlane *cluster.Cluster
	networks     samplecrdclient.NetworkInterface
	// cloud is a client in the controller's project, admin one of an administrator.
	cloud, admin *gophercloud.ServiceClient
	// keystone, neutronURL and apiServer are the URLs of the servers, without the API versions.
	keystone, neutronURL, apiServer string
	replicas                        []*replica
	gates                           []*routers.Router
	// internet is the name of a second external network; the first one is called public.
	internet string
	// pool is the name of a subnet pool.
	pool  string
	slots []*slot

	rules    oracle.Rules
	history  history
	election election
	// before is what Neutron had at first.
	before *oracle.Snapshot
	// strange has what no controller may change, legacies the networks that Networks import, unheard the owners of what was
	// created after nobody waited for it any more, and removed the networks that were deleted before a restore of etcd
	// could bring back their Networks.
	strange, legacies, unheard, removed set

	// isHealed is set when no more connections are dropped.
	isHealed atomic.Bool
	// isBackedUp is set between a backup of etcd and its restore.
	isBackedUp atomic.Bool
	// restores is the number of restores of etcd, and away counts the stops and starts of kube-apiserver: it is
	// odd while that is stopped.
	restores, away atomic.Int64
	// users is held for reading by a request of a user, and locked while etcd is restored.
	users sync.RWMutex
	// atNextChange decides the fate of the next request that changes something in Neutron.
	atNextChange atomic.Pointer[func(*call) fate]
}

// newWorld creates what a run needs. It starts the proxies only.
func newWorld(ctx context.Context, p plan, controlPlane *cluster.Cluster, binary, cloudsYAML, dir string) (*world, error) {
	journal, err := os.Create(filepath.Join(dir, "journal.log"))
	if err != nil {
		return nil, err
	}
	w := &world{plan: p, dir: dir, binary: binary, controlPlane: controlPlane, tally: &tally{counts: map[string]int{}, journal: journal}}
	w.election = election{hasLed: map[*life]bool{}, late: map[string]int{}, changes: map[*life]int{}}
	w.history = history{world: w, last: map[types.UID]*samplecrdv1.Network{}, versions: map[string]int{}, isLost: map[types.UID]bool{}}
	config, err := w.reachKubernetes(ctx)
	if err != nil {
		return nil, err
	}
	content, err := os.ReadFile(cloudsYAML)
	if err != nil {
		return nil, err
	}
	if err := w.reachNeutron(ctx, content); err != nil {
		return nil, err
	}
	for i := range replicas {
		r := &replica{world: w, name: string(rune('a' + i))}
		if r.proxy, err = startProxy(w, config, seeded(p.seed, i)); err != nil {
			return nil, err
		}
		if err := r.configure(content); err != nil {
			return nil, err
		}
		w.replicas = append(w.replicas, r)
	}
	for i := range p.networks {
		w.slots = append(w.slots, &slot{name: fmt.Sprintf("net-%d", i), first: 1 + i, step: p.networks})
	}
	return w, nil
}

// seeded returns random numbers that the seed decides, for one purpose.
func seeded(seed uint64, purpose int) *rand.Rand { return rand.New(rand.NewPCG(seed, uint64(purpose))) }

// reachKubernetes creates the clients and the namespace.
func (w *world) reachKubernetes(ctx context.Context) (*rest.Config, error) {
	config, err := clientcmd.BuildConfigFromFlags("", w.controlPlane.Kubeconfig())
	if err != nil {
		return nil, err
	}
	config.QPS = -1 // no limit
	w.apiServer = strings.TrimRight(config.Host, "/")
	client, err := clientset.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	w.networks = client.SamplecrdV1().Networks(namespace)
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	system, err := kube.CoreV1().Namespaces().Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	w.rules.Cluster = string(system.UID)
	_, err = kube.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{})
	return config, err
}

// startNeutron starts an embedded Neutron.
func startNeutron(ctx context.Context, dir string) (*stack.Neutron, error) {
	public := embedded.ExternalNetwork{Name: "public", CIDR: netip.MustParsePrefix("198.18.0.0/16")}
	return stack.StartNeutron(ctx, dir, embedded.Options{ExternalNetwork: public})
}

// reachNeutron creates what Networks refer to, and what they must not touch.
func (w *world) reachNeutron(ctx context.Context, cloudsYAML []byte) (err error) {
	if w.cloud, err = stack.Connect(ctx, stack.Cloud, cloudsYAML); err != nil {
		return err
	}
	if w.admin, err = stack.Connect(ctx, stack.Cloud+"-admin", cloudsYAML); err != nil {
		return err
	}
	w.keystone, w.neutronURL = strings.TrimRight(w.cloud.IdentityBase, "/"), strings.TrimRight(w.cloud.Endpoint, "/")
	// An earlier run that was ended may have left one in the real Neutron.
	w.internet = "internet-" + w.rules.Cluster
	external := externalnet.CreateOptsExt{CreateOptsBuilder: networks.CreateOpts{Name: w.internet}, External: new(true)}
	if _, err := makeNetwork(ctx, w.admin, external, "198.19.0.0/16"); err != nil {
		return err
	}
	for i := range w.plan.networks / 8 {
		description := []string{"", "made by hand", "samplecrd.k8s.io/owner=another/" + uuid.NewString(), "samplecrd.k8s.io/owner=" + w.rules.Cluster}[i%4]
		ids, err := makeNetwork(ctx, w.cloud, networks.CreateOpts{Name: fmt.Sprintf("%s/net-%d", namespace, i), Description: description}, "10.0.0.0/24")
		if err != nil {
			return err
		}
		w.strange.add(ids...)
	}
	for i := range 2 {
		opts := routers.CreateOpts{Name: fmt.Sprintf("gate-%d-%s", i, w.rules.Cluster)}
		gate, err := routers.Create(ctx, w.cloud, opts).Extract()
		if err != nil {
			return fmt.Errorf("create a router by hand: %w", err)
		}
		w.gates = append(w.gates, gate)
		w.strange.add(gate.ID) // its interfaces may be changed
	}
	w.pool = "pool-" + w.rules.Cluster
	pool, err := subnetpools.Create(ctx, w.admin, subnetpools.CreateOpts{Name: w.pool, Prefixes: []string{"10.240.0.0/14"}, Shared: true}).Extract()
	if err != nil {
		return fmt.Errorf("create a subnet pool: %w", err)
	}
	w.rules.Pools = map[string]string{w.pool: pool.ID}
	if err := w.makeLegacies(ctx); err != nil {
		return err
	}
	if w.before, err = w.snapshot(ctx); err != nil {
		return err
	}
	w.rules.IsStrange, w.rules.IsLegacy = w.strange.has, w.legacies.has
	w.rules.Externals, w.rules.Gates = map[string]string{}, map[string]string{}
	for _, n := range w.before.Networks {
		if n.External {
			w.rules.Externals[n.Name] = n.ID
		}
	}
	for _, g := range w.gates {
		w.rules.Gates[g.Name] = g.ID
	}
	return nil
}

// makeNetwork creates a network and its subnet by hand, and returns their IDs.
func makeNetwork(ctx context.Context, client *gophercloud.ServiceClient, opts networks.CreateOptsBuilder, cidr string) ([]string, error) {
	network, err := networks.Create(ctx, client, opts).Extract()
	if err != nil {
		return nil, fmt.Errorf("create a network by hand: %w", err)
	}
	pool := subnets.AllocationPool{Start: strings.Replace(cidr, ".0/", ".100/", 1), End: strings.Replace(cidr, ".0/", ".200/", 1)}
	pool.Start, _, _ = strings.Cut(pool.Start, "/")
	pool.End, _, _ = strings.Cut(pool.End, "/")
	subnet, err := subnets.Create(ctx, client, subnets.CreateOpts{
		NetworkID: network.ID, CIDR: cidr, IPVersion: gophercloud.IPv4, Name: "by hand", AllocationPools: []subnets.AllocationPool{pool},
	}).Extract()
	if err != nil {
		return nil, fmt.Errorf("create a subnet by hand: %w", err)
	}
	return []string{network.ID, subnet.ID}, nil
}

// makeLegacies creates networks by hand, each with two Networks that import it.
func (w *world) makeLegacies(ctx context.Context) error {
	for i := range legacies {
		cidr := fmt.Sprintf("10.%d.0.0/24", 210+i)
		ids, err := makeNetwork(ctx, w.cloud, networks.CreateOpts{Name: fmt.Sprint("legacy-", i), Description: "made by hand"}, cidr)
		if err != nil {
			return err
		}
		if err := attributestags.Add(ctx, w.cloud, "networks", ids[0], "by-hand").ExtractErr(); err != nil {
			return fmt.Errorf("tag a network: %w", err)
		}
		w.legacies.add(ids[0])
		for j := range 2 {
			w.slots = append(w.slots, &slot{name: fmt.Sprintf("import-%d-%d", i, j), legacy: ids[0], cidr: cidr})
		}
	}
	return nil
}

// run runs everything, and returns what both sides disagree about at the end.
func (w *world) run(ctx context.Context) (disagreements []string, err error) {
	if err := w.history.start(ctx); err != nil {
		return nil, err
	}
	running, cancel := context.WithCancel(ctx)
	var group sync.WaitGroup
	var errs [replicas]error
	for i, r := range w.replicas {
		group.Go(func() { errs[i] = r.keepRunning(running) })
	}
	disagreements, err = w.happen(ctx)
	cancel()
	group.Wait()
	for _, r := range w.replicas {
		err = errors.Join(err, r.proxy.server.Close())
	}
	err = errors.Join(err, w.history.stop(ctx))
	return disagreements, errors.Join(append(errs[:], err)...)
}

func (w *world) happen(ctx context.Context) ([]string, error) {
	if err := w.live(ctx); err != nil {
		return nil, err
	}
	w.isHealed.Store(true)
	w.log("no more connections are dropped")
	found, err := w.waitForAgreement(ctx)
	if len(found) > 0 || err != nil {
		return found, err
	}
	w.log("both sides agree: all Networks are deleted")
	u := &user{world: w}
	for _, s := range w.slots {
		if err := deleteIt(ctx, u, s); err != nil {
			return nil, err
		}
	}
	return w.waitForAgreement(ctx)
}

// live lets users work until all of the troubles are over, and each has done all of the acts.
func (w *world) live(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var group sync.WaitGroup
	do := func(what func() error) {
		group.Go(func() {
			if err := what(); err != nil {
				cancel(err)
			}
		})
	}
	var isOver atomic.Bool
	do(func() error {
		defer isOver.Store(true)
		return w.makeTrouble(ctx, seeded(w.seed, replicas))
	})
	for i := range users {
		u := &user{world: w, rand: seeded(w.seed, replicas+1+i)}
		for j, s := range w.slots {
			if j%users == i {
				u.slots = append(u.slots, s)
			}
		}
		do(func() error { return u.work(ctx, isOver.Load) })
	}
	group.Wait()
	return context.Cause(ctx)
}
