// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package options

import (
	"flag"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// testCommand returns a subcommand whose flag -o sets output.
func testCommand(output *string) Command {
	return Command{
		Name: "show", Arguments: "[NAME...]", Description: "Shows things.", Examples: "  samplecrd-controller show web\n",
		Usage:  map[string]string{"namespace": "Of this `namespace`."},
		Shared: slices.Concat(KubernetesFlags, NeutronFlags, []string{"cluster-id"}),
		Add:    func(fs *flag.FlagSet) { fs.StringVar(output, "o", "", "The `format`.") },
	}
}

func TestTheFlagsOfASubcommand(t *testing.T) {
	var output string
	o, others, done, err := testCommand(&output).Parse(strings.Fields(
		"web -kubeconfig=a --master b -n c db -cloud=e -cluster-id=f -neutron-timeout=4s -neutron-qps=5.5 -o json -- -x"), nil)
	if err != nil || done {
		t.Fatal(done, err)
	}
	if diff := cmp.Diff([]string{"web", "db", "-x"}, others); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if o.Kubernetes.Kubeconfig != "a" || o.Kubernetes.Master != "b" || o.Namespace != "c" || o.Cloud != "e" || o.Kubernetes.ClusterID != "f" ||
		o.Neutron.Timeout != 4*time.Second || o.Neutron.QPS != 5.5 || output != "json" || !o.Kubernetes.LoadingRules || o.Neutron.UserAgent == "" {
		t.Errorf("got %+v, %s", o, output)
	}
	if o.Neutron.Connections == 0 || o.Kubernetes.QPS == 0 {
		t.Errorf("the others do not have the controller's defaults: %+v", o)
	}
}

func TestMistakesInTheFlagsOfASubcommand(t *testing.T) {
	for arguments, want := range map[string]string{
		"-nmaespace=a":        "flag provided but not defined: -nmaespace: did you mean -namespace? (show -h lists the flags)",
		"web --kube-config a": "flag provided but not defined: -kube-config: did you mean -kubeconfig? (show -h lists the flags)",
		"-workers=1":          "flag provided but not defined: -workers (show -h lists the flags)",
		"-neutron-timeout=0s": "-neutron-timeout=0s: must be more than 0 (show -h lists the flags)",
		"-neutron-timeout=30": `invalid value "30" for flag -neutron-timeout: parse error: it must be a duration, such as 30s or 5m (show -h lists the flags)`,
		"-neutron-qps=many":   `invalid value "many" for flag -neutron-qps: parse error: it must be a number (show -h lists the flags)`,
		"-v=x":                `invalid value "x" for flag -v: strconv.ParseInt: parsing "x": invalid syntax: it must be a whole number (show -h lists the flags)`,
		"-n":                  "flag needs an argument: -n (show -h lists the flags)",
	} {
		if _, _, _, err := testCommand(new(string)).Parse(strings.Fields(arguments), nil); err == nil || err.Error() != want {
			t.Errorf("%s: got %v", arguments, err)
		}
	}
}

func TestTheHelpOfASubcommand(t *testing.T) {
	for _, arguments := range []string{"-h", "web -help", "--help"} {
		var out strings.Builder
		if _, _, done, err := testCommand(new(string)).Parse(strings.Fields(arguments), &out); err != nil || !done {
			t.Errorf("%s: got %t, %v", arguments, done, err)
		}
		for _, part := range []string{"Usage:\n  samplecrd-controller show [NAME...]\n\nShows things.\n\n", "  -n namespace\n", "  -namespace namespace\n    \tOf this namespace.\n",
			"default $KUBECONFIG or ~/.kube/config", "  -o format\n", "\nExamples:\n  samplecrd-controller show web\n"} {
			if !strings.Contains(out.String(), part) {
				t.Errorf("%q is not in %s", part, out.String())
			}
		}
	}
}

func TestNearest(t *testing.T) {
	words := []string{"export", "plan", "help", "namespace"}
	for mistyped, want := range map[string]string{
		"plna": "plan", "PLAN": "plan", "plans": "plan", "exprt": "export", "names": "namespace", "hlep": "help", "epxort": "export",
		"start": "", "x": "", "": "", "pl": "", "controller": "",
	} {
		if got := Nearest(mistyped, words); got != want {
			t.Errorf("%q: got %q, want %q", mistyped, got, want)
		}
	}
}

func TestTheHelpNamesTheCommands(t *testing.T) {
	var out strings.Builder
	if _, done, err := Parse([]string{"-h"}, &out, "show  shows things", "help  helps"); err != nil || !done {
		t.Fatal(done, err)
	}
	if want := commandsTitle + "  show  shows things\n  help  helps\n\n"; !strings.Contains(out.String(), want) {
		t.Errorf("%q is not in %s", want, out.String())
	}
}
