// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package monitoring

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/networks"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/subnets"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"

	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
	"github.com/samplecrd/samplecrd-controller/pkg/neutron/embedded"
)

const (
	// namespace is the namespace of the Networks; many is their number from the start.
	namespace = "default"
	many      = 40
	// few is the number of Networks that the acts change.
	few = 6
	// editEvery is the interval between edits in the background.
	editEvery = 200 * time.Millisecond
)

// act is one event of a scene.
type act struct {
	// Name describes the event.
	Name string
	do   func(context.Context, time.Duration) error
}

func (s *Scene) acts() []act {
	return []act{
		{fmt.Sprintf("%d Networks, and from now on five edits a second", many), s.fill},
		{fmt.Sprintf("a user changes %d networks in Neutron", few), s.drift},
		{"specs that Neutron refuses, more Networks than the quota allows, a wrong password in a Secret, an orphan", s.refusals},
		{"Neutron is away: errors, then silence", s.outage},
		{"the leader is killed", s.failover},
		{"kube-apiserver is restarted", s.restartKubernetes},
	}
}

// Play plays everything that the dashboard and the alerts show, one act after the other,
// with a pause after each. It calls began at the start of each act.
func (s *Scene) Play(ctx context.Context, pause time.Duration, began func(name string)) error {
	if err := s.passed(ctx, pause); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for i, a := range s.acts() {
		began(a.Name)
		if err := a.do(ctx, pause); err != nil {
			return fmt.Errorf("%s: %w", a.Name, err)
		}
		if i == 0 {
			go s.edit(ctx)
		}
		if err := s.passed(ctx, pause); err != nil {
			return err
		}
	}
	return nil
}

// passed waits until the pause has passed.
func (s *Scene) passed(ctx context.Context, pause time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(pause):
		return nil
	}
}

func (s *Scene) create(ctx context.Context, name, cidr string, credentials *samplecrdv1.CloudCredentialsReference) error {
	_, err := s.client.SamplecrdV1().Networks(namespace).Create(ctx, &samplecrdv1.Network{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       samplecrdv1.NetworkSpec{SubnetSpec: samplecrdv1.SubnetSpec{CIDR: cidr}, CloudCredentialsRef: credentials},
	}, metav1.CreateOptions{})
	return err
}

// reaches waits until the Network's Ready condition has that reason. Meanwhile kube-apiserver may be away.
func (s *Scene) reaches(ctx context.Context, name, reason string) error {
	var last error
	err := until(ctx, func(ctx context.Context) (bool, error) {
		var network *samplecrdv1.Network
		if network, last = s.client.SamplecrdV1().Networks(namespace).Get(ctx, name, metav1.GetOptions{}); last != nil {
			return false, nil
		}
		ready := meta.FindStatusCondition(network.Status.Conditions, samplecrdv1.ConditionReady)
		return ready != nil && ready.Reason == reason && ready.ObservedGeneration == network.Generation, nil
	})
	if err != nil {
		return fmt.Errorf("wait until the Network %s has the reason %s: %w", name, reason, errors.Join(err, last))
	}
	return nil
}

func until(ctx context.Context, condition wait.ConditionWithContextFunc) error {
	return wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, 10*time.Minute, true, condition)
}

func numbered(i int) string { return fmt.Sprintf("net-%d", i) }

func (s *Scene) fill(ctx context.Context, _ time.Duration) error {
	for i := range many {
		if err := s.create(ctx, numbered(i), fmt.Sprintf("10.%d.0.0/16", i), nil); err != nil {
			return err
		}
	}
	for i := range many {
		if err := s.reaches(ctx, numbered(i), samplecrdv1.ReasonAvailable); err != nil {
			return err
		}
	}
	return nil
}

// edit changes the gateways of Networks until ctx is cancelled.
func (s *Scene) edit(ctx context.Context) {
	for s.passed(ctx, editEvery) == nil {
		i := few + rand.IntN(many-few)
		patch := fmt.Sprintf(`{"spec":{"gateway":"10.%d.0.%d"}}`, i, 1+rand.IntN(200))
		// The patch fails while kube-apiserver is down; a later one succeeds.
		_, _ = s.client.SamplecrdV1().Networks(namespace).Patch(ctx, numbered(i), types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	}
}

// drift changes networks in Neutron, and waits until the controller has corrected them.
func (s *Scene) drift(ctx context.Context, _ time.Duration) error {
	all, err := s.neutron.Networks(ctx)
	if err != nil {
		return err
	}
	name, none := "somebody else's", ""
	for i := range few {
		for _, n := range all {
			if n.Name != namespace+"/"+numbered(i) {
				continue
			}
			if err := networks.Update(ctx, s.neutron.Client, n.ID, networks.UpdateOpts{Name: &name}).Err; err != nil {
				return err
			}
			if err := subnets.Update(ctx, s.neutron.Client, n.Subnets[0].ID, subnets.UpdateOpts{GatewayIP: &none}).Err; err != nil {
				return err
			}
		}
	}
	return until(ctx, func(ctx context.Context) (bool, error) {
		now, err := s.neutron.Networks(ctx)
		for _, n := range now {
			if n.Name == name || len(n.Subnets) > 0 && n.Subnets[0].GatewayIP == "" {
				return false, err
			}
		}
		return err == nil, err
	})
}

func (s *Scene) refusals(ctx context.Context, _ time.Duration) error {
	if err := s.orphan(ctx); err != nil {
		return err
	}
	for i := range few {
		if err := s.create(ctx, fmt.Sprintf("bad-%d", i), "10.32.0.0/31", nil); err != nil {
			return err
		}
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "team"}, StringData: map[string]string{"clouds.yaml": s.wrongPassword()}}
	if _, err := s.kube.CoreV1().Secrets(namespace).Create(ctx, secret, metav1.CreateOptions{}); err != nil {
		return err
	}
	if err := s.create(ctx, "team", "10.1.0.0/16", &samplecrdv1.CloudCredentialsReference{SecretName: "team", CloudName: "team"}); err != nil {
		return err
	}
	if err := s.reaches(ctx, "team", samplecrdv1.ReasonAuthenticationFailed); err != nil {
		return err
	}
	if err := s.reaches(ctx, "bad-0", samplecrdv1.ReasonInvalidSpec); err != nil {
		return err
	}
	for i := range quota - many + 1 {
		if err := s.create(ctx, fmt.Sprintf("more-%d", i), "10.200.0.0/16", nil); err != nil {
			return err
		}
	}
	return until(ctx, func(ctx context.Context) (bool, error) {
		list, err := s.client.SamplecrdV1().Networks(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err
		}
		return slices.ContainsFunc(list.Items, func(n samplecrdv1.Network) bool {
			ready := meta.FindStatusCondition(n.Status.Conditions, samplecrdv1.ConditionReady)
			return ready != nil && ready.Reason == samplecrdv1.ReasonQuotaExceeded
		}), nil
	})
}

func (s *Scene) wrongPassword() string {
	return fmt.Sprintf(`clouds: {team: {auth_type: password, region_name: RegionOne, auth: {auth_url: %q,
  username: team, password: wrong, project_name: team, user_domain_name: Default, project_domain_name: Default}}}`, s.neutron.URL()+"/identity/v3")
}

// orphan removes the finalizer from a Network whose deletion waits for a port.
func (s *Scene) orphan(ctx context.Context) error {
	if err := s.create(ctx, "gone", "10.250.0.0/16", nil); err != nil {
		return err
	}
	if err := s.reaches(ctx, "gone", samplecrdv1.ReasonAvailable); err != nil {
		return err
	}
	api := s.client.SamplecrdV1().Networks(namespace)
	network, err := api.Get(ctx, "gone", metav1.GetOptions{})
	if err != nil {
		return err
	}
	if err := ports.Create(ctx, s.neutron.Client, ports.CreateOpts{NetworkID: network.Status.NetworkID}).Err; err != nil {
		return err
	}
	if err := api.Delete(ctx, "gone", metav1.DeleteOptions{}); err != nil {
		return err
	}
	if err := s.reaches(ctx, "gone", samplecrdv1.ReasonInUse); err != nil {
		return err
	}
	_, err = api.Patch(ctx, "gone", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// outage makes the controllers' requests to Neutron fail for that long, and then hang for
// as long, and waits until all Networks are ready again.
func (s *Scene) outage(ctx context.Context, length time.Duration) error {
	defer s.neutron.SetFault(nil)
	for _, fault := range []embedded.Fault{{Status: http.StatusServiceUnavailable, Message: "down"}, {Hang: true}} {
		s.neutron.SetFault(func(r *http.Request) *embedded.Fault {
			if !strings.Contains(r.UserAgent(), "samplecrd-controller") {
				return nil
			}
			return &fault
		})
		if err := s.passed(ctx, length); err != nil {
			return err
		}
	}
	s.neutron.SetFault(nil)
	return s.inOrder(ctx)
}

// failover kills the leader, waits until the other replica leads, and starts the killed one
// again.
func (s *Scene) failover(ctx context.Context, _ time.Duration) error {
	leader, err := s.leader(ctx, -1)
	if err != nil {
		return err
	}
	if err := s.crash(leader); err != nil {
		return err
	}
	if _, err := s.leader(ctx, leader); err != nil {
		return err
	}
	if err := s.restart(ctx, leader); err != nil {
		return err
	}
	return s.inOrder(ctx)
}

// restartKubernetes restarts kube-apiserver. On a slow machine that takes longer than the leader may go without a renewal
// of its Lease. Then the leader ends, and is started again, as a kubelet does.
func (s *Scene) restartKubernetes(ctx context.Context, _ time.Duration) error {
	if err := s.controlPlane.RestartAPIServer(); err != nil {
		return err
	}
	if err := s.inOrder(ctx); err != nil {
		return err
	}
	for i, c := range s.replicas {
		select {
		case <-c.Done():
			if err := s.restart(ctx, i); err != nil {
				return err
			}
		default:
		}
	}
	return nil
}

// leader waits until Prometheus has seen a leader other than but, and returns its number.
func (s *Scene) leader(ctx context.Context, but int) (leader int, err error) {
	err = until(ctx, func(ctx context.Context) (bool, error) {
		for i, address := range s.Addresses {
			if i == but {
				continue
			}
			value, err := s.Prometheus.Value(ctx, fmt.Sprintf("leader_election_master_status{instance=%q}", address))
			if err != nil {
				return false, err
			}
			if value == 1 {
				leader = i
				return true, nil
			}
		}
		return false, nil
	})
	return leader, err
}

// inOrder waits until a new Network and all others are ready.
func (s *Scene) inOrder(ctx context.Context) error {
	for i := range few {
		if err := s.reaches(ctx, numbered(i), samplecrdv1.ReasonAvailable); err != nil {
			return err
		}
	}
	return s.reaches(ctx, numbered(many-1), samplecrdv1.ReasonAvailable)
}
