// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package clouds

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	coreinformers "k8s.io/client-go/informers/core/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
	"github.com/samplecrd/samplecrd-controller/pkg/neutron"
)

// The flags that messages name.
const (
	flagClusterResourceNamespace = "cluster-resource-namespace"
	flagOwnCloudNamespaces       = "cloud-namespace-selector"
)

// Selector says by their labels which namespaces may use a cloud. The zero Selector selects all. *Selector
// is a flag.Value.
type Selector struct {
	labels labels.Selector
	err    error // why it selects none
}

// selectorOf returns the Selector of a ClusterCloud.
func selectorOf(selector *metav1.LabelSelector) Selector {
	parsed, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		parsed = labels.Nothing()
	}
	return Selector{parsed, err}
}

func (s Selector) all() bool { return s.labels == nil || s.labels.Empty() }

// String returns the selector as kubectl's flag --selector takes it.
func (s *Selector) String() string {
	if s == nil || s.labels == nil {
		return ""
	}
	return s.labels.String()
}

// Set replaces the selector by the one in the text.
func (s *Selector) Set(text string) error {
	parsed, err := labels.Parse(text)
	if err != nil {
		return fmt.Errorf("it must be a label selector such as team=platform: %w", err)
	}
	*s = Selector{labels: parsed}
	return nil
}

// checkPermission fails if an administrator has not allowed the namespace of the Network to use its cloud. A Network with a Secret
// needs no permission: those who may write Secrets have the credentials. A deletion needs none, so that a namespace which loses its
// label leaves nothing behind. Neither does a Network that is gone, whose key is not its name.
func (c *Clouds) checkPermission(key cache.ObjectName, network *samplecrdv1.Network) error {
	if !network.DeletionTimestamp.IsZero() || key != cache.MetaObjectToName(network) {
		return nil
	}
	source := RefOf(network).Source
	selector := c.options.OwnCloudNamespaces
	if isClusterCloud(source) {
		c.mu.Lock()
		defer c.mu.Unlock()
		if err := c.offers.check(source.Name, c.options.ClusterResourceNamespace); err != nil {
			return err
		}
		selector = c.offers.all[source.Name].selector
	}
	return selector.check(source, network.Namespace, c.namespaces.labelsOf)
}

// check fails if the Selector, which is the one of the Source, does not select the namespace. A Secret has none.
func (s Selector) check(source cache.ObjectName, namespace string, labelsOf func(string) (labels.Set, error)) error {
	if s.all() || source.Namespace != "" {
		return nil
	}
	title, advice := "the controller's own cloud", "name other credentials in spec.cloudCredentialsRef, or ask an administrator to label the namespace as -"+flagOwnCloudNamespaces+" wants"
	if isClusterCloud(source) {
		title, advice = titleOf(source), "an administrator can label the namespace as its namespaceSelector wants"
	}
	refuse := func(format string, args ...any) error {
		return &neutron.Error{Op: neutron.Printable(title), Reason: neutron.NotPermitted, Message: neutron.Printable(fmt.Sprintf(format, args...))}
	}
	if s.err != nil {
		return refuse("its namespaceSelector is invalid: %v", s.err)
	}
	has, err := labelsOf(namespace)
	switch {
	case errors.Is(err, ErrNotReady):
		return err
	case err != nil: // which is no decision of an administrator's
		return unusable(title, "the labels of namespaces cannot be read: "+err.Error())
	case s.labels.Matches(has):
		return nil
	}
	return refuse("namespace %s may not use it: %s", namespace, advice)
}

// namespaces have the labels of the namespaces.
type namespaces struct {
	lister corelisters.NamespaceLister

	mu  sync.Mutex
	err error // why they cannot be read
}

// labelsOf returns ErrNotReady until the namespace was read: it exists, because the Network does.
func (n *namespaces) labelsOf(name string) (labels.Set, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.err != nil {
		return nil, n.err
	}
	namespace, err := n.lister.Get(name)
	if err != nil {
		return nil, ErrNotReady
	}
	return namespace.Labels, nil
}

// setErr records why the namespaces cannot be read, or that they can, and reports whether that is new.
func (n *namespaces) setErr(err error) (isNew bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	isNew = (n.err == nil) != (err == nil)
	n.err = err
	return isNew
}

// watchNamespaces starts to watch the labels of namespaces.
func (c *Clouds) watchNamespaces() {
	informer := coreinformers.NewTypedNamespaceInformer(c.options.Client, 0, coreinformers.NamespaceIndexers{})
	c.namespaces = &namespaces{lister: corelisters.NewNamespaceLister(informer.GetIndexer())}
	reportReads(informer, c.namespacesRead, onlyLabels)
	changed := func(name string) { c.handlers.LabelsChanged(name) }
	_, _ = informer.AddTypedEventHandler(coreinformers.NamespaceHandlerFuncs{
		AddFunc: func(n *corev1.Namespace) { changed(n.Name) },
		UpdateFunc: func(before, now *corev1.Namespace) {
			if !maps.Equal(before.Labels, now.Labels) {
				changed(now.Name)
			}
		},
	})
	c.running.Go(func() { informer.RunWithContext(c.ctx) })
}

// reportReads calls report with each error of the informer for which isRefused is true, and with nil for each object that is read.
// transform is the informer's transform.
func reportReads(informer cache.SharedInformer, report func(error), transform func(any) any) {
	// These fail only for an informer that is already running.
	_ = informer.SetWatchErrorHandlerWithContext(func(ctx context.Context, r *cache.Reflector, err error) {
		if isRefused(err) {
			report(err)
		} else {
			cache.DefaultWatchErrorHandler(ctx, r, err)
		}
	})
	_ = informer.SetTransform(func(object any) (any, error) {
		report(nil)
		return transform(object), nil
	})
}

// isRefused reports whether a list or a watch will fail until somebody acts. What has been read may then be out of date for long,
// and is not used any more. After all other errors it is, as caches usually are.
func isRefused(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) || apierrors.IsNotFound(err)
}

// namespacesRead records why the labels of namespaces cannot be read, or that they were: err is nil then.
func (c *Clouds) namespacesRead(err error) {
	if !c.namespaces.setErr(err) {
		return
	}
	if err != nil {
		klog.FromContext(c.ctx).Info("Cannot read the labels of namespaces, will try again; nobody may use a cloud that is reserved by labels", "err", err)
	}
	c.mu.Lock()
	sources := []cache.ObjectName{{}}
	for name := range c.offers.all {
		sources = append(sources, refOfClusterCloud(name).Source)
	}
	c.mu.Unlock()
	for _, source := range sources {
		c.handlers.CredentialsChanged(source)
	}
}

// onlyLabels returns a namespace with only its labels, and any other object as it is.
func onlyLabels(object any) any {
	n, ok := object.(*corev1.Namespace)
	if !ok {
		return object
	}
	kept := &corev1.Namespace{}
	kept.Name, kept.UID, kept.ResourceVersion, kept.Labels = n.Name, n.UID, n.ResourceVersion, n.Labels
	return kept
}
