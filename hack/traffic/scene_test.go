// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/networks"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/subnets"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/samplecrd/samplecrd-controller/hack/neutron/machine"
	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
)

// scene is a Network with a router, and two machines on it that ping while it changes.
type scene struct {
	*world
	name string
	// spec is what was applied last, and network is what became of it.
	spec    samplecrdv1.NetworkSpec
	network *samplecrdv1.Network
	// oldRouter is the ID of the router before the change, "" for none.
	oldRouter string
	from      *machine.Machine
	to        *machine.Machine
	// floatingIP leads from outside to the machine to; "" for none.
	floatingIP string
}

// at returns the scene for a subtest.
func (s *scene) at(t *testing.T) *scene {
	world, sub := *s.world, *s
	world.T, sub.world = t, &world
	return &sub
}

// manifest returns the manifest with the spec.
func (s *scene) manifest() string {
	s.Helper()
	text, err := json.Marshal(map[string]any{
		"apiVersion": samplecrdv1.GroupVersion.String(), "kind": "Network",
		"metadata": map[string]string{"name": s.name}, "spec": s.spec,
	})
	s.must(err)
	return string(text)
}

// apply applies the spec, and waits until Ready has that reason.
func (s *scene) apply(reason string) {
	s.Helper()
	s.kubectl(s.manifest(), "apply", "-f", "-")
	s.waitFor(reason)
}

// waitFor waits until Ready has that reason in the present generation.
func (s *scene) waitFor(reason string) {
	s.Helper()
	s.eventually(func() (err error) {
		s.network, err = s.client.SamplecrdV1().Networks(s.namespace).Get(s.Context(), s.name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		ready := meta.FindStatusCondition(s.network.Status.Conditions, samplecrdv1.ConditionReady)
		if ready == nil || ready.Reason != reason || ready.ObservedGeneration != s.network.Generation {
			return fmt.Errorf("Network %s does not have the reason %s: %+v", s.name, reason, ready)
		}
		return nil
	})
}

// What plan says in two cases. Else it is what its steps interrupt.
const (
	nothing = "nothing"
	blocked = "blocked, so nothing"
)

// plan returns what samplecrd-controller plan says about the spec before it is applied: what it
// interrupts.
func (s *scene) plan() string {
	s.Helper()
	cmd := exec.CommandContext(s.Context(), s.binary, "plan", "-f", "-", "-o", "json", "-n", s.namespace, "-kubeconfig", s.controlPlane.Kubeconfig(), neutronTimeout)
	var stderr bytes.Buffer
	cmd.Env, cmd.Stdin, cmd.Stderr = append(os.Environ(), s.neutron.Env()...), strings.NewReader(s.manifest()), &stderr
	out, err := cmd.Output()
	// The exit code is 2 if there are changes.
	if exit := (*exec.ExitError)(nil); err != nil && (!errors.As(err, &exit) || exit.ExitCode() != 2) {
		s.Fatalf("plan: %v: %s%s", err, out, stderr.String())
	}
	var plans []struct {
		Steps []struct{ Text, Interrupts, BlockedBy string }
	}
	s.must(json.Unmarshal(out, &plans))
	var says []string
	for _, p := range plans {
		for _, step := range p.Steps {
			s.Logf("plan: %s; interrupts: %s; blocked: %s", step.Text, step.Interrupts, step.BlockedBy)
			if step.BlockedBy != "" {
				return blocked
			}
			if step.Interrupts != "" {
				says = append(says, step.Interrupts)
			}
		}
	}
	if says == nil {
		return nothing
	}
	return strings.Join(says, "; ")
}

// routerID returns the ID of the router that the Network has, "" for none.
func (s *scene) routerID() string {
	if s.network.Status.Router == nil {
		return ""
	}
	return s.network.Status.Router.ID
}

// router looks at what ip shows of a router. It returns an error if the text is not there, or if it
// is there although it is not wanted.
func (s *scene) router(id, object, text string, isWanted bool) error {
	out, err := s.real.Command(s.Context(), "ip", "-n", "qrouter-"+id, "-o", object, "show").CombinedOutput()
	if err == nil && strings.Contains(string(out), text) != isWanted {
		err = fmt.Errorf("want %q to be there: %t, the router has %s", text, isWanted, out)
	}
	return err
}

// waitForRouters waits until the routers' agent has done what it has begun to do for them.
func (s *scene) waitForRouters(ids ...string) {
	s.Helper()
	s.eventually(func() error {
		log, err := os.ReadFile(filepath.Join(s.dir, "neutron", "log", "l3-agent.log"))
		if err != nil {
			return err
		}
		last := func(words, id string) int { return bytes.LastIndex(log, []byte(words+" for "+id)) }
		for _, id := range ids {
			if id != "" && last("Starting router update", id) > max(last("Finished a router update", id), last("Finished a router delete", id)) {
				return fmt.Errorf("the agent is at work for router %s", id)
			}
		}
		return nil
	})
}

// restartController ends the controller as a crash does, and starts it again.
func (s *scene) restartController() {
	s.Helper()
	s.must(s.controller.Signal(syscall.SIGKILL))
	<-s.controller.Done()
	log := filepath.Join(s.dir, "controller.log")
	s.must(os.Rename(log, log+".killed"))
	s.must(s.startController())
}

// stopNeutron ends Neutron's server as a crash does, and returns a function that starts it again.
// The agents go on.
func (s *scene) stopNeutron() (start func()) {
	s.Helper()
	state := filepath.Join(s.dir, "neutron")
	pidFile := filepath.Join(state, "run", "neutron.pid")
	text, err := os.ReadFile(pidFile)
	s.must(err)
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	s.must(err)
	// Neutron has changed its command line: there are blanks between the arguments.
	command, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cmdline"))
	s.must(err)
	args := strings.Fields(strings.ReplaceAll(string(command), "\x00", " "))
	s.must(syscall.Kill(-pid, syscall.SIGKILL))
	s.eventually(func() error {
		if err := syscall.Kill(-pid, 0); !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("Neutron has not ended: %w", err)
		}
		return nil
	})
	return func() {
		log, err := os.OpenFile(filepath.Join(state, "log", "neutron.out"), os.O_APPEND|os.O_WRONLY, 0)
		s.must(err)
		defer log.Close()
		cmd := exec.Command("bash", append([]string{"-c", `. "$1"; use_state "$2"; use_packages; exec "${@:3}"`, "bash",
			filepath.Join(s.root, "hack", "neutron", "common.sh"), state}, args...)...)
		cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = log, log, &syscall.SysProcAttr{Setsid: true}
		s.must(cmd.Start())
		s.must(os.WriteFile(pidFile, []byte(strconv.Itoa(cmd.Process.Pid)), 0o600))
		go func() { _ = cmd.Wait() }()
	}
}

// idles lets the controller list its own cloud twice, and fails if it writes anything meanwhile. The first list may have begun before.
func (s *scene) idles() {
	s.Helper()
	var before string
	look := func() string {
		n, err := s.client.SamplecrdV1().Networks(s.namespace).Get(s.Context(), s.name, metav1.GetOptions{})
		s.must(err)
		network, err := networks.Get(s.Context(), s.neutron.Client, n.Status.NetworkID).Extract()
		s.must(err)
		seen := fmt.Sprintf("resource version %s, revision %d", n.ResourceVersion, network.RevisionNumber)
		for _, id := range network.Subnets {
			subnet, err := subnets.Get(s.Context(), s.neutron.Client, id).Extract()
			s.must(err)
			seen += fmt.Sprintf(", subnet %s revision %d", subnet.CIDR, subnet.RevisionNumber)
		}
		return fmt.Sprintf("%s, %d changes", seen, s.controller.Log.Count(fmt.Sprintf("\"Changed Neutron\" network=%q", s.namespace+"/"+s.name)))
	}
	const listed = `"Listed Neutron's networks" duration=` // those of other clouds have a name before it
	before = look()
	lists := s.controller.Log.Count(listed)
	s.eventually(func() error {
		if n := s.controller.Log.Count(listed) - lists; n < 2 {
			return fmt.Errorf("the controller has listed Neutron %d times", n)
		}
		return nil
	})
	if after := look(); after != before {
		s.Errorf("an idle controller has written: %s, before %s", after, before)
	}
}
