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

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/networks"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/samplecrd/samplecrd-controller/hack/internal/stack"
)

// patience bounds each wait of the walkthrough. Nothing takes as long.
const patience = 30 * time.Second

// resync is how often the walkthrough's controller looks for what has changed in Neutron.
const resync = "-resync=2s"

// walkthrough does everything that a user does with one Network, and looks at both
// sides after each step. On failure it shows the controller's log.
func (s *session) walkthrough(ctx context.Context) error {
	steps := []struct {
		what string
		do   func(context.Context) error
	}{
		{"controller started before the CRD: waits, and says so once", s.startBeforeCRD},
		{"CRD applied: the controller goes to work by itself", s.applyCRD},
		{"192.168.0.0/16 created with gateway 192.168.0.1", s.create},
		{"changed to 192.168.1.0/16, gateway 192.168.1.1: same subnet", s.changeGateway},
		{"changed to 10.10.0.0/16, gateway 10.10.0.1: subnet replaced", s.changeCIDR},
		{"deleted in Neutron behind its back: made again", s.deleteBehindItsBack},
		{"deleted by kubectl: gone in Neutron, then in Kubernetes", s.delete},
		{"deleted while the controller is down: gone when it is back", s.deleteWhileDown},
	}
	for _, step := range steps {
		if err := s.say(step.what, func() error { return step.do(ctx) }); err != nil {
			s.logs.open()
			return err
		}
	}
	if err := s.controller.Stop(); err != nil {
		return fmt.Errorf("stop the controller: %w", err)
	}
	fmt.Printf("\n%d steps, each seen in Kubernetes and in Neutron.\n", len(steps))
	return nil
}

const waitingForCRD = "Waiting for Kubernetes to know what a Network is"

func (s *session) startBeforeCRD(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := s.launch(resync); err != nil {
		return err
	}
	return s.controller.Log.WaitFor(ctx, waitingForCRD)
}

func (s *session) applyCRD(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := s.kubectl(ctx, "apply", "-f", crd); err != nil {
		return err
	}
	if err := s.controller.Log.WaitFor(ctx, "Starting workers"); err != nil {
		return err
	}
	if said := s.controller.Log.Count(waitingForCRD); said != 1 {
		return fmt.Errorf("it said %d times that it waits", said)
	}
	return nil
}

func (s *session) create(ctx context.Context) error {
	if err := s.kubectl(ctx, "apply", "-f", example); err != nil {
		return err
	}
	if err := s.kubectl(ctx, "wait", "--for=condition=Ready", "network/example-network", "--timeout=30s"); err != nil {
		return err
	}
	_, err := s.both(ctx, "192.168.0.0/16", "192.168.0.1")
	return err
}

func (s *session) changeGateway(ctx context.Context) error {
	before, err := s.both(ctx, "192.168.0.0/16", "192.168.0.1")
	if err != nil {
		return err
	}
	if err := s.edit(ctx, "192.168.1.0/16", "192.168.1.1"); err != nil {
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
	if err := s.edit(ctx, "10.10.0.0/16", "10.10.0.1"); err != nil {
		return err
	}
	after, err := s.both(ctx, "10.10.0.0/16", "10.10.0.1")
	if err == nil && (after.ID != before.ID || after.Subnets[0].ID == before.Subnets[0].ID) {
		return errors.New("the network is another one, or the subnet is the same")
	}
	return err
}

func (s *session) deleteBehindItsBack(ctx context.Context) error {
	before, err := s.both(ctx, "10.10.0.0/16", "10.10.0.1")
	if err != nil {
		return err
	}
	if err := networks.Delete(ctx, s.neutron.Client, before.ID).ExtractErr(); err != nil {
		return err
	}
	return s.eventually(ctx, func() error {
		after, err := s.both(ctx, "10.10.0.0/16", "10.10.0.1")
		if err == nil && after.ID == before.ID {
			return errors.New("it is still the old network")
		}
		return err
	})
}

func (s *session) delete(ctx context.Context) error {
	// kubectl returns when the Network is gone from Kubernetes: Neutron's must be by then.
	if err := s.kubectl(ctx, "delete", "network", "example-network", "--timeout=30s"); err != nil {
		return err
	}
	return s.nothing(ctx)
}

func (s *session) deleteWhileDown(ctx context.Context) error {
	if err := s.create(ctx); err != nil {
		return err
	}
	if err := s.controller.Stop(); err != nil {
		return fmt.Errorf("SIGTERM: %w", err)
	}
	if err := s.kubectl(ctx, "delete", "network", "example-network", "--wait=false"); err != nil {
		return err
	}
	if err := s.kubectl(ctx, "get", "network", "example-network"); err != nil {
		return fmt.Errorf("it went without waiting for Neutron: %w", err)
	}
	all, err := s.neutron.Networks(ctx)
	if err != nil {
		return err
	}
	if len(all) != 1 {
		return fmt.Errorf("%d networks in Neutron, want the 1 that nobody has deleted yet", len(all))
	}
	if err := s.startController(ctx, resync); err != nil {
		return err
	}
	if err := s.kubectl(ctx, "wait", "--for=delete", "network/example-network", "--timeout=30s"); err != nil {
		return err
	}
	return s.nothing(ctx)
}

// edit changes the spec, and waits until the controller says that it is in force.
func (s *session) edit(ctx context.Context, cidr, gateway string) error {
	patch := fmt.Sprintf(`{"spec":{"cidr":%q,"gateway":%q}}`, cidr, gateway)
	if err := s.kubectl(ctx, "patch", "network", "example-network", "--type=merge", "-p", patch); err != nil {
		return err
	}
	generation, err := s.output(ctx, "get", "network", "example-network", "-o", "jsonpath={.metadata.generation}")
	if err != nil {
		return err
	}
	if err := s.kubectl(ctx, "wait", "network/example-network", "--for=jsonpath={.status.observedGeneration}="+generation, "--timeout=30s"); err != nil {
		return err
	}
	return s.kubectl(ctx, "wait", "network/example-network", "--for=condition=Ready", "--timeout=30s")
}

// both returns the one network in Neutron, and an error unless it has the one subnet
// that it should have, and the Network's status says the same.
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
	got, err := s.output(ctx, "get", "network", "example-network", "-o",
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
	names, err := s.output(ctx, "get", "networks", "-A", "-o", "name")
	if err == nil && names != "" {
		return fmt.Errorf("still in Kubernetes: %s", names)
	}
	return err
}

// eventually tries until there is no error any more, and returns the last one.
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
