// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
)

// command runs a subcommand of the binary. It returns both outputs and the exit code.
func (w *world) command(stdin string, arguments ...string) (stdout, stderr string, code int) {
	w.Helper()
	cmd := exec.CommandContext(w.Context(), binary, append(arguments, strings.Fields(w.reach)...)...)
	cmd.Env = append(slices.Clone(w.neutron.Env()), "GORACE=atexit_sleep_ms=0")
	var out, errs bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &out, &errs
	err := cmd.Run()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return out.String(), errs.String(), exit.ExitCode()
	}
	w.must(err)
	return out.String(), errs.String(), 0
}

// plans runs plan for the manifest, or for the Networks in the namespace if it is "". It compares the
// exit code and the lines of the output with what is expected.
func (w *world) plans(manifest string, code int, lines ...string) {
	w.Helper()
	arguments := []string{"plan", "-n", w.namespace}
	if manifest != "" {
		arguments = append(arguments, "-f", "-")
	}
	out, errs, got := w.command(manifest, arguments...)
	if got != code {
		w.Errorf("exit code %d, want %d: %s", got, code, errs)
	}
	out = strings.ReplaceAll(out, w.namespace+"/", "")
	if want := strings.Join(lines, "\n") + "\n"; out != want {
		w.Errorf("plan prints\n%s\nwant\n%s", out, want)
	}
}

// From an existing cloud: export, apply, plan, and only then manage.
func TestFromAnExistingCloud(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start("-resync=1s", retryQuickly)
	l := w.legacy()
	before := w.look(l)

	exported, errs, code := w.command("", "export", "-n", w.namespace, l.network)
	if code != 0 {
		t.Fatal(errs)
	}
	w.contains(exported, "# ", "do not touch, ask Ann", "managementPolicy: Observe", "deletionPolicy: Retain", "networkID: "+l.network)
	w.plans(exported, 0, "team-net: nothing to do: the network is only observed, and matches the spec", "1 Network: 1 with nothing to do")
	_, err := w.tryKubectl(exported, "apply", "-f", "-")
	w.must(err)
	w.waitFor("team-net", metav1.ConditionTrue, samplecrdv1.ReasonObserved)
	w.plans("", 0, "team-net: nothing to do: the network is only observed, and matches the spec", "1 Network: 1 with nothing to do")
	w.isUnchanged(before, l)
	w.equal(fmt.Sprint(w.tags(l)), "[prod]")

	edited := strings.Replace(exported, "gateway: 10.7.0.1", "gateway: 10.7.0.254", 1)
	w.plans(edited, 0, "team-net: nothing to do: the network is only observed, and differs from the spec",
		"  gateway of subnet 10.7.0.0/24 is 10.7.0.1, and the spec has 10.7.0.254", "1 Network: 1 with nothing to do")
	managed := strings.Replace(edited, "  managementPolicy: Observe\n", "", 1)
	w.plans(managed, 2, "team-net: 2 changes", "  1. network "+l.network+" imported", "  2. gateway 10.7.0.1 → 10.7.0.254", "1 Network: 1 with changes")
	w.isUnchanged(before, l)
	_, err = w.tryKubectl(managed, "apply", "-f", "-")
	w.must(err)
	network := w.waitFor("team-net", metav1.ConditionTrue, samplecrdv1.ReasonAvailable)
	w.plans("", 0, "team-net: nothing to do", "1 Network: 1 with nothing to do")
	w.equal(fmt.Sprint(w.tags(l)), fmt.Sprint([]string{"prod", w.importTag(network)}))

	// What the API server refuses is an error.
	out, errs, code := w.command(manifest("net", "10.1.0.0/24", "10.9.0.1"), "plan", "-n", w.namespace, "-f", "-")
	if code != 1 {
		t.Errorf("exit code %d: %s", code, errs)
	}
	w.contains(out, "net: error: ", "spec.gateway: Invalid value: 10.9.0.1 is not an address inside cidr, 10.1.0.0/24")
	// A marked network is not exported again.
	_, errs, _ = w.command("", "export", "-n", w.namespace, l.network)
	w.contains(errs, "has imported it")

	// After the deletion it is as it was, except for the edit.
	changed := w.look(l)
	w.delete("team-net")
	w.isUnchanged(changed, l)
	w.equal(fmt.Sprint(w.tags(l)), "[prod]")
	w.waitForEvent("team-net", samplecrdv1.EventDeleted, "Left the imported network "+l.network+" in Neutron without its ownership mark")
}

// plan shows what kubectl apply would do, in the way in which the Network was applied before.
func TestPlanAppliesAsKubectlDoes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start("-resync=1s", retryQuickly)
	without := manifest("net", "10.1.0.0/24", "10.1.0.1")
	declared := without + "  dnsNameservers: [192.0.2.53]\n"
	removed := []string{"net: 1 change", "  1. DNS servers 192.0.2.53 → none", "1 Network: 1 with changes"}
	nothing := []string{"net: nothing to do", "1 Network: 1 with nothing to do"}
	for _, test := range []struct {
		command string
		code    int
		lines   []string
	}{
		{"create -f -", 0, nothing}, // kubectl apply does not know what was there before
		{"apply -f -", 2, removed},
		{"apply --server-side -f -", 2, removed},
	} {
		t.Run(test.command, func(t *testing.T) {
			w := w.at(t)
			_, err := w.tryKubectl(declared, strings.Fields(test.command)...)
			w.must(err)
			w.waitReady("net")
			w.plans(without, test.code, test.lines...)
			w.plans(declared, 0, nothing...)
			w.delete("net")
		})
	}
}
