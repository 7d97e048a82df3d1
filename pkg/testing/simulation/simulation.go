// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package simulation runs whole controllers, as main wires them, in virtual time: several replicas with their election, in
// a world of users, strangers and faults that one seed decides. It judges what is wrong by what the documentation
// promises, not by the controller's code:
//
//   - Safety, at each request to Neutron: nothing of strangers is changed, nothing is created before the finalizer is
//     stored, no second network while the first one is there, and nothing that cannot be undone is done if no version of
//     the Network asks for it that was stored since the process has read it last.
//   - Agreement, when the troubles have ended: both sides have what the specs mean.
//   - Silence, in the two hours after that: the controller lists Neutron, and writes nothing.
//
// simulation.go has the run: its worlds, its time and its end. What happens is in acts.go (the plan, and users), imports.go,
// deployments.go, tenants.go, trouble.go (strangers and faults), moves.go (Keystone leads elsewhere), handover.go (a cluster gets another
// ID) and transfer.go (Networks move to the other cluster). process.go has the controllers' processes and what becomes of their requests, judge.go passes these to the oracle, cloud.go is the OpenStack.
// The API server is package restapi, and package pipes has the connections in memory.
package simulation

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"

	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
	clientset "github.com/samplecrd/samplecrd-controller/pkg/generated/clientset/versioned"
	"github.com/samplecrd/samplecrd-controller/pkg/testing/restapi"
)

const (
	// Cluster is the ID of the simulated cluster.
	Cluster   = "c0ffee00-0000-4000-8000-000000000000"
	neighbour = "c0ffee00-0000-4000-8000-000000000001"
	replicas  = 2

	// resync is how often all of Neutron is listed.
	resync = 10 * time.Minute
	// patience is how long both sides may take to agree after the last trouble: what one list shows is changed after another one, and
	// who only observes the network sees that in a third.
	patience = 45 * time.Minute
	quiet    = 2 * time.Hour
)

// World is the world of one cluster. Two of them share a cloud.
type World struct {
	*shared
	// cluster is the ID of the cluster.
	cluster string
	// neighbour is the other cluster; nil for the neighbour itself.
	neighbour *World
	// former are the IDs that the cluster had before, and handover gives it another one; nil if it keeps its ID.
	former   []string
	handover *handover
	// transfers are those of Networks to the neighbour.
	transfers []*transfer
	// twin is the other cluster, if that has the same ID by mistake.
	twin  *World
	api   *restapi.Server
	judge *judge

	client   clientset.Interface // as a user
	kube     kubernetes.Interface
	slots    []*slot
	replicas []*replica
	rand     *rand.Rand
	later    []delayed

	// legacies are the networks that were created by hand, by half the index of the slot.
	legacies  map[int][]*legacy
	legacyIDs sync.Map
	// left has the UIDs of those Networks of which nobody has told the controllers that they are gone.
	left map[string]bool
	// forgot has the UIDs of those whose status was set back or removed.
	forgot map[string]bool
	backup *restapi.Backup
	// backupLeader is the process that had the Lease then.
	backupLeader string
	collected    time.Time
}

// shared is what the two clusters have in common.
type shared struct {
	ctx      context.Context
	program  Program
	cloud    *cloud
	running  sync.WaitGroup
	launched int
	began    time.Time
	seed     uint64

	// externals, gates and pools are the IDs of the external networks, the routers and the subnet pools that Networks may name.
	externals, gates, pools map[string]string
	// strange has the IDs of all that no controller may change.
	strange            sync.Map
	ids                []string        // those that clusters have or had
	removed            map[string]bool // networks, by hand
	ports, floatingIPs []string
	handovers          Handovers

	mu               sync.Mutex
	processes        map[string]*process
	rolled           map[string]int // how often the dice of a request were
	repeats          map[string]int // how often Neutron has handled a request for a subnet twice, by the network
	neutronAway      time.Time
	lackingUntil     time.Time
	lacking          string // the collection that Neutron does not list until then
	kubernetesAway   time.Time
	neutronFaults    int // percent
	kubernetesFaults int // percent
	subnetsTwice     int // percent of the requests for subnets, which Neutron handles twice
	slowness         int
	lateness         time.Duration // of watches
	killAtWrite      int

	logging sync.Mutex
	lines   []string
}

// Run runs a simulation in a bubble of synctest, and returns what is wrong, what happened, and how many handovers ended.
func Run(seed uint64, plan []Act, program Program) (violations, journal []string, handovers Handovers) {
	ctx, cancel := context.WithCancel(context.Background())
	common := &shared{ctx: ctx, program: program, began: time.Now(), seed: seed, processes: map[string]*process{}, removed: map[string]bool{}, repeats: map[string]int{}, subnetsTwice: 10,
		ids: []string{Cluster, neighbour}, externals: map[string]string{}, gates: map[string]string{}, pools: map[string]string{}, rolled: map[string]int{}}
	common.cloud = newCloud(common)
	w := newWorld(common, 1, Cluster)
	if hasTwins(seed) {
		w.neighbour = newWorld(common, 2, Cluster)
		w.twin, w.neighbour.twin = w.neighbour, w
	} else {
		w.neighbour = newWorld(common, 2, neighbour)
	}
	w.furnish()
	w.live(plan)
	violations = w.conclude()
	w.judge.beQuiet(false)
	w.neighbour.judge.beQuiet(false)
	cancel()
	w.running.Wait()
	w.cloud.close()
	time.Sleep(time.Hour) // connections and timers end
	return violations, w.lines, w.handovers
}

func newWorld(common *shared, number int, cluster string) *World {
	w := &World{shared: common, cluster: cluster, rand: seeded(common.seed, "world", number),
		legacies: map[int][]*legacy{}, left: map[string]bool{}, forgot: map[string]bool{}}
	w.judge = newJudge(w)
	w.api = restapi.New(number, map[string]restapi.Kind{
		"networks": {Name: "Network", HasStatus: true, Default: setDefaults}, "deployments": {Name: "Deployment", HasStatus: true},
		"secrets": {Name: "Secret"}, "events": {Name: "Event"}, "leases": {Name: "Lease"}, "namespaces": {Name: "Namespace"}, "clusterclouds": {Name: "ClusterCloud"},
	}, w.judge.changed)
	w.client, w.kube = clientset.NewForConfigOrDie(w.clientConfig(restapi.Client{})), kubernetes.NewForConfigOrDie(w.clientConfig(restapi.Client{}))
	return w
}

// clusters returns both worlds.
func (w *World) clusters() []*World { return []*World{w, w.neighbour} }

// isNeighbour reports whether this is the second cluster.
func (w *World) isNeighbour() bool { return w.neighbour == nil }

// furnish creates what is there before.
func (w *World) furnish() {
	var made struct{ Network struct{ ID string } }
	_ = w.cloud.byAdmin("POST", "networks", object{"network": object{"name": "public2", "router:external": true}}, &made)
	_ = w.cloud.byAdmin("POST", "subnets", object{"subnet": object{"network_id": made.Network.ID, "cidr": "198.19.0.0/16", "ip_version": 4, "enable_dhcp": false}}, nil)
	for id, n := range w.cloud.snapshot().Networks {
		if n.External {
			w.externals[n.Name] = id
			w.strange.Store(id, true)
		}
	}
	for _, name := range []string{"gate", "gate2"} {
		w.gates[name] = w.own("router", object{"name": name, "external_gateway_info": object{"network_id": w.externals["public"]}})
	}
	for i, name := range []string{"team", "spare"} {
		prefix := fmt.Sprintf("10.%d.0.0/16", 200+i)
		var pool struct{ SubnetPool struct{ ID string } }
		_ = w.cloud.byAdmin("POST", "subnetpools", object{"subnetpool": object{"name": name, "prefixes": []string{prefix}, "shared": true}}, &pool)
		w.pools[name] = pool.SubnetPool.ID
	}
	for number, c := range w.clusters() {
		for i := range slots {
			c.slots = append(c.slots, newSlot(number, i))
		}
		if number == 1 && !hasNeighbour(w.seed) {
			continue
		}
		c.putSecret(tenants[0], "")
		c.offerClouds()
		for i := range replicas {
			c.replicas = append(c.replicas, &replica{index: i})
			c.launch(c.replicas[i])
		}
	}
}

// live lets the plan happen, and then ends all troubles.
func (w *World) live(plan []Act) {
	for _, act := range plan {
		w.pass(w.began.Add(act.At))
		c := w.clusters()[act.Cluster]
		s := c.slots[act.Slot]
		if s.isMoving {
			w.log("%s is left out, because %s moves", act.Name, s.name)
			continue
		}
		w.log("%s: %s, cluster %d", act.Name, s.name, act.Cluster)
		kinds[act.Name].do(c, s, seeded(act.Seed, act.Name, 0))
	}
	w.pass(w.began.Add(trouble))
	for _, c := range w.clusters() {
		c.heal()
	}
	w.log("the troubles end")
}

// pass lets time pass until then.
func (w *World) pass(until time.Time) {
	for {
		for _, c := range w.clusters() {
			c.tend()
			c.collectGarbage()
			c.doLater()
		}
		if !time.Now().Before(until) {
			return
		}
		time.Sleep(min(time.Second, time.Until(until)))
	}
}

// doLater does what is due.
func (w *World) doLater() {
	due := w.later
	w.later = nil
	for _, d := range due {
		if d.at.After(time.Now()) {
			w.later = append(w.later, d)
		} else {
			d.do()
		}
	}
}

// conclude waits for agreement, lets Keystone lead elsewhere, and waits for the end of silence.
func (w *World) conclude() (violations []string) {
	for _, next := range []func(){w.move, func() {}} {
		if violations := w.agree(); len(violations) > 0 {
			return slices.Concat(w.judge.found(), w.neighbour.judge.found(), violations)
		}
		next()
	}
	// What was still under way: an orphan is deleted after the second list that shows it.
	w.pass(time.Now().Add(resync * 5 / 2))
	for _, c := range w.clusters() {
		violations = append(violations, c.planned()...)
		c.judge.beQuiet(true)
	}
	time.Sleep(quiet)
	for _, c := range w.clusters() {
		violations = slices.Concat(violations, c.judge.found(), c.judge.disagreements(), c.judge.stopped())
	}
	return violations
}

// agree waits until both sides agree, and returns what is wrong after that, or after a time.
func (w *World) agree() (violations []string) {
	ended := time.Now()
	for {
		violations = append(w.judge.disagreements(), w.neighbour.judge.disagreements()...)
		if len(violations) == 0 || time.Since(ended) > patience {
			w.log("agreement after %s: %d violations", time.Since(ended), len(violations))
			return violations
		}
		for _, c := range w.clusters() {
			c.tidyImports()
			c.tidyForgotten()
			c.tidyMoves()
		}
		w.pass(time.Now().Add(15 * time.Second))
	}
}

// planned returns what a controller would still do, according to its preview. It must be nothing.
func (w *World) planned() (all []string) {
	byCloud := map[string][]*samplecrdv1.Network{}
	for _, n := range w.all() {
		name := cloudOf(n.Namespace)
		byCloud[name] = append(byCloud[name], n)
	}
	for name, networks := range byCloud {
		previews, err := w.program.Preview(w.ctx, w.cluster, w.cloud.yaml(), name, networks)
		if err != nil {
			all = append(all, fmt.Sprintf("no preview of the cloud %s: %v", name, err))
		}
		for i, p := range previews {
			n := networks[i]
			isRefused := n.Spec.Import != nil && !meta.IsStatusConditionTrue(n.Status.Conditions, samplecrdv1.ConditionReady)
			if w.isHidden(n) {
				continue // a new process does not know that the network is shared already
			}
			if p.Steps > 0 || (p.Err != nil) != isRefused {
				all = append(all, fmt.Sprintf("the preview of %s/%s: %s, %v", n.Namespace, n.Name, p.Text, p.Err))
			}
		}
	}
	return all
}

// log notes what happens, with its virtual time.
func (w *shared) log(format string, args ...any) {
	w.logging.Lock()
	defer w.logging.Unlock()
	w.lines = append(w.lines, fmt.Sprintf("%-9s ", time.Since(w.began).Truncate(time.Millisecond))+fmt.Sprintf(format, args...))
}

// setDefaults sets the default of the CustomResourceDefinition: the status of a Network that has none.
func setDefaults(o *unstructured.Unstructured) {
	if _, has := o.Object["status"].(map[string]any); has {
		return
	}
	o.Object["status"] = map[string]any{"conditions": []any{map[string]any{
		"type": "Ready", "status": string(metav1.ConditionUnknown), "reason": "Pending", "message": "Waiting for the controller",
		"lastTransitionTime": "1970-01-01T00:00:00Z",
	}}}
}

// Shorten returns the shortest part of the plan that it finds for which fails reports true. It takes acts out, many at a
// time at first, and tries at most that many plans.
func Shorten(plan []Act, tries int, fails func([]Act) bool) []Act {
	for size := len(plan) / 2; size > 0; size /= 2 {
		for from := 0; from < len(plan); {
			part := slices.Concat(plan[:from], plan[min(from+size, len(plan)):])
			if tries--; tries < 0 {
				return plan
			}
			if fails(part) {
				plan = part
			} else {
				from += size
			}
		}
	}
	return plan
}
