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

package options

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/samplecrd/samplecrd-controller/pkg/deployment"
	"github.com/samplecrd/samplecrd-controller/pkg/election"
	"github.com/samplecrd/samplecrd-controller/pkg/kubeclient"
	"github.com/samplecrd/samplecrd-controller/pkg/neutron"
	"github.com/samplecrd/samplecrd-controller/pkg/retry"
	"github.com/samplecrd/samplecrd-controller/pkg/serving"
	"github.com/samplecrd/samplecrd-controller/pkg/version"
)

// AllNamespaces reports whether the controller sees the Networks of all namespaces. If not,
// the networks of all other namespaces would look like orphans.
func (o *Options) AllNamespaces() bool { return o.Namespace == metav1.NamespaceAll }

// ForKubernetes returns the options of the clients of Kubernetes.
func (o *Options) ForKubernetes() kubeclient.Options {
	return kubeclient.Options{
		Kubeconfig:    o.Kubeconfig,
		Master:        o.Master,
		QPS:           o.KubeAPIQPS,
		Burst:         o.KubeAPIBurst,
		RenewDeadline: o.Election.RenewDeadline,
		ClusterID:     o.ClusterID,
	}
}

// ForElection returns the options of leader election, or nil if this is the only replica.
func (o *Options) ForElection() *election.Options {
	if o.LeaderElect == "false" || o.LeaderElect == "auto" && !kubeclient.InPod() {
		return nil
	}
	e := o.Election
	if e.Namespace == "" {
		e.Namespace = kubeclient.PodNamespace()
	}
	return &e
}

// ForServing returns the options of the HTTP server.
func (o *Options) ForServing() serving.Options {
	return serving.Options{
		Address:    o.BindAddress,
		CertFile:   o.TLSCertFile,
		KeyFile:    o.TLSPrivateKeyFile,
		Authorized: o.ServeAuthorized,
	}
}

// ForNeutron returns the options of a client of Neutron. The client calls fence before each
// request, and counts the requests in meter.
func (o *Options) ForNeutron(fence func(), meter neutron.Meter) neutron.ClientOptions {
	return neutron.ClientOptions{
		Timeout:     o.NeutronTimeout,
		QPS:         o.NeutronQPS,
		Burst:       o.NeutronBurst,
		Connections: o.NeutronConnections,
		UserAgent:   version.UserAgent(),
		Fence:       fence,
		Meter:       meter,
	}
}

// ForDeployments returns the options of the controller of Deployments. It calls fence before
// it creates a Network.
func (o *Options) ForDeployments(fence func()) deployment.Options {
	return deployment.Options{
		Namespace:        o.Namespace,
		CIDRPool:         o.DeploymentCIDRPool,
		CIDRPrefixLength: o.DeploymentCIDRPrefixLength,
		Retry:            o.ForRetries(),
		Fence:            fence,
	}
}

// ForRetries returns the options of the rate limiter of a queue.
func (o *Options) ForRetries() retry.Options {
	return retry.Options{
		BaseDelay: o.RetryBaseDelay,
		MaxDelay:  o.RetryMaxDelay,
		QPS:       o.RetryQPS,
		Burst:     o.RetryBurst,
	}
}
