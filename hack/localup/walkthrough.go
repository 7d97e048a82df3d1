// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/networks"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/samplecrd/samplecrd-controller/hack/internal/stack"
)

// patience bounds each wait of the walkthrough. On a busy machine the real Neutron needs a minute or more for a request.
const (
	patience = 10 * time.Minute
	timeout  = "--timeout=10m"
)

// allChecked is what the walkthrough prints last, after the number of its steps.
const allChecked = " steps, each checked in Kubernetes and in Neutron."

// resync is how often the controller of the walkthrough lists what Neutron has.
const resync = "-resync=2s"

const aboutOpenStack = `In place of the openstack commands, the walkthrough sends their requests to Neutron itself,
since OpenStack's client may not be installed.`

// walkthrough does everything that a user does with one Network, and checks Kubernetes and
// Neutron after each step.
func (s *session) walkthrough(ctx context.Context) error {
	// The file of an earlier run.
	if err := os.RemoveAll(s.file()); err != nil {
		return err
	}
	fmt.Printf("\n%s\n\n%s\n\n", whyFullName, aboutOpenStack)
	steps := []step{
		{"The controller starts before the CRD exists, and waits for it", s.startBeforeCRD},
		{"The CRD is applied, and the controller starts its workers", s.applyCRDOnce},
		{"The example is applied, and becomes a network in Neutron", s.applyExample},
		{"Another gateway: the same subnet is updated", s.changeGateway},
		{"Another CIDR: the subnet is replaced, the network is the same", s.changeCIDR},
		{"A port is on the subnet: it is replaced when the port is deleted", s.changeCIDRInUse},
		{"A gateway outside of the CIDR: the API server refuses it", s.refuseGateway},
		{"The network is deleted in Neutron: the controller creates it again", s.deleteInNeutron},
		{"A router in the external network: the way out", s.addRouter},
		{"Another CIDR: the router is attached to the new subnet first", s.changeRoutedCIDR},
		{"IPv6: a second subnet, on the same router", s.addIPv6},
		{"The Network is deleted: first in Neutron, then in Kubernetes", s.delete},
		{"A Network that is deleted while the controller is stopped waits for it", s.deleteWhileStopped},
	}
	steps = append(steps, s.trafficSteps()...)
	if err := s.take(ctx, steps); err != nil {
		return err
	}
	if err := s.controller.Stop(); err != nil {
		return fmt.Errorf("stop the controller: %w", err)
	}
	fmt.Printf("%d%s\n", len(steps), allChecked)
	return nil
}

const waitingForCRD = "Waiting for Kubernetes to know what a Network is"

func (s *session) startBeforeCRD(ctx context.Context) error {
	if err := s.startController(resync); err != nil {
		return err
	}
	return s.waitForLog(ctx, waitingForCRD)
}

func (s *session) applyCRD(ctx context.Context) error {
	if err := s.kubectl(ctx, "apply", "-f", crd); err != nil {
		return err
	}
	return s.waitForLog(ctx, "Starting workers")
}

// applyCRDOnce is applyCRD, and checks that the controller did not repeat that it waits.
func (s *session) applyCRDOnce(ctx context.Context) error {
	if err := s.applyCRD(ctx); err != nil {
		return err
	}
	if n := s.controller.Log.Count(waitingForCRD); n != 1 {
		return fmt.Errorf("the controller logged %d times that it waits, want once", n)
	}
	return nil
}

func (s *session) applyExample(ctx context.Context) error {
	if err := s.apply(ctx, example); err != nil {
		return err
	}
	_, err := s.both(ctx, "192.168.0.0/16", "192.168.0.1")
	return err
}

// changeGateway also sets bits of the CIDR beyond its prefix length, which do not matter.
func (s *session) changeGateway(ctx context.Context) error {
	before, err := s.both(ctx, "192.168.0.0/16", "192.168.0.1")
	if err != nil {
		return err
	}
	if err := s.editAndApply(ctx, "192.168.1.0/16", "192.168.1.1"); err != nil {
		return err
	}
	after, err := s.both(ctx, "192.168.0.0/16", "192.168.1.1")
	if err == nil && (after.ID != before.ID || after.Subnets[0].ID != before.Subnets[0].ID) {
		return errors.New("the network or the subnet is another one")
	}
	return err
}

func (s *session) changeCIDR(ctx context.Context) error {
	before, err := s.both(ctx, "192.168.0.0/16", "192.168.1.1")
	if err != nil {
		return err
	}
	if err := s.editAndApply(ctx, "10.10.0.0/16", "10.10.0.1"); err != nil {
		return err
	}
	return s.isReplaced(ctx, before, "10.10.0.0/16", "10.10.0.1")
}

// isReplaced checks that the network is the same as before, with another subnet.
func (s *session) isReplaced(ctx context.Context, before stack.Network, cidr, gateway string) error {
	after, err := s.both(ctx, cidr, gateway)
	if err == nil && (after.ID != before.ID || after.Subnets[0].ID == before.Subnets[0].ID) {
		return errors.New("the network is another one, or the subnet is the same")
	}
	return err
}

// changeCIDRInUse also removes the gateway from the file: then Neutron chooses it.
func (s *session) changeCIDRInUse(ctx context.Context) error {
	before, err := s.both(ctx, "10.10.0.0/16", "10.10.0.1")
	if err != nil {
		return err
	}
	s.show("$ openstack port create --network %s web-0", before.Name)
	port, err := ports.Create(ctx, s.neutron.Client, ports.CreateOpts{NetworkID: before.ID, Name: "web-0"}).Extract()
	if err != nil {
		return fmt.Errorf("create a port: %w", err)
	}
	if err := s.edit("10.20.0.0/16", ""); err != nil {
		return err
	}
	if err := s.kubectl(ctx, "apply", "-f", s.file()); err != nil {
		return err
	}
	if err := s.kubectl(ctx, "wait", `--for=jsonpath={.status.conditions[?(@.type=="Ready")].reason}=InUse`, object, timeout); err != nil {
		return err
	}
	if err := s.showBothSides(ctx, "-o", "wide"); err != nil {
		return err
	}
	s.show("$ openstack port delete web-0")
	if err := ports.Delete(ctx, s.neutron.Client, port.ID).ExtractErr(); err != nil {
		return fmt.Errorf("delete the port: %w", err)
	}
	if err := s.waitReady(ctx); err != nil {
		return err
	}
	return s.isReplaced(ctx, before, "10.20.0.0/16", "10.20.0.1")
}

func (s *session) refuseGateway(ctx context.Context) error {
	before, err := s.both(ctx, "10.20.0.0/16", "10.20.0.1")
	if err != nil {
		return err
	}
	if err := s.edit("10.20.0.0/16", "1.1.1.1"); err != nil {
		return err
	}
	if err := s.kubectlFails(ctx, "1.1.1.1 is not an address inside cidr", "apply", "-f", s.file()); err != nil {
		return err
	}
	after, err := s.both(ctx, "10.20.0.0/16", "10.20.0.1")
	if err == nil && after.Subnets[0].ID != before.Subnets[0].ID {
		return errors.New("the subnet is another one")
	}
	return err
}

func (s *session) deleteInNeutron(ctx context.Context) error {
	before, err := s.both(ctx, "10.20.0.0/16", "10.20.0.1")
	if err != nil {
		return err
	}
	s.show("$ openstack network delete %s", before.Name)
	if err := networks.Delete(ctx, s.neutron.Client, before.ID).ExtractErr(); err != nil {
		return err
	}
	err = s.eventually(ctx, func() error {
		after, err := s.both(ctx, "10.20.0.0/16", "10.20.0.1")
		if err == nil && after.ID == before.ID {
			return errors.New("it is still the old network")
		}
		return err
	})
	if err != nil {
		return err
	}
	if err := s.showBothSides(ctx, "-o", "wide"); err != nil {
		return err
	}
	return s.showEvents(ctx)
}

// showEvents waits for the last event of the steps before: events come a little after
// the status.
func (s *session) showEvents(ctx context.Context) error {
	events := []string{"events", "--for=" + object}
	err := s.eventually(ctx, func() error {
		out, err := s.output(ctx, events...)
		if err == nil && !strings.Contains(out, "DriftRepaired") {
			return fmt.Errorf("no event DriftRepaired in\n%s", out)
		}
		return err
	})
	if err != nil {
		return err
	}
	return s.kubectl(ctx, events...)
}

func (s *session) delete(ctx context.Context) error {
	// kubectl returns when Kubernetes has removed the Network: Neutron must have by then.
	if err := s.kubectl(ctx, "delete", "-f", s.file(), timeout); err != nil {
		return err
	}
	if err := s.nothing(ctx); err != nil {
		return err
	}
	return s.showBothSides(ctx)
}

func (s *session) deleteWhileStopped(ctx context.Context) error {
	if err := s.applyExample(ctx); err != nil {
		return err
	}
	s.show("^C    (in the controller's terminal)")
	if err := s.controller.Stop(); err != nil {
		return fmt.Errorf("SIGTERM: %w", err)
	}
	if err := s.kubectl(ctx, "delete", "-f", example, "--wait=false"); err != nil {
		return err
	}
	// It fails if the Network did not wait for the controller.
	if err := s.kubectl(ctx, "get", object, "-o", "custom-columns=NAME:.metadata.name,DELETED:.metadata.deletionTimestamp,FINALIZERS:.metadata.finalizers"); err != nil {
		return err
	}
	all, err := s.neutron.Networks(ctx)
	if err != nil {
		return err
	}
	if len(all) != 1 {
		return fmt.Errorf("%d networks in Neutron, want 1: the controller is stopped", len(all))
	}
	if err := s.startController(resync); err != nil {
		return err
	}
	if err := s.kubectl(ctx, "wait", "--for=delete", object, timeout); err != nil {
		return err
	}
	return s.nothing(ctx)
}

// waitForLog waits until the controller has logged the text.
func (s *session) waitForLog(ctx context.Context, text string) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return s.controller.Log.WaitFor(ctx, text)
}

// file is the copy of the example that the walkthrough edits.
func (s *session) file() string { return filepath.Join(s.dir, "example-network.yaml") }

var (
	cidrLine    = regexp.MustCompile(`(?m)^  cidr: .*\n`)
	gatewayLine = regexp.MustCompile(`(?m)^  gateway: .*\n`)
)

// edit writes the example with another CIDR and gateway to the file, and shows which lines
// changed. Without a gateway, the file has no line for it.
func (s *session) edit(cidr, gateway string) error {
	text, err := os.ReadFile(filepath.Join(s.root, example))
	if err != nil {
		return err
	}
	before, err := os.ReadFile(s.file())
	if errors.Is(err, os.ErrNotExist) {
		s.show("$ cp %s %s", example, s.file())
		before, err = text, nil
	}
	if err != nil {
		return err
	}
	after := cidrLine.ReplaceAllLiteralString(string(text), fmt.Sprintf("  cidr: %q\n", cidr))
	line := ""
	if gateway != "" {
		line = fmt.Sprintf("  gateway: %q\n", gateway)
	}
	after = gatewayLine.ReplaceAllLiteralString(after, line)
	s.show("$ $EDITOR %s", s.file())
	s.showChange(string(before), after)
	return os.WriteFile(s.file(), []byte(after), 0o600)
}

// showChange shows the lines of before that are not in after, and those of after that are
// not in before, as diff does.
func (s *session) showChange(before, after string) {
	old, edited := strings.Split(before, "\n"), strings.Split(after, "\n")
	for _, line := range old {
		if !slices.Contains(edited, line) {
			s.show("- %s", line)
		}
	}
	for _, line := range edited {
		if !slices.Contains(old, line) {
			s.show("+ %s", line)
		}
	}
}

// editAndApply applies an edited file, and waits until the edit is in effect.
func (s *session) editAndApply(ctx context.Context, cidr, gateway string) error {
	if err := s.edit(cidr, gateway); err != nil {
		return err
	}
	return s.apply(ctx, s.file())
}

// apply applies the file, waits until the Network is ready, and shows both sides.
func (s *session) apply(ctx context.Context, file string) error {
	if err := s.kubectl(ctx, "apply", "-f", file); err != nil {
		return err
	}
	return s.waitReady(ctx)
}

// waitReady waits until the Network is ready, and shows both sides. kubectl takes a
// condition of an earlier generation for none.
func (s *session) waitReady(ctx context.Context) error {
	if err := s.kubectl(ctx, "wait", "--for=condition=Ready", object, timeout); err != nil {
		return err
	}
	return s.showBothSides(ctx)
}

// both returns the one network in Neutron. It returns an error unless that has one subnet
// with this CIDR and gateway, and the Network's status is the same.
func (s *session) both(ctx context.Context, cidr, gateway string) (stack.Network, error) {
	all, err := s.neutron.Networks(ctx)
	if err != nil {
		return stack.Network{}, err
	}
	if len(all) != 1 || len(all[0].Subnets) != 1 {
		return stack.Network{}, fmt.Errorf("want one network with one subnet in Neutron, got %+v", all)
	}
	network, subnet := all[0], all[0].Subnets[0]
	if subnet.CIDR != cidr || subnet.GatewayIP != gateway {
		return stack.Network{}, fmt.Errorf("the subnet in Neutron is %s with gateway %s, want %s with %s", subnet.CIDR, subnet.GatewayIP, cidr, gateway)
	}
	want := fmt.Sprintf("True %s %s %s %s", network.ID, subnet.ID, cidr, gateway)
	got, err := s.output(ctx, "get", object, "-o",
		`jsonpath={.status.conditions[?(@.type=="Ready")].status} {.status.networkID} {.status.subnetID} {.status.cidr} {.status.gateway}`)
	if err == nil && got != want {
		return stack.Network{}, fmt.Errorf("the status is %q, want %q", got, want)
	}
	return network, err
}

// nothing returns an error if there is still a network on either side.
func (s *session) nothing(ctx context.Context) error {
	all, err := s.neutron.Networks(ctx)
	if err != nil {
		return err
	}
	if len(all) > 0 {
		return fmt.Errorf("still in Neutron: %+v", all)
	}
	routers, err := s.routers(ctx)
	if err != nil {
		return err
	}
	if len(routers) > 0 {
		return fmt.Errorf("still in Neutron: %+v", routers)
	}
	names, err := s.output(ctx, "get", resource, "-A", "-o", "name")
	if err == nil && names != "" {
		return fmt.Errorf("still in Kubernetes: %s", names)
	}
	return err
}

// eventually calls try until it returns no error. After patience, it returns the last one.
func (s *session) eventually(ctx context.Context, try func() error) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, patience, true, func(context.Context) (bool, error) {
		last = try()
		return last == nil, nil
	})
	if err != nil {
		return errors.Join(err, last)
	}
	return nil
}
