// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/samplecrd/samplecrd-controller/hack/internal/stack"
	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
)

// deploymentWorkers is what the controller logs when it is ready for Deployments.
const deploymentWorkers = "Starting Deployment workers"

// deploymentOf returns a Deployment without pods. It has no annotation for an empty cidr or
// gateway.
func deploymentOf(name, cidr, gateway string) *appsv1.Deployment {
	labels, none := map[string]string{"app": fmt.Sprintf("%x", sha256.Sum224([]byte(name)))}, int32(0)
	d := &appsv1.Deployment{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"},
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{}},
		Spec: appsv1.DeploymentSpec{
			Replicas: &none,
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "nginx"}}},
			},
		},
	}
	if cidr != "" {
		d.Annotations[samplecrdv1.AnnotationNetworkCIDR] = cidr
	}
	if gateway != "" {
		d.Annotations[samplecrdv1.AnnotationNetworkGateway] = gateway
	}
	return d
}

// deploy creates a Deployment.
func (w *world) deploy(name, cidr, gateway string) *appsv1.Deployment {
	w.Helper()
	d, err := w.kube.AppsV1().Deployments(w.namespace).Create(w.Context(), deploymentOf(name, cidr, gateway), metav1.CreateOptions{})
	w.must(err)
	return d
}

// annotateDeployment sets annotations of a Deployment, or removes those that end with a dash.
func (w *world) annotateDeployment(name string, annotations ...string) {
	w.Helper()
	w.kubectl(append([]string{"annotate", "--overwrite", "deployment", name}, annotations...)...)
}

const (
	cidrAnnotation    = samplecrdv1.AnnotationNetworkCIDR
	gatewayAnnotation = samplecrdv1.AnnotationNetworkGateway
)

// waitInForce waits until a Network of that name exists and has that CIDR and gateway in
// Neutron.
func (w *world) waitInForce(name, cidr, gateway string) *samplecrdv1.Network {
	w.Helper()
	w.eventually(func() error {
		n, err := w.client.SamplecrdV1().Networks(w.namespace).Get(w.Context(), name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		ready := condition(n, samplecrdv1.ConditionReady)
		if ready.Status != metav1.ConditionTrue || ready.ObservedGeneration != n.Generation || n.Status.CIDR != cidr || n.Status.Gateway != gateway {
			return fmt.Errorf("it is %+v, %+v", n.Spec, n.Status)
		}
		return nil
	})
	w.matches(name, cidr, strings.Replace(gateway, samplecrdv1.GatewayNone, "", 1))
	return w.get(name)
}

func TestDeploymentsNetworkFollowsItsAnnotations(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start(retryQuickly)
	root, err := stack.Root()
	w.must(err)
	const name = "example-deployment"
	examples := filepath.Join(root, "artifacts", "examples")
	for _, example := range []string{"availability-zones", "dual-stack", "existing-router", "observed", "retained", "routed-network", "shared", "static-routes", "subnet-pool", "template"} { // no other test has these
		w.kubectl("apply", "--dry-run=server", "-f", filepath.Join(examples, "example-"+example+".yaml"))
	}
	w.kubectl("apply", "-f", filepath.Join(examples, "example-deployment.yaml"))
	first := w.waitInForce(name, "10.1.0.0/24", "10.1.0.1")
	w.waitForEvent(name, samplecrdv1.EventNetworkCreated, "10.1.0.0/24")
	w.annotateDeployment(name, cidrAnnotation+"=10.2.3.4/16", gatewayAnnotation+"=10.2.0.9")
	w.waitInForce(name, "10.2.0.0/16", "10.2.0.9")
	w.waitForEvent(name, samplecrdv1.EventNetworkUpdated, "10.2.3.4/16")
	w.annotateDeployment(name, gatewayAnnotation+"=10.2.255.255") // the API server refuses the Network
	w.waitForEvent(name, samplecrdv1.EventNetworkAnnotationInvalid, "the broadcast address")
	w.annotateDeployment(name, gatewayAnnotation+"-")
	w.waitInForce(name, "10.2.0.0/16", "10.2.0.1") // Neutron's choice
	w.patch(name, `{"spec":{"cidr":"10.3.0.0/16"}}`)
	w.eventually(func() error {
		if n := w.get(name); n.Spec.CIDR != "10.2.3.4/16" || n.UID != first.UID {
			return fmt.Errorf("the manual edit was not reverted: %+v", n.Spec)
		}
		return nil
	})
	w.annotateDeployment(name, cidrAnnotation+"-")
	w.waitGone(name)
	w.nothing(name)
	w.waitForEvent(name, samplecrdv1.EventNetworkDeleted, "is gone")
}

func TestDeploymentIsDeletedWithItsNetwork(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start(retryQuickly)
	for _, cascade := range []string{"background", "foreground"} {
		w.deploy("web", "10.1.0.0/24", "")
		w.waitInForce("web", "10.1.0.0/24", "10.1.0.1")
		w.kubectl("delete", "deployment", "web", "--cascade="+cascade, "--timeout="+patience.String())
		if cascade == "background" {
			w.waitGone("web")
		}
		// In the foreground, the Deployment is removed last.
		if _, err := w.client.SamplecrdV1().Networks(w.namespace).Get(t.Context(), "web", metav1.GetOptions{}); err == nil {
			t.Error("the Network outlived the Deployment")
		}
		w.nothing("web")
	}
	// An orphan is adopted by the next Deployment of its name.
	w.deploy("web", "10.1.0.0/24", "")
	before := w.waitInForce("web", "10.1.0.0/24", "10.1.0.1")
	w.kubectl("delete", "deployment", "web", "--cascade=orphan", "--timeout="+patience.String())
	w.eventually(func() error {
		if n := w.get("web"); len(n.OwnerReferences) > 0 {
			return errors.New("the Network still has an owner")
		}
		return nil
	})
	d := w.deploy("web", "10.2.0.0/24", "")
	after := w.waitInForce("web", "10.2.0.0/24", "10.2.0.1")
	w.waitForEvent("web", samplecrdv1.EventNetworkAdopted, "10.2.0.0/24")
	if after.UID != before.UID || !metav1.IsControlledBy(after, d) {
		t.Errorf("Deployment %s has not adopted Network %s: %+v", d.UID, before.UID, after.ObjectMeta)
	}
}
