// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/samplecrd/samplecrd-controller/hack/internal/stack"
	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
)

// The CustomResourceDefinitions of the first release and of the present code.
var (
	crdOfFirstRelease = filepath.Join("testdata", "v0")
	crdOfToday        = filepath.Join("..", "..", "artifacts", "crd")
)

// useCRD applies a CustomResourceDefinition, and waits until the API server uses it: until
// it refuses, or accepts, what only the present one refuses. All tests share the CRD, so a
// test that calls useCRD is part of TestWholeCluster, and applies the present one before it ends.
func (w *world) useCRD(folder string) {
	w.Helper()
	w.must(w.applyCRD(folder))
	w.eventually(func() error {
		err := w.dryRun(manifest("probe", "no CIDR", ""))
		if refused := apierrors.IsInvalid(err); refused != (folder == crdOfToday) || err != nil && !refused {
			return errors.Join(errors.New("the API server still uses the other CRD"), err)
		}
		return nil
	})
}

// applyText applies a manifest.
func (w *world) applyText(text string) {
	w.Helper()
	_, err := w.tryKubectl(text, "apply", "-f", "-")
	w.must(err)
}

// network returns a manifest with any spec, valid or not.
func network(name, spec string) string {
	return "apiVersion: samplecrd.k8s.io/v1\nkind: Network\nmetadata:\n  name: " + name + "\n" + spec
}

// Networks that the first release stored: valid ones, and ones that are refused now.
var (
	plain = []struct{ name, cidr, gateway, inForce, gatewayInForce string }{
		{"plain", "10.1.0.0/16", "10.1.0.1", "10.1.0.0/16", "10.1.0.1"},
		{"host-bits", "10.1.2.3/16", "10.1.0.254", "10.1.0.0/16", "10.1.0.254"},
		{"no-gateway", "10.2.0.0/16", "", "10.2.0.0/16", "10.2.0.1"},
		{"upper-case", "FD00:ABCD::/64", "FD00:ABCD::A", "fd00:abcd::/64", "fd00:abcd::a"},
	}
	odd = []struct{ name, spec, says string }{
		{"no-spec", "", "spec.cidr: "},
		{"no-cidr", "spec: {}", "spec.cidr: "},
		{"word", "spec: {cidr: anything}", "spec.cidr: "},
		{"gateway-outside", "spec: {cidr: 10.3.0.0/16, gateway: 10.4.0.1}", "spec.gateway: "},
		{"gateway-for-broadcasts", "spec: {cidr: 10.3.0.0/16, gateway: 10.3.255.255}", "create subnet: "},
	}
)

func networksOfTheFirstReleaseAreReconciled(t *testing.T) {
	w := newWorld(t)
	defer w.useCRD(crdOfToday)
	w.useCRD(crdOfFirstRelease)
	for _, n := range plain {
		w.apply(n.name, n.cidr, n.gateway)
	}
	for _, n := range odd {
		w.applyText(network(n.name, n.spec))
		w.applyText(network(n.name+"-deleted", n.spec))
	}

	w.useCRD(crdOfToday)
	w.start(retryQuickly)
	for _, n := range plain {
		w.waitReady(n.name)
		w.matches(n.name, n.inForce, n.gatewayInForce)
		w.delete(n.name)
		w.nothing(n.name)
	}
	for _, n := range odd {
		w.isStalledButNotStuck(n.name, n.says)
		w.waitNotReady(n.name+"-deleted", samplecrdv1.ReasonInvalidSpec)
		w.delete(n.name + "-deleted") // as it is
		w.nothing(n.name + "-deleted")
	}
}

// isStalledButNotStuck fails unless the status of the Network says what is wrong with it,
// and the Network can be edited and corrected; an edit must not make it worse.
func (w *world) isStalledButNotStuck(name, says string) {
	w.Helper()
	n := w.waitNotReady(name, samplecrdv1.ReasonInvalidSpec)
	stalled := condition(n, samplecrdv1.ConditionStalled)
	if stalled.Status != metav1.ConditionTrue || !strings.HasPrefix(stalled.Message, says) {
		w.Errorf("%s: want Stalled for %q, got %+v", name, says, stalled)
	}
	// The API server accepts an invalid value that an edit does not change, but refuses every
	// write without a spec.
	if name != "no-spec" {
		w.kubectl("label", "network", name, "edited=yes")
	}
	if _, err := w.tryKubectl("", "patch", "network", name, "--type=merge", "-p", `{"spec":{"cidr":"worse"}}`); err == nil {
		w.Errorf("%s: a worse spec was accepted", name)
	}
	w.patch(name, `{"spec":{"cidr":"10.5.0.0/16","gateway":"10.5.0.1"}}`)
	w.waitReady(name)
	w.matches(name, "10.5.0.0/16", "10.5.0.1")
}

// While the older CRD is in use, the API server drops the fields that it does not have, and the status.
func olderCRDInBetweenLosesNoNetwork(t *testing.T) {
	for _, running := range []bool{true, false} {
		t.Run(fmt.Sprintf("running=%t", running), func(t *testing.T) {
			w := newWorldOf(t, "team")
			w.expected = failedToSync // the older CRD has no status to write
			defer w.useCRD(crdOfToday)
			controller := w.start(retryQuickly)
			w.applySecret("team-cloud", w.credentialsOf("team"))
			w.applyWith("elsewhere", "10.1.0.0/16", "10.1.0.1", "team-cloud")
			w.applyText(manifest("retained", "10.1.0.0/16", "10.1.0.1") + "  deletionPolicy: Retain\n")
			ids := map[string]string{"elsewhere": w.waitReady("elsewhere").Status.NetworkID, "retained": w.waitReady("retained").Status.NetworkID}
			for _, name := range []string{"edited", "moved", "deleted"} {
				ids[name] = w.create(name, "10.1.0.0/16", "10.1.0.1").Status.NetworkID
			}
			w.calls.take()

			if !running {
				w.must(controller.Stop())
			}
			w.useCRD(crdOfFirstRelease)
			if !running {
				controller = w.start(retryQuickly)
			}
			w.patch("edited", `{"spec":{"gateway":"10.1.0.9"}}`)
			w.patch("moved", `{"spec":{"cidr":"10.2.0.0/16","gateway":"10.2.0.1"}}`)
			w.kubectl("delete", "network", "deleted", "--wait=false")
			w.apply("new", "10.3.0.0/16", "10.3.0.1")
			w.waitForLog(controller, failedToSync)

			w.useCRD(crdOfToday)
			w.inForce(ids, "elsewhere", "10.1.0.0/16", "10.1.0.1")
			w.inForce(ids, "retained", "10.1.0.0/16", "10.1.0.1")
			w.inForce(ids, "edited", "10.1.0.0/16", "10.1.0.9")
			w.inForce(ids, "moved", "10.2.0.0/16", "10.2.0.1")
			ids["new"] = w.waitReady("new").Status.NetworkID
			w.inForce(ids, "new", "10.3.0.0/16", "10.3.0.1")
			w.waitGone("deleted")
			w.nothing("deleted")
			w.delete("retained")
			if left := w.networks("retained"); len(left) != 1 || left[0].ID != ids["retained"] {
				t.Errorf("want one retained network, got %+v", left)
			}
			if got := w.calls.take(); got["POST networks"] != 1 || got["DELETE networks/*"] != 1 {
				t.Errorf("want one network created and one deleted, got %v", got)
			}
		})
	}
}

// inForce waits until the Network is ready, and fails unless it has the network of ids and
// matches the spec.
func (w *world) inForce(ids map[string]string, name, cidr, gateway string) {
	w.Helper()
	w.waitReady(name)
	if n := w.matches(name, cidr, gateway); n.ID != ids[name] {
		w.Errorf("network %s of %s became %s", ids[name], name, n.ID)
	}
}

// olderCommit is the last commit of this repository before leader election.
const olderCommit = "d86dbe516e92a3dfeb150a0e52baa38609071d55"

func TestOlderControllerTakesOverAndGivesBack(t *testing.T) {
	t.Parallel()
	w := newWorldOf(t, "team")
	older := w.buildOlder()
	p := w.throughProxy()
	w.applySecret("team-cloud", w.credentialsOf("team"))
	today := w.start()
	w.create("plain", "10.1.0.0/16", "10.1.0.1")
	w.applyText(manifest("retained", "10.2.0.0/16", "") + "  deletionPolicy: Retain\n")
	w.applyWith("elsewhere", "10.3.0.0/16", "", "team-cloud")
	w.deploy("web", "10.4.0.0/16", "")
	w.waitInForce("web", "10.4.0.0/16", "10.4.0.1")
	w.waitReady("retained")
	w.waitReady("elsewhere")
	w.must(today.Stop())

	for _, executable := range []string{older, binary} {
		before := w.list()
		w.calls.take()
		p.take()
		next := w.startBinary(executable)
		for _, name := range []string{"plain", "retained", "elsewhere", "web"} {
			w.waitForLog(next, fmt.Sprintf(`"Synced" network="%s/%s"`, w.namespace, name))
		}
		w.must(next.Stop())
		if diff := cmp.Diff(before, w.list()); diff != "" {
			t.Errorf("%s has changed Networks (-before +after):\n%s", filepath.Base(executable), diff)
		}
		w.onlyReads(w.calls.take(), "GET ")
		w.onlyReads(p.take(), "get ", "list ", "watch ")
	}
}

// onlyReads fails if there were requests other than those that begin with reads.
func (w *world) onlyReads(asked counts, reads ...string) {
	w.Helper()
	for request, n := range asked {
		if !slices.ContainsFunc(reads, func(read string) bool { return strings.HasPrefix(request, read) }) {
			w.Errorf("%d requests %s", n, request)
		}
	}
}

// buildOlder builds the controller as of olderCommit.
func (w *world) buildOlder() string {
	w.Helper()
	root, err := stack.Root()
	w.must(err)
	if err := exec.Command("git", "-C", root, "cat-file", "-e", olderCommit+"^{commit}").Run(); err != nil {
		w.Skipf("git does not have the commit %s (is this a shallow clone?): %v", olderCommit, err)
	}
	folder := w.TempDir()
	w.shell(root, "git archive "+olderCommit+" | tar -x -C "+folder)
	older := filepath.Join(w.dir, "older-controller")
	w.shell(folder, "go build -trimpath -buildvcs=false -o "+older+" .")
	return older
}

func (w *world) shell(folder, script string) {
	w.Helper()
	cmd := exec.Command("bash", "-o", "pipefail", "-c", script)
	cmd.Dir = folder
	if out, err := cmd.CombinedOutput(); err != nil {
		w.Fatalf("%s: %v: %s", script, err, out)
	}
}

// startBinary is start for another executable, with only the flags that all versions have.
func (w *world) startBinary(executable string) *stack.Controller {
	w.Helper()
	file, err := os.Create(filepath.Join(w.dir, fmt.Sprintf("controller-%d.log", w.started.Add(1))))
	w.must(err)
	w.Cleanup(func() { _ = file.Close() })
	c, err := stack.StartController(executable, w.neutron.Env(), file, "-v=4", "-namespace="+w.namespace, w.reach)
	w.must(err)
	w.waitForLog(c, "Starting workers") // an older controller lists Neutron before that
	return c
}
