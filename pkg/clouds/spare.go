// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package clouds

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/client-go/tools/cache"

	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
	"github.com/samplecrd/samplecrd-controller/pkg/neutron"
)

// runbook is where the documentation says what to do without the Secret.
const runbook = "artifacts/deploy/procedures.md#deleted-namespaces"

// wakeLost calls the handler for the Networks that need the credentials of a ClusterCloud in place of their own.
func (c *Clouds) wakeLost() {
	c.mu.Lock()
	lost := slices.Collect(maps.Keys(c.lost))
	c.mu.Unlock()
	for _, name := range lost {
		c.handlers.CredentialsChanged(name)
	}
}

// spareFor returns the cloud of the ClusterCloud that leads to the Network's network, whatever its
// namespaceSelector is: nothing is created there. It returns nil if there is none, and ErrNotReady if
// that is not known yet. Networks that name the same Secret are enqueued when that may have changed.
func (c *Clouds) spareFor(key cache.ObjectName, network *samplecrdv1.Network) (*neutron.Cloud, error) {
	if c.options.ClusterResourceNamespace == "" {
		return nil, nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lost[RefOf(network).Source] = true
	var notReady error
	if c.offers.err == nil && !isDone(c.offers.synced) {
		notReady = ErrNotReady
	}
	for _, name := range slices.Sorted(maps.Keys(c.offers.all)) {
		ref := refOfClusterCloud(name)
		_, _, err := c.acquireLocked(keyOf(name), ref)
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

// deadEnd returns the error for a Network that needs the credentials of a ClusterCloud, because of err.
func (c *Clouds) deadEnd(network *samplecrdv1.Network, err error) error {
	var unusable *neutron.Error
	if !errors.As(err, &unusable) {
		return err
	}
	where := "the cloud of its network"
	if place := neutron.NewIdentity(network, "").Place; place.Project != "" {
		where = place.String()
	}
	advice := "the controller has no namespace for the Secrets of ClusterClouds (-" + flagClusterResourceNamespace + ")"
	if c.options.ClusterResourceNamespace != "" {
		advice = "an administrator can finish the deletion with a ClusterCloud for " + where
		c.mu.Lock()
		if c.offers.err != nil {
			advice += "; the controller cannot read those now"
		}
		c.mu.Unlock()
	}
	explained := *unusable
	explained.Message = fmt.Sprintf("%s, and nothing can be created because the namespace is being deleted; %s: see %s",
		strings.TrimSuffix(unusable.Message, createIt), advice, runbook)
	return &explained
}
