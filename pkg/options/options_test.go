// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package options

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"net/netip"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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

func TestEachFlagSetsItsOption(t *testing.T) {
	o, flags := New()
	if o.Version {
		t.Error("-version is set by default")
	}
	// With one dash or two, with = or without.
	args := strings.Fields(`-kubeconfig=a --master b -namespace=c --cluster-id=d -kube-api-qps=1.5 -kube-api-burst 2
		-cloud=e -resync=3s -neutron-timeout=4s -neutron-qps=5.5 -neutron-burst=6
		-workers=7 -neutron-connections=18 -retry-base-delay=8s -retry-max-delay=9s -retry-qps=10.5 -retry-burst=11 --version -v=4
		-deployment-workers=12 -deployment-cidr-pool=10.0.0.0/8 -deployment-cidr-prefix-length 13 -deployment-subnet-pool o
		-delete-orphans -bind-address=:14 -tls-cert-file=f -tls-private-key-file=g -serve-authorized=false -token-audience=l
		-leader-elect=true -leader-elect-lease-duration=15m -leader-elect-renew-deadline 16s -leader-elect-retry-period=17s
		-leader-elect-resource-name=h -leader-elect-resource-namespace=i -profiling -logging-format=json -allowed-auth-urls=https://j -denied-cidrs=10.96.0.0/12,fd00::/64
		-clouds-per-namespace=19 -clouds-total=20
		-cluster-resource-namespace=k -cloud-namespace-selector m=n`)
	if err := flags.Parse(args); err != nil {
		t.Fatal(err)
	}
	allowed, err := clouds.ParseURLs("https://j")
	if err != nil {
		t.Fatal(err)
	}
	var selector clouds.Selector
	if err := selector.Set("m=n"); err != nil {
		t.Fatal(err)
	}
	want := &Options{
		Version: true, OwnCloudNamespaces: selector, Namespace: "c", ClusterResourceNamespace: "k", Cloud: "e", Resync: 3 * time.Second, Servers: clouds.Servers{Allowed: allowed, Denied: clouds.CIDRs{netip.MustParsePrefix("10.96.0.0/12"), netip.MustParsePrefix("fd00::/64")}}, CloudLimits: clouds.Limits{PerNamespace: 19, Total: 20}, Workers: 7, DeploymentWorkers: 12,
		Kubernetes:    kubeclient.Options{Kubeconfig: "a", Master: "b", ClusterID: "d", QPS: 1.5, Burst: 2},
		Neutron:       neutron.ClientOptions{Timeout: 4 * time.Second, Connections: 18, QPS: 5.5, Burst: 6},
		Retry:         retry.Options{BaseDelay: 8 * time.Second, MaxDelay: 9 * time.Second, QPS: 10.5, Burst: 11},
		Deployments:   deployment.Options{CIDRPool: netip.MustParsePrefix("10.0.0.0/8"), CIDRPrefixLength: 13, SubnetPool: "o"},
		DeleteOrphans: orphans.RemoveFew,
		Serving:       serving.Options{Address: ":14", CertFile: "f", KeyFile: "g", Authorized: "false", Audience: "l"},
		LeaderElect:   "true", Profiling: true, Logging: logging.Options{Format: "json"},
		Election: election.Options{Namespace: "i", Name: "h", LeaseDuration: 15 * time.Minute, RenewDeadline: 16 * time.Second, RetryPeriod: 17 * time.Second},
	}
	if diff := cmp.Diff(want, o, cmp.Comparer(func(a, b netip.Prefix) bool { return a == b }), cmpopts.IgnoreUnexported(logging.Options{}), cmp.Comparer(func(a, b clouds.URLs) bool { return a.String() == b.String() }), cmp.Comparer(func(a, b clouds.Selector) bool { return a.String() == b.String() })); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestValidate(t *testing.T) {
	for _, test := range []struct {
		name string
		args []string
		want string // part of the error; "" for no error
	}{
		{"the shortest lease", []string{"-leader-elect-lease-duration=1s", "-leader-elect-renew-deadline=900ms", "-leader-elect-retry-period=450ms"}, ""},
		{"a lease is counted in seconds", []string{"-leader-elect-lease-duration=15500ms"}, "-leader-elect-lease-duration=15.5s"},
		{"no lease", []string{"-leader-elect-lease-duration=0s"}, "-leader-elect-lease-duration=0s"},
		{"a leader that outlives its lease", []string{"-leader-elect-renew-deadline=15s"}, "-leader-elect-renew-deadline=15s"},
		{"time for only one try", []string{"-leader-elect-retry-period=6s"}, "at least twice -leader-elect-retry-period (6s)"},
		{"renewing without a pause", []string{"-leader-elect-retry-period=0s"}, "-leader-elect-retry-period=0s"},
		{"a Lease without a name", []string{"-leader-elect-resource-name="}, `-leader-elect-resource-name=""`},
		{"an invalid name of the Lease", []string{"-leader-elect-resource-name=A_b"}, `"A_b"`},
		{"an unknown mode of election", []string{"-leader-elect=maybe"}, "-leader-elect=maybe"},
		{"an unknown logging format", []string{"-logging-format=xml"}, "-logging-format=xml"},
		{"profiles without an address", []string{"-profiling"}, "-bind-address"},
		{"profiles", []string{"-profiling", "-bind-address=127.0.0.1:0"}, ""},
		{"one worker", []string{"-workers=1"}, ""},
		{"no worker would do nothing", []string{"-workers=0"}, "-workers=0"},
		{"no connection to Neutron", []string{"-neutron-connections=0"}, "-neutron-connections=0"},
		{"more connections than any Neutron serves", []string{"-neutron-connections=1001"}, "-neutron-connections=1001"},
		{"a resync each second", []string{"-resync=1s"}, ""},
		{"a resync that is too frequent", []string{"-resync=999ms"}, "-resync=999ms"},
		{"no time to answer", []string{"-neutron-timeout=0"}, "-neutron-timeout=0s"},
		{"no limit for Neutron", []string{"-neutron-qps=0"}, ""},
		{"a negative limit for Neutron", []string{"-neutron-qps=-1"}, "-neutron-qps"},
		{"a burst of nothing for Neutron", []string{"-neutron-burst=0"}, "-neutron-burst"},
		{"no requests to Kubernetes", []string{"-kube-api-qps=0"}, "-kube-api-qps"},
		{"a burst of nothing to Kubernetes", []string{"-kube-api-burst=0"}, "-kube-api-burst"},
		{"bursts of one", []string{"-neutron-burst=1", "-kube-api-burst=1", "-retry-burst=1"}, ""},
		{"one delay", []string{"-retry-base-delay=1m", "-retry-max-delay=1m"}, ""},
		{"no first delay", []string{"-retry-base-delay=0"}, "-retry-base-delay=0s"},
		{"a longest delay that is shorter than the first", []string{"-retry-base-delay=2m"}, "-retry-max-delay=1m0s"},
		{"no retries", []string{"-retry-qps=0"}, "-retry-qps"},
		{"a burst of no retries", []string{"-retry-burst=0"}, "-retry-burst"},
		{"an ID of one letter", []string{"-cluster-id=a"}, ""},
		{"an ID of 63 letters", []string{"-cluster-id=" + strings.Repeat("a", 63)}, ""},
		{"an ID that is too long for the mark", []string{"-cluster-id=" + strings.Repeat("a", 64)}, "-cluster-id"},
		{"an ID with a slash, which ends it in the mark", []string{"-cluster-id=a/b"}, "-cluster-id"},
		{"an ID with an accent, which databases ignore", []string{"-cluster-id=ça"}, "-cluster-id"},
		{"an ID that ends with a dash", []string{"-cluster-id=a-"}, "-cluster-id"},
		{"a negative number of Deployments", []string{"-deployment-workers=-1"}, "-deployment-workers=-1"},
		{"a pool of one block", []string{"-deployment-cidr-pool=10.0.0.0/24"}, ""},
		{"a pool that is smaller than a block", []string{"-deployment-cidr-pool=10.0.0.0/25"}, "-deployment-cidr-prefix-length=24"},
		{"the smallest blocks", []string{"-deployment-cidr-pool=10.0.0.0/8", "-deployment-cidr-prefix-length=30"}, ""},
		{"blocks that are too small for DHCP", []string{"-deployment-cidr-pool=10.0.0.0/8", "-deployment-cidr-prefix-length=31"}, "between 8 and 30"},
		{"a pool of IPv6", []string{"-deployment-cidr-pool=fd00::/48", "-deployment-cidr-prefix-length=64"}, ""},
		{"a pool of IPv6 with blocks of IPv4", []string{"-deployment-cidr-pool=fd00::/48"}, "between 48 and 126"},
		{"a size without a pool", []string{"-deployment-cidr-prefix-length=999"}, ""},
		{"a subnet pool", []string{"-deployment-subnet-pool=a"}, ""},
		{"two pools", []string{"-deployment-subnet-pool=a", "-deployment-cidr-pool=10.0.0.0/8"}, "-deployment-cidr-pool=10.0.0.0/8 and -deployment-subnet-pool=a exclude each other"},
		{"the largest block", []string{"-deployment-subnet-pool=a", "-deployment-cidr-prefix-length=1"}, ""},
		{"the smallest blocks of a subnet pool", []string{"-deployment-subnet-pool=a", "-deployment-cidr-prefix-length=126"}, ""},
		{"blocks of a subnet pool that are too small for DHCP", []string{"-deployment-subnet-pool=a", "-deployment-cidr-prefix-length=127"}, "must be between 1 and 126 with -deployment-subnet-pool=a"},
		{"a prefix length that is none", []string{"-deployment-subnet-pool=a", "-deployment-cidr-prefix-length=0"}, "-deployment-cidr-prefix-length=0"},
		{"a certificate with its key", []string{"-tls-cert-file=a", "-tls-private-key-file=b"}, ""},
		{"a certificate without its key", []string{"-tls-cert-file=a"}, "-tls-private-key-file"},
		{"a key without its certificate", []string{"-tls-private-key-file=b"}, "-tls-cert-file"},
		{"no authorized routes", []string{"-serve-authorized=false"}, ""},
		{"an unknown mode of authorized routes", []string{"-serve-authorized=sometimes"}, "-serve-authorized=sometimes"},
		{"a selector and one namespace", []string{"-cloud-namespace-selector=a=b", "-namespace=c"}, "-cloud-namespace-selector cannot be set with -namespace"},
		{"no namespace for the Secrets of ClusterClouds", []string{"-cluster-resource-namespace="}, ""},
		{"a namespace that cannot exist", []string{"-cluster-resource-namespace=a/b"}, `-cluster-resource-namespace="a/b"`},
		{"all orphans", []string{"-delete-orphans=all"}, ""},
		{"an argument", []string{"-workers=1", "up"}, "\"up\""},
		{"a flag after --", []string{"--", "-workers=0"}, "\"-workers=0\""},
	} {
		t.Run(test.name, func(t *testing.T) {
			o, flags := New()
			if err := flags.Parse(test.args); err != nil {
				t.Fatal(err)
			}
			err := o.Validate(flags.Args())
			if test.want == "" && err != nil {
				t.Errorf("got %v", err)
			}
			if test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "\n")) {
				t.Errorf("got %v, want one line with %q", err, test.want)
			}
		})
	}
}

func TestFlagsThatCannotBeParsed(t *testing.T) {
	for _, test := range []struct {
		name string
		args []string
		want string
	}{
		{"an unknown flag", []string{"-wrokers=1"}, "-wrokers"},
		{"a word instead of a number", []string{"-workers=many"}, "-workers"},
		{"a pool that is not a CIDR", []string{"-deployment-cidr-pool=10.0.0.0"}, "-deployment-cidr-pool"},
		{"an invalid selector", []string{"-cloud-namespace-selector=a b"}, "it must be a label selector such as team=platform"},
		{"an unknown number of orphans", []string{"-delete-orphans=some"}, "-delete-orphans"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, flags := New()
			err := flags.Parse(test.args)
			if err == nil || errors.Is(err, flag.ErrHelp) || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q in it", err, test.want)
			}
			if flags.Output() != io.Discard {
				t.Error("it prints the error, which the caller prints as well")
			}
		})
	}
}

func TestTheHelpListsEveryFlagWithItsDefault(t *testing.T) {
	_, flags := New()
	var help strings.Builder
	flags.PrintHelp(&help)
	n := 0
	flags.VisitAll(func(f *flag.Flag) {
		n++
		if !regexp.MustCompile(`\n  -`+f.Name+`[ \t\n]`).MatchString(help.String()) || f.Usage == "" {
			t.Errorf("the help lacks -%s", f.Name)
		}
	})
	if n < 25 {
		t.Errorf("there are only %d flags", n)
	}
	for _, part := range []string{"Usage:", "Kubernetes:\n", "OpenStack:\n", "Work:\n", "Networks for Deployments:\n", "Logging:\n", "-kubeconfig file", "(default 5m0s)", "(default 32)"} {
		if !strings.Contains(help.String(), part) {
			t.Errorf("the help does not contain %q", part)
		}
	}
}

func TestWhetherReplicasElectALeader(t *testing.T) {
	for _, tt := range []struct {
		flag, pod string
		want      bool
	}{
		{"auto", "", false},
		{"auto", "10.96.0.1", true},
		{"true", "", true},
		{"true", "10.96.0.1", true},
		{"false", "", false},
		{"false", "10.96.0.1", false},
	} {
		t.Setenv("KUBERNETES_SERVICE_HOST", tt.pod)
		if got := (&Options{LeaderElect: tt.flag}).ForElection() != nil; got != tt.want {
			t.Errorf("-leader-elect=%s, in a pod: %t: got %t", tt.flag, tt.pod != "", got)
		}
	}
}

func TestTheLeaseIsInTheGivenNamespaceOrThatOfThePod(t *testing.T) {
	given := (&Options{LeaderElect: "true", Election: election.Options{Namespace: "here"}}).ForElection()
	if given.Namespace != "here" {
		t.Errorf("got %q", given.Namespace)
	}
	want := metav1.NamespaceSystem
	if namespace, err := os.ReadFile("/var/run/secrets/kubernetes.io/serviceaccount/namespace"); err == nil {
		want = strings.TrimSpace(string(namespace)) // the tests run in a pod
	}
	if got := (&Options{LeaderElect: "true"}).ForElection(); got.Namespace != want {
		t.Errorf("got %q, want %q", got.Namespace, want)
	}
}

func TestTheNamespaceForTheSecretsOfClusterClouds(t *testing.T) {
	own := kubeclient.PodNamespace()
	for _, tt := range []struct{ arguments, pod, want string }{
		{"", "", ""},
		{"", "10.96.0.1", own},
		{"-cluster-resource-namespace=", "10.96.0.1", ""},
		{"-cluster-resource-namespace=here", "10.96.0.1", "here"},
		{"-cluster-resource-namespace=here", "", "here"},
		// The controller may be in the namespace of the Networks, whose Secrets are not its own.
		{"-namespace=team", "10.96.0.1", ""},
		{"-namespace=team -cluster-resource-namespace=here", "10.96.0.1", "here"},
	} {
		t.Setenv("KUBERNETES_SERVICE_HOST", tt.pod)
		o, _, err := Parse(strings.Fields(tt.arguments), nil)
		if err != nil || o.ClusterResourceNamespace != tt.want {
			t.Errorf("%s, in a pod: %t: got %+v, %v, want %q", tt.arguments, tt.pod != "", o, err, tt.want)
		}
	}
}

func TestWhereSecretsMustNotLead(t *testing.T) {
	const around = "0.0.0.0/8,127.0.0.0/8,169.254.0.0/16,::/127,fe80::/10,"
	for _, tt := range []struct{ arguments, pod, want string }{
		{"", "", ""},
		{"-denied-cidrs=10.96.0.0/12", "", "10.96.0.0/12"},
		{"", "10.96.0.1", around + "10.96.0.1/32"},
		{"", "fd00::1", around + "fd00::1/128"},
		{"", "kubernetes.default", strings.TrimSuffix(around, ",")},
		{"-denied-cidrs=10.96.0.1/12,10.0.0.0/16", "10.96.0.1", "10.96.0.0/12,10.0.0.0/16," + around + "10.96.0.1/32"},
	} {
		t.Setenv("KUBERNETES_SERVICE_HOST", tt.pod)
		o, _, err := Parse(strings.Fields(tt.arguments), nil)
		if err != nil || o.Servers.Denied.String() != tt.want {
			t.Errorf("%s, in a pod: %t: got %+v, %v, want %q", tt.arguments, tt.pod != "", o, err, tt.want)
		}
	}
	for _, wrong := range []string{"10.96.0.0", "::ffff:10.96.0.0/112", ""} {
		if _, _, err := Parse([]string{"-denied-cidrs=" + wrong}, nil); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("%q is not a network such as 10.96.0.0/12", wrong)) {
			t.Errorf("got %v", err)
		}
	}
}

func TestParse(t *testing.T) {
	for _, tt := range []struct {
		name, arguments string
		done            bool
		out, err        string
	}{
		{"no arguments", "", false, "", ""},
		{"the help", "-h", true, "Usage:", ""},
		{"the version", "-version", true, "samplecrd-controller ", ""},
		{"the version, with a flag that is not valid", "-version -workers=0", true, "samplecrd-controller ", ""},
		{"an unknown flag", "-version -nonsense", false, "", "-nonsense (-h lists the flags)"},
		{"a flag that is not valid", "-workers=0", false, "", "-workers=0: must be at least 1 and at most 1000 (-h lists the flags)"},
		{"an argument", "start", false, "", "(-h lists the flags)"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var out strings.Builder
			o, done, err := Parse(strings.Fields(tt.arguments), &out)
			if done != tt.done || (o != nil) != (!done && err == nil) {
				t.Errorf("got %+v, done: %t", o, done)
			}
			if !strings.HasPrefix(out.String(), tt.out) && !strings.Contains(out.String(), "\n"+tt.out) || (out.Len() > 0) != tt.done {
				t.Errorf("it printed %q", out.String())
			}
			if (err != nil) != (tt.err != "") || err != nil && !strings.HasSuffix(err.Error(), tt.err) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestParseSetsWhatFollowsFromOtherFlags(t *testing.T) {
	o, _, err := Parse(strings.Fields("-namespace=here -leader-elect-renew-deadline=9s -retry-qps=3"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if o.Deployments.Namespace != "here" || o.Deployments.Retry != o.Retry || o.Retry.QPS != 3 || o.Kubernetes.RenewDeadline != 9*time.Second ||
		o.Neutron.UserAgent != version.UserAgent() {
		t.Errorf("got %+v", o)
	}
}
