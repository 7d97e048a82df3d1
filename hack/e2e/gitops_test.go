// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"cmp"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/layer3/routers"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/subnetpools"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"

	"github.com/samplecrd/samplecrd-controller/hack/internal/stack"
	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
	"github.com/samplecrd/samplecrd-controller/pkg/neutron"
	"github.com/samplecrd/samplecrd-controller/pkg/neutron/embedded"
)

var update = flag.Bool("update", false, "record the Networks of hack/gitops/testdata")

// recordings has Networks as the API server returns them, for the tests of hack/gitops.
const recordings = "../gitops/testdata"

// newWorldOfStatuses is newWorld for a Neutron in which a Network can get each reason.
func newWorldOfStatuses(t *testing.T) *world {
	t.Helper()
	w := newWorldWithoutNeutron(t)
	full := embedded.Project{Name: "full", ID: "id-of-full", Password: passwordOf("full"), Quota: map[string]int{"network": 0}}
	var err error
	w.neutron, err = stack.StartNeutron(t.Context(), w.dir, embedded.Options{
		Projects:        append([]embedded.Project{{Name: project, ID: "id-of-" + project, Password: password}, full}, projectsOf([]string{"team", "other-team"})...),
		ExternalNetwork: public,
	})
	w.must(err)
	t.Cleanup(func() { _ = w.neutron.Close() })
	w.neutron.SetFault(func(r *http.Request) *embedded.Fault {
		if fault := w.chooseFault(r); fault != nil {
			return fault
		}
		if body, _ := io.ReadAll(r.Body); r.Method == http.MethodPost && bytes.Contains(body, []byte("/no-segment-available\"")) {
			return &embedded.Fault{Status: http.StatusServiceUnavailable, Type: "NoNetworkAvailable", Message: "Unable to create the network. No tenant network is available for allocation."}
		}
		return nil
	})
	for name, data := range map[string]map[string]string{
		"full":        w.credentialsOf("full"),
		"moving":      w.credentialsOf("team"),
		"refused":     {"clouds.yaml": cloudsYAML(w.neutron.URL(), "team", "wrong")},
		"unreachable": {"clouds.yaml": cloudsYAML("http://127.0.0.1:1", "team", "any")},
	} {
		w.applySecret(name, data)
	}
	return w
}

// forNobody is a ClusterCloud that no Network may use.
const forNobody = "for-nobody"

// recordedNetwork is a Network, and what its Ready condition says in the end.
type recordedNetwork struct {
	name   string
	spec   string
	status metav1.ConditionStatus
	reason string
}

func (w *world) recordedNetworks() []recordedNetwork {
	l := w.legacy()
	importing := func(id string) string { return "  import: {networkID: " + id + "}\n" }
	credentials := func(name string) string {
		return "  cidr: 10.1.0.0/16\n  cloudCredentialsRef: {secretName: " + name + ", cloudName: mycloud}\n"
	}
	const plain = "  cidr: 10.1.0.0/16\n"
	off, err := routers.Create(w.Context(), w.neutron.Client, routers.CreateOpts{Name: "off", AdminStateUp: new(bool)}).Extract()
	w.must(err)
	w.must(subnetpools.Create(w.Context(), w.neutron.Client, subnetpools.CreateOpts{Name: "small", Prefixes: []string{"10.1.0.0/17"}}).Err)
	return []recordedNetwork{
		{"available", plain, metav1.ConditionTrue, samplecrdv1.ReasonAvailable},
		{"observed", importing(l.network) + observe, metav1.ConditionTrue, samplecrdv1.ReasonObserved},
		{"differs", importing(l.network) + observe + theSubnet + "  gateway: 10.7.0.254\n", metav1.ConditionTrue, samplecrdv1.ReasonDiffers},
		{"network-not-found", importing("5a000000-0000-4000-8000-000000000000"), metav1.ConditionFalse, samplecrdv1.ReasonNetworkNotFound},
		{"import-refused", importing(w.publicID()), metav1.ConditionFalse, samplecrdv1.ReasonImportRefused},
		{"invalid-spec", "  cidr: 10.1.0.0/31\n", metav1.ConditionFalse, samplecrdv1.ReasonInvalidSpec},
		{"forbidden", plain + "  shared: true\n", metav1.ConditionFalse, samplecrdv1.ReasonForbidden},
		{"authentication-failed", credentials("refused"), metav1.ConditionFalse, samplecrdv1.ReasonAuthenticationFailed},
		{"cloud-not-permitted", "  cidr: 10.1.0.0/16\n  cloudCredentialsRef: {clusterCloudName: " + forNobody + "}\n", metav1.ConditionFalse, samplecrdv1.ReasonCloudNotPermitted},
		{"no-credentials", credentials("missing"), metav1.ConditionFalse, samplecrdv1.ReasonNoCredentials},
		{"neutron-unavailable", credentials("unreachable"), metav1.ConditionFalse, samplecrdv1.ReasonNeutronUnavailable},
		{"quota-exceeded", credentials("full"), metav1.ConditionFalse, samplecrdv1.ReasonQuotaExceeded},
		{"no-segment-available", plain, metav1.ConditionFalse, samplecrdv1.ReasonNoSegmentAvailable},
		{"subnet-pool-exhausted", "  subnetPool: {name: small, prefixLength: 16}\n", metav1.ConditionFalse, samplecrdv1.ReasonSubnetPoolExhausted},
		{"reference-not-found", plain + viaExisting("name", "later"), metav1.ConditionFalse, samplecrdv1.ReasonReferenceNotFound},
		{"admin-state-down", plain + viaExisting("id", off.ID), metav1.ConditionFalse, samplecrdv1.ReasonAdminStateDown},
		{"paused", plain, metav1.ConditionFalse, samplecrdv1.ReasonPaused},
	}
}

// Each reason of the API is recorded from a real run. hack/gitops tests what Argo CD and kstatus
// make of these Networks.
func TestStatusOfEachReason(t *testing.T) {
	t.Parallel()
	w := newWorldOfStatuses(t)
	w.declare("pending", "  cidr: 10.1.0.0/16\n")
	w.matchesRecording("pending", w.get("pending"))

	first := w.first(samplecrdv1.ReasonProgressing)
	w.offer(w, forNobody, "team", "")
	c := w.start("-resync=1h", retryQuickly, "-cluster-resource-namespace="+w.namespace)
	w.declare("progressing", "  cidr: 10.1.0.0/16\n"+viaPublic)
	all := w.recordedNetworks()
	for _, n := range all {
		w.declare(n.name, n.spec)
	}
	w.waitSays("neutron-unavailable", samplecrdv1.ReasonNeutronUnavailable, "has not been available since") // before that, the message may change
	for _, n := range all {
		w.matchesRecording(n.name, w.waitFor(n.name, n.status, n.reason))
	}
	w.matchesRecording("progressing", first())
	w.recordedChanges()

	w.must(c.Stop())
	w.apply("available", "10.1.0.0/16", "10.1.0.9")
	w.matchesRecording("available-outdated", w.get("available"))
}

// recordedChanges records Networks that were ready before.
func (w *world) recordedChanges() {
	w.Helper()
	for _, name := range []string{"other-cloud", "other-owner", "in-use", "in-use-deletion", "paused-deletion"} {
		w.declare(name, "  cidr: 10.1.0.0/16\n"+map[string]string{"other-cloud": "  cloudCredentialsRef: {secretName: moving, cloudName: mycloud}\n"}[name])
	}
	w.waitReady("other-cloud")
	w.applySecret("moving", w.credentialsOf("other-team"))
	w.matchesRecording("other-cloud", w.waitNotReady("other-cloud", samplecrdv1.ReasonOtherCloud))

	w.remark(w.waitReady("other-owner").Status.NetworkID, neutron.Owner{Cluster: "another-cluster", UID: "5a000000-0000-4000-8000-00000000000f"}.Mark())
	w.annotate("other-owner", samplecrdv1.AnnotationReconcileRequestedAt, "now")
	w.matchesRecording("other-owner", w.waitNotReady("other-owner", samplecrdv1.ReasonOtherOwner))

	w.port(w.waitReady("in-use").Status.NetworkID, "server-1")
	w.declare("in-use", "  cidr: 10.9.0.0/16\n")
	w.matchesRecording("in-use", w.waitNotReady("in-use", samplecrdv1.ReasonInUse))

	w.port(w.waitReady("in-use-deletion").Status.NetworkID, "server-1")
	w.kubectl("delete", "network", "in-use-deletion", "--wait=false")
	w.matchesRecording("in-use-deletion", w.waitNotReady("in-use-deletion", samplecrdv1.ReasonInUse))

	w.waitReady("paused-deletion")
	w.annotate("paused-deletion", samplecrdv1.AnnotationPaused, "true")
	w.kubectl("delete", "network", "paused-deletion", "--wait=false")
	w.matchesRecording("paused-deletion", w.waitNotReady("paused-deletion", samplecrdv1.ReasonPaused))
}

// declare applies a Network with that spec. The one with the name paused has the annotation.
func (w *world) declare(name, spec string) {
	w.Helper()
	metadata := "  name: " + name + "\n"
	if name == "paused" {
		metadata += "  annotations: {" + samplecrdv1.AnnotationPaused + `: "true"}` + "\n"
	}
	_, err := w.tryKubectl("apiVersion: samplecrd.k8s.io/v1\nkind: Network\nmetadata:\n"+metadata+"spec:\n"+spec, "apply", "-f", "-")
	w.must(err)
}

// first watches from now on for a Network whose Ready condition has that reason, which may soon be
// another one. It returns a function that waits for it.
func (w *world) first(reason string) func() *samplecrdv1.Network {
	w.Helper()
	changes, err := w.client.SamplecrdV1().Networks(w.namespace).Watch(w.Context(), metav1.ListOptions{})
	w.must(err)
	w.Cleanup(changes.Stop)
	return func() *samplecrdv1.Network {
		w.Helper()
		deadline := time.After(patience)
		for {
			select {
			case e, open := <-changes.ResultChan():
				if !open {
					w.Fatalf("the watch has ended, and no Network had the reason %s", reason)
				}
				if n, ok := e.Object.(*samplecrdv1.Network); ok && condition(n, samplecrdv1.ConditionReady).Reason == reason {
					return n
				}
			case <-deadline:
				w.Fatalf("no Network has the reason %s", reason)
			}
		}
	}
}

var (
	idText     = regexp.MustCompile(`[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}`)
	timeText   = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ`)
	serverText = regexp.MustCompile(`127\.0\.0\.1:\d+`)
)

// matchesRecording compares the Network with its recording, or records it. Argo CD and Flux compare what
// was applied with what is there, so it also checks that the controller set no field of the spec.
func (w *world) matchesRecording(name string, network *samplecrdv1.Network) {
	w.Helper()
	w.setsOnlyFinalizerAndStatus(network)
	n := network.DeepCopy()
	n.APIVersion, n.Kind = samplecrdv1.GroupVersion.String(), "Network"
	n.UID, n.ResourceVersion, n.ManagedFields = "", "", nil
	delete(n.Annotations, "kubectl.kubernetes.io/last-applied-configuration")
	text, err := yaml.Marshal(n)
	w.must(err)
	got := w.withoutAccidents(string(text))
	file := filepath.Join(recordings, name+".yaml")
	if *update {
		w.must(os.WriteFile(file, []byte(got), 0o644))
	}
	want, err := os.ReadFile(file)
	w.must(err)
	if diff := gocmp.Diff(string(want), got); diff != "" {
		w.Errorf("%s differs, record it again with go -C hack test ./e2e -run %s -update (-recorded +now):\n%s", file, w.Name(), diff)
	}
}

// withoutAccidents replaces what differs in each run: IDs, times, ports and the namespace.
func (w *world) withoutAccidents(text string) string {
	ids := map[string]string{}
	text = idText.ReplaceAllStringFunc(text, func(id string) string {
		ids[id] = cmp.Or(ids[id], fmt.Sprintf("5a000000-0000-4000-8000-%012d", len(ids)+1))
		return ids[id]
	})
	text = timeText.ReplaceAllString(text, "2026-01-02T03:04:05Z")
	text = serverText.ReplaceAllString(text, "192.0.2.10:5000")
	return strings.ReplaceAll(text, w.namespace, "team")
}

// setsOnlyFinalizerAndStatus fails if anybody but kubectl owns another field.
func (w *world) setsOnlyFinalizerAndStatus(network *samplecrdv1.Network) {
	w.Helper()
	for _, entry := range network.ManagedFields {
		if strings.HasPrefix(entry.Manager, "kubectl") {
			continue
		}
		var fields map[string]map[string]any
		w.must(json.Unmarshal(entry.FieldsV1.GetRawBytes(), &fields))
		for top, below := range fields {
			for field := range below {
				if top != "f:status" && top+" "+field != "f:metadata f:finalizers" {
					w.Errorf("%s owns %s %s of %s", entry.Manager, top, field, network.Name)
				}
			}
		}
	}
}

// waiting runs kubectl wait in the background, and returns a function that waits for its output.
func (w *world) waiting(condition, name string) func() string {
	type result struct {
		out string
		err error
	}
	done := make(chan result, 1)
	go func() {
		out, err := w.tryKubectl("", "wait", "--for="+condition, "networks.samplecrd.k8s.io/"+name, "--timeout="+patience.String())
		done <- result{out, err}
	}()
	return func() string {
		w.Helper()
		r := <-done
		w.must(r.err)
		return r.out
	}
}

// timesOut fails unless kubectl wait ends with its time-out.
func (w *world) timesOut(condition, name string) {
	w.Helper()
	out, err := w.tryKubectl("", "wait", "--for="+condition, "networks.samplecrd.k8s.io/"+name, "--timeout=3s")
	if err == nil {
		w.Fatalf("kubectl wait --for=%s %s did not wait: %s", condition, name, out)
	}
	// There can be a warning of its watch before the error.
	w.contains(err.Error(), "exit status 1: ")
	w.contains(err.Error(), "error: timed out waiting for the condition on networks/"+name)
}

func TestKubectlWaits(t *testing.T) {
	t.Parallel()
	const ready = "condition=Ready"
	w := newWorldOfStatuses(t)
	w.apply("net", "10.1.0.0/16", "10.1.0.1")
	w.timesOut(ready, "net") // no controller runs
	done := w.waiting(ready, "net")
	c := w.start("-resync=1h", retryQuickly)
	w.equal(done(), "network.samplecrd.k8s.io/net condition met\n")

	w.declare("stalled", "  cidr: 10.1.0.0/31\n")
	w.waitNotReady("stalled", samplecrdv1.ReasonInvalidSpec)
	w.timesOut(ready, "stalled")

	network := w.get("net")
	port := w.port(network.Status.NetworkID, "server-1")
	w.must(c.Stop())
	w.apply("net", "10.1.0.0/16", "10.1.0.9")
	w.timesOut(ready, "net") // the status is that of the old spec
	w.start("-resync=1h", retryQuickly)
	w.waitReady("net")

	w.kubectl("delete", "network", "net", "--wait=false")
	w.waitNotReady("net", samplecrdv1.ReasonInUse)
	w.timesOut("delete", "net")
	done = w.waiting("delete", "net")
	w.removePort(port)
	if out := done(); out != "" { // kubectl prints nothing if it begins after the end
		w.equal(out, "network.samplecrd.k8s.io/net condition met\n")
	}
	w.nothing("net")
}
