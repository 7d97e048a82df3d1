/*
Copyright The samplecrd-controller Authors.

Licensed under the Apache License, Version 2.0 (the "License");
you may not use this file except in compliance with the License.
You may obtain a copy of the License at

    http://www.apache.org/licenses/LICENSE-2.0

Unless required by applicable law or agreed to in writing, software
distributed under the License is distributed on an "AS IS" BASIS,
WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
See the License for the specific language governing permissions and
limitations under the License.
*/

package chaos

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/samplecrd/samplecrd-controller/hack/controlplane/cluster"
	"github.com/samplecrd/samplecrd-controller/hack/internal/stack"
	clientset "github.com/samplecrd/samplecrd-controller/pkg/generated/clientset/versioned"
	"github.com/samplecrd/samplecrd-controller/pkg/neutron/embedded"
)

// world has everything that takes part in one run.
type world struct {
	plan
	dir          string
	controlPlane *cluster.Cluster
	client       clientset.Interface
	kube         kubernetes.Interface
	neutron      *stack.Neutron
	elsewhere    *elsewhere    // nil: Keystone leads to one place only
	controllers  []*controller // one for each cluster
	wanted       []*wanted
	doomed       []*doomed
	strangers    strangers
	externals    []external // the external networks; without them no Network has a router
	others       others
	legacies     legacies
	saw          sightings
	intents      intents
	tally        *tally
	journal      *os.File

	// restored is set when etcd has been restored from a backup.
	restored atomic.Bool
	// users is held for reading by a request of a user, and locked while etcd is restored.
	users sync.RWMutex
	// away counts the stops and starts of kube-apiserver: it is odd while that is stopped.
	away atomic.Int64
	// ahead is the number of restarts, restores and failures of Keystone to come.
	ahead atomic.Int32
	// backup is the folder of the last backup of etcd.
	backup string
	// kubernetes is locked while parts of the control plane are stopped.
	kubernetes sync.Mutex
}

// newWorld creates what a run needs. It starts Neutron and the proxies only.
func newWorld(ctx context.Context, p plan, controlPlane *cluster.Cluster, binary, dir string) (*world, error) {
	w := &world{plan: p, dir: dir, controlPlane: controlPlane}
	w.ahead.Store(int32(p.restarts + p.restores + p.keystone))
	w.strangers.before = map[string]stack.Network{}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	var err error
	if w.journal, err = os.Create(filepath.Join(dir, "journal.log")); err != nil {
		return nil, err
	}
	w.tally = &tally{counts: map[string]int{}, journal: w.journal}
	config, err := clientcmd.BuildConfigFromFlags("", controlPlane.Kubeconfig())
	if err != nil {
		return nil, err
	}
	config.QPS = -1 // no limit
	if w.client, err = clientset.NewForConfig(config); err != nil {
		return nil, err
	}
	if w.kube, err = kubernetes.NewForConfig(config); err != nil {
		return nil, err
	}
	if err := w.reachNeutron(ctx); err != nil {
		return nil, err
	}
	if err := w.reachOutside(ctx); err != nil {
		return nil, errors.Join(err, w.close())
	}
	// The second, smaller cluster is another client of Neutron for the first one.
	for i, share := range []int{1, 4} {
		if err := w.addController(ctx, config, binary, uint64(i), share); err != nil {
			return nil, errors.Join(err, w.close())
		}
	}
	w.wantImports()
	return w, nil
}

// reachNeutron starts an embedded Neutron, unless the plan names another.
func (w *world) reachNeutron(ctx context.Context) (err error) {
	if w.cloudsYAML == "" {
		w.neutron, err = stack.StartNeutron(ctx, w.dir, embedded.Options{PageLimit: w.pageLimit, TokenTTL: w.tokenTTL, Projects: projects()})
		if err == nil {
			w.elsewhere, err = newElsewhere(w.neutron.CloudsYAML)
		}
		return err
	}
	content, err := os.ReadFile(w.cloudsYAML)
	if err != nil {
		return err
	}
	client, err := stack.Connect(ctx, stack.Cloud, content)
	w.neutron = &stack.Neutron{Client: client, CloudsYAML: w.cloudsYAML}
	return err
}

func (w *world) target() target {
	keystone := strings.TrimRight(w.neutron.Client.IdentityBase, "/")
	return target{keystone: keystone, neutron: strings.TrimRight(w.neutron.Client.Endpoint, "/")}
}

// addController adds the controller of another cluster, with a namespace and a part (1/share)
// of the plan's Networks, kills and troubles.
func (w *world) addController(ctx context.Context, config *rest.Config, binary string, i uint64, share int) error {
	namespace, err := w.kube.CoreV1().Namespaces().Create(ctx,
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: namespacePrefix}}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	c := &controller{
		// Neutron may still have networks of an earlier run.
		cluster:   fmt.Sprintf("cluster-%d-of-%s", i+1, namespace.Name),
		namespace: namespace.Name,
		tally:     w.tally,
		record:    &record{tally: w.tally},
		strict:    w.faults == 0 && w.plan.restarts == 0 && w.plan.restores == 0,
		// The first one also looks for orphans.
		ofOneNamespace: i > 0 && !w.twins,
		endNamespace:   w.endNamespace,
	}
	if w.twins && i > 0 {
		c.cluster = w.controllers[0].cluster
	}
	c.troubles.Store(int32(w.troubles / share))
	w.controllers = append(w.controllers, c)
	for j := range max(1, w.replicas) {
		r := &replica{name: fmt.Sprintf("%s-%d", c.namespace, i+1), binary: binary, dir: w.dir, tally: w.tally, kubernetesAway: w.away.Load}
		if w.replicas > 1 {
			r.name += "-" + string(rune('a'+j))
		}
		if err := w.addReplica(c, r, w.seed+i<<32+uint64(j)<<40, share, config); err != nil {
			return err
		}
	}
	w.want(c, w.networks/share)
	return nil
}

// addReplica adds one process of the controller, with a proxy.
func (w *world) addReplica(c *controller, r *replica, seed uint64, share int, config *rest.Config) (err error) {
	if r.proxy, err = startProxy(r.name, seed, w.faults, w.deaths(share), w.target(), w.tally); err != nil {
		return err
	}
	c.replicas = append(c.replicas, r)
	r.proxy.ledger, r.proxy.record, r.proxy.witness, r.proxy.changes, r.proxy.kill = &c.ledger, c.record, &c.witness, &c.changes, r.kill
	r.proxy.cluster, r.proxy.elsewhere, r.proxy.world = c.namespace, w.elsewhere, w
	if err := r.proxy.reachKubernetes(config); err != nil {
		return err
	}
	return w.configure(c, r)
}

// deaths spreads the kills over most of the calls that the work takes.
func (w *world) deaths(share int) deaths {
	kills := w.kills / share
	return deaths{left: kills, between: 1 + w.networks/share*(5+5*w.edits)/(1+kills)}
}

// configure sets the environment and the flags of the process.
func (w *world) configure(c *controller, r *replica) error {
	original, err := os.ReadFile(w.neutron.CloudsYAML)
	if err != nil {
		return err
	}
	if w.moves > 0 {
		original = placeless.ReplaceAll(original, nil)
	}
	cloudsYAML := filepath.Join(w.dir, r.name+".yaml")
	if err := os.WriteFile(cloudsYAML, r.proxy.cloudsYAML(original), 0o600); err != nil {
		return err
	}
	r.env = []string{"OS_CLIENT_CONFIG_FILE=" + cloudsYAML, "OS_CLOUD=" + stack.Cloud,
		"KUBE_CACHE_MUTATION_DETECTOR=true", "GORACE=atexit_sleep_ms=0"}
	r.flags = []string{"-v=4", "-master=" + r.proxy.url + "/kubernetes", "-cluster-id=" + c.cluster,
		"-retry-base-delay=100ms", "-retry-max-delay=1s", "-neutron-timeout=" + w.neutronTimeout.String(), "-resync=3s"}
	if c.ofOneNamespace {
		r.flags = append(r.flags, "-namespace="+c.namespace)
	}
	if w.twins {
		r.flags = append(r.flags, "-delete-orphans=all")
	}
	if w.replicas > 1 {
		r.flags = append(r.flags, electionFlags...)
		r.flags = append(r.flags, "-leader-elect-resource-namespace="+c.namespace)
	}
	return nil
}

// want adds Networks for the controller to w.wanted. It does not create them.
func (w *world) want(c *controller, networks int) {
	for i := range networks {
		w.wanted = append(w.wanted, &wanted{
			api:     w.client.SamplecrdV1().Networks(c.namespace),
			cluster: c.cluster, namespace: c.namespace, name: fmt.Sprintf("net-%d", i),
		})
	}
}

// run runs everything, and returns the violations.
func (w *world) run(ctx context.Context) (violations, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var running []func() error
	for _, c := range w.controllers {
		running = append(running, c.keepRunning(ctx))
	}
	running = append(running, w.startWatch(ctx))
	found, err := w.happen(ctx)
	cancel()
	errs := []error{err}
	for _, wait := range running {
		errs = append(errs, wait())
	}
	for _, c := range w.controllers {
		found = append(found, c.found(&w.intents)...)
	}
	found = append(found, w.saw.found()...)
	return found, errors.Join(errs...)
}

func (w *world) happen(ctx context.Context) (violations, error) {
	if err := w.makeTrouble(ctx); err != nil {
		return nil, err
	}
	for _, c := range w.controllers {
		c.heal()
	}
	w.tally.log("the faults stop")
	started := time.Now()
	found, err := w.waitForOrder(ctx)
	w.tally.note("order after", time.Since(started))
	if len(found) > 0 || err != nil {
		return found, err
	}
	if w.plan.restores > 0 {
		if found, err = w.restoreAtRest(ctx); len(found) > 0 || err != nil {
			return found, err
		}
	}
	if found, err = w.waitForQuiet(ctx); len(found) > 0 || err != nil {
		return found, err
	}
	for i := range w.moves {
		if found, err = w.moveAway(ctx, seeded(w.seed, "move", i), []place{otherRegion, otherProject}[i%2]); len(found) > 0 || err != nil {
			return found, err
		}
	}
	if err := w.countDoomed(ctx); err != nil {
		return nil, err
	}
	return w.takeAway(ctx)
}

// makeTrouble runs the users until all kills and restarts are done.
func (w *world) makeTrouble(ctx context.Context) error {
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
	do(func() error { return w.restartKubernetes(ctx) })
	do(func() error { return w.restoreEtcd(ctx, seeded(w.seed, "restore", 0)) })
	do(func() error { return w.spoilKeystone(ctx, seeded(w.seed, "keystone", 0)) })
	for i, c := range w.controllers {
		do(func() error { return c.makeTrouble(ctx, seeded(w.seed, "trouble", i)) })
	}
	for i := range clients {
		u := &user{rand: seeded(w.seed, "user", i), world: w, tours: i == 0 && len(w.externals) > 0}
		for j, n := range w.wanted {
			if n.pair != nil {
				j = n.pair.index
			}
			if j%clients == i {
				u.networks = append(u.networks, n)
			}
		}
		if len(u.networks) > 0 {
			do(func() error { return u.work(ctx, w.noMoreTrouble) })
		}
	}
	group.Wait()
	return context.Cause(ctx)
}

func (w *world) killsLeft() (left int) {
	for _, c := range w.controllers {
		left += c.killsLeft()
	}
	return left
}

func (w *world) noMoreTrouble() bool {
	return w.killsLeft() == 0 && w.ahead.Load() == 0
}

// restartKubernetes kills kube-apiserver and starts it again, spread evenly over the kills
// of the controllers.
func (w *world) restartKubernetes(ctx context.Context) error {
	all := w.killsLeft()
	for i := range w.plan.restarts {
		if err := w.waitForKills(ctx, all*(w.plan.restarts-i)/(w.plan.restarts+1)); err != nil {
			return err
		}
		err := w.withoutKubernetes("kube-apiserver is killed, and started again", func() error {
			return errors.Join(w.controlPlane.KillAPIServer(), w.controlPlane.StartAPIServer())
		})
		if err != nil {
			return err
		}
		w.ahead.Add(-1)
		w.tally.add("restarts of kube-apiserver")
	}
	return nil
}

// waitForQuiet returns the violations after each controller has listed Neutron twice more: it
// must not write anything.
func (w *world) waitForQuiet(ctx context.Context) (violations, error) {
	var v violations
	for _, c := range w.controllers {
		looks, changes, syncs, shows := c.looks(), len(c.changes.list()), c.syncs(), w.showsOfImports()
		err := wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, w.patience, true, func(context.Context) (bool, error) {
			return c.looks() >= looks+2, nil
		})
		if err != nil {
			return nil, fmt.Errorf("wait for %s to list Neutron: %w", c.cluster, err)
		}
		if more := c.changes.list()[changes:]; len(more) > 0 {
			v.add("%s: %d writes when everything matched:\n%s", c.cluster, len(more), strings.Join(more, "\n"))
		}
		if more := c.syncs() - syncs; more > 2*len(w.wanted) {
			v.add("%s: %d "+inCircles, c.cluster, more)
		}
		if err := w.checkShows(ctx, shows, &v); err != nil {
			return nil, err
		}
	}
	found, err := w.consult(ctx)
	return append(v, found...), err
}

// takeAway deletes all Networks: only the strangers' networks may be left.
func (w *world) takeAway(ctx context.Context) (violations, error) {
	u := &user{world: w}
	for _, n := range w.wanted {
		if n.spec == nil {
			continue
		}
		if err := u.delete(ctx, n); err != nil {
			return nil, err
		}
	}
	return w.waitForOrder(ctx)
}

// close stops what newWorld has started.
func (w *world) close() error {
	errs := []error{w.journal.Close()}
	for _, c := range w.controllers {
		errs = append(errs, c.close())
	}
	if w.neutron.Server != nil {
		errs = append(errs, w.neutron.Close())
	}
	return errors.Join(errs...)
}
