// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package chaos

import (
	"context"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/attributestags"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/layer3/routers"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
	"github.com/samplecrd/samplecrd-controller/pkg/testing/oracle"
)

// set has the IDs of objects in Neutron, or the UIDs of Networks. Its methods may be called concurrently.
type set struct {
	mu  sync.Mutex
	ids map[string]bool
}

func (s *set) add(ids ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ids == nil {
		s.ids = map[string]bool{}
	}
	for _, id := range ids {
		s.ids[id] = true
	}
}

func (s *set) has(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ids[id]
}

// snapshot reads Neutron past the proxies. only has the collections that matter; none: all do.
func (w *world) snapshot(ctx context.Context, only ...string) (*oracle.Snapshot, error) {
	return oracle.Take(func(path string, answer any) error {
		collection, _, _ := strings.Cut(path, "?")
		if len(only) > 0 && !slices.Contains(only, collection) {
			return json.Unmarshal(fmt.Appendf(nil, `{%q: []}`, collection), answer)
		}
		return retried(ctx, func() error {
			_, err := w.admin.Get(ctx, w.admin.ServiceURL(path), answer, &gophercloud.RequestOpts{OkCodes: []int{200}})
			return err
		})
	}, nil)
}

// retried does something that the real Neutron may refuse under load, a few times.
func retried(ctx context.Context, do func() error) (err error) {
	for range 5 {
		if err = do(); err == nil || ctx.Err() != nil {
			break
		}
	}
	return err
}

// collections are those that the oracle looks at for a request about each kind of object.
var collections = map[string][]string{
	"networks": {"networks"},
	"subnets":  {"networks", "subnets"},
	"routers":  {"networks", "subnets", "routers", "ports"},
}

// judge finds a request that no version of the Network permits which the process may have read. It returns
// nil if the request changes nothing in Neutron.
func (w *world) judge(c *call) *oracle.Deed {
	if !c.isChange() {
		return nil
	}
	ctx := context.WithoutCancel(c.Context())
	target := strings.TrimPrefix(c.path, "v2.0/")
	collection, _, _ := strings.Cut(target, "/")
	now, err := w.snapshot(ctx, collections[collection]...)
	if err != nil {
		w.violate("the oracle cannot see: %v", err)
		return nil
	}
	d, wrong := w.rules.DeedOf(now, c.Method, target, c.body)
	if wrong != "" {
		if !w.isLate(c) {
			w.violate("%s: %s %s: %s", c.life.name, c.Method, target, wrong)
		}
		return d
	}
	if w.rules.Judge(&w.history.History, c.life.name, c.reads, d) == "" {
		return d
	}
	if err := w.history.catchUp(ctx); err != nil { // its watch may be late
		w.violate("the oracle cannot see: %v", err)
		return d
	}
	if wrong = w.rules.Judge(&w.history.History, c.life.name, c.reads, d); wrong != "" {
		w.violate("%s", wrong)
	}
	return d
}

// isLate reports whether the process may have given the call up. If it has sent the request again, Neutron is not as the process
// saw it.
func (w *world) isLate(c *call) bool {
	return c.Context().Err() != nil || time.Since(c.arrived) > w.neutronTimeout/2
}

// judgeEffect finds a second network, or router, of one Network. Nobody can prevent it if Neutron has created the first one
// after the process had given up its request, or had been suspended on the way to it.
func (w *world) judgeEffect(c *call, d *oracle.Deed) {
	if d.Kind == oracle.Deletes && (w.restores.Load() == 0 || w.isBackedUp.Load()) {
		w.removed.add(path.Base(c.path))
	}
	if d.Kind != oracle.Creates && d.Kind != oracle.CreatesRouter {
		return
	}
	if c.Context().Err() != nil || !w.election.leads(c.life) {
		w.unheard.add(d.UID)
	}
	now, err := w.snapshot(context.WithoutCancel(c.Context()), "networks", "routers")
	isSecond := w.rules.IsSecond
	if d.Kind == oracle.CreatesRouter {
		isSecond = w.rules.IsSecondRouter
	}
	switch {
	case err != nil:
		w.violate("the oracle cannot see: %v", err)
	case !isSecond(d, now):
	case w.unheard.has(d.UID):
		w.count("duplicates, for a time, by requests that ended too late")
	default:
		w.violate("%s %s of %s, and that has one already", c.life.name, d.Kind, d.UID)
	}
}

// disagreements compares both sides.
func (w *world) disagreements(ctx context.Context) ([]string, error) {
	list, err := w.networks.List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	now, err := w.snapshot(ctx)
	if err != nil {
		return nil, err
	}
	w.tidy(ctx, list.Items, now)
	var networks []*samplecrdv1.Network
	for i := range list.Items {
		networks = append(networks, &list.Items[i])
	}
	all := w.rules.Disagreements(networks, now, w.history.mayBeLeft)
	all = append(all, w.rules.Lost(&w.history.History, now, w.removed.has, w.history.mayBeLeft)...)
	for id := range w.legacies.ids {
		all = append(all, w.rules.Changed(&w.history.History, id, w.before, now)...)
	}
	return all, nil
}

// tidy does what the documentation tells users to do after a restore of etcd: it removes the tags of Networks that are lost
// from the networks that they had imported, and the interfaces at routers that neither the spec nor the status names.
func (w *world) tidy(ctx context.Context, all []samplecrdv1.Network, now *oracle.Snapshot) {
	for id, n := range now.Networks {
		for _, tag := range n.Tags {
			uid, isMark := strings.CutPrefix(tag, "samplecrd-owner-")
			if isMark && len(uid) > 36 && w.history.mayBeLeft(uid[:36]) {
				w.log("user: removes the tag %s: %v", tag, attributestags.Delete(ctx, w.cloud, "networks", id, tag).ExtractErr())
			}
		}
	}
	for _, n := range all {
		if !w.history.isRestored.has(string(n.UID)) {
			continue
		}
		for id, interfaces := range now.Interfaces {
			for _, i := range interfaces {
				if oracle.MarkOf(w.rules.Cluster, now.Networks[now.Subnets[id].NetworkID].Description) == string(n.UID) && w.strange.has(i.RouterID) && !w.names(&n, i.RouterID) {
					_, err := routers.RemoveInterface(ctx, w.cloud, i.RouterID, routers.RemoveInterfaceOpts{SubnetID: id}).Extract()
					w.log("user: detaches subnet %s of %s from router %s: %v", id, n.Name, i.RouterID, err)
				}
			}
		}
	}
}

// names reports whether the spec or the status names the router, which users have created.
func (w *world) names(n *samplecrdv1.Network, router string) bool {
	if n.Status.Router != nil && n.Status.Router.ID == router {
		return true
	}
	spec := n.Spec.Router
	return spec != nil && spec.Existing != nil && (spec.Existing.ID == router || w.rules.Gates[spec.Existing.Name] == router)
}

// waitForAgreement waits until both sides agree, and returns what they disagree about if that does not happen, or if
// something is wrong already.
func (w *world) waitForAgreement(ctx context.Context) (last []string, err error) {
	err = wait.PollUntilContextTimeout(ctx, w.resync/3, *patience, true, func(context.Context) (bool, error) {
		// Not with the poll's own context: when that ends, what was found would be lost.
		found, err := w.disagreements(ctx)
		if err == nil && !slices.Equal(last, found) {
			last = found
			w.log("both sides disagree about: %s", strings.Join(found, "\n"))
		}
		return err == nil && (len(found) == 0 || len(w.found()) > 0), err
	})
	if wait.Interrupted(err) && ctx.Err() == nil {
		err = nil
	}
	return last, err
}
