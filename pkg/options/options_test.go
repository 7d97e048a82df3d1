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
	"errors"
	"flag"
	"io"
	"net/netip"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/samplecrd/samplecrd-controller/pkg/election"
	"github.com/samplecrd/samplecrd-controller/pkg/neutron"
	"github.com/samplecrd/samplecrd-controller/pkg/orphans"
)

func TestTheDefaultsAreValid(t *testing.T) {
	o, flags := New()
	if err := flags.Parse(nil); err != nil {
		t.Fatal(err)
	}
	if err := o.Validate(flags.Args()); err != nil {
		t.Error(err)
	}
}

func TestEachFlagSetsItsOption(t *testing.T) {
	o, flags := New()
	if o.Version {
		t.Error("-version is set by default")
	}
	// With one dash or two, with = or without.
	args := strings.Fields(`-kubeconfig=a --master b -namespace=c --cluster-id=d -kube-api-qps=1.5 -kube-api-burst 2
		-cloud=e -resync=3s -neutron-timeout=4s -neutron-qps=5.5 -neutron-burst=6
		-workers=7 -neutron-connections=18 -retry-base-delay=8s -retry-max-delay=9s -retry-qps=10.5 -retry-burst=11 --version -v=4
		-deployment-workers=12 -deployment-cidr-pool=10.0.0.0/8 -deployment-cidr-prefix-length 13
		-delete-orphans -bind-address=:14 -tls-cert-file=f -tls-private-key-file=g -serve-authorized=false
		-leader-elect=true -leader-elect-lease-duration=15m -leader-elect-renew-deadline 16s -leader-elect-retry-period=17s
		-leader-elect-resource-name=h -leader-elect-resource-namespace=i -profiling -logging-format=json -allowed-auth-urls=https://j`)
	if err := flags.Parse(args); err != nil {
		t.Fatal(err)
	}
	allowed, err := neutron.ParseURLs("https://j")
	if err != nil {
		t.Fatal(err)
	}
	want := &Options{
		AllowedAuthURLs: allowed,
		Version:         true, Kubeconfig: "a", Master: "b", Namespace: "c", ClusterID: "d", KubeAPIQPS: 1.5, KubeAPIBurst: 2,
		Cloud: "e", Resync: 3 * time.Second, NeutronTimeout: 4 * time.Second, NeutronConnections: 18, NeutronQPS: 5.5, NeutronBurst: 6,
		Workers: 7, RetryBaseDelay: 8 * time.Second, RetryMaxDelay: 9 * time.Second, RetryQPS: 10.5, RetryBurst: 11,
		DeploymentWorkers: 12, DeploymentCIDRPool: netip.MustParsePrefix("10.0.0.0/8"), DeploymentCIDRPrefixLength: 13,
		DeleteOrphans: orphans.RemoveFew, BindAddress: ":14", TLSCertFile: "f", TLSPrivateKeyFile: "g", ServeAuthorized: "false",
		LeaderElect: "true", Profiling: true, LoggingFormat: "json",
		Election: election.Options{Namespace: "i", Name: "h", LeaseDuration: 15 * time.Minute, RenewDeadline: 16 * time.Second, RetryPeriod: 17 * time.Second},
	}
	if diff := cmp.Diff(want, o, cmp.Comparer(func(a, b netip.Prefix) bool { return a == b }), cmp.Comparer(func(a, b neutron.URLs) bool { return a.String() == b.String() })); diff != "" {
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
		{"a negative number of workers", []string{"-workers=-1"}, "-workers=-1"},
		{"no connection to Neutron", []string{"-neutron-connections=0"}, "-neutron-connections=0"},
		{"more connections than any Neutron serves", []string{"-neutron-connections=1001"}, "-neutron-connections=1001"},
		{"a resync each second", []string{"-resync=1s"}, ""},
		{"a resync that is too frequent", []string{"-resync=999ms"}, "-resync=999ms"},
		{"no resync", []string{"-resync=0"}, "-resync=0s"},
		{"no time to answer", []string{"-neutron-timeout=0"}, "-neutron-timeout=0s"},
		{"a negative time to answer", []string{"-neutron-timeout=-1s"}, "-neutron-timeout=-1s"},
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
		{"a UID of Kubernetes", []string{"-cluster-id=11111111-0000-0000-0000-000000000000"}, ""},
		{"an ID of one letter", []string{"-cluster-id=a"}, ""},
		{"an ID of 63 letters", []string{"-cluster-id=" + strings.Repeat("a", 63)}, ""},
		{"an ID that is too long for the mark", []string{"-cluster-id=" + strings.Repeat("a", 64)}, "-cluster-id"},
		{"an ID with a slash, which ends it in the mark", []string{"-cluster-id=a/b"}, "-cluster-id"},
		{"an ID with a blank, which ends the mark", []string{"-cluster-id=a b"}, "-cluster-id"},
		{"an ID with an accent, which databases ignore", []string{"-cluster-id=ça"}, "-cluster-id"},
		{"an ID that ends with a dash", []string{"-cluster-id=a-"}, "-cluster-id"},
		{"an ID of two lines", []string{"-cluster-id=a\nb"}, "-cluster-id"},
		{"no Deployments", []string{"-deployment-workers=0"}, ""},
		{"a negative number of Deployments", []string{"-deployment-workers=-1"}, "-deployment-workers=-1"},
		{"a pool", []string{"-deployment-cidr-pool=10.0.0.0/8"}, ""},
		{"a pool of one block", []string{"-deployment-cidr-pool=10.0.0.0/24"}, ""},
		{"a pool that is smaller than a block", []string{"-deployment-cidr-pool=10.0.0.0/25"}, "-deployment-cidr-prefix-length=24"},
		{"the smallest blocks", []string{"-deployment-cidr-pool=10.0.0.0/8", "-deployment-cidr-prefix-length=30"}, ""},
		{"blocks that are too small for DHCP", []string{"-deployment-cidr-pool=10.0.0.0/8", "-deployment-cidr-prefix-length=31"}, "between 8 and 30"},
		{"a pool of IPv6", []string{"-deployment-cidr-pool=fd00::/48", "-deployment-cidr-prefix-length=64"}, ""},
		{"a pool of IPv6 with blocks of IPv4", []string{"-deployment-cidr-pool=fd00::/48"}, "between 48 and 126"},
		{"a size without a pool", []string{"-deployment-cidr-prefix-length=99"}, ""},
		{"a certificate with its key", []string{"-tls-cert-file=a", "-tls-private-key-file=b"}, ""},
		{"a certificate without its key", []string{"-tls-cert-file=a"}, "-tls-private-key-file"},
		{"a key without its certificate", []string{"-tls-private-key-file=b"}, "-tls-cert-file"},
		{"authorized routes always", []string{"-serve-authorized=true"}, ""},
		{"no authorized routes", []string{"-serve-authorized=false"}, ""},
		{"an unknown mode of authorized routes", []string{"-serve-authorized=sometimes"}, "-serve-authorized=sometimes"},
		{"few orphans", []string{"-delete-orphans"}, ""},
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
		{"a duration without a unit", []string{"-resync=5"}, "-resync"},
		{"a pool that is not a CIDR", []string{"-deployment-cidr-pool=10.0.0.0"}, "-deployment-cidr-pool"},
		{"a missing value", []string{"-kubeconfig"}, "-kubeconfig"},
		{"an unknown number of orphans", []string{"-delete-orphans=some"}, "-delete-orphans"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, flags := New()
			printed, err := parse(t, flags, test.args)
			if err == nil || errors.Is(err, flag.ErrHelp) || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q in it", err, test.want)
			}
			if printed != "" {
				t.Errorf("it printed %q", printed)
			}
		})
	}
}

func TestParseDoesNotPrintTheHelp(t *testing.T) {
	for _, arg := range []string{"-h", "-help", "--help"} {
		_, flags := New()
		printed, err := parse(t, flags, []string{arg})
		if !errors.Is(err, flag.ErrHelp) || printed != "" {
			t.Errorf("%s: got %v, and it printed %q", arg, err, printed)
		}
	}
}

// parse parses args, and returns what was printed to standard output and standard error.
func parse(t *testing.T, flags *Flags, args []string) (printed string, err error) {
	t.Helper()
	r, w, pipeErr := os.Pipe()
	if pipeErr != nil {
		t.Fatal(pipeErr)
	}
	stdout, stderr := os.Stdout, os.Stderr
	os.Stdout, os.Stderr = w, w
	err = flags.Parse(args)
	os.Stdout, os.Stderr = stdout, stderr
	_ = w.Close()
	all, readErr := io.ReadAll(r)
	if readErr != nil {
		t.Fatal(readErr)
	}
	return string(all), err
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

func TestVerbosity(t *testing.T) {
	_, flags := New()
	if err := flags.Parse([]string{"-v=4"}); err != nil || flags.Verbosity() != 4 {
		t.Errorf("got %d, %v", flags.Verbosity(), err)
	}
}
