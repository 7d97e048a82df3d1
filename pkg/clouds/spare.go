// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package clouds

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
	"github.com/samplecrd/samplecrd-controller/pkg/neutron"
)

// spares are credentials that an administrator gives to the controller itself: the entries of
// the clouds.yaml in each Secret that has the label LabelCloudCredentials and is in the
// ClusterResourceNamespace. Their clouds are open, and so in Clouds.List, while the Secret
// exists. They serve for clouds that no Network names any more: the orphans there are found, and
// a Network that was deleted with its namespace and has lost its own Secret is finished there.
// Nothing is created with them.
type spares struct {
	synced cache.DoneChecker // done when the first list of the Secrets was handled
	err    error             // why the Secrets cannot be read
	// states are the entries, and what was last logged about each.
	states map[Ref]string
	// waiting are the Secrets of the Networks that need spare credentials.
	waiting map[cache.ObjectName]bool
}

// maxSpares bounds the entries that are used of one Secret.
const maxSpares = 32

// runbook is where the documentation says what to do without the Secret.
const runbook = "artifacts/deploy/README.md#deleted-namespaces"

// spareKey counts as the key of a Network that uses the spare credentials. No Network can have
// that name.
func spareKey(ref Ref) cache.ObjectName {
	return cache.NewObjectName(ref.Secret.Namespace, "/"+ref.Secret.Name+"/"+ref.CloudName)
}

// watchSpares starts to watch the labelled Secrets. Each of them is also watched by its name, as
// those of Networks are: a Network may name the same one.
func (c *Clouds) watchSpares() {
	namespace := c.options.ClusterResourceNamespace
	selector := labels.Set{samplecrdv1.LabelCloudCredentials: "true"}
	informer := coreinformers.NewTypedFilteredSecretInformer(c.options.Client, namespace, 0, nil, func(o *metav1.ListOptions) {
		o.LabelSelector = selector.String()
	})
	// These fail only for an informer that is already running.
	_ = informer.SetWatchErrorHandlerWithContext(func(_ context.Context, _ *cache.Reflector, err error) {
		if apierrors.IsForbidden(err) {
			c.sparesRead(err)
		}
	})
	_ = informer.SetTransform(func(object any) (any, error) {
		c.sparesRead(nil)
		return trim(object), nil
	})
	set := func(s *corev1.Secret) { c.setSpares(cache.MetaObjectToName(s), c.spareEntries(s)) }
	registration, _ := informer.AddTypedEventHandler(coreinformers.SecretHandlerFuncs{
		AddFunc:    set,
		UpdateFunc: func(_, now *corev1.Secret) { set(now) },
		DeleteFunc: func(gone coreinformers.DeletedSecret) { c.setSpares(gone.GetObjectName(), nil) },
	})
	c.spares.synced = registration.HasSyncedChecker()
	ctx := klog.NewContext(c.ctx, withoutBodies(klog.FromContext(c.ctx)))
	c.running.Go(func() { informer.RunWithContext(ctx) })
	c.running.Go(func() {
		if cache.WaitFor(klog.NewContext(ctx, klog.Logger{}), "", c.spares.synced) {
			c.sparesRead(nil)
			c.wake()
		}
	})
}

// sparesRead records why the labelled Secrets cannot be read; nil if they can.
func (c *Clouds) sparesRead(err error) {
	c.mu.Lock()
	changed := (c.spares.err == nil) != (err == nil)
	c.spares.err = err
	c.mu.Unlock()
	if !changed {
		return
	}
	if err != nil {
		klog.FromContext(c.ctx).Info("Cannot read the Secrets with spare credentials, will try again; everything else works",
			"namespace", c.options.ClusterResourceNamespace, "label", samplecrdv1.LabelCloudCredentials, "err", err)
	}
	c.wake()
}

// spareEntries returns the names of the clouds in the Secret.
func (c *Clouds) spareEntries(secret *corev1.Secret) []string {
	if secret.Labels[samplecrdv1.LabelCloudCredentials] != "true" {
		return nil
	}
	logger := klog.LoggerWithValues(klog.FromContext(c.ctx), "secret", klog.KObj(secret))
	file, err := neutron.ParseCloudsYAML(secret.Data[keyCloudsYAML])
	entries := file.Names()
	if len(entries) == 0 {
		logger.Info("The key of a Secret with spare credentials contains no clouds", "key", keyCloudsYAML, "err", err)
	}
	if len(entries) > maxSpares {
		logger.Info("A Secret with spare credentials has too many clouds, using the first ones", "clouds", len(entries), "used", maxSpares)
	}
	return entries[:min(len(entries), maxSpares)]
}

// setSpares opens the clouds of these entries of the Secret, and closes those of all others.
func (c *Clouds) setSpares(name cache.ObjectName, entries []string) {
	c.mu.Lock()
	for ref := range c.spares.states {
		if ref.Secret == name && !slices.Contains(entries, ref.CloudName) {
			delete(c.spares.states, ref)
			_, _, _ = c.acquireLocked(spareKey(ref), Ref{})
		}
	}
	for _, entry := range entries {
		ref := Ref{Secret: name, CloudName: entry}
		if _, known := c.spares.states[ref]; !known {
			c.spares.states[ref] = ""
		}
	}
	c.openSpares(name)
	c.mu.Unlock()
	c.wake()
}

// spareChanged opens the clouds of the Secret's present content, if it has spare credentials.
func (c *Clouds) spareChanged(name cache.ObjectName) {
	c.mu.Lock()
	has := c.openSpares(name)
	c.mu.Unlock()
	if has {
		c.wake()
	}
}

// openSpares reports whether the Secret has spare credentials. It is called with the lock held.
func (c *Clouds) openSpares(name cache.ObjectName) (has bool) {
	for ref, before := range c.spares.states {
		if ref.Secret != name {
			continue
		}
		has = true
		state := stateOf(c.acquireLocked(spareKey(ref), ref))
		if state != "" && state != before {
			c.spares.states[ref] = state
			klog.FromContext(c.ctx).Info("Spare credentials", "secret", ref.Secret, "cloud", ref.CloudName, "state", state)
		}
	}
	return has
}

// stateOf returns the result of acquiring spare credentials for the log; "" if it is not known yet.
func stateOf(cloud *neutron.Cloud, _ *cloud, err error) string {
	if err == nil {
		_, _, err = cloud.Observer().Get("")
	}
	switch {
	case errors.Is(err, ErrNotReady):
		return ""
	case err != nil:
		return err.Error()
	}
	place, _ := cloud.Client().Place()
	return "in use for " + place.String()
}

// wake calls the handler for the Networks that need spare credentials.
func (c *Clouds) wake() {
	c.mu.Lock()
	waiting := slices.Collect(maps.Keys(c.spares.waiting))
	c.mu.Unlock()
	for _, name := range waiting {
		c.handlers.SecretChanged(name)
	}
}

// spareFor returns the cloud of the spare credentials that lead to the Network's network; nil if
// there are none, and ErrNotReady if that is not known yet. Networks that name the same Secret
// are enqueued when that may have changed.
func (c *Clouds) spareFor(key cache.ObjectName, network *samplecrdv1.Network) (*neutron.Cloud, error) {
	if c.options.ClusterResourceNamespace == "" {
		return nil, nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.spares.waiting[RefOf(network).Secret] = true
	var notReady error
	if c.spares.err == nil && !isDone(c.spares.synced) {
		notReady = ErrNotReady
	}
	for _, ref := range slices.SortedFunc(maps.Keys(c.spares.states), func(a, b Ref) int { return strings.Compare(a.String(), b.String()) }) {
		_, _, err := c.acquireLocked(spareKey(ref), ref)
		switch {
		case errors.Is(err, ErrNotReady):
			notReady = err
		case err == nil && c.inUse[ref].cloud.has(network):
			c.groups.setSpare(key, ref)
			return c.inUse[ref].cloud.Cloud, nil
		}
	}
	c.groups.setSpare(key, Ref{})
	return nil, notReady
}

// has reports whether the cloud is where the Network's network was created. An incomplete status,
// which is old or was never written, does not prove that: then the cloud must have a network with
// the Network's mark.
func (s *cloud) has(network *samplecrdv1.Network) bool {
	if place, ok := s.Client().Place(); ok {
		s.place = &place // kept, because a Client without a session does not know it
	}
	was := neutron.NewIdentity(network, "").Place
	if s.place == nil {
		return false
	}
	if *s.place == was && was.Project != "" {
		return true
	}
	marked, _, _ := s.Observer().Get(network.UID)
	return !marked.IsEmpty() && (was.Project == "" || was.Project == s.place.Project && was.Region == "")
}

// deadEnd returns the error for a Network that needs spare credentials, because of err.
func (c *Clouds) deadEnd(network *samplecrdv1.Network, err error) error {
	var unusable *neutron.Error
	if !errors.As(err, &unusable) {
		return err
	}
	where := "the cloud of its network"
	if place := neutron.NewIdentity(network, "").Place; place.Project != "" {
		where = place.String()
	}
	advice := "the controller has no namespace for credentials of an administrator (-cluster-resource-namespace)"
	if namespace := c.options.ClusterResourceNamespace; namespace != "" {
		advice = fmt.Sprintf("an administrator can finish the deletion with credentials for %s, in a Secret in namespace %s", where, namespace)
		c.mu.Lock()
		if c.spares.err != nil {
			advice += ", whose Secrets the controller may not read now"
		}
		c.mu.Unlock()
	}
	explained := *unusable
	explained.Message = fmt.Sprintf("%s, and nothing can be created because the namespace is being deleted; %s: see %s",
		strings.TrimSuffix(unusable.Message, createIt), advice, runbook)
	return &explained
}

func isDone(checker cache.DoneChecker) bool {
	select {
	case <-checker.Done():
		return true
	default:
		return false
	}
}
