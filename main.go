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

// Command samplecrd-controller makes OpenStack Neutron networks out of Network objects
// in Kubernetes, keeps them as they are declared, and takes them away again.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
	"time"

	_ "golang.org/x/crypto/x509roots/fallback" // an image from scratch has no certificate authorities
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	kubeinformers "k8s.io/client-go/informers"
	appsinformers "k8s.io/client-go/informers/apps/v1"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/klog/v2"

	"github.com/samplecrd/samplecrd-controller/pkg/clouds"
	"github.com/samplecrd/samplecrd-controller/pkg/deployment"
	"github.com/samplecrd/samplecrd-controller/pkg/election"
	"github.com/samplecrd/samplecrd-controller/pkg/events"
	"github.com/samplecrd/samplecrd-controller/pkg/fair"
	clientset "github.com/samplecrd/samplecrd-controller/pkg/generated/clientset/versioned"
	"github.com/samplecrd/samplecrd-controller/pkg/generated/clientset/versioned/scheme"
	informers "github.com/samplecrd/samplecrd-controller/pkg/generated/informers/externalversions"
	networkinformers "github.com/samplecrd/samplecrd-controller/pkg/generated/informers/externalversions/samplecrd/v1"
	"github.com/samplecrd/samplecrd-controller/pkg/metrics"
	"github.com/samplecrd/samplecrd-controller/pkg/neutron"
	"github.com/samplecrd/samplecrd-controller/pkg/neutron/embedded"
	"github.com/samplecrd/samplecrd-controller/pkg/options"
	"github.com/samplecrd/samplecrd-controller/pkg/orphans"
	"github.com/samplecrd/samplecrd-controller/pkg/retry"
	"github.com/samplecrd/samplecrd-controller/pkg/serving"
)

func main() {
	os.Exit(mainExit(os.Args[1:]))
}

// mainExit is main, and returns the exit code: 0, 1 for an error, 2 for wrong flags.
func mainExit(args []string) int {
	o, flags := options.New()
	err := flags.Parse(args)
	if err == nil && !o.Version {
		err = o.Validate(flags.Args())
	}
	switch {
	case errors.Is(err, flag.ErrHelp):
		flags.PrintHelp(os.Stdout)
		return 0
	case err != nil:
		return complain(2, fmt.Errorf("%w (-h lists the flags)", err))
	case o.Version:
		fmt.Printf("samplecrd-controller %s, commit %s\n", version, commit)
		return 0
	}
	defer klog.Flush()
	setLogger(o, flags)
	ctx := stopOnSignal(context.Background())
	if err := run(ctx, o); err != nil && ctx.Err() == nil {
		return fail(o, err)
	}
	return 0
}

// fail tells, for people or for what reads the log, why the process ends.
func fail(o *options.Options, err error) int {
	if o.LoggingFormat == "json" {
		klog.ErrorS(err, "Failed")
		return 1
	}
	return complain(1, err)
}

// setLogger has the log written in another format, if that is asked for.
func setLogger(o *options.Options, flags *options.Flags) {
	if o.LoggingFormat == "json" {
		klog.SetSlogLogger(slog.New(slog.NewJSONHandler(os.Stderr, &slog.HandlerOptions{
			AddSource:   true,
			Level:       slog.Level(-flags.Verbosity()),
			ReplaceAttr: plain,
		})))
	}
}

// plain has names, durations and the like written as in the text format, and levels by the
// names that everybody knows: DEBUG is what -v brings.
func plain(_ []string, a slog.Attr) slog.Attr {
	switch value := a.Value.Any().(type) {
	case *slog.Source:
		return slog.String(a.Key, filepath.Base(value.File)+":"+strconv.Itoa(value.Line))
	case slog.Level:
		if a.Key == slog.LevelKey && value < slog.LevelInfo {
			return slog.String(a.Key, slog.LevelDebug.String())
		}
	case time.Time:
	case fmt.Stringer:
		return slog.String(a.Key, fmt.Sprint(value)) // which minds a nil pointer
	}
	return a
}

func complain(code int, err error) int {
	fmt.Fprintf(os.Stderr, "samplecrd-controller: %v\n", err)
	return code
}

// stopOnSignal returns a context that is cancelled by SIGINT or SIGTERM. A second
// signal ends the process at once, whatever it has in hand.
func stopOnSignal(parent context.Context) context.Context {
	ctx, cancel := context.WithCancel(parent)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		klog.FromContext(ctx).Info("Stopping; a second signal stops at once", "signal", <-signals)
		cancel()
		<-signals
		os.Exit(1)
	}()
	return ctx
}

// run makes everything, and works until ctx is cancelled.
func run(ctx context.Context, o *options.Options) error {
	logger := klog.FromContext(ctx)
	config, err := kubeConfig(o)
	if err != nil {
		return err
	}
	clients, err := newClients(config, o.Election.RenewDeadline)
	if err != nil {
		return fmt.Errorf("kubeconfig: %w", err)
	}
	// What is set up wrong is told before anything waits.
	cloudConfig, err := neutron.LoadConfig(o.Cloud)
	noCloud := errors.Is(err, neutron.ErrNoCloud) && !inPod()
	if err != nil && !noCloud {
		return err
	}
	cluster, err := clusterID(ctx, clients.kube, config.Host, o.ClusterID)
	if err != nil {
		return err
	}
	if noCloud {
		server, err := embedded.Start("127.0.0.1:0", embedded.Options{})
		if err != nil {
			return err
		}
		defer server.Close()
		if cloudConfig, err = useEmbedded(server); err != nil {
			return err
		}
	}
	server, err := listen(o)
	if err != nil {
		return err
	}
	logger.Info("Starting", "version", version, "commit", commit,
		"kubernetes", config.Host, "clusterID", cluster, "cloud", cloudConfig.Name)
	recorder := newRecorder(ctx, clients.kube)
	defer recorder.Stop()
	r, err := newReplica(ctx, o, clients, recorder, cloudConfig, cluster)
	if err != nil {
		return err
	}
	stopServing := r.serve(ctx, server)
	defer stopServing()
	if err := r.run(ctx); err != nil {
		return err
	}
	logger.Info("Stopped")
	return nil
}

// replica is one of the processes of which one works, and the others stand by.
type replica struct {
	options  *options.Options
	clients  *clients
	recorder record.EventRecorder
	cluster  string
	election *election.Election // nil: there is but one
	ready    *serving.Readiness
	metrics  *metrics.Metrics

	networkFactory    informers.SharedInformerFactory
	networks          networkinformers.TypedNetworkInformer
	deploymentFactory kubeinformers.SharedInformerFactory
	deployments       appsinformers.TypedDeploymentInformer

	allClouds *clouds.Clouds
	orphans   *orphans.Finder
}

// What a replica waits for, by the names that /readyz gives.
const (
	networksReady    = "networks"
	deploymentsReady = "deployments"
	runningReady     = "running"
)

// newReplica makes a replica; it does not talk to anybody yet.
func newReplica(ctx context.Context, o *options.Options, clients *clients, recorder record.EventRecorder, config neutron.Config, cluster string) (*replica, error) {
	r := &replica{options: o, clients: clients, recorder: recorder, cluster: cluster}
	r.metrics = metrics.New(version, commit)
	r.ready = serving.NewReadiness(networksReady, deploymentsReady, runningReady)
	if electing(o) {
		var err error
		if r.election, err = election.New(clients.leases.CoordinationV1(), recorder, electionOptions(o)); err != nil {
			return nil, err
		}
	}
	r.networkFactory = informers.NewSharedInformerFactoryWithOptions(clients.watchNetworks, 0,
		informers.WithNamespace(o.Namespace), informers.WithTransform(stripManagedFields))
	r.networks = r.networkFactory.Samplecrd().V1().Networks()
	r.deploymentFactory = kubeinformers.NewSharedInformerFactoryWithOptions(clients.watchKube, 0,
		kubeinformers.WithNamespace(o.Namespace), kubeinformers.WithTransform(deployment.Trim))
	r.deployments = r.deploymentFactory.Apps().V1().Deployments()

	r.allClouds = clouds.New(ctx, r.newCloud(config, metrics.Controller), clouds.Options{
		Client:          clients.watchKube,
		AllowedAuthURLs: o.AllowedAuthURLs,
		NewCloud:        func(config neutron.Config) *neutron.Cloud { return r.newCloud(config, metrics.Secret) },
	})
	r.orphans = orphans.NewFinder(clients.networks, r.networks, orphans.Options{Clouds: r.allClouds.List, Removal: o.DeleteOrphans})
	r.metrics.MustRegister(metrics.Networks(r.networks.Lister(), r.leads), metrics.Clouds(r.allClouds.List, r.leads))
	if seesAll(o) {
		r.metrics.MustRegister(r.orphans)
	}
	return r, nil
}

// newCloud makes a cloud of whose credentials metrics tells.
func (r *replica) newCloud(config neutron.Config, whose string) *neutron.Cloud {
	options := r.clientOptions()
	options.Meter = r.metrics.Meter(whose)
	cloud := neutron.NewCloud(config.Name, neutron.NewClient(config, options), r.cluster, r.options.Resync)
	cloud.Observer().OnRelist(func() { r.orphans.Wake() })
	return cloud
}

// run fills the caches, waits until this replica leads, and works until ctx is cancelled.
func (r *replica) run(ctx context.Context) error {
	if err := waitForNetworks(ctx, r.clients.networks, r.options.Namespace, r.ready); err != nil {
		return err
	}
	defer r.networkFactory.Shutdown()
	defer r.deploymentFactory.Shutdown()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	// A factory starts the informers that it was asked for. They end with ctx, though the
	// workers then have something in hand still.
	networks := r.networks.Informer()
	r.tellFailures(networksReady, networks)
	r.networkFactory.StartWithContext(ctx)
	if r.options.DeploymentWorkers > 0 {
		r.tellFailures(deploymentsReady, r.deployments.Informer())
	}
	r.deploymentFactory.StartWithContext(ctx)

	go r.tellReadiness(ctx)
	if !cache.WaitFor(klog.NewContext(ctx, klog.FromContext(ctx).V(2)), "Networks", networks.HasSyncedChecker()) {
		return ctx.Err()
	}
	if r.election == nil {
		return r.work(ctx)
	}
	err := r.election.Run(ctx, r.work)
	if errors.Is(err, election.ErrLost) {
		r.lost()
	}
	return err
}

// lost ends the process at once, whatever is under way: another replica goes on with it.
func (r *replica) lost() {
	code := fail(r.options, election.ErrLost)
	klog.Flush()
	os.Exit(code)
}

// mustLead comes before each request to OpenStack. A process that was suspended finds out
// here that it has lost the lease, before it makes what another replica has made. (Of what
// Kubernetes is asked to write, most holds for the version that was read only.)
func (r *replica) mustLead() {
	if !r.leads() {
		r.lost()
	}
}

// tellFailures tells /readyz why an informer has not got its first list.
func (r *replica) tellFailures(name string, informer cache.SharedIndexInformer) {
	r.ready.Set(name, errors.New("not listed yet"))
	err := informer.SetWatchErrorHandlerWithContext(func(ctx context.Context, reflector *cache.Reflector, err error) {
		cache.DefaultWatchErrorHandler(ctx, reflector, err)
		if !informer.HasSynced() {
			r.ready.Set(name, err)
		}
	})
	if err != nil {
		panic(err) // only an informer that is running says so
	}
}

// tellReadiness tells /readyz how far the caches are.
func (r *replica) tellReadiness(ctx context.Context) {
	r.ready.Set(runningReady, nil)
	wait := func(name string, informer cache.SharedIndexInformer) {
		if cache.WaitFor(klog.NewContext(ctx, klog.FromContext(ctx).V(2)), name, informer.HasSyncedChecker()) {
			r.ready.Set(name, nil)
		}
	}
	wait(networksReady, r.networks.Informer())
	if r.options.DeploymentWorkers > 0 {
		wait(deploymentsReady, r.deployments.Informer())
	} else {
		r.ready.Set(deploymentsReady, nil)
	}
	<-ctx.Done()
	r.ready.Set(runningReady, errors.New("shutting down"))
}

// work runs the controllers until ctx is cancelled and they have finished what they have in
// hand. Their handlers are registered on informers that are running, and so are given what
// there is, as on a first list.
func (r *replica) work(ctx context.Context) error {
	controller, err := NewController(ctx, r.clients.networks, r.networks, r.allClouds, r.recorder, r.controllerOptions())
	if err != nil {
		return err
	}
	runDeployments, err := r.deploymentRunner()
	if err != nil {
		return err
	}
	defer r.allClouds.Wait()
	var running errgroup.Group
	running.Go(func() error { return controller.Run(ctx, r.options.Workers) })
	running.Go(func() error { runDeployments(ctx); return nil })
	running.Go(func() error { r.findOrphans(ctx); return nil })
	return running.Wait()
}

// deploymentRunner returns what runs the controller of the Networks of Deployments until
// its context is cancelled; it does nothing if there are to be no workers.
func (r *replica) deploymentRunner() (func(context.Context), error) {
	o := r.options
	if o.DeploymentWorkers == 0 {
		return func(context.Context) {}, nil
	}
	controller, err := deployment.NewController(r.clients.kube, r.clients.networks, r.deployments, r.networks, r.recorder, deployment.Options{
		Namespace:        o.Namespace,
		CIDRPool:         o.DeploymentCIDRPool,
		CIDRPrefixLength: o.DeploymentCIDRPrefixLength,
		Retry:            retryOptions(o),
		Fence:            r.mustLead,
	})
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) { controller.Run(ctx, o.DeploymentWorkers) }, nil
}

func (r *replica) findOrphans(ctx context.Context) {
	if !seesAll(r.options) {
		klog.FromContext(ctx).Info("Not looking for orphans in Neutron: that takes sight of all namespaces", "namespace", r.options.Namespace)
		return
	}
	r.orphans.Run(ctx)
}

// seesAll says whether the controller sees the Networks of all namespaces. If not, it would
// take all others' networks for orphans.
func seesAll(o *options.Options) bool { return o.Namespace == metav1.NamespaceAll }

// leads says whether it is this replica that works.
func (r *replica) leads() bool { return r.election == nil || r.election.Leads() }

// leader names the replica that leads, and says whether it is this one.
func (r *replica) leader() (name string, here bool) {
	if r.election == nil {
		return "", true
	}
	return r.election.Leader(), r.leads()
}

// electing says whether there may be several replicas.
func electing(o *options.Options) bool {
	return o.LeaderElect == "true" || o.LeaderElect == "auto" && inPod()
}

func electionOptions(o *options.Options) election.Options {
	e := o.Election
	if e.Namespace == "" {
		e.Namespace = podNamespace()
	}
	return e
}

// podNamespace returns the namespace of the pod that this is, or else kube-system.
func podNamespace() string {
	namespace, err := os.ReadFile("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
	if err != nil {
		return metav1.NamespaceSystem
	}
	return strings.TrimSpace(string(namespace))
}

// listen returns what is to serve HTTP; nil if nothing is.
func listen(o *options.Options) (*serving.Server, error) {
	if o.BindAddress == "" {
		return nil, nil
	}
	return serving.Listen(serving.Options{Address: o.BindAddress, CertFile: o.TLSCertFile, KeyFile: o.TLSPrivateKeyFile})
}

// serve answers HTTP, until what it returns is called. The controller can do without.
func (r *replica) serve(ctx context.Context, server *serving.Server) (stop func()) {
	if server == nil {
		return func() {}
	}
	logger, o := klog.FromContext(ctx), r.options
	routes := serving.Routes{
		Metrics:   r.metrics.Gatherer(),
		Readiness: r.ready,
		Profiled:  o.Profiling,
		Guarded:   o.ServeAuthorized == "true" || o.ServeAuthorized == "auto" && server.Confidential(),
		Kube:      r.clients.kube,
		Networks:  r.clients.networks,
		Namespace: o.Namespace,
		Leader:    r.leader,
	}
	if seesAll(o) {
		routes.Orphans = r.orphans.List
	}
	logger.Info("Serving HTTP", "address", server.Address(), "tls", server.TLS())
	if !routes.Guarded {
		logger.Info("Not serving POST /reconcile and GET /orphans: callers send tokens, which others could read on the way unless it is TLS, or a loopback address",
			"serve-authorized", o.ServeAuthorized)
	}
	// Until all else has ended, everybody is told how it is.
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := server.Serve(ctx, serving.NewHandler(routes)); err != nil {
			logger.Error(err, "Failed to serve HTTP, and gave up")
		}
	}()
	return func() {
		cancel()
		<-done
	}
}

// clients are those of one API server. What watches has its own, whose requests last, and
// so has leader election, whose requests must not wait for others'.
type clients struct {
	kube, watchKube, leases kubernetes.Interface
	networks, watchNetworks clientset.Interface
}

func newClients(config *rest.Config, renewDeadline time.Duration) (c *clients, err error) {
	c = &clients{}
	if c.kube, err = kubernetes.NewForConfig(config); err != nil {
		return nil, err
	}
	if c.networks, err = clientset.NewForConfig(config); err != nil {
		return nil, err
	}
	if c.leases, err = kubernetes.NewForConfig(forLeases(config, renewDeadline)); err != nil {
		return nil, err
	}
	config = withoutTimeout(config)
	if c.watchKube, err = kubernetes.NewForConfig(config); err != nil {
		return nil, err
	}
	c.watchNetworks, err = clientset.NewForConfig(config)
	return c, err
}

func (r *replica) clientOptions() neutron.ClientOptions {
	o := r.options
	return neutron.ClientOptions{
		Timeout:     o.NeutronTimeout,
		QPS:         o.NeutronQPS,
		Burst:       o.NeutronBurst,
		Connections: o.NeutronConnections,
		UserAgent:   userAgent(),
		Fence:       r.mustLead,
	}
}

func (r *replica) controllerOptions() ControllerOptions {
	o := r.options
	return ControllerOptions{
		Cluster: r.cluster,
		Resync:  o.Resync,
		// So neither one cloud of a Secret nor all of them hold up the others.
		Limits:   fair.Limits{PerCloud: max(1, min(o.Workers/2, 2*o.NeutronConnections)), Total: max(1, o.Workers-max(1, o.Workers/4))},
		Retry:    retryOptions(o),
		OnRepair: r.metrics.DriftRepaired,
	}
}

func retryOptions(o *options.Options) retry.Options {
	return retry.Options{
		BaseDelay: o.RetryBaseDelay,
		MaxDelay:  o.RetryMaxDelay,
		QPS:       o.RetryQPS,
		Burst:     o.RetryBurst,
	}
}

// kubernetesTimeout bounds each request to Kubernetes but the watches, so that none can
// hold up a worker, or the end.
const kubernetesTimeout = 30 * time.Second

// kubeConfig returns how to reach Kubernetes.
func kubeConfig(o *options.Options) (config *rest.Config, err error) {
	if o.Kubeconfig == "" && o.Master == "" {
		config, err = rest.InClusterConfig()
		if errors.Is(err, rest.ErrNotInCluster) {
			return nil, errors.New("this is no pod in a cluster: say with -kubeconfig or -master which cluster to work for")
		}
	} else {
		config, err = clientcmd.BuildConfigFromFlags(o.Master, o.Kubeconfig)
	}
	if err != nil {
		return nil, fmt.Errorf("kubeconfig: %w", err)
	}
	config.Timeout = kubernetesTimeout
	config.UserAgent = userAgent()
	// All clients share it.
	config.RateLimiter = flowcontrol.NewTokenBucketRateLimiter(float32(o.KubeAPIQPS), o.KubeAPIBurst)
	return config, nil
}

// withoutTimeout returns the configuration for watches, which last.
func withoutTimeout(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	config.Timeout = 0
	return config
}

// forLeases returns the configuration for leader election: a request that hangs leaves time
// for another one.
func forLeases(config *rest.Config, renewDeadline time.Duration) *rest.Config {
	config = rest.CopyConfig(config)
	config.RateLimiter = flowcontrol.NewFakeAlwaysRateLimiter()
	config.Timeout = renewDeadline / 2
	return config
}

// inPod says whether this is a pod in a cluster, whichever cluster it works for: there,
// nobody would notice that the networks are made in memory only.
func inPod() bool { return os.Getenv("KUBERNETES_SERVICE_HOST") != "" }

// firstContact bounds how long Kubernetes may take to answer for the first time.
const firstContact = 15 * time.Second

// clusterID returns what tells this cluster's networks in Neutron from another's. It is
// the first that is asked of Kubernetes: if that fails, something is set up wrong.
func clusterID(ctx context.Context, kube kubernetes.Interface, host, given string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, firstContact)
	defer cancel()
	if given != "" {
		if _, err := discovery.ToServerVersionInterfaceWithContext(kube.Discovery()).ServerVersionWithContext(ctx); err != nil {
			return "", fmt.Errorf("reach Kubernetes at %s: %w", host, err)
		}
		return given, nil
	}
	namespace, err := kube.CoreV1().Namespaces().Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
	if apierrors.IsForbidden(err) {
		return "", fmt.Errorf("read the cluster's ID from Kubernetes at %s: %w: allow it, or give an ID with -cluster-id", host, err)
	}
	if err != nil {
		return "", fmt.Errorf("reach Kubernetes at %s: %w", host, err)
	}
	return string(namespace.UID), nil
}

// useEmbedded returns how to reach the embedded Neutron, and tells everybody.
func useEmbedded(server *embedded.Server) (neutron.Config, error) {
	const name = "embedded"
	cloudsYAML := server.CloudsYAML(name)
	config, err := neutron.ParseConfig(name, cloudsYAML)
	if err != nil {
		return neutron.Config{}, err
	}
	config.Name = "embedded (in memory)"
	fmt.Fprintf(os.Stderr, embeddedWarning, indent(cloudsYAML))
	return config, nil
}

const embeddedWarning = `
  *** No cloud is configured: this is an EMBEDDED Neutron, in memory. ***
  Its networks carry no traffic, and are gone when the controller ends. For a real
  cloud, name an entry of clouds.yaml with -cloud or OS_CLOUD. To look at this one,
  save this as clouds.yaml, and then: openstack --os-cloud embedded network list

%s
`

func indent(text []byte) string {
	return "    " + strings.ReplaceAll(strings.TrimSpace(string(text)), "\n", "\n    ")
}

// waitForNetworks returns once Kubernetes knows what a Network is. An informer that is
// started before keeps trying too, but ever more slowly, and says so each time.
func waitForNetworks(ctx context.Context, client clientset.Interface, namespace string, ready *serving.Readiness) error {
	logger := klog.FromContext(ctx)
	var waiting string
	return wait.PollUntilContextCancel(ctx, time.Second, true, func(ctx context.Context) (bool, error) {
		_, err := client.SamplecrdV1().Networks(namespace).List(ctx, metav1.ListOptions{Limit: 1})
		reason := ""
		switch {
		case err == nil:
			if waiting != "" {
				logger.Info("Kubernetes knows Networks now")
			}
			return true, nil
		case apierrors.IsNotFound(err):
			reason = "the CustomResourceDefinition is not there; kubectl apply -f artifacts/crd makes it"
		case waiting == "":
			return false, fmt.Errorf("list Networks: %w", err)
		default:
			reason = err.Error()
		}
		if reason != waiting {
			logger.Info("Waiting for Kubernetes to know what a Network is", "reason", reason)
			ready.Set(networksReady, errors.New(reason))
			waiting = reason
		}
		return false, nil
	})
}

// stripManagedFields keeps out of memory what nobody looks at, and what is more than
// half of a small object.
func stripManagedFields(object any) (any, error) {
	if accessor, err := meta.Accessor(object); err == nil {
		accessor.SetManagedFields(nil)
	}
	return object, nil
}

// newRecorder returns what records events, and is to be stopped.
func newRecorder(ctx context.Context, kube kubernetes.Interface) *events.Recorder {
	sink := &typedcorev1.EventSinkImpl{Interface: kube.CoreV1().Events("")}
	return events.NewRecorder(ctx, sink, scheme.Scheme, corev1.EventSource{Component: "samplecrd-controller"})
}

// version and commit are set by the linker in a release; go build finds out by itself.
var version, commit string

func init() {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return
	}
	if version == "" {
		version = info.Main.Version
	}
	for _, setting := range info.Settings {
		if setting.Key == "vcs.revision" && commit == "" {
			commit = setting.Value
		}
	}
	if commit == "" {
		commit = "unknown"
	}
}

func userAgent() string { return "samplecrd-controller/" + version }
