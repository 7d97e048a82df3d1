// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package clouds

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
	"github.com/samplecrd/samplecrd-controller/pkg/neutron"
)

// Lookup finds credentials once, as Clouds does, and watches nothing. It is for commands. Its errors and logs contain nothing of a
// Secret's content.
type Lookup struct{ Options }

// CheckPermission fails if the Network may not use its credentials.
func (l Lookup) CheckPermission(ctx context.Context, network *samplecrdv1.Network) error {
	source, selector := RefOf(network).Source, l.OwnCloudNamespaces
	if !network.DeletionTimestamp.IsZero() {
		return nil
	}
	if isClusterCloud(source) {
		offer, err := l.clusterCloud(ctx, source.Name)
		if err != nil {
			return err
		}
		selector = selectorOf(offer.NamespaceSelector)
	}
	return selector.check(source, network.Namespace, func(name string) (labels.Set, error) {
		namespace, err := l.Client.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return nil, err
		}
		return namespace.Labels, nil
	})
}

// Config reads the configuration of the cloud to which the credentials lead. They must not be the zero Ref.
func (l Lookup) Config(ctx context.Context, ref Ref) (neutron.Config, error) {
	name, cloudName, servers := ref.Source, ref.CloudName, &l.Servers
	if isClusterCloud(ref.Source) {
		offer, err := l.clusterCloud(ctx, ref.Source.Name)
		if err != nil {
			return neutron.Config{}, err
		}
		if l.ClusterResourceNamespace == "" {
			return neutron.Config{}, unusable(titleOf(ref.Source), "the namespace of its Secret is not known: set -"+flagClusterResourceNamespace+" as the controller has it")
		}
		name, cloudName, servers = cache.NewObjectName(l.ClusterResourceNamespace, offer.SecretName), offer.CloudName, nil
	}
	ctx = klog.NewContext(ctx, withoutBodies(klog.FromContext(ctx)))
	secret, err := l.Client.CoreV1().Secrets(name.Namespace).Get(ctx, name.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return neutron.Config{}, fmt.Errorf("there is no Secret %s", name)
	case err != nil:
		return neutron.Config{}, err
	}
	return load(secret, titleOf(ref.Source), nil).config(cloudName, servers)
}

func (l Lookup) clusterCloud(ctx context.Context, name string) (*samplecrdv1.ClusterCloudSpec, error) {
	found, err := l.Networks.SamplecrdV1().ClusterClouds().Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil, fmt.Errorf("there is no ClusterCloud %s", name)
	case err != nil:
		return nil, err
	}
	return &found.Spec, nil
}
