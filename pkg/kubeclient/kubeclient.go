// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package kubeclient makes the clients of the Kubernetes API server.
package kubeclient

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/flowcontrol"

	"github.com/samplecrd/samplecrd-controller/pkg/events"
	clientset "github.com/samplecrd/samplecrd-controller/pkg/generated/clientset/versioned"
	"github.com/samplecrd/samplecrd-controller/pkg/generated/clientset/versioned/scheme"
	"github.com/samplecrd/samplecrd-controller/pkg/version"
)

const (
	// timeout bounds each request except the watches, so that none can hold up a worker or
	// the end of the process.
	timeout = 30 * time.Second
	// connectTimeout bounds the first request.
	connectTimeout = 15 * time.Second
)

// Options say how to reach the API server.
type Options struct {
	// Kubeconfig is a file, and Master the address of the API server, which overrides the one
	// in the file. Without both, the pod's service account is used.
	Kubeconfig, Master string
	// LoadingRules means that without Kubeconfig and Master, the process reaches the cluster that kubectl would reach: that of
	// $KUBECONFIG or ~/.kube/config, or else that of its pod.
	LoadingRules bool
	// QPS and Burst limit the requests of all clients together, except those for the Lease.
	QPS   float64
	Burst int
	// RenewDeadline is the one of leader election. A request for the Lease takes at most half
	// of it, so that there is time for a second one.
	RenewDeadline time.Duration
	// ClusterID overrides the cluster's ID.
	ClusterID string
}

// Clients are the clients of one API server.
type Clients struct {
	// Host is the address of the API server.
	Host string
	// ClusterID distinguishes this cluster's networks in Neutron from those of other clusters.
	ClusterID string

	Kube     kubernetes.Interface
	Networks clientset.Interface
	// WatchKube and WatchNetworks are for informers: their requests have no timeout.
	WatchKube     kubernetes.Interface
	WatchNetworks clientset.Interface
	// Leases is for leader election. It has no rate limit: a request must not wait for others,
	// or the Lease could be lost under load.
	Leases kubernetes.Interface
}

// Connect makes the clients and reads the cluster's ID. It does not retry: if the first
// request fails, the most likely reason is a wrong setting.
func Connect(ctx context.Context, options Options) (*Clients, error) {
	config, err := restConfig(options)
	if err != nil {
		return nil, err
	}
	c, err := newClients(config, options.RenewDeadline)
	if err != nil {
		return nil, fmt.Errorf("kubeconfig: %w", err)
	}
	c.ClusterID, err = c.clusterID(ctx, options.ClusterID)
	return c, err
}

// ConnectNetworks makes only the client of Networks. It makes no request.
func ConnectNetworks(options Options) (clientset.Interface, error) {
	config, err := restConfig(options)
	if err != nil {
		return nil, err
	}
	return clientset.NewForConfig(config)
}

// Namespace returns the namespace of the kubeconfig's context; without a kubeconfig that of the pod, or
// default outside a pod.
func Namespace(options Options) string {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = options.Kubeconfig
	namespace, _, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, nil).Namespace()
	if err != nil {
		return metav1.NamespaceDefault // Connect returns the error
	}
	return namespace
}

func restConfig(options Options) (config *rest.Config, err error) {
	switch named := options.Kubeconfig != "" || options.Master != ""; {
	case !named && options.LoadingRules:
		config, err = clientcmd.NewNonInteractiveDeferredLoadingClientConfig(clientcmd.NewDefaultClientConfigLoadingRules(), nil).ClientConfig()
		if clientcmd.IsEmptyConfig(err) {
			return nil, errors.New("there is no kubeconfig: name the cluster with -kubeconfig, $KUBECONFIG or ~/.kube/config")
		}
	case !named:
		config, err = rest.InClusterConfig()
		if errors.Is(err, rest.ErrNotInCluster) {
			return nil, errors.New("this is not a pod in a cluster: name the cluster with -kubeconfig or -master")
		}
	default:
		config, err = clientcmd.BuildConfigFromFlags(options.Master, options.Kubeconfig)
	}
	if err != nil {
		return nil, fmt.Errorf("kubeconfig: %w", err)
	}
	config.Timeout = timeout
	config.UserAgent = version.UserAgent()
	// All clients share it.
	config.RateLimiter = flowcontrol.NewTokenBucketRateLimiter(float32(options.QPS), options.Burst)
	return config, nil
}

func newClients(config *rest.Config, renewDeadline time.Duration) (*Clients, error) {
	c := &Clients{Host: config.Host}
	var errs [5]error
	c.Kube, errs[0] = kubernetes.NewForConfig(config)
	c.Networks, errs[1] = clientset.NewForConfig(config)
	c.WatchKube, errs[2] = kubernetes.NewForConfig(forWatches(config))
	c.WatchNetworks, errs[3] = clientset.NewForConfig(forWatches(config))
	c.Leases, errs[4] = kubernetes.NewForConfig(forLeases(config, renewDeadline))
	return c, cmp.Or(errs[:]...)
}

// forWatches returns the configuration for watches, which have no timeout.
func forWatches(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	config.Timeout = 0
	return config
}

// forLeases returns the configuration for leader election.
func forLeases(config *rest.Config, renewDeadline time.Duration) *rest.Config {
	config = rest.CopyConfig(config)
	config.RateLimiter = flowcontrol.NewFakeAlwaysRateLimiter()
	config.Timeout = renewDeadline / 2
	return config
}

// NewRecorder returns a recorder of the controller's events. The caller stops it.
func (c *Clients) NewRecorder(ctx context.Context) *events.Recorder {
	sink := &typedcorev1.EventSinkImpl{Interface: c.Kube.CoreV1().Events("")}
	return events.NewRecorder(ctx, sink, scheme.Scheme, corev1.EventSource{Component: "samplecrd-controller"})
}

// clusterID returns the UID of the namespace kube-system, or the given ID. In both cases it
// sends one request, and so checks that the API server answers.
func (c *Clients) clusterID(ctx context.Context, given string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	if given != "" {
		if _, err := discovery.ToServerVersionInterfaceWithContext(c.Kube.Discovery()).ServerVersionWithContext(ctx); err != nil {
			return "", fmt.Errorf("reach Kubernetes at %s: %w", c.Host, err)
		}
		return given, nil
	}
	namespace, err := c.Kube.CoreV1().Namespaces().Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
	if apierrors.IsForbidden(err) {
		return "", fmt.Errorf("read the cluster's ID from Kubernetes at %s: %w: allow it, or give an ID with -cluster-id", c.Host, err)
	}
	if err != nil {
		return "", fmt.Errorf("reach Kubernetes at %s: %w", c.Host, err)
	}
	return string(namespace.UID), nil
}

// InPod reports whether this process runs in a pod, in whichever cluster.
func InPod() bool { return PodAPIServer() != "" }

// PodAPIServer returns the host of the API server, as a pod knows it; "" outside a pod.
func PodAPIServer() string { return os.Getenv("KUBERNETES_SERVICE_HOST") }

// PodNamespace returns the namespace of the pod that this process runs in, or kube-system
// outside a pod.
func PodNamespace() string {
	namespace, err := os.ReadFile("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
	if err != nil {
		return metav1.NamespaceSystem
	}
	return strings.TrimSpace(string(namespace))
}
