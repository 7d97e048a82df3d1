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

package e2e

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
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
	d, err := kube.AppsV1().Deployments(w.namespace).Create(w.Context(), deploymentOf(name, cidr, gateway), metav1.CreateOptions{})
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

	templateAnnotation = samplecrdv1.AnnotationNetworkTemplate
)

// waitInForce waits until a Network of that name exists and has that CIDR and gateway in
// Neutron.
func (w *world) waitInForce(name, cidr, gateway string) *samplecrdv1.Network {
	w.Helper()
	w.eventually(func() error {
		n, err := client.SamplecrdV1().Networks(w.namespace).Get(w.Context(), name, metav1.GetOptions{})
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

// ownedBy fails unless the Deployment is the Network's owner.
func (w *world) ownedBy(n *samplecrdv1.Network, d *appsv1.Deployment) {
	w.Helper()
	if !metav1.IsControlledBy(n, d) || n.Labels[samplecrdv1.LabelDeployment] != d.Name {
		w.Errorf("Network %s is not owned by Deployment %s: %+v", n.Name, d.UID, n.ObjectMeta)
	}
}

func TestDeploymentsNetworkFollowsItsAnnotations(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start(retryQuickly)
	root, err := stack.Root()
	w.must(err)
	const name = "example-deployment"
	w.kubectl("apply", "-f", filepath.Join(root, "artifacts", "examples", "example-deployment.yaml"))
	first := w.waitInForce(name, "10.1.0.0/24", "10.1.0.1")
	d, err := kube.AppsV1().Deployments(w.namespace).Get(t.Context(), name, metav1.GetOptions{})
	w.must(err)
	w.ownedBy(first, d)
	w.waitForEvent(name, samplecrdv1.EventNetworkCreated, "10.1.0.0/24")

	w.annotateDeployment(name, gatewayAnnotation+"=None")
	w.waitInForce(name, "10.1.0.0/24", "None")
	w.annotateDeployment(name, cidrAnnotation+"=10.2.3.4/16", gatewayAnnotation+"=10.2.0.9")
	w.waitInForce(name, "10.2.0.0/16", "10.2.0.9")
	w.waitForEvent(name, samplecrdv1.EventNetworkUpdated, "10.2.3.4/16")
	w.annotateDeployment(name, gatewayAnnotation+"-")
	w.waitInForce(name, "10.2.0.0/16", "10.2.0.1") // Neutron's choice
	w.kubectl("patch", "network", name, "--type=merge", "-p", `{"spec":{"cidr":"10.3.0.0/16"}}`)
	w.eventually(func() error {
		if n := w.get(name); n.Spec.CIDR != "10.2.3.4/16" || n.Generation < first.Generation+5 {
			return fmt.Errorf("the manual edit was not reverted: %+v, generation %d", n.Spec, n.Generation)
		}
		return nil
	})
	w.kubectl("scale", "deployment", name, "--replicas=2")
	w.kubectl("annotate", "deployment", name, "note=something else")
	if last := w.waitReady(name); last.UID != first.UID || last.Status.NetworkID != first.Status.NetworkID {
		t.Error("the Network is another one")
	}

	w.annotateDeployment(name, cidrAnnotation+"-")
	w.waitGone(name)
	w.nothing(name)
	w.waitForEvent(name, samplecrdv1.EventNetworkDeleted, "is gone")
	w.annotateDeployment(name, cidrAnnotation+"=10.4.0.0/16")
	w.waitInForce(name, "10.4.0.0/16", "10.4.0.1")
}

func TestDeploymentIsDeletedWithItsNetwork(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start(retryQuickly)
	for _, cascade := range []string{"background", "foreground"} {
		t.Run(cascade, func(t *testing.T) {
			w := w.at(t)
			w.deploy("web", "10.1.0.0/24", "")
			w.waitInForce("web", "10.1.0.0/24", "10.1.0.1")
			w.kubectl("delete", "deployment", "web", "--cascade="+cascade, "--timeout="+patience.String())
			if cascade == "background" {
				w.waitGone("web")
			}
			// In the foreground, the Deployment is removed last.
			if _, err := client.SamplecrdV1().Networks(w.namespace).Get(t.Context(), "web", metav1.GetOptions{}); err == nil {
				t.Error("the Network outlived the Deployment")
			}
			w.nothing("web")
		})
	}
	t.Run("orphan, and then adopted by the next of its name", func(t *testing.T) {
		w := w.at(t)
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
		w.ownedBy(after, d)
		w.waitForEvent("web", samplecrdv1.EventNetworkAdopted, "10.2.0.0/24")
		if after.UID != before.UID || after.Status.NetworkID != before.Status.NetworkID {
			t.Error("the Network is another one")
		}
	})
}

func TestRecreatedDeploymentGetsANewNetwork(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start(retryQuickly, "-deployment-cidr-pool=10.0.0.0/16")
	w.deploy("web", "auto", "")
	before := w.waitInForce("web", "10.0.0.0/24", "10.0.0.1")
	for range 3 {
		w.kubectl("delete", "deployment", "web", "--timeout="+patience.String())
		d := w.deploy("web", "auto", "")
		w.eventually(func() error {
			n, err := client.SamplecrdV1().Networks(w.namespace).Get(t.Context(), "web", metav1.GetOptions{})
			if err == nil && !metav1.IsControlledBy(n, d) {
				err = errors.New("the Network is still the old one")
			}
			return err
		})
		w.waitReady("web")
		after := w.waitInForce("web", "10.0.0.0/24", "10.0.0.1") // free again
		w.ownedBy(after, d)
		if after.Status.NetworkID == before.Status.NetworkID {
			t.Error("the new Network has the old network")
		}
		before = after
	}
}

func TestDeploymentAdoptsOnlyNetworksMeantForIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start(retryQuickly)
	w.apply("labelled", "10.1.0.0/24", "10.1.0.9")
	w.kubectl("label", "network", "labelled", samplecrdv1.LabelDeployment+"=labelled")
	labelled := w.waitReady("labelled")
	d := w.deploy("labelled", "10.1.0.0/24", "10.1.0.9")
	w.waitForEvent("labelled", samplecrdv1.EventNetworkAdopted, "10.1.0.0/24")
	adopted := w.get("labelled")
	w.ownedBy(adopted, d)
	if adopted.UID != labelled.UID || adopted.Generation != labelled.Generation {
		t.Error("the Network was changed")
	}

	w.create("plain", "10.2.0.0/24", "")
	w.create("owned", "10.3.0.0/24", "")
	w.kubectl("create", "configmap", "owner")
	uid := w.kubectl("get", "configmap", "owner", "-o", "jsonpath={.metadata.uid}")
	w.kubectl("patch", "network", "owned", "--type=merge", "-p",
		`{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"owner","uid":"`+uid+`","controller":true}]}}`)
	plain, owned := w.get("plain"), w.get("owned")
	w.deploy("plain", "10.9.0.0/24", "")
	w.deploy("owned", "10.9.0.0/24", "")
	w.waitForEvent("plain", samplecrdv1.EventNetworkNotOwned, "label it "+samplecrdv1.LabelDeployment+"=plain")
	w.waitForEvent("owned", samplecrdv1.EventNetworkNotOwned, "belongs to ConfigMap owner")
	w.contains(w.kubectl("describe", "deployment", "owned"), "Warning", "belongs to ConfigMap owner and is left alone")
	if diff := cmp.Diff(plain, w.get("plain")); diff != "" {
		t.Errorf("plain was changed:\n%s", diff)
	}
	if diff := cmp.Diff(owned, w.get("owned")); diff != "" {
		t.Errorf("owned was changed:\n%s", diff)
	}
	// One is handed over, the other is removed: neither needs a change of the Deployment.
	w.kubectl("label", "network", "plain", samplecrdv1.LabelDeployment+"=plain")
	w.waitInForce("plain", "10.9.0.0/24", "10.9.0.1")
	w.delete("owned")
	w.eventually(func() error { _, err := w.tryKubectl("", "get", "network", "owned"); return err })
	w.waitInForce("owned", "10.9.0.0/24", "10.9.0.1")
}

func TestDeploymentWithABadAnnotationGetsAnEvent(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start(retryQuickly)
	w.deploy("web", "10.1.0.0/24", "")
	first := w.waitInForce("web", "10.1.0.0/24", "10.1.0.1")
	for _, tt := range []struct{ cidr, gateway, reason, says string }{
		{"10.1.0.0", "", samplecrdv1.EventNetworkAnnotationInvalid, `"10.1.0.0" must be an address`},
		{"10.1.0.0/24", "10.2.0.1", samplecrdv1.EventNetworkAnnotationInvalid, "must be an address inside 10.1.0.0/24"},
		{"10.1.0.0/24", "10.1.0.255", samplecrdv1.EventNetworkAnnotationInvalid, "the broadcast address"}, // from the API server
		{"auto", "", samplecrdv1.EventNoCIDRPool, "-deployment-cidr-pool"},
	} {
		w.annotateDeployment("web", cidrAnnotation+"="+tt.cidr, gatewayAnnotation+"="+tt.gateway)
		w.waitForEvent("web", tt.reason, tt.says)
		if n := w.get("web"); n.Generation != first.Generation {
			t.Errorf("%s: the Network was changed: %+v", tt.says, n.Spec)
		}
	}
	w.annotateDeployment("web", cidrAnnotation+"=10.5.0.0/24", gatewayAnnotation+"=10.5.0.5")
	w.waitInForce("web", "10.5.0.0/24", "10.5.0.5")
	if n := len(w.events("web", samplecrdv1.EventNetworkAnnotationInvalid)); n != 3 {
		t.Errorf("%d events, want one for each cause", n)
	}
}

func TestDeploymentWithoutAFreeBlockGetsTheNextFreeOne(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start(retryQuickly, "-deployment-cidr-pool=10.0.0.0/23")
	w.create("by-hand", "10.0.0.64/26", "")
	w.deploy("first", "auto", "")
	w.waitInForce("first", "10.0.1.0/24", "10.0.1.1")
	w.deploy("second", "auto", "None")
	w.waitForEvent("second", samplecrdv1.EventCIDRPoolExhausted, "10.0.0.0/23")
	w.delete("by-hand")
	w.waitInForce("second", "10.0.0.0/24", "None")
	w.kubectl("patch", "network", "second", "--type=merge", "-p", `{"spec":{"cidr":"10.9.0.0/24"}}`)
	w.annotateDeployment("second", cidrAnnotation+"=10.8.0.0/24")
	w.waitInForce("second", "10.8.0.0/24", "None")
	w.annotateDeployment("second", cidrAnnotation+"=auto")
	w.waitInForce("second", "10.0.0.0/24", "None")
}

func TestDeploymentsNetworkFollowsItsTemplate(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start(retryQuickly)
	root, err := stack.Root()
	w.must(err)
	w.kubectl("apply", "--dry-run=server", "-f", filepath.Join(root, "artifacts", "examples", "example-template.yaml"))

	w.applyDeployment("web", "10.1.0.0/24", "10.1.0.9")
	w.waitInForce("web", "10.1.0.0/24", "10.1.0.9")
	w.annotateDeployment("web", templateAnnotation+"=shared")
	w.waitForEvent("web", samplecrdv1.EventNetworkTemplateUnusable, `Network "shared"`)
	w.deploy("late", "", "")
	w.annotateDeployment("late", templateAnnotation+"=shared", cidrAnnotation+"=fd00:2::/64")
	w.waitForEvent("late", samplecrdv1.EventNetworkTemplateUnusable, "does not exist")
	if n := len(w.list()); n != 1 {
		t.Errorf("%d Networks, want none without the template", n)
	}

	subnet := func(cidr, gateway string, dhcp *bool, servers ...samplecrdv1.IPAddress) samplecrdv1.NetworkSpec {
		return samplecrdv1.NetworkSpec{SubnetSpec: samplecrdv1.SubnetSpec{CIDR: cidr, Gateway: gateway, EnableDHCP: dhcp, DNSNameservers: servers}}
	}
	w.applyText(`{apiVersion: samplecrd.k8s.io/v1, kind: Network, metadata: {name: shared},
spec: {cidr: "fd00:9::/64", enableDHCP: false, dnsNameservers: ["2001:db8::53"]}}`)
	w.waitForSpec("web", subnet("10.1.0.0/24", "10.1.0.9", new(false)))
	w.waitForSpec("late", subnet("fd00:2::/64", "", new(false), "2001:db8::53"))
	w.kubectl("patch", "network", "shared", "--type=merge", "-p", `{"spec":{"cidr":"10.9.0.0/24","dnsNameservers":["192.0.2.53"]}}`)
	w.waitForSpec("web", subnet("10.1.0.0/24", "10.1.0.9", new(false), "192.0.2.53"))
	w.waitForSpec("late", subnet("fd00:2::/64", "", new(false)))
	w.waitForEvent("web", samplecrdv1.EventNetworkUpdated, "dnsNameservers of Network shared")
	w.kubectl("patch", "network", "web", "--type=merge", "-p", `{"spec":{"enableDHCP":true,"deletionPolicy":"Delete"}}`)
	own := subnet("10.1.0.0/24", "10.1.0.9", new(false), "192.0.2.53")
	own.DeletionPolicy = samplecrdv1.DeletionDelete
	w.waitForSpec("web", own)
	w.kubectl("patch", "network", "shared", "--type=merge", "-p", `{"spec":{"enableDHCP":null,"dnsNameservers":["192.0.2.54"]}}`)
	w.waitForSpec("late", subnet("fd00:2::/64", "", nil))
	own.EnableDHCP, own.DNSNameservers = nil, []samplecrdv1.IPAddress{"192.0.2.54"}
	w.waitForSpec("web", own)

	w.delete("shared")
	w.annotateDeployment("web", templateAnnotation+"-")
	own.DNSNameservers = nil
	w.waitForSpec("web", own)
	if record, ok := w.get("web").Annotations[samplecrdv1.AnnotationAppliedTemplate]; ok {
		t.Errorf("the Network still has the template %s", record)
	}
}

// waitForSpec waits until a Network of that name exists and has that spec.
func (w *world) waitForSpec(name string, want samplecrdv1.NetworkSpec) {
	w.Helper()
	w.eventually(func() error {
		n, err := client.SamplecrdV1().Networks(w.namespace).Get(w.Context(), name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if diff := cmp.Diff(want, n.Spec); diff != "" {
			return fmt.Errorf("the spec of %s (-want +got):\n%s", name, diff)
		}
		return nil
	})
}

func TestDeploymentAndItsNetworkCostNoMoreRequestsThanTheyNeed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	kubernetes := w.throughProxy()
	w.waitForLog(w.start("-deployment-workers=1", "-deployment-cidr-pool=10.0.0.0/16"), deploymentWorkers)
	kubernetes.take()
	create := counts{"create networks": 1, "patch networks": 1, "patch networks/status": 1, "create events": 2}
	withList := counts{"list networks": 1, "create networks": 1, "patch networks": 1, "patch networks/status": 1, "create events": 2}
	edit := counts{"get deployments": 1, "patch networks": 1, "patch networks/status": 1, "create events": 2}
	for _, step := range []struct {
		what          string
		do            func()
		name          string
		cidr, gateway string
		want          counts
	}{
		{"kubectl apply, until it is Ready", func() { w.applyDeployment("fixed", "10.9.0.0/24", "") }, "fixed", "10.9.0.0/24", "10.9.0.1", create},
		{"the first auto: one list past the cache", func() { w.applyDeployment("auto", "auto", "") }, "auto", "10.0.0.0/24", "10.0.0.1", withList},
		{"the next auto", func() { w.applyDeployment("next", "auto", "") }, "next", "10.0.1.0/24", "10.0.1.1", create},
		{"an edit", func() { w.annotateDeployment("fixed", gatewayAnnotation+"=10.9.0.9") }, "fixed", "10.9.0.0/24", "10.9.0.9", edit},
		{"changes that need no sync, and then an edit", func() {
			w.applyDeployment("plain", "", "")
			w.annotateDeployment("plain", "note=a")
			w.kubectl("delete", "deployment", "plain")
			w.kubectl("scale", "deployment", "fixed", "--replicas=1")
			w.kubectl("rollout", "restart", "deployment", "fixed")
			w.annotateDeployment("fixed", gatewayAnnotation+"=None")
		}, "fixed", "10.9.0.0/24", "None", edit},
	} {
		step.do()
		w.waitInForce(step.name, step.cidr, step.gateway)
		w.eventually(func() error {
			if kubernetes.peek()["create events"] < step.want["create events"] {
				return errors.New("an event is missing")
			}
			return nil
		})
		got := kubernetes.take()
		t.Logf("%s: %v", step.what, got)
		if diff := cmp.Diff(step.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", step.what, diff)
		}
	}
}

func TestDeploymentsAreNotLookedAtWithoutWorkersForThem(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	kubernetes := w.throughProxy()
	c := w.start("-deployment-workers=0")
	w.deploy("web", "10.1.0.0/24", "")
	w.create("net", "10.2.0.0/24", "")
	w.must(c.Stop())
	for request := range kubernetes.take() {
		if strings.Contains(request, "deployments") {
			t.Errorf("there was a request: %s", request)
		}
	}
	if n := len(w.list()); n != 1 {
		t.Errorf("there are %d Networks", n)
	}
}

func TestDeploymentWithAVeryLongNameHasANetworkToo(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	name := strings.Repeat("long-", 20) + "name"
	d := w.deploy(name, "10.1.0.0/24", "")
	n := w.waitInForce(name, "10.1.0.0/24", "10.1.0.1")
	if label := n.Labels[samplecrdv1.LabelDeployment]; !metav1.IsControlledBy(n, d) || !strings.HasPrefix(label, "long-long-") || len(label) != 63 {
		t.Errorf("got %+v", n.ObjectMeta)
	}
	w.kubectl("delete", "network", name, "--wait=false")
	w.eventually(func() error { // it is created again
		again, err := client.SamplecrdV1().Networks(w.namespace).Get(t.Context(), name, metav1.GetOptions{})
		if err == nil && again.UID == n.UID {
			err = errors.New("the Network is still the old one")
		}
		return err
	})
	w.waitReady(name)
}

// applyDeployment applies a Deployment with kubectl.
func (w *world) applyDeployment(name, cidr, gateway string) {
	w.Helper()
	manifest, err := json.Marshal(deploymentOf(name, cidr, gateway))
	w.must(err)
	_, err = w.tryKubectl(string(manifest), "apply", "-f", "-")
	w.must(err)
}

func TestDeployments200AtOnceGetSeparateBlocks(t *testing.T) {
	t.Parallel()
	const clients, each = 8, 25
	for _, killed := range []bool{false, true} {
		t.Run(fmt.Sprintf("killed in the middle %v", killed), func(t *testing.T) {
			w := newWorld(t)
			kubernetes := w.throughProxy()
			flags := []string{retryQuickly, "-deployment-cidr-pool=10.0.0.0/16"}
			c := w.start(flags...)
			w.waitForLog(c, deploymentWorkers)
			kubernetes.take()
			var making sync.WaitGroup
			for n := range clients {
				making.Go(func() {
					for i := range each {
						_, err := kube.AppsV1().Deployments(w.namespace).Create(t.Context(), deploymentOf(fmt.Sprintf("web-%d-%d", n, i), "auto", ""), metav1.CreateOptions{})
						if err != nil {
							t.Error(err)
						}
					}
				})
			}
			if killed {
				w.waitForNetworks(clients * each / 4)
				w.kill(c)
				t.Logf("killed when there were %d Networks", len(w.list()))
				w.start(flags...)
			}
			making.Wait()
			w.waitForNetworks(clients * each)
			w.waitAllReady(patience)
			w.apart(clients * each)
			t.Logf("requests to Kubernetes: %v", kubernetes.take())
		})
	}
}

// waitForNetworks waits until there are at least that many Networks.
func (w *world) waitForNetworks(want int) {
	w.Helper()
	w.eventually(func() error {
		if n := len(w.list()); n < want {
			return fmt.Errorf("there are %d Networks", n)
		}
		return nil
	})
}

// apart fails unless there are exactly that many Networks on separate blocks of
// 10.0.0.0/16, each with its network in Neutron, and nothing else in Neutron.
func (w *world) apart(want int) {
	w.Helper()
	var cidrs []netip.Prefix
	inKubernetes := map[string]string{}
	for _, n := range w.list() {
		cidrs = append(cidrs, netip.MustParsePrefix(n.Status.CIDR))
		inKubernetes[n.Status.NetworkID] = n.Status.CIDR
	}
	slices.SortFunc(cidrs, netip.Prefix.Compare)
	for i, cidr := range cidrs {
		if cidr.Bits() != 24 || !netip.MustParsePrefix("10.0.0.0/16").Contains(cidr.Addr()) || i > 0 && cidr.Overlaps(cidrs[i-1]) {
			w.Fatalf("not separate blocks of the pool: %v", cidrs)
		}
	}
	all, err := w.neutron.Networks(w.Context())
	w.must(err)
	inNeutron := map[string]string{}
	for _, n := range all {
		for _, s := range n.Subnets {
			inNeutron[n.ID] += s.CIDR
		}
	}
	if diff := cmp.Diff(inKubernetes, inNeutron); diff != "" || len(cidrs) != want || len(all) != want {
		w.Errorf("%d Networks, %d networks, want %d each (-Kubernetes +Neutron):\n%s", len(cidrs), len(all), want, diff)
	}
}
