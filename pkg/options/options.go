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

// Package options holds the controller's flags.
package options

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/klog/v2"

	"github.com/samplecrd/samplecrd-controller/pkg/election"
	"github.com/samplecrd/samplecrd-controller/pkg/neutron"
	"github.com/samplecrd/samplecrd-controller/pkg/orphans"
)

// Options is what the flags set.
type Options struct {
	Version bool

	Kubeconfig   string
	Master       string
	Namespace    string
	ClusterID    string
	KubeAPIQPS   float64
	KubeAPIBurst int

	Cloud              string
	Resync             time.Duration
	NeutronTimeout     time.Duration
	NeutronConnections int
	NeutronQPS         float64
	NeutronBurst       int
	// AllowedAuthURLs are the Keystones that Secrets may name.
	AllowedAuthURLs neutron.URLs

	Workers        int
	RetryBaseDelay time.Duration
	RetryMaxDelay  time.Duration
	RetryQPS       float64
	RetryBurst     int

	DeploymentWorkers          int
	DeploymentCIDRPool         netip.Prefix
	DeploymentCIDRPrefixLength int

	DeleteOrphans orphans.Removal

	// LeaderElect is auto, true or false.
	LeaderElect string
	Election    election.Options

	BindAddress       string
	TLSCertFile       string
	TLSPrivateKeyFile string
	ServeAuthorized   string
	Profiling         bool

	// LoggingFormat is text or json.
	LoggingFormat string
	// Verbosity is the value of -v. Parse sets it.
	Verbosity int
}

const synopsis = `samplecrd-controller makes OpenStack Neutron networks out of Network objects in
Kubernetes, keeps them as they are declared, and takes them away again.

Usage:
  samplecrd-controller -kubeconfig=$HOME/.kube/config [flags]
  samplecrd-controller [flags]    in a pod, with its service account

`

// Flags are the controller's flags. Their Parse returns flag.ErrHelp for -h, and prints
// nothing.
type Flags struct {
	*flag.FlagSet
	groups []group
}

// group is some of the flags, under a title of their own in the help.
type group struct {
	title string
	flags *flag.FlagSet
}

// New returns Options with their defaults, and the flags that set them.
func New() (*Options, *Flags) {
	o := &Options{}
	flags := &Flags{
		FlagSet: flag.NewFlagSet("samplecrd-controller", flag.ContinueOnError),
		groups: []group{
			{"Kubernetes", o.kubernetesFlags()},
			{"OpenStack", o.openStackFlags()},
			{"Work", o.workFlags()},
			{"Networks for Deployments", o.deploymentFlags()},
			{"Orphans", o.orphanFlags()},
			{"Leader election", o.electionFlags()},
			{"Serving", o.servingFlags()},
			{"Logging", o.loggingFlags()},
		},
	}
	for _, g := range flags.groups {
		g.flags.VisitAll(func(f *flag.Flag) { flags.Var(f.Value, f.Name, f.Usage) })
	}
	// By itself, Parse prints each error, and all of the help after it.
	flags.SetOutput(io.Discard)
	flags.Usage = func() {}
	return o, flags
}

// Verbosity is the value of -v.
func (f *Flags) Verbosity() int {
	v, _ := strconv.Atoi(f.Lookup("v").Value.String()) // klog's flag takes nothing but numbers
	return v
}

// PrintHelp says what the program does, and lists the flags.
func (f *Flags) PrintHelp(w io.Writer) {
	fmt.Fprint(w, synopsis)
	for _, g := range f.groups {
		fmt.Fprintf(w, "%s:\n", g.title)
		g.flags.SetOutput(w)
		g.flags.PrintDefaults()
		fmt.Fprintln(w)
	}
}

func (o *Options) kubernetesFlags() *flag.FlagSet {
	fs := flag.NewFlagSet("", flag.ContinueOnError)
	fs.StringVar(&o.Kubeconfig, "kubeconfig", "", "the `file` that says how to reach Kubernetes; without it and -master, the pod's service account")
	fs.StringVar(&o.Master, "master", "", "the `address` of the API server; overrides the one in -kubeconfig")
	fs.StringVar(&o.Namespace, "namespace", "", "look at Networks in this `namespace` only (default all)")
	fs.StringVar(&o.ClusterID, "cluster-id", "", "the `ID` that marks this cluster's networks in Neutron; it must never change, nor be another cluster's (default the UID of the kube-system namespace)")
	// The API server's own priority and fairness keeps us in check; these only keep a
	// mistake of ours from becoming its load. At 100 a second they were what new Networks
	// waited for, at two writes and an event each.
	fs.Float64Var(&o.KubeAPIQPS, "kube-api-qps", 1000, "requests per second to Kubernetes, on average")
	fs.IntVar(&o.KubeAPIBurst, "kube-api-burst", 2000, "requests to Kubernetes at once, above the average")
	return fs
}

func (o *Options) openStackFlags() *flag.FlagSet {
	fs := flag.NewFlagSet("", flag.ContinueOnError)
	fs.StringVar(&o.Cloud, "cloud", "", "the `entry` of clouds.yaml to work in (default $OS_CLOUD, or else the other OS_* variables; with none of them, outside a cluster, an embedded Neutron in memory)")
	fs.DurationVar(&o.Resync, "resync", 5*time.Minute, "how often Neutron is looked through for what has changed there, and what is stalled is tried again")
	fs.DurationVar(&o.NeutronTimeout, "neutron-timeout", 30*time.Second, "how long to wait for one answer of Neutron or Keystone")
	fs.IntVar(&o.NeutronConnections, "neutron-connections", 8, "how many requests to one cloud, with one set of credentials, are under way at the same time")
	fs.Float64Var(&o.NeutronQPS, "neutron-qps", 0, "requests per second to Neutron, on average (0: no limit)")
	fs.IntVar(&o.NeutronBurst, "neutron-burst", 10, "requests to Neutron at once, above the average")
	fs.Var(&o.AllowedAuthURLs, "allowed-auth-urls", "the `URLs` of Keystones that Secrets may name, separated by commas; each allows what is below it too (default all)")
	return fs
}

func (o *Options) workFlags() *flag.FlagSet {
	fs := flag.NewFlagSet("", flag.ContinueOnError)
	fs.IntVar(&o.Workers, "workers", 32, "how many Networks are worked on at the same time; more than -neutron-connections, for a worker also writes to Kubernetes")
	fs.DurationVar(&o.RetryBaseDelay, "retry-base-delay", time.Second, "how long a Network waits after the first failure; it doubles with each further one")
	fs.DurationVar(&o.RetryMaxDelay, "retry-max-delay", time.Minute, "how long a Network waits after a failure at the most, but for a jitter of a fifth")
	fs.Float64Var(&o.RetryQPS, "retry-qps", 10, "retries per second of all Networks together, on average")
	fs.IntVar(&o.RetryBurst, "retry-burst", 100, "retries at once, above the average")
	fs.BoolVar(&o.Version, "version", false, "print the version, and exit")
	return fs
}

func (o *Options) deploymentFlags() *flag.FlagSet {
	fs := flag.NewFlagSet("", flag.ContinueOnError)
	fs.IntVar(&o.DeploymentWorkers, "deployment-workers", 2, "how many Deployments are worked on at the same time (0: none ever, and the annotations on Deployments mean nothing)")
	fs.TextVar(&o.DeploymentCIDRPool, "deployment-cidr-pool", netip.Prefix{}, "the `CIDR` that Deployments with the annotation network-cidr: auto get their blocks from (default none, and auto is refused)")
	fs.IntVar(&o.DeploymentCIDRPrefixLength, "deployment-cidr-prefix-length", 24, "the size of those blocks")
	return fs
}

func (o *Options) orphanFlags() *flag.FlagSet {
	fs := flag.NewFlagSet("", flag.ContinueOnError)
	fs.Var(&o.DeleteOrphans, "delete-orphans", "delete networks that carry this cluster's mark though their Network is gone, unless they have ports, or are more than a tenth of all; =all: however many they are")
	return fs
}

func (o *Options) electionFlags() *flag.FlagSet {
	fs := flag.NewFlagSet("", flag.ContinueOnError)
	fs.StringVar(&o.LeaderElect, "leader-elect", "auto", "`when` replicas elect one that works, while the others stand by: true, false, or auto, which means in a pod")
	fs.DurationVar(&o.Election.LeaseDuration, "leader-elect-lease-duration", 15*time.Second, "how long the others wait after the leader's last renewal")
	fs.DurationVar(&o.Election.RenewDeadline, "leader-elect-renew-deadline", 10*time.Second, "how long the leader goes on without a renewal; then it exits")
	// Kubernetes' own take 2s. Here it is shorter, so that a Lease that was given up is taken
	// within a second, and one that has run out soon after.
	fs.DurationVar(&o.Election.RetryPeriod, "leader-elect-retry-period", 400*time.Millisecond, "how often the leader renews the Lease; the others look at it at up to 2.2 times this interval")
	fs.StringVar(&o.Election.Name, "leader-elect-resource-name", "samplecrd-controller", "the `name` of the Lease; whoever works for the same Networks has the same")
	fs.StringVar(&o.Election.Namespace, "leader-elect-resource-namespace", "", "the `namespace` of the Lease (default the pod's own, or else kube-system)")
	return fs
}

func (o *Options) servingFlags() *flag.FlagSet {
	fs := flag.NewFlagSet("", flag.ContinueOnError)
	fs.StringVar(&o.BindAddress, "bind-address", "", "the `address` to serve HTTP on, such as 127.0.0.1:8080 or :8443 (default none)")
	fs.StringVar(&o.TLSCertFile, "tls-cert-file", "", "the `file` of the certificate to serve HTTPS with; it is read again when it changes")
	fs.StringVar(&o.TLSPrivateKeyFile, "tls-private-key-file", "", "the `file` of that certificate's key")
	fs.StringVar(&o.ServeAuthorized, "serve-authorized", "auto", "`when` to serve what callers need a token for, POST /reconcile and GET /orphans: true, false, or auto, which means over HTTPS and on loopback addresses only")
	fs.BoolVar(&o.Profiling, "profiling", false, "serve /debug/pprof/ too, to everybody who reaches the address")
	return fs
}

func (o *Options) loggingFlags() *flag.FlagSet {
	fs := flag.NewFlagSet("", flag.ContinueOnError)
	klog.InitFlags(fs)
	fs.StringVar(&o.LoggingFormat, "logging-format", "text", "the `format` of the log: text, or json, a line for each message, to standard error; of the flags here, only -v is heeded then")
	return fs
}

// clusterID is what may stand in a mark in a description in Neutron.
var clusterID = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$`)

// maxWorkers bounds -workers and -neutron-connections: it is more than any Neutron serves at
// the same time.
const maxWorkers = 1000

// Validate returns the first thing that is wrong with the flags and the arguments that
// follow them.
func (o *Options) Validate(arguments []string) error {
	switch {
	case len(arguments) > 0:
		return fmt.Errorf("%q is no flag, and there are no arguments", arguments[0])
	case o.Workers < 1:
		return fmt.Errorf("-workers=%d: there must be at least 1", o.Workers)
	case o.Workers > maxWorkers:
		return fmt.Errorf("-workers=%d: there must be no more than %d", o.Workers, maxWorkers)
	case o.NeutronConnections < 1:
		return fmt.Errorf("-neutron-connections=%d: there must be at least 1", o.NeutronConnections)
	case o.NeutronConnections > maxWorkers:
		return fmt.Errorf("-neutron-connections=%d: there must be no more than %d", o.NeutronConnections, maxWorkers)
	case o.Resync < time.Second:
		return fmt.Errorf("-resync=%s: it must be 1s at least", o.Resync)
	case o.NeutronTimeout <= 0:
		return fmt.Errorf("-neutron-timeout=%s: it must be more than 0", o.NeutronTimeout)
	case !(o.NeutronQPS >= 0) || o.NeutronBurst < 1:
		return errors.New("-neutron-qps must not be less than 0, nor -neutron-burst less than 1")
	case !(o.KubeAPIQPS > 0) || o.KubeAPIBurst < 1:
		return errors.New("-kube-api-qps must be more than 0, and -kube-api-burst at least 1")
	case o.RetryBaseDelay <= 0 || o.RetryMaxDelay < o.RetryBaseDelay:
		return fmt.Errorf("-retry-base-delay=%s and -retry-max-delay=%s: the first must be more than 0, the second not less than the first", o.RetryBaseDelay, o.RetryMaxDelay)
	case !(o.RetryQPS > 0) || o.RetryBurst < 1:
		return errors.New("-retry-qps must be more than 0, and -retry-burst at least 1")
	case (o.TLSCertFile == "") != (o.TLSPrivateKeyFile == ""):
		return errors.New("-tls-cert-file and -tls-private-key-file need each other")
	case !slices.Contains([]string{"auto", "true", "false"}, o.ServeAuthorized):
		return fmt.Errorf("-serve-authorized=%s: it is auto, true or false", o.ServeAuthorized)
	case !slices.Contains([]string{"auto", "true", "false"}, o.LeaderElect):
		return fmt.Errorf("-leader-elect=%s: it is auto, true or false", o.LeaderElect)
	case !slices.Contains([]string{"text", "json"}, o.LoggingFormat):
		return fmt.Errorf("-logging-format=%s: it is text or json", o.LoggingFormat)
	case o.Profiling && o.BindAddress == "":
		return errors.New("-profiling takes a -bind-address to serve on")
	case o.ClusterID != "" && !clusterID.MatchString(o.ClusterID):
		return fmt.Errorf("-cluster-id=%q: at most 63 letters, digits, dots, dashes and underscores, a letter or digit first and last", o.ClusterID)
	}
	if err := o.validateElection(); err != nil {
		return err
	}
	return o.validateDeployments()
}

// validateElection asks for what client-go's elector does, by the names of the flags.
func (o *Options) validateElection() error {
	e := o.Election
	switch {
	case e.LeaseDuration < time.Second || e.LeaseDuration%time.Second != 0:
		return fmt.Errorf("-leader-elect-lease-duration=%s: it must be whole seconds, at least 1s", e.LeaseDuration)
	case e.RetryPeriod < 10*time.Millisecond:
		return fmt.Errorf("-leader-elect-retry-period=%s: it must be 10ms at least", e.RetryPeriod)
	case e.RenewDeadline >= e.LeaseDuration || e.RenewDeadline < 2*e.RetryPeriod:
		return fmt.Errorf("-leader-elect-renew-deadline=%s: it must be less than -leader-elect-lease-duration (%s), and at least twice -leader-elect-retry-period (%s)",
			e.RenewDeadline, e.LeaseDuration, e.RetryPeriod)
	case e.Name == "" || len(validation.IsDNS1123Subdomain(e.Name)) > 0:
		return fmt.Errorf("-leader-elect-resource-name=%q: it must be the name of an object", e.Name)
	}
	return nil
}

func (o *Options) validateDeployments() error {
	pool, length := o.DeploymentCIDRPool, o.DeploymentCIDRPrefixLength
	// Neutron's DHCP needs two addresses besides the first and the last.
	longest := pool.Addr().BitLen() - 2
	switch {
	case o.DeploymentWorkers < 0 || o.DeploymentWorkers > maxWorkers:
		return fmt.Errorf("-deployment-workers=%d: there must be between 0 and %d", o.DeploymentWorkers, maxWorkers)
	case pool.IsValid() && (length < pool.Bits() || length > longest):
		return fmt.Errorf("-deployment-cidr-prefix-length=%d: with -deployment-cidr-pool=%s it must be between %d and %d", length, pool, pool.Bits(), longest)
	}
	return nil
}
