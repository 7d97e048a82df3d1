// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
	"github.com/samplecrd/samplecrd-controller/pkg/testing/oracle"
	"github.com/samplecrd/samplecrd-controller/pkg/testing/restapi"
)

// judge applies the rules of the oracle to what controllers do.
type judge struct {
	world *World
	rules oracle.Rules

	mu         sync.Mutex
	violations []string
	history    oracle.History
	typed      sync.Map // the Networks of the API server, typed
	// holder is the process that has written the Lease last.
	holder  string
	isQuiet bool
	// lists is how often all networks were listed while it was quiet.
	lists int
}

func newJudge(w *World) *judge {
	return &judge{world: w, rules: oracle.Rules{Cluster: w.cluster, Externals: w.externals, Gates: w.gates, Pools: w.pools, IsStrange: w.isStrange, IsLegacy: w.isLegacy, Repeats: w.repeatsOn}}
}

func (j *judge) violate(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	j.world.log("VIOLATION: %s", text)
	j.mu.Lock()
	defer j.mu.Unlock()
	j.violations = append(j.violations, text)
}

func (j *judge) found() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.violations)
}

func (j *judge) leader() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.holder
}

// beQuiet begins or ends the time in which the controller has nothing to do.
func (j *judge) beQuiet(isQuiet bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.isQuiet = isQuiet
}

func (j *judge) mustBeQuiet() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.isQuiet
}

// stopped returns which processes have ended, and whether Neutron was listed too rarely, while it was quiet.
func (j *judge) stopped() (violations []string) {
	for _, r := range j.world.replicas {
		if r.current.isDead() || r.current.hasEnded() {
			violations = append(violations, r.current.name+" ended when everything matched")
		}
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if least := int(quiet/resync) - 1; len(j.world.replicas) > 0 && j.lists < least {
		violations = append(violations, fmt.Sprintf("cluster %s: Neutron was listed %d times in %s, less than %d", j.world.cluster, j.lists, quiet, least))
	}
	return violations
}

// listed notes a list of networks.
func (j *judge) listed() {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.isQuiet {
		j.lists++
	}
}

// kubernetes notes a request of a process to the API server.
func (j *judge) kubernetes(process string, r *restapi.Request, err error) {
	if r.Key.Resource == "leases" {
		if r.Writes() && err == nil {
			j.mu.Lock()
			defer j.mu.Unlock()
			j.holder = process
		}
		return
	}
	if r.Writes() {
		j.world.log("%s: %s %s %s %s: %v", process, r.Verb, r.Key.Resource, r.Key.Name, r.Subresource, err)
		if j.mustBeQuiet() {
			j.violate("%s wrote when everything matched: %s %s %s", process, r.Verb, r.Key.Resource, r.Key.Name)
		}
	}
	if r.Key.Resource == "networks" && r.Key.Name != "" && !isRefused(err) {
		j.history.Read(process, r.Key.Namespace, r.Key.Name, j.history.Len())
	}
}

// isRefused reports whether the answer says nothing about the object. That it is not there says something.
func isRefused(err error) bool { return err != nil && !strings.Contains(err.Error(), "not found") }

// changed notes a change in the API server.
func (j *judge) changed(c restapi.Change) {
	if c.Key.Resource != "networks" {
		return
	}
	j.history.Add(j.typedNetwork(c.Object), c.Type == watch.Deleted)
}

// typedNetwork converts an object that the API server has, which never changes.
func (j *judge) typedNetwork(o *unstructured.Unstructured) *samplecrdv1.Network {
	if n, ok := j.typed.Load(o); ok {
		return n.(*samplecrdv1.Network)
	}
	n := &samplecrdv1.Network{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, n); err != nil {
		panic(err) // typed clients have stored it
	}
	j.typed.Store(o, n)
	return n
}

// arrived judges a request of a process to Neutron, before it takes effect. The deed is nil if the request changes nothing.
func (c *shared) arrived(r *http.Request, body []byte) (deed *oracle.Deed, judge *judge) {
	_, path, isNeutron := strings.Cut(r.URL.Path, "/v2.0/")
	p := c.processOf(r)
	if !isNeutron || p == nil || p.isDead() {
		return nil, nil
	}
	if p.handover != nil {
		p.world.judgeMove(p, r, path, body)
		return nil, nil
	}
	return p.world.arrived(p.name, r, path, body), p.world.judge
}

func (w *World) arrived(process string, r *http.Request, path string, body []byte) *oracle.Deed {
	if r.Method == http.MethodGet {
		if path == "networks" {
			w.judge.listed()
		}
		if w.judge.mustBeQuiet() && strings.Contains(path, "/") && !w.isLookedFor(path) {
			w.judge.violate("%s looked at one object when everything matched: %s", process, path)
		}
		return nil
	}
	w.log("%s: %s %s %.200s", process, r.Method, path, body)
	if w.judge.mustBeQuiet() {
		w.judge.violate("%s wrote when everything matched: %s %s", process, r.Method, path)
	}
	now := w.cloud.snapshot()
	if now.IsOutdated(path, r.Header.Get("If-Match")) {
		return nil
	}
	deed, wrong := w.judge.rules.DeedOf(now, r.Method, path, body)
	if wrong != "" {
		w.judge.violate("%s: %s %s: %s", process, r.Method, path, wrong)
	} else if wrong := w.judge.rules.Judge(&w.judge.history, process, w.judge.history.ReadBy(process), deed); wrong != "" {
		w.judge.violate("%s", wrong)
	}
	return deed
}

// isLookedFor reports whether a Network imports the network with that path, and does not have it: it may look for it.
func (w *World) isLookedFor(path string) bool {
	id := strings.TrimPrefix(path, "networks/")
	return slices.ContainsFunc(w.all(), func(n *samplecrdv1.Network) bool {
		return n.Spec.Import != nil && n.Spec.Import.NetworkID == id && !meta.IsStatusConditionTrue(n.Status.Conditions, samplecrdv1.ConditionReady)
	})
}

// answered judges what a request has led to.
func (j *judge) answered(d *oracle.Deed) {
	if d.Kind == oracle.Creates && j.rules.IsSecond(d, j.world.cloud.snapshot()) {
		j.violate("a second network of %s was created while the first one is there", d.UID)
	}
}

// disagreements compares both sides.
func (j *judge) disagreements() []string {
	now := j.world.cloud.snapshot()
	all := j.rules.Disagreements(j.world.all(), now, j.world.mayBeLeft)
	all = append(all, j.rules.Lost(&j.history, now, j.world.isRemoved, j.world.mayBeLeft)...)
	return slices.Concat(all, j.world.wrongImports(now), j.world.wrongDeployments(), j.world.elsewhere())
}
