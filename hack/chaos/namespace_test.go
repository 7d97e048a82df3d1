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

package chaos

import (
	"context"
	"fmt"
	"os"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/samplecrd/samplecrd-controller/hack/internal/stack"
	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
)

// doomed is a namespace that is deleted together with its Networks and their credentials. The
// Networks are in a project of their own, without a proxy.
type doomed struct {
	namespace string
	cluster   string
	networks  map[string]types.UID
}

// networksOfDoomed is how many Networks such a namespace has.
const networksOfDoomed = 3

const secretName = "cloud"

const namespacesDeleted = "namespaces deleted with their credentials"

// endNamespace deletes a namespace of the controller with its Networks and their credentials,
// and kills the leader soon after that.
func (w *world) endNamespace(ctx context.Context, c *controller, leader *term) error {
	if c.ofOneNamespace {
		return killLeader(ctx, c, leader)
	}
	d, err := w.newDoomed(ctx, c)
	if err != nil {
		return err
	}
	if err := w.waitForDoomed(ctx, d); err != nil {
		return err
	}
	w.tally.log("namespace %s is deleted", d.namespace)
	if err := w.kube.CoreV1().Namespaces().Delete(ctx, d.namespace, metav1.DeleteOptions{}); err != nil {
		return err
	}
	w.tally.add(namespacesDeleted)
	// It takes kube-controller-manager a moment to delete what is in it.
	r := seeded(w.seed, "namespace", len(w.doomed))
	select {
	case <-time.After(time.Duration(r.IntN(1000)) * time.Millisecond):
	case <-ctx.Done():
		return ctx.Err()
	}
	if leader = c.record.current(); !leader.over.IsZero() {
		return nil // it has lost the Lease by itself
	}
	return killLeader(ctx, c, leader)
}

// newDoomed creates a namespace with a Secret and Networks.
func (w *world) newDoomed(ctx context.Context, c *controller) (*doomed, error) {
	cloudsYAML, err := os.ReadFile(w.neutron.CloudsYAML)
	if err != nil {
		return nil, err
	}
	namespace, err := w.kube.CoreV1().Namespaces().Create(ctx,
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "doomed-"}}, metav1.CreateOptions{})
	if err != nil {
		return nil, err
	}
	d := &doomed{namespace: namespace.Name, cluster: c.cluster, networks: map[string]types.UID{}}
	_, err = w.kube.CoreV1().Secrets(d.namespace).Create(ctx,
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: secretName}, Data: map[string][]byte{"clouds.yaml": cloudsYAML}}, metav1.CreateOptions{})
	if err != nil {
		return nil, err
	}
	// The first one has a router.
	router := &samplecrdv1.RouterSpec{ExternalNetwork: &samplecrdv1.NeutronReference{ID: w.externals[0].id}}
	for i := range networksOfDoomed {
		network, err := w.client.SamplecrdV1().Networks(d.namespace).Create(ctx, &samplecrdv1.Network{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("net-%d", i), Labels: map[string]string{clusterLabel: c.namespace}},
			Spec: samplecrdv1.NetworkSpec{
				SubnetSpec:          samplecrdv1.SubnetSpec{CIDR: "10.0.0.0/24"},
				Router:              router,
				CloudCredentialsRef: &samplecrdv1.CloudCredentialsReference{SecretName: secretName, CloudName: otherCloud},
			},
		}, metav1.CreateOptions{})
		if err != nil {
			return nil, err
		}
		d.networks[network.Name] = network.UID
		router = nil
	}
	w.doomed = append(w.doomed, d)
	return d, nil
}

// waitForDoomed waits until the Networks are ready.
func (w *world) waitForDoomed(ctx context.Context, d *doomed) error {
	err := wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, w.patience, true, func(ctx context.Context) (bool, error) {
		list, err := w.client.SamplecrdV1().Networks(d.namespace).List(ctx, metav1.ListOptions{})
		return err == nil && !slices.ContainsFunc(list.Items, func(n samplecrdv1.Network) bool { return !isReady(&n) }), nil
	})
	if err != nil {
		return fmt.Errorf("wait for the Networks in %s: %w", d.namespace, err)
	}
	return nil
}

// checkDoomed finds Networks of deleted namespaces that are gone while their networks are
// left, and Networks that wait without telling why.
func (w *world) checkDoomed(ctx context.Context, v *violations) error {
	if len(w.doomed) == 0 {
		return nil
	}
	inNeutron, err := w.elsewhere.networks(ctx)
	if err != nil {
		return err
	}
	for _, d := range w.doomed {
		list, err := w.client.SamplecrdV1().Networks(d.namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for name, uid := range d.networks {
			var live *samplecrdv1.Network
			for i := range list.Items {
				if list.Items[i].UID == uid {
					live = &list.Items[i]
				}
			}
			mark := ownerPrefix + d.cluster + "/" + string(uid)
			found := slices.DeleteFunc(slices.Clone(inNeutron), func(n stack.Network) bool { return n.Description != mark })
			if what := judgeDoomed(live, found); what != "" {
				v.add("%s/%s: %s", d.namespace, name, what)
			}
			for _, r := range w.neutron.Routers() {
				if live == nil && r.Description == mark {
					v.add("%s/%s: "+leakedRouter+"%+v", d.namespace, name, r)
				}
			}
		}
	}
	return nil
}

// judgeDoomed returns what is wrong about a Network of a deleted namespace; "" if nothing is.
func judgeDoomed(live *samplecrdv1.Network, found []stack.Network) string {
	switch {
	case live == nil && len(found) == 0:
		return ""
	case live == nil:
		return "it is gone, and " + livesOn + describe(found)
	case len(found) == 0:
		return fmt.Sprintf("its network is gone, and it still exists: %+v", live.Status)
	}
	ready := meta.FindStatusCondition(live.Status.Conditions, samplecrdv1.ConditionReady)
	if ready == nil || ready.Status == metav1.ConditionTrue || ready.Reason != samplecrdv1.ReasonNoCredentials {
		return fmt.Sprintf("it still exists, and not for want of credentials: %+v", live.Status)
	}
	return ""
}

// countDoomed counts how the deleted namespaces ended.
func (w *world) countDoomed(ctx context.Context) error {
	for _, d := range w.doomed {
		list, err := w.client.SamplecrdV1().Networks(d.namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for range list.Items {
			w.tally.add("Networks of deleted namespaces that wait for credentials")
		}
		for range len(d.networks) - len(list.Items) {
			w.tally.add("Networks of deleted namespaces that are gone")
		}
	}
	return nil
}
