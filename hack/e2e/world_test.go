// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/google/go-cmp/cmp"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/networks"
	"github.com/samplecrd/samplecrd-controller/hack/internal/stack"
	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
	"github.com/samplecrd/samplecrd-controller/pkg/neutron/embedded"
	"github.com/samplecrd/samplecrd-controller/pkg/testing/meaning"
)

// patience bounds each wait. It is long because the machine may be busy; a wait ends as
// soon as its condition is true.
const patience = 10 * time.Minute

// retryQuickly are flags for short delays between retries, so that tests do not wait long.
const retryQuickly = "-retry-base-delay=100ms -retry-max-delay=500ms"

// project and password are the controller's own credentials.
const (
	project  = "samplecrd"
	password = "right"
)

// failedToSync is what the controller logs for errors other than Neutron's.
const failedToSync = "Failed to sync, will try again"

// world is what each test has for itself.
type world struct {
	*testing.T
	*plane
	namespace string
	dir       string
	neutron   *stack.Neutron
	// calls counts the controller's requests to Neutron, the failed ones too.
	calls *tally
	// expected is a log line that normally fails the test, and is expected in this one.
	expected string
	// reach are the controller's flags for its connection to Kubernetes.
	reach string
	// flags are more flags of each controller.
	flags []string
	// binary is the controller's executable.
	binary string

	fault   *atomic.Pointer[chooser]
	started *atomic.Int32
}

// chooser returns the fault of one of the controller's requests, nil for none.
type chooser func(*http.Request) *embedded.Fault

// newWorld creates a namespace, and starts an embedded Neutron.
func newWorld(t *testing.T) *world {
	t.Helper()
	return newWorldWith(t, embedded.ExternalNetwork{})
}

// newWorldWith is newWorld for a Neutron with an external network.
func newWorldWith(t *testing.T, external embedded.ExternalNetwork) *world {
	t.Helper()
	w := newWorldWithoutNeutron(t)
	var err error
	w.neutron, err = stack.StartNeutron(t.Context(), w.dir, embedded.Options{
		Projects:        []embedded.Project{{Name: project, Password: password}, {Name: "other", Password: password}},
		ExternalNetwork: external,
	})
	w.must(err)
	t.Cleanup(func() { _ = w.neutron.Close() })
	w.neutron.SetFault(w.chooseFault)
	return w
}

// newWorldWithoutNeutron creates a namespace. If the test fails, it logs the state of both
// sides.
func newWorldWithoutNeutron(t *testing.T) *world {
	t.Helper()
	w := &world{
		T:       t,
		plane:   planeOf(t),
		dir:     filepath.Join(dir, "tests", t.Name()),
		calls:   &tally{},
		reach:   "-kubeconfig=" + planeOf(t).controlPlane.Kubeconfig(),
		binary:  binary,
		fault:   &atomic.Pointer[chooser]{},
		started: &atomic.Int32{},
	}
	w.must(os.MkdirAll(w.dir, 0o700))
	namespace, err := w.kube.CoreV1().Namespaces().Create(t.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "e2e-"}}, metav1.CreateOptions{})
	w.must(err)
	w.namespace = namespace.Name
	t.Cleanup(w.showIfFailed)
	return w
}

// at returns the same world for a subtest.
func (w *world) at(t *testing.T) *world {
	sub := *w
	sub.T = t
	return &sub
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// throughProxy makes the controllers that are started from now on reach Kubernetes through
// a proxy that counts their requests.
func (w *world) throughProxy() *proxy {
	w.Helper()
	p := newProxy(w.T, w.adminConfig)
	w.reach = "-master=" + p.url
	return p
}

// chooseFault counts each request of the controller to Neutron, and returns its fault. The
// test's own requests are not counted, and do not fail.
func (w *world) chooseFault(r *http.Request) *embedded.Fault {
	if !strings.Contains(r.UserAgent(), agent) {
		return nil
	}
	if request := neutronRequest(r); request != "" {
		w.calls.add(request)
	}
	if choose := w.fault.Load(); choose != nil {
		return (*choose)(r)
	}
	return nil
}

// harm makes the controller's requests to Keystone and Neutron fail as choose returns.
func (w *world) harm(choose chooser) { w.fault.Store(&choose) }

// heal ends the faults of harm.
func (w *world) heal() { w.fault.Store(nil) }

// harmOnce makes the first request of that kind fail, and returns a channel that is closed
// when it has arrived.
func (w *world) harmOnce(request string, fault embedded.Fault) <-chan struct{} {
	came := make(chan struct{})
	var once sync.Once
	w.harm(func(r *http.Request) (now *embedded.Fault) {
		if neutronRequest(r) == request {
			once.Do(func() {
				close(came)
				now = &fault
			})
		}
		return now
	})
	return came
}

// await waits until done is closed.
func (w *world) await(what string, done <-chan struct{}) {
	w.Helper()
	select {
	case <-done:
	case <-time.After(patience):
		w.Fatalf("timed out waiting for %s", what)
	}
}

// waitUntilAtWork waits until the controller's workers work, and Neutron has been listed.
func (w *world) waitUntilAtWork(c *stack.Controller) {
	w.Helper()
	w.waitForLog(c, "Starting workers")
	w.waitForLog(c, "The first list of Neutron has ended")
}

// start starts a controller, and waits until its workers work.
func (w *world) start(flags ...string) *stack.Controller {
	w.Helper()
	c := w.launch(flags...)
	w.waitUntilAtWork(c)
	return c
}

// launch starts a controller for the namespace. It is stopped at the end of the test, and
// must then exit with code 0, unless it has ended before.
func (w *world) launch(flags ...string) *stack.Controller {
	w.Helper()
	return w.launchIn(w.neutron.Env(), flags...)
}

func (w *world) launchIn(env []string, flags ...string) *stack.Controller {
	w.Helper()
	file, err := os.Create(filepath.Join(w.dir, fmt.Sprintf("controller-%d.log", w.started.Add(1))))
	w.must(err)
	args := slices.Concat([]string{"-v=4", "-namespace=" + w.namespace}, w.flags)
	args = append(args, strings.Fields(w.reach+" "+strings.Join(flags, " "))...)
	env = append([]string{
		// The controller panics if its code has changed an object of a cache.
		"KUBE_CACHE_MUTATION_DETECTOR=true",
		// The race detector delays the exit of a process by a second, in which its
		// goroutines would still run.
		"GORACE=atexit_sleep_ms=0",
	}, env...)
	c, err := stack.StartController(w.binary, env, file, args...)
	w.must(err)
	w.Cleanup(func() {
		defer file.Close()
		w.heal()
		select {
		case <-c.Done():
		default:
			if err := c.Stop(); err != nil {
				w.Errorf("stop the controller: %v", err)
			}
		}
		for _, trouble := range []string{"DATA RACE", "panic: ", failedToSync} {
			if c.Log.Count(trouble) > 0 && trouble != w.expected {
				w.Errorf("%q in the controller's log, %s", trouble, file.Name())
			}
		}
	})
	return c
}

func (w *world) waitForLog(c *stack.Controller, text string) {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.Context(), patience)
	defer cancel()
	w.must(c.Log.WaitFor(ctx, text))
}

// kill kills the controller, as a crash would.
func (w *world) kill(c *stack.Controller) {
	w.Helper()
	w.must(c.Signal(os.Kill))
	w.await("the controller's end", c.Done())
}

// kubectl runs kubectl in the namespace, and returns its output.
func (w *world) kubectl(args ...string) string {
	w.Helper()
	out, err := w.tryKubectl("", args...)
	w.must(err)
	return out
}

// tryKubectl is kubectl with a standard input, and returns the error.
func (w *world) tryKubectl(stdin string, args ...string) (string, error) {
	cmd := w.controlPlane.Kubectl(append([]string{"--namespace=" + w.namespace}, args...)...)
	var stdout, stderr bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("kubectl %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(stderr.String()))
	}
	return stdout.String(), nil
}

// manifest returns a Network as a user writes it, without a gateway if that is empty.
func manifest(name, cidr, gateway string) string {
	text := fmt.Sprintf("apiVersion: samplecrd.k8s.io/v1\nkind: Network\nmetadata:\n  name: %s\nspec:\n  cidr: %q\n", name, cidr)
	if gateway != "" {
		text += fmt.Sprintf("  gateway: %q\n", gateway)
	}
	return text
}

// apply applies a Network.
func (w *world) apply(name, cidr, gateway string) {
	w.Helper()
	_, err := w.tryKubectl(manifest(name, cidr, gateway), "apply", "-f", "-")
	w.must(err)
}

// create applies a Network, and waits until it is ready.
func (w *world) create(name, cidr, gateway string) *samplecrdv1.Network {
	w.Helper()
	w.apply(name, cidr, gateway)
	return w.waitReady(name)
}

// delete deletes the Network with kubectl, which waits until it is gone.
func (w *world) delete(name string) {
	w.Helper()
	w.kubectl("delete", "network", name, "--timeout="+patience.String())
}

// eventually calls try until it returns no error. After patience, the test fails with the
// last error.
func (w *world) eventually(try func() error) {
	w.Helper()
	var last error
	err := wait.PollUntilContextTimeout(w.Context(), 50*time.Millisecond, patience, true, func(context.Context) (bool, error) {
		last = try()
		return last == nil, nil
	})
	if err != nil {
		w.Fatalf("%v: %v", err, last)
	}
}

func (w *world) get(name string) *samplecrdv1.Network {
	w.Helper()
	network, err := w.client.SamplecrdV1().Networks(w.namespace).Get(w.Context(), name, metav1.GetOptions{})
	w.must(err)
	return network
}

// waitReady waits until the Network is ready in its present generation.
func (w *world) waitReady(name string) *samplecrdv1.Network {
	w.Helper()
	return w.waitFor(name, metav1.ConditionTrue, samplecrdv1.ReasonAvailable)
}

// waitNotReady waits until the Network is not ready for that reason.
func (w *world) waitNotReady(name, reason string) *samplecrdv1.Network {
	w.Helper()
	return w.waitFor(name, metav1.ConditionFalse, reason)
}

func (w *world) waitFor(name string, status metav1.ConditionStatus, reason string) (network *samplecrdv1.Network) {
	w.Helper()
	w.eventually(func() error {
		network = w.get(name)
		ready := condition(network, samplecrdv1.ConditionReady)
		if ready.Status == status && ready.Reason == reason && ready.ObservedGeneration == network.Generation {
			return nil
		}
		return fmt.Errorf("Network %s is not Ready=%s for reason %s but %+v", name, status, reason, ready)
	})
	return network
}

// condition returns the condition of that type, the zero Condition if there is none.
func condition(network *samplecrdv1.Network, kind string) metav1.Condition {
	for _, c := range network.Status.Conditions {
		if c.Type == kind {
			return c
		}
	}
	return metav1.Condition{}
}

// waitGone waits until Kubernetes has no such Network.
func (w *world) waitGone(name string) {
	w.Helper()
	w.eventually(func() error {
		_, err := w.client.SamplecrdV1().Networks(w.namespace).Get(w.Context(), name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return errors.Join(errors.New("the Network still exists"), err)
	})
}

// networks returns the networks in Neutron with the Network's name.
func (w *world) networks(name string) []stack.Network {
	w.Helper()
	all, err := w.neutron.Networks(w.Context())
	w.must(err)
	var found []stack.Network
	for _, n := range all {
		if n.Name == w.namespace+"/"+name {
			found = append(found, n)
		}
	}
	return found
}

// matches returns the Network's network in Neutron. It fails unless that is the only one,
// with one subnet, and both the subnet and the Network's status have this CIDR and gateway.
func (w *world) matches(name, cidr, gateway string) stack.Network {
	w.Helper()
	found := w.networks(name)
	if len(found) != 1 || len(found[0].Subnets) != 1 {
		w.Fatalf("want one network with one subnet in Neutron, got %+v", found)
	}
	n, subnet, status := found[0], found[0].Subnets[0], w.get(name).Status
	want := []string{n.ID, subnet.ID, cidr, gateway}
	in := []string{n.ID, subnet.ID, subnet.CIDR, subnet.GatewayIP}
	said := []string{status.NetworkID, status.SubnetID, status.CIDR, strings.Replace(status.Gateway, samplecrdv1.GatewayNone, "", 1)}
	if fmt.Sprint(in) != fmt.Sprint(want) || fmt.Sprint(said) != fmt.Sprint(want) {
		w.Fatalf("want %s, Neutron has %s, the status says %s", want, in, said)
	}
	w.agrees(name, n)
	return n
}

// agrees fails unless the network and its subnets are what the spec of the Network means.
func (w *world) agrees(name string, n stack.Network) {
	w.Helper()
	var observed meaning.Network
	w.must(networks.Get(w.Context(), w.neutron.Client, n.ID).ExtractInto(&observed))
	spec := w.get(name).Spec
	want, got := []string{meaning.WantedNetwork(&spec, observed)}, []string{meaning.ObservedNetwork(observed)}
	for _, s := range meaning.SubnetsOf(&spec) {
		want = append(want, meaning.WantedSubnet(&s.SubnetSpec))
	}
	for i := range n.Subnets {
		got = append(got, meaning.ObservedSubnet(&n.Subnets[i]))
	}
	slices.Sort(want)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		w.Errorf("Neutron has not what the spec of Network %s means (-spec +Neutron):\n%s", name, diff)
	}
}

// nothing fails if Neutron still has a network with the Network's name.
func (w *world) nothing(name string) {
	w.Helper()
	if found := w.networks(name); len(found) > 0 {
		w.Errorf("still in Neutron: %+v", found)
	}
}

// mark returns the ownership mark of the Network, which ends the description of its network
// and its subnet.
func (w *world) mark(network *samplecrdv1.Network) string {
	w.Helper()
	system, err := w.kube.CoreV1().Namespaces().Get(w.Context(), metav1.NamespaceSystem, metav1.GetOptions{})
	w.must(err)
	return "samplecrd.k8s.io/owner=" + string(system.UID) + "/" + string(network.UID)
}

// events returns the Network's events of that reason, all of them if it is "".
func (w *world) events(name, reason string) []corev1.Event {
	w.Helper()
	list, err := w.kube.CoreV1().Events(w.namespace).List(w.Context(), metav1.ListOptions{FieldSelector: "involvedObject.name=" + name})
	w.must(err)
	var found []corev1.Event
	for _, e := range list.Items {
		if reason == "" || e.Reason == reason {
			found = append(found, e)
		}
	}
	return found
}

// waitForEvent waits for an event of that reason with text in its message. Events come a
// little after the status.
func (w *world) waitForEvent(name, reason, text string) corev1.Event {
	w.Helper()
	var event corev1.Event
	w.eventually(func() error {
		for _, event = range w.events(name, reason) {
			if strings.Contains(event.Message, text) {
				return nil
			}
		}
		return fmt.Errorf("no event %s of %s with %q", reason, name, text)
	})
	return event
}

// contains fails unless the text contains each of wanted.
func (w *world) contains(text string, wanted ...string) {
	w.Helper()
	for _, want := range wanted {
		if !strings.Contains(text, want) {
			w.Errorf("want %q in:\n%s", want, text)
		}
	}
}

// showIfFailed logs the controllers' logs, the Networks and the events of a failed test.
func (w *world) showIfFailed() {
	if !w.Failed() {
		return
	}
	logs, _ := filepath.Glob(filepath.Join(w.dir, "controller-*.log"))
	for _, file := range logs {
		text, _ := os.ReadFile(file)
		w.Logf("%s:\n%s", filepath.Base(file), text)
	}
	for _, args := range [][]string{{"get", "networks", "-o", "yaml"}, {"get", "events"}} {
		out, err := w.tryKubectl("", args...)
		w.Logf("kubectl %s:\n%s%v", strings.Join(args, " "), out, err)
	}
}

// annotate sets an annotation with kubectl, or removes it if value is "".
func (w *world) annotate(name, key, value string) {
	w.Helper()
	change := key + "=" + value
	if value == "" {
		change = key + "-"
	}
	w.kubectl("annotate", "--overwrite", "network", name, change)
}

// patch changes a Network, as kubectl patch --type=merge does but faster.
func (w *world) patch(name, patch string) {
	w.Helper()
	_, err := w.client.SamplecrdV1().Networks(w.namespace).Patch(w.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	w.must(err)
}

// list returns the world's Networks by their names.
func (w *world) list() map[string]samplecrdv1.Network {
	w.Helper()
	list, err := w.client.SamplecrdV1().Networks(w.namespace).List(w.Context(), metav1.ListOptions{})
	w.must(err)
	byName := map[string]samplecrdv1.Network{}
	for _, n := range list.Items {
		byName[n.Name] = n
	}
	return byName
}
