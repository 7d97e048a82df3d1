// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package clouds

import (
	"errors"
	"fmt"

	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
	informers "github.com/samplecrd/samplecrd-controller/pkg/generated/informers/externalversions/samplecrd/v1"
	"github.com/samplecrd/samplecrd-controller/pkg/neutron"
)

// offers are the ClusterClouds. The cloud of each is open, and so in Clouds.List, while the ClusterCloud
// exists: the orphans there are found, and a Network that was deleted with its namespace and has lost
// its own Secret is finished there.
type offers struct {
	synced cache.DoneChecker // done when the first list was handled
	err    error             // why they cannot be read
	all    map[string]*offer // by name
	// asked are those that Networks named while nobody knew whether they exist.
	asked map[cache.ObjectName]bool
}

// offer is a ClusterCloud.
type offer struct {
	spec samplecrdv1.ClusterCloudSpec
	// selector are the namespaces that may use it.
	selector Selector
	// state is what was last logged about its cloud.
	state string
}

func isClusterCloud(source cache.ObjectName) bool {
	return source.Namespace == "" && source.Name != ""
}

func refOfClusterCloud(name string) Ref { return Ref{Source: cache.ObjectName{Name: name}} }

// keyOf counts as the key of a Network that uses the ClusterCloud. No Network can have that name.
func keyOf(name string) cache.ObjectName { return cache.ObjectName{Name: name} }

// watchClusterClouds starts to watch the ClusterClouds.
func (c *Clouds) watchClusterClouds() {
	informer := informers.NewTypedClusterCloudInformer(c.options.Networks, 0, nil)
	reportReads(informer, c.offersRead, func(object any) any { return object })
	set := func(of *samplecrdv1.ClusterCloud) { c.setOffer(of.Name, &of.Spec) }
	registration, _ := informer.AddTypedEventHandler(informers.ClusterCloudHandlerFuncs{
		AddFunc:    set,
		UpdateFunc: func(_, now *samplecrdv1.ClusterCloud) { set(now) },
		DeleteFunc: func(gone informers.DeletedClusterCloud) { c.setOffer(gone.GetObjectName().Name, nil) },
	})
	c.offers.synced = registration.HasSyncedChecker()
	c.running.Go(func() { informer.RunWithContext(c.ctx) })
	c.running.Go(func() {
		if cache.WaitFor(klog.NewContext(c.ctx, klog.Logger{}), "", c.offers.synced) {
			c.offersRead(nil) // there may be none, for which no transform is called
			c.wakeAsked()
		}
	})
}

// offersRead records why the ClusterClouds cannot be read, or that they were: err is nil then.
func (c *Clouds) offersRead(err error) {
	c.mu.Lock()
	isNew := (c.offers.err == nil) != (err == nil)
	c.offers.err = err
	c.mu.Unlock()
	if !isNew {
		return
	}
	if err != nil {
		klog.FromContext(c.ctx).Info("Cannot read the ClusterClouds, will try again; Networks that name none work", "err", err)
	}
	c.wakeAsked()
}

// wakeAsked calls the handler for the Networks whose ClusterCloud may be known now, or not be known any more.
func (c *Clouds) wakeAsked() {
	c.mu.Lock()
	sources := c.offers.asked
	c.offers.asked = map[cache.ObjectName]bool{}
	for source := range c.secrets {
		if isClusterCloud(source) {
			sources[source] = true
		}
	}
	c.mu.Unlock()
	for source := range sources {
		c.handlers.CredentialsChanged(source)
	}
	c.wakeLost()
}

// setOffer records the spec of a ClusterCloud; nil if it is gone.
func (c *Clouds) setOffer(name string, spec *samplecrdv1.ClusterCloudSpec) {
	ref := refOfClusterCloud(name)
	c.mu.Lock()
	before := c.offers.all[name]
	delete(c.offers.all, name)
	if spec != nil {
		now := &offer{spec: *spec, selector: selectorOf(spec.NamespaceSelector)}
		c.offers.all[name] = now
		if before != nil {
			now.state = before.state
		}
	}
	isMoved := before == nil || spec == nil || before.spec.SecretName != spec.SecretName || before.spec.CloudName != spec.CloudName
	if watched := c.secrets[ref.Source]; watched != nil && isMoved {
		watched.stop()
		c.secrets[ref.Source] = c.watchOffered(ref.Source)
		c.secrets[ref.Source].users = watched.users
	}
	if spec == nil {
		_, _, _ = c.acquireLocked(keyOf(name), Ref{})
	}
	c.mu.Unlock()
	c.changed(ref.Source)
}

// watchOffered starts to watch the Secret of the ClusterCloud, if that exists.
func (c *Clouds) watchOffered(source cache.ObjectName) *secret {
	offer := c.offers.all[source.Name]
	if offer == nil {
		return &secret{stop: func() {}}
	}
	watched := &secret{name: cache.NewObjectName(c.options.ClusterResourceNamespace, offer.spec.SecretName), cloudName: offer.spec.CloudName, isOffered: true}
	c.watchSecret(source, watched)
	return watched
}

// check fails if there is no ClusterCloud of that name.
func (o *offers) check(name, namespace string) error {
	source := refOfClusterCloud(name).Source
	title := titleOf(source)
	switch {
	case namespace == "":
		return unusable(title, "the controller has no namespace for the Secrets of ClusterClouds; its administrator can set -"+flagClusterResourceNamespace)
	case o.err != nil:
		o.asked[source] = true
		return unusable(title, "it cannot be read: "+o.err.Error())
	case o.all[name] != nil:
		return nil
	case !isDone(o.synced):
		o.asked[source] = true
		return ErrNotReady
	}
	return unusable(title, "it does not exist")
}

// offerChanged opens the cloud of the ClusterCloud, if the Source is one, and wakes the Networks that wait for it.
func (c *Clouds) offerChanged(source cache.ObjectName) {
	if !isClusterCloud(source) {
		return
	}
	c.mu.Lock()
	if offer := c.offers.all[source.Name]; offer != nil {
		ref := refOfClusterCloud(source.Name)
		state := stateOf(c.acquireLocked(keyOf(source.Name), ref))
		if offer.selector.err != nil {
			state = "for nobody, because its namespaceSelector is invalid: " + offer.selector.err.Error()
		}
		if state != "" && state != offer.state {
			offer.state = state
			klog.FromContext(c.ctx).Info("ClusterCloud", "name", source.Name, "state", state)
		}
	}
	c.mu.Unlock()
	c.wakeLost()
}

// stateOf returns the result of acquiring the credentials of a ClusterCloud for the log; "" if it is not known yet.
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
	return fmt.Sprint("in use for ", place)
}

func isDone(checker cache.DoneChecker) bool {
	select {
	case <-checker.Done():
		return true
	default:
		return false
	}
}
