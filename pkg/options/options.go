// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package options holds the controller's flags.
package options

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/netip"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/klog/v2"

	"github.com/samplecrd/samplecrd-controller/pkg/clouds"
	"github.com/samplecrd/samplecrd-controller/pkg/deployment"
	"github.com/samplecrd/samplecrd-controller/pkg/election"
	"github.com/samplecrd/samplecrd-controller/pkg/kubeclient"
	"github.com/samplecrd/samplecrd-controller/pkg/logging"
	"github.com/samplecrd/samplecrd-controller/pkg/neutron"
	"github.com/samplecrd/samplecrd-controller/pkg/orphans"
	"github.com/samplecrd/samplecrd-controller/pkg/retry"
	"github.com/samplecrd/samplecrd-controller/pkg/serving"
	"github.com/samplecrd/samplecrd-controller/pkg/version"
)

// Options are the values of the flags, as the options of the packages that they are for. Parse
// also sets what follows from other flags; what only main has, such as the Meter, stays unset.
type Options struct {
	Version bool

	Namespace string
	// ClusterResourceNamespace is the namespace of the Secrets of ClusterClouds; "" for none.
	ClusterResourceNamespace string
	Kubernetes               kubeclient.Options

	Cloud string
	// OwnCloudNamespaces says which namespaces may use Cloud.
	OwnCloudNamespaces clouds.Selector
	Resync             time.Duration
	// Neutron are the options of the client of each cloud.
	Neutron neutron.ClientOptions
	// Servers are those that Secrets may lead to, and CloudLimits how many clouds they may have.
	Servers     clouds.Servers
	CloudLimits clouds.Limits

	Workers int
	Retry   retry.Options

	DeploymentWorkers int
	Deployments       deployment.Options

	DeleteOrphans orphans.Removal

	// LeaderElect is auto, true or false.
	LeaderElect string
	Election    election.Options

	Serving   serving.Options
	Profiling bool

	Logging logging.Options
}

// AllNamespaces reports whether the controller sees the Networks of all namespaces. If not,
// the networks of all other namespaces would look like orphans.
func (o *Options) AllNamespaces() bool { return o.Namespace == metav1.NamespaceAll }

// ForElection returns the options of leader election, or nil if this is the only replica.
func (o *Options) ForElection() *election.Options {
	if o.LeaderElect == "false" || o.LeaderElect == "auto" && !kubeclient.InPod() {
		return nil
	}
	e := o.Election
	e.Namespace = cmp.Or(e.Namespace, kubeclient.PodNamespace())
	return &e
}

// Parse returns the Options that the arguments set. If they ask for the help or the version,
// it prints that to out, and done is true. The help lists the commands: one line for each.
func Parse(arguments []string, out io.Writer, commands ...string) (o *Options, done bool, err error) {
	o, flags := New()
	if len(commands) > 0 {
		flags.synopsis += commandsTitle + "  " + strings.Join(commands, "\n  ") + "\n\n"
	}
	err = flags.Parse(arguments)
	switch {
	case errors.Is(err, flag.ErrHelp):
		flags.PrintHelp(out)
		return nil, true, nil
	case err == nil && o.Version:
		fmt.Fprintf(out, "samplecrd-controller %s, commit %s\n", version.Version, version.Commit)
		return nil, true, nil
	case err == nil:
		err = o.Validate(flags.Args())
	}
	if err != nil {
		return nil, false, fmt.Errorf("%w (-h lists the flags)", err)
	}
	o.setDefaults(flags)
	o.setCommon()
	o.Deployments.Namespace, o.Deployments.Retry = o.Namespace, o.Retry
	return o, false, nil
}

// setCommon sets what follows from flags that the controller and its subcommands have.
func (o *Options) setCommon() {
	o.Kubernetes.RenewDeadline = o.Election.RenewDeadline
	o.Neutron.UserAgent = version.UserAgent()
}

// setDefaults sets what depends on where the process runs, unless a flag sets it. With -namespace,
// the controller may be installed in the namespace of its Networks. The Secrets there are not its
// own, and orphans are not detected.
func (o *Options) setDefaults(flags *Flags) {
	given := false
	flags.Visit(func(f *flag.Flag) { given = given || f.Name == clusterResourceNamespace })
	if !given && o.AllNamespaces() && kubeclient.InPod() {
		o.ClusterResourceNamespace = kubeclient.PodNamespace()
	}
	if kubeclient.InPod() {
		o.Servers.Denied = append(o.Servers.Denied, clouds.AroundPod(kubeclient.PodAPIServer())...)
	}
}

const clusterResourceNamespace = "cluster-resource-namespace"

const synopsis = `samplecrd-controller turns Network objects in Kubernetes into OpenStack Neutron
networks: it creates them, keeps them as declared, and deletes them.

Usage:
  samplecrd-controller -kubeconfig=$HOME/.kube/config [flags]
  samplecrd-controller [flags]    in a pod, with its service account

Durations have a unit: 400ms, 30s, 5m, 1h30m.

`

const commandsTitle = "Commands, which run instead of the controller (samplecrd-controller COMMAND -h explains each):\n"

// Flags are the controller's flags. Their Parse returns flag.ErrHelp for -h. It prints nothing.
type Flags struct {
	*flag.FlagSet
	// synopsis and examples are the first and the last part of the help.
	synopsis, examples string
	groups             []group
}

// group is a set of flags with a title of its own in the help.
type group struct {
	title string
	flags *flag.FlagSet
}

// New returns Options with their defaults, and the flags that set them.
func New() (*Options, *Flags) {
	o := &Options{}
	flags := newFlags("samplecrd-controller", synopsis)
	for _, g := range []struct {
		title string
		add   func(*flag.FlagSet)
	}{
		{"Kubernetes", o.addKubernetes},
		{"OpenStack", o.addOpenStack},
		{"Work", o.addWork},
		{"Networks for Deployments", o.addDeployments},
		{"Orphans", o.addOrphans},
		{"Leader election", o.addElection},
		{"Serving", o.addServing},
		{"Logging", o.Logging.AddFlags},
	} {
		flags.add(g.title, g.add)
	}
	return o, flags
}

func newFlags(name, synopsis string) *Flags {
	flags := &Flags{FlagSet: flag.NewFlagSet(name, flag.ContinueOnError), synopsis: synopsis}
	// By default, Parse prints each error and the whole help after it.
	flags.SetOutput(io.Discard)
	flags.Usage = func() {}
	return flags
}

// add adds a group of flags.
func (f *Flags) add(title string, add func(*flag.FlagSet)) {
	fs := flag.NewFlagSet("", flag.ContinueOnError)
	add(fs)
	fs.VisitAll(func(fl *flag.Flag) { f.Var(fl.Value, fl.Name, fl.Usage) })
	f.groups = append(f.groups, group{title, fs})
}

// Parse is FlagSet.Parse, except that the error for an unknown flag names the nearest one, and that for a
// wrong value says which values the flag takes.
func (f *Flags) Parse(arguments []string) error {
	err := f.FlagSet.Parse(arguments)
	if err == nil || errors.Is(err, flag.ErrHelp) {
		return err
	}
	// The last argument that was read is the one with the mistake.
	read := arguments[len(arguments)-len(f.Args())-1]
	name, _, _ := strings.Cut(strings.TrimLeft(read, "-"), "=")
	if known := f.Lookup(name); known != nil {
		return fmt.Errorf("%w%s", err, wanted(known))
	}
	var names []string
	f.VisitAll(func(f *flag.Flag) { names = append(names, f.Name) })
	if nearest := Nearest(name, names); nearest != "" {
		return fmt.Errorf("%w: did you mean -%s?", err, nearest)
	}
	return err
}

// wanted says which values the flag takes; "" if it takes all texts.
func wanted(f *flag.Flag) string {
	getter, ok := f.Value.(flag.Getter)
	if !ok || getter.Get() == nil {
		return ""
	}
	value := reflect.ValueOf(getter.Get())
	switch {
	case value.Type() == reflect.TypeFor[time.Duration]():
		return ": it must be a duration, such as 30s or 5m"
	case value.Kind() == reflect.Bool:
		return ": it must be true or false"
	case value.CanFloat():
		return ": it must be a number"
	case value.Type() == reflect.TypeFor[klog.Level](), value.Type().PkgPath() == "" && (value.CanInt() || value.CanUint()):
		return ": it must be a whole number"
	}
	return ""
}

// PrintHelp prints what the program or the subcommand does, and all flags with their defaults.
func (f *Flags) PrintHelp(w io.Writer) {
	fmt.Fprint(w, f.synopsis)
	for _, g := range f.groups {
		fmt.Fprintf(w, "%s:\n", g.title)
		g.flags.SetOutput(w)
		g.flags.PrintDefaults()
		fmt.Fprintln(w)
	}
	fmt.Fprint(w, f.examples)
}

func (o *Options) addKubernetes(fs *flag.FlagSet) {
	fs.StringVar(&o.Kubernetes.Kubeconfig, "kubeconfig", "", "The kubeconfig `file` of the cluster to work for. $KUBECONFIG and ~/.kube/config are not read. (default in a pod: its service account)")
	fs.StringVar(&o.Kubernetes.Master, "master", "", "The `URL` of the API server. Overrides the one in -kubeconfig.")
	fs.StringVar(&o.Namespace, "namespace", "", "Work only on Networks and Deployments in this `namespace`. Orphans are not detected then. (default all namespaces)")
	fs.StringVar(&o.Kubernetes.ClusterID, "cluster-id", "", "The `ID` that marks this cluster's networks in Neutron. It must never change, and no other cluster may have the same: networks with another ID are not touched. At most 63 letters, digits, dots, dashes and underscores. (default the UID of the namespace kube-system)")
	// The API server's own priority and fairness limits its load; these flags only limit the
	// damage of a bug. At 100 per second they held up new Networks, each of which takes two
	// writes and an event.
	fs.Float64Var(&o.Kubernetes.QPS, "kube-api-qps", 1000, "The average `number` of requests per second to Kubernetes. Requests of the leader election do not count.")
	fs.IntVar(&o.Kubernetes.Burst, "kube-api-burst", 2000, "The `number` of requests to Kubernetes that may be sent at once, above the average of -kube-api-qps.")
}

func (o *Options) addOpenStack(fs *flag.FlagSet) {
	fs.StringVar(&o.Cloud, "cloud", "", "The `name` of the entry in clouds.yaml for all Networks without cloudCredentialsRef. (default $OS_CLOUD, or the other OS_* variables; if none is set, outside a pod: an embedded Neutron in memory)")
	fs.DurationVar(&o.Resync, "resync", 5*time.Minute, "How often all of Neutron is listed to find and repair drift, and how often terminal errors are retried. At least 1s.")
	fs.DurationVar(&o.Neutron.Timeout, "neutron-timeout", 30*time.Second, "How long one request to Neutron or Keystone may take.")
	fs.IntVar(&o.Neutron.Connections, "neutron-connections", 8, "The `number` of simultaneous requests to one cloud with one set of credentials: 1 to 1000.")
	fs.Float64Var(&o.Neutron.QPS, "neutron-qps", 0, "The average `number` of requests per second to one cloud with one set of credentials. 0 means no limit. (default 0)")
	fs.IntVar(&o.Neutron.Burst, "neutron-burst", 10, "The `number` of requests to Neutron that may be sent at once, above the average of -neutron-qps.")
	fs.Var(&o.Servers.Allowed, "allowed-auth-urls", "The `URLs` of Keystone that Secrets may name, separated by commas. Each also allows the paths below it. (default all)")
	fs.IntVar(&o.CloudLimits.PerNamespace, "clouds-per-namespace", 20, "How many clouds of Secrets the Networks of one namespace may use. Those that are in Neutron already do not wait. 0 means no limit.")
	fs.IntVar(&o.CloudLimits.Total, "clouds-total", 500, "How many clouds of Secrets all Networks together may use. Each takes about 0.2 MB. 0 means no limit.")
	fs.Var(&o.Servers.Denied, "denied-cidrs", "The `CIDRs` of networks to which no Secret may lead the controller unless -allowed-auth-urls is set, such as those of the cluster's Services and pods, separated by commas. In a pod, they always include loopback and link-local addresses, and $KUBERNETES_SERVICE_HOST if it is an address. (default none)")
	fs.StringVar(&o.ClusterResourceNamespace, clusterResourceNamespace, "", "The `namespace` of the Secrets that ClusterClouds name. An empty value turns ClusterClouds off. (default in a pod without -namespace: the pod's namespace)")
	fs.Var(&o.OwnCloudNamespaces, "cloud-namespace-selector", "The label `selector` of the namespaces whose Networks may use the controller's own cloud (-cloud), such as team=platform. '!kubernetes.io/metadata.name' selects none. (default all namespaces)")
}

func (o *Options) addWork(fs *flag.FlagSet) {
	fs.IntVar(&o.Workers, "workers", 32, "The `number` of Networks that are synced at the same time: 1 to 1000. Four times -neutron-connections is enough: a worker also writes to Kubernetes, and no cloud gets all workers, because it can be slow.")
	fs.DurationVar(&o.Retry.BaseDelay, "retry-base-delay", time.Second, "The delay before the first retry of a Network. It doubles with each further failure.")
	fs.DurationVar(&o.Retry.MaxDelay, "retry-max-delay", time.Minute, "The longest delay before a retry. A jitter adds up to a fifth. Terminal errors are retried after -resync.")
	fs.Float64Var(&o.Retry.QPS, "retry-qps", 10, "The average `number` of retries per second of all Networks with the same credentials: of those with a back-off, and as many of those that wait a minute, or as long as Neutron asks.")
	fs.IntVar(&o.Retry.Burst, "retry-burst", 100, "The `number` of retries that may start at once, above the average of -retry-qps.")
	fs.BoolVar(&o.Version, "version", false, "Print the version and the commit, and exit.")
}

func (o *Options) addDeployments(fs *flag.FlagSet) {
	fs.IntVar(&o.DeploymentWorkers, "deployment-workers", 2, "The `number` of Deployments that are synced at the same time: 0 to 1000. 0 turns this off: Deployments are not watched and their annotations have no effect.")
	fs.TextVar(&o.Deployments.CIDRPool, "deployment-cidr-pool", netip.Prefix{}, "The `CIDR` from which Deployments with the annotation samplecrd.k8s.io/network-cidr: auto get their blocks. (default none: auto is refused unless -deployment-subnet-pool is set)")
	fs.IntVar(&o.Deployments.CIDRPrefixLength, "deployment-cidr-prefix-length", 24, "The prefix `length` of each block of -deployment-cidr-pool or -deployment-subnet-pool, at most 30 (IPv4) or 126 (IPv6).")
	fs.StringVar(&o.Deployments.SubnetPool, "deployment-subnet-pool", "", "The `name-or-ID` of the subnet pool in Neutron from which Deployments with the annotation samplecrd.k8s.io/network-cidr: auto get their blocks, in place of -deployment-cidr-pool. A value with the form of a UUID is an ID. (default none)")
}

func (o *Options) addOrphans(fs *flag.FlagSet) {
	fs.Var(&o.DeleteOrphans, "delete-orphans", "Delete orphans: networks in Neutron with this cluster's mark whose Network does not exist, whatever its deletionPolicy was, because nothing in Neutron records that. Networks with ports are kept. None is deleted if more than a tenth of this cluster's networks (and more than one) are orphans, or if there is no Network at all; -delete-orphans=all deletes them nevertheless. No orphan of a cloud is deleted any more when another installation turns out to have the same -cluster-id there. Has no effect with -namespace. (default false: the log, the metrics and GET /orphans report them)")
}

func (o *Options) addElection(fs *flag.FlagSet) {
	fs.StringVar(&o.LeaderElect, "leader-elect", "auto", "The `mode` of leader election. true: the replicas elect a leader that works while the others stand by. false: no election. auto: true in a pod, false elsewhere. Never run two replicas with false.")
	fs.DurationVar(&o.Election.LeaseDuration, "leader-elect-lease-duration", 15*time.Second, "How long the other replicas wait after the leader's last renewal before one of them takes over. Whole seconds.")
	fs.DurationVar(&o.Election.RenewDeadline, "leader-elect-renew-deadline", 10*time.Second, "How long the leader works without a renewal before it exits. Less than -leader-elect-lease-duration.")
	// Kubernetes' own controllers have 2s. With 400ms, a released Lease is taken within a second,
	// and an expired one soon after.
	fs.DurationVar(&o.Election.RetryPeriod, "leader-elect-retry-period", 400*time.Millisecond, "How often the leader renews the Lease. The other replicas read it at 1 to 2.2 times this interval. At most half of -leader-elect-renew-deadline.")
	fs.StringVar(&o.Election.Name, "leader-elect-resource-name", "samplecrd-controller", "The `name` of the Lease. All controllers of the same Networks must have the same.")
	fs.StringVar(&o.Election.Namespace, "leader-elect-resource-namespace", "", "The `namespace` of the Lease. (default the pod's namespace, or else kube-system)")
}

func (o *Options) addServing(fs *flag.FlagSet) {
	fs.StringVar(&o.Serving.Address, "bind-address", "", "The `address` on which to serve /healthz, /readyz and /metrics over HTTP, such as 127.0.0.1:8080 or :8443. (default none: nothing is served)")
	fs.StringVar(&o.Serving.CertFile, "tls-cert-file", "", "The `file` with the certificate for HTTPS, in PEM. It is read again when it changes. (default none: plain HTTP)")
	fs.StringVar(&o.Serving.KeyFile, "tls-private-key-file", "", "The `file` with the key of -tls-cert-file, in PEM.")
	fs.StringVar(&o.Serving.Authorized, "serve-authorized", "auto", "The `mode` of serving POST /reconcile/NAMESPACE/NAME and GET /orphans, for which callers need a token. true: always. false: never. auto: over HTTPS or on a loopback address only.")
	fs.StringVar(&o.Serving.Audience, "token-audience", "", "The `audience` that the tokens of callers must be for, such as samplecrd-controller. (default that of the API server)")
	fs.BoolVar(&o.Profiling, "profiling", false, "Serve /debug/pprof/ too, to everyone who can reach -bind-address: it needs no token.")
}

// clusterID matches the IDs that can be part of the mark in a description in Neutron.
var clusterID = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$`)

// maxWorkers bounds the numbers of workers and -neutron-connections. No Neutron serves as many
// requests at the same time.
const maxWorkers = 1000

// Validate returns the first error in the flags and the arguments that follow them.
func (o *Options) Validate(arguments []string) error {
	if len(arguments) > 0 {
		return fmt.Errorf("%q is not a flag: the command takes no arguments", arguments[0])
	}
	return cmp.Or(o.validateClients(), o.validateWork(), o.validateDeployments(), o.validateElection(), o.validateServing(),
		check(o.AllNamespaces() || o.OwnCloudNamespaces.String() == "", "-cloud-namespace-selector cannot be set with -namespace: that one namespace may use the cloud"),
		oneOf("-logging-format", o.Logging.Format, "text", "json"))
}

func (o *Options) validateClients() error {
	return cmp.Or(
		check(o.Kubernetes.ClusterID == "" || clusterID.MatchString(o.Kubernetes.ClusterID), "-cluster-id=%q: must be at most 63 letters, digits, dots, dashes and underscores, with a letter or digit first and last", o.Kubernetes.ClusterID),
		check(o.Kubernetes.QPS > 0 && o.Kubernetes.Burst >= 1, "-kube-api-qps must be more than 0, and -kube-api-burst at least 1"),
		check(o.ClusterResourceNamespace == "" || len(validation.IsDNS1123Label(o.ClusterResourceNamespace)) == 0, "-%s=%q: must be a valid name of a namespace", clusterResourceNamespace, o.ClusterResourceNamespace),
		check(o.CloudLimits.PerNamespace >= 0 && o.CloudLimits.Total >= 0, "-clouds-per-namespace and -clouds-total must be at least 0"),
		check(o.Neutron.Timeout > 0, "-neutron-timeout=%s: must be more than 0", o.Neutron.Timeout),
		between("-neutron-connections", o.Neutron.Connections, 1),
		check(o.Neutron.QPS >= 0 && o.Neutron.Burst >= 1, "-neutron-qps must be at least 0, and -neutron-burst at least 1"),
	)
}

func (o *Options) validateWork() error {
	return cmp.Or(
		between("-workers", o.Workers, 1),
		check(o.Resync >= time.Second, "-resync=%s: must be at least 1s", o.Resync),
		check(o.Retry.BaseDelay > 0 && o.Retry.MaxDelay >= o.Retry.BaseDelay, "-retry-base-delay=%s must be more than 0, and -retry-max-delay=%s at least as long", o.Retry.BaseDelay, o.Retry.MaxDelay),
		check(o.Retry.QPS > 0 && o.Retry.Burst >= 1, "-retry-qps must be more than 0, and -retry-burst at least 1"),
	)
}

func (o *Options) validateDeployments() error {
	pool, length := o.Deployments.CIDRPool, o.Deployments.CIDRPrefixLength
	// Neutron's DHCP needs two addresses besides the first and the last.
	longest := pool.Addr().BitLen() - 2
	return cmp.Or(
		between("-deployment-workers", o.DeploymentWorkers, 0),
		check(!pool.IsValid() || o.Deployments.SubnetPool == "", "-deployment-cidr-pool=%s and -deployment-subnet-pool=%s exclude each other: set only one of them", pool, o.Deployments.SubnetPool),
		check(o.Deployments.SubnetPool == "" || 1 <= length && length <= 126, "-deployment-cidr-prefix-length=%d: must be between 1 and 126 with -deployment-subnet-pool=%s", length, o.Deployments.SubnetPool),
		check(!pool.IsValid() || pool.Bits() <= length && length <= longest, "-deployment-cidr-prefix-length=%d: must be between %d and %d with -deployment-cidr-pool=%s", length, pool.Bits(), longest, pool),
	)
}

// validateElection checks what client-go's elector requires, but names the flags.
func (o *Options) validateElection() error {
	e := o.Election
	return cmp.Or(
		oneOf("-leader-elect", o.LeaderElect, "auto", "true", "false"),
		check(e.LeaseDuration >= time.Second && e.LeaseDuration%time.Second == 0, "-leader-elect-lease-duration=%s: must be whole seconds, at least 1s", e.LeaseDuration),
		check(e.RetryPeriod >= 10*time.Millisecond, "-leader-elect-retry-period=%s: must be at least 10ms", e.RetryPeriod),
		check(e.RenewDeadline < e.LeaseDuration && e.RenewDeadline >= 2*e.RetryPeriod,
			"-leader-elect-renew-deadline=%s: must be less than -leader-elect-lease-duration (%s), and at least twice -leader-elect-retry-period (%s)", e.RenewDeadline, e.LeaseDuration, e.RetryPeriod),
		check(len(validation.IsDNS1123Subdomain(e.Name)) == 0, "-leader-elect-resource-name=%q: must be a valid name of an object", e.Name),
	)
}

func (o *Options) validateServing() error {
	return cmp.Or(
		check((o.Serving.CertFile == "") == (o.Serving.KeyFile == ""), "-tls-cert-file and -tls-private-key-file must be set together"),
		oneOf("-serve-authorized", o.Serving.Authorized, "auto", "true", "false"),
		check(!o.Profiling || o.Serving.Address != "", "-profiling needs -bind-address"),
	)
}

// check returns an error with that message unless ok.
func check(ok bool, format string, args ...any) error {
	if ok {
		return nil
	}
	return fmt.Errorf(format, args...)
}

// between returns an error unless value is between least and maxWorkers.
func between(name string, value, least int) error {
	return check(least <= value && value <= maxWorkers, "%s=%d: must be at least %d and at most %d", name, value, least, maxWorkers)
}

// oneOf returns an error unless value is one of the valid ones.
func oneOf(name, value string, valid ...string) error {
	return check(slices.Contains(valid, value), "%s=%s: must be one of: %s", name, value, strings.Join(valid, ", "))
}
