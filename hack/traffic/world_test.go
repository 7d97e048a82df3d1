// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/layer3/floatingips"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/security/groups"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/security/rules"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/samplecrd/samplecrd-controller/hack/neutron/machine"
	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
)

// patience bounds each wait. It is long because on a busy computer Neutron needs minutes for one request.
const patience = 15 * time.Minute

// neutronTimeout lets the controller and plan wait for such a request. To send it again makes Neutron slower still.
const neutronTimeout = "-neutron-timeout=5m"

// world is what each test has for itself: a namespace, its Networks, and machines on them.
type world struct {
	*testing.T
	*site
	namespace string
	// lasts leaves the machines and Networks to the end of Neutron: to delete them takes as long as to
	// make them.
	lasts bool
}

// turns limits the tests of machines that run at the same time: with more, Neutron answers too late.
var turns = make(chan struct{}, 5)

// takeTurn waits for a turn, which lasts until what the test makes is deleted.
func takeTurn(t *testing.T) {
	turns <- struct{}{}
	t.Cleanup(func() { <-turns })
}

// newWorld creates a namespace. At the end of the test its Networks are deleted, which must work,
// unless the world lasts.
func newWorld(t *testing.T) *world {
	t.Helper()
	if shared.unavailable != nil {
		t.Skip(shared.unavailable)
	}
	w := &world{T: t, site: &shared}
	namespace, err := w.kube.CoreV1().Namespaces().Create(t.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "traffic-"}}, metav1.CreateOptions{})
	w.must(err)
	w.namespace = namespace.Name
	t.Cleanup(func() {
		if t.Failed() {
			out, err := w.tryKubectl("", "get", "networks", "-o", "yaml")
			t.Log(out, err)
			w.logAgents()
		}
		if w.lasts {
			return
		}
		if _, err := w.tryKubectl("", "delete", "networks", "--all", "--timeout="+patience.String()); err != nil {
			t.Error(err)
		}
	})
	return w
}

// logAgents logs the last lines of the agents' logs: without them, nobody can tell why a port does not become active.
func (w *world) logAgents() {
	for _, agent := range []string{"dhcp", "linuxbridge", "l3"} {
		text, err := os.ReadFile(filepath.Join(w.dir, "neutron", "log", agent+"-agent.log"))
		lines := strings.SplitAfter(string(text), "\n")
		w.Logf("the log of the agent %s ends with (%v)\n%s", agent, err, strings.Join(lines[max(0, len(lines)-8):], ""))
	}
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// kubectl runs kubectl in the namespace with that standard input, and returns its output.
func (w *world) kubectl(stdin string, args ...string) string {
	w.Helper()
	out, err := w.tryKubectl(stdin, args...)
	w.must(err)
	return out
}

func (w *world) tryKubectl(stdin string, args ...string) (string, error) {
	cmd := w.controlPlane.Kubectl(append([]string{"--namespace=" + w.namespace}, args...)...)
	var stdout, stderr bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("kubectl %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(stderr.String()))
	}
	return stdout.String(), nil
}

// network returns the manifest of a Network. The spec is YAML in braces or on indented lines.
func network(name, spec string) string {
	return "apiVersion: samplecrd.k8s.io/v1\nkind: Network\nmetadata: {name: " + name + "}\nspec: " + spec + "\n"
}

// example returns a manifest of artifacts/examples.
func (w *world) example(file string) string {
	w.Helper()
	text, err := os.ReadFile(filepath.Join(w.root, "artifacts", "examples", file))
	w.must(err)
	return string(text)
}

// apply applies the manifest of a Network, and returns that Network when it is ready.
func (w *world) apply(manifest string) *samplecrdv1.Network {
	w.Helper()
	name := strings.TrimSpace(w.kubectl(manifest, "apply", "-f", "-", "-o", "jsonpath={.metadata.name}"))
	return w.waitReady(name)
}

// patch changes the spec of a Network, and returns the Network when it is ready.
func (w *world) patch(name, spec string) *samplecrdv1.Network {
	w.Helper()
	w.kubectl("", "patch", "network", name, "--type=merge", "-p", `{"spec":`+spec+`}`)
	return w.waitReady(name)
}

// waitReady waits until the Network is ready in its present generation.
func (w *world) waitReady(name string) (network *samplecrdv1.Network) {
	w.Helper()
	w.eventually(func() (err error) {
		network, err = w.client.SamplecrdV1().Networks(w.namespace).Get(w.Context(), name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		ready := meta.FindStatusCondition(network.Status.Conditions, samplecrdv1.ConditionReady)
		if ready == nil || ready.Status != metav1.ConditionTrue || ready.ObservedGeneration != network.Generation {
			return fmt.Errorf("Network %s is not ready: %+v", name, ready)
		}
		return nil
	})
	return network
}

// eventually calls try until it returns no error, not too often: most requests of a test are these. After patience, the test fails
// with the last error.
func (w *world) eventually(try func() error) {
	w.Helper()
	var last error
	err := wait.PollUntilContextTimeout(w.Context(), 300*time.Millisecond, patience, true, func(context.Context) (bool, error) {
		last = try()
		return last == nil, nil
	})
	if err != nil {
		w.Fatalf("%v: %v", err, last)
	}
}

// pause waits that long, or until the test ends.
func (w *world) pause(d time.Duration) {
	select {
	case <-time.After(d):
	case <-w.Context().Done():
	}
}

// machine makes a machine on the Network. It is removed at the end of the test, before the Networks.
func (w *world) machine(name string, on *samplecrdv1.Network, o machine.Options) *machine.Machine {
	w.Helper()
	m, err := w.host.New(w.Context(), w.namespace+"-"+name, on.Status.NetworkID, o)
	w.must(err)
	w.Cleanup(func() {
		if w.lasts {
			return
		}
		if err := m.Close(); err != nil {
			w.Error(err)
		}
	})
	return m
}

// reaches waits until the machine has an answer from the address.
func (w *world) reaches(m *machine.Machine, address string) {
	w.Helper()
	w.eventually(func() error {
		_, err := m.Ping(w.Context(), address, 1)
		return err
	})
}

// letsPingsIn returns the ID of a new security group of the controller's project that lets pings in.
func (w *world) letsPingsIn() string {
	w.Helper()
	group, err := groups.Create(w.Context(), w.neutron.Client, groups.CreateOpts{Name: w.namespace}).Extract()
	w.must(err)
	w.Cleanup(func() { _ = groups.Delete(context.Background(), w.neutron.Client, group.ID) })
	for etherType, protocol := range map[rules.RuleEtherType]rules.RuleProtocol{
		rules.EtherType4: rules.ProtocolICMP, rules.EtherType6: rules.ProtocolIPv6ICMP,
	} {
		w.must(rules.Create(w.Context(), w.neutron.Client, rules.CreateOpts{
			SecGroupID: group.ID, Direction: rules.DirIngress, EtherType: etherType, Protocol: protocol,
		}).Err)
	}
	return group.ID
}

// floatingIP gives the machine an address in the external network, and returns it.
func (w *world) floatingIP(m *machine.Machine) string {
	w.Helper()
	ip, err := floatingips.Create(w.Context(), w.neutron.Client, floatingips.CreateOpts{
		FloatingNetworkID: w.outside.Port.NetworkID, PortID: m.Port.ID,
	}).Extract()
	w.must(err)
	w.Cleanup(func() {
		if err := floatingips.Delete(context.Background(), w.neutron.Client, ip.ID).ExtractErr(); err != nil {
			w.Error(err)
		}
	})
	return ip.FloatingIP
}
