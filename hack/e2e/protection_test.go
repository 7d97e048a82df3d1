// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
)

// protection is the label that protects a Network.
const protection = samplecrdv1.LabelDeletionProtection

// What the API server writes before the messages of the policies.
const (
	deniedDeletion  = "ValidatingAdmissionPolicy 'samplecrd-deletion' with binding 'samplecrd-deletion' denied request: "
	deniedNamespace = "ValidatingAdmissionPolicy 'samplecrd-deletion-of-namespaces' with binding 'samplecrd-deletion-of-namespaces' denied request: "
)

// isProtected is what a user reads who deletes that Network.
func (w *world) isProtected(name string) string {
	return fmt.Sprintf("%sNetwork %s/%s is protected from deletion. To lift the protection, run: kubectl label -n %s networks.samplecrd.k8s.io %s %s-",
		deniedDeletion, w.namespace, name, w.namespace, name, protection)
}

// hasProtected is what a user reads who deletes the namespace of that Network.
func (w *world) hasProtected(name string) string {
	return fmt.Sprintf("%snamespace %s has a Network that is protected from deletion: %s. To lift the protection of all Networks in it, run: kubectl label -n %s networks.samplecrd.k8s.io --all %s-",
		deniedNamespace, w.namespace, name, w.namespace, protection)
}

// lift runs the command that the message ends with.
func (w *world) lift(message string) {
	w.Helper()
	_, command, found := strings.Cut(message, "run: kubectl ")
	if !found {
		w.Fatalf("there is no command in: %s", message)
	}
	_, err := w.clusterKubectl("", strings.Fields(command)...)
	w.must(err)
}

// protected creates a Network with the label.
func (w *world) protected(name string) {
	w.Helper()
	w.apply(name, "10.0.0.0/24", "")
	w.kubectl("label", "network", name, protection+"=true")
}

// tryToDelete runs kubectl delete, and fails unless the last line that it writes is the refusal.
func (w *world) tryToDelete(refusal string, args ...string) {
	w.Helper()
	out, err := w.clusterKubectl("", append([]string{"delete", "--timeout=" + patience.String()}, args...)...)
	if err == nil || !strings.HasSuffix(strings.TrimSpace(out), refusal) {
		w.Errorf("kubectl delete %s: want %q, got %s, %v", strings.Join(args, " "), refusal, out, err)
	}
}

// stays fails unless the Network exists, and is not being deleted.
func (w *world) stays(name string) {
	w.Helper()
	if n := w.get(name); n.DeletionTimestamp != nil {
		w.Errorf("Network %s is being deleted", name)
	}
}

// deletionPolicy is the file with the policies.
func (w *world) deletionPolicy() string {
	return filepath.Join(w.kustomization("admission"), "deletion-policy.yaml")
}

// dryDeletions deletes a Network and its namespace as dry runs.
func (w *world) dryDeletions(name string) (ofNetwork, ofNamespace error) {
	w.Helper()
	_, ofNetwork = w.clusterKubectl("", "delete", "network", name, "--namespace="+w.namespace, "--dry-run=server")
	_, ofNamespace = w.clusterKubectl("", "delete", "namespace", w.namespace, "--dry-run=server")
	return ofNetwork, ofNamespace
}

// waitProtected waits until the API server refuses both. The policy for namespaces sees a new label a moment later.
func (w *world) waitProtected(name string) {
	w.Helper()
	w.eventually(func() error {
		ofNetwork, ofNamespace := w.dryDeletions(name)
		if ofNetwork == nil || ofNamespace == nil || !strings.HasSuffix(ofNetwork.Error(), w.isProtected(name)) || !strings.HasSuffix(ofNamespace.Error(), w.hasProtected(name)) {
			return fmt.Errorf("the policies are not in force: %v, %v", ofNetwork, ofNamespace)
		}
		return nil
	})
}

// networksAreProtectedFromDeletion installs only the policies of deletion-policy.yaml: they do not need the rules, nor the
// namespace of their ConfigMap.
func networksAreProtectedFromDeletion(t *testing.T) {
	w := newWorldWithoutNeutron(t)
	w.apply("leaving", "10.0.0.0/24", "")
	w.kubectl("patch", "network", "leaving", "--type=merge", "-p", `{"metadata":{"finalizers":["samplecrd.k8s.io/neutron"],"labels":{"`+protection+`":"true"}}}`)
	w.kubectl("delete", "network", "leaving", "--wait=false")

	t.Cleanup(func() {
		if _, err := w.clusterKubectl("", "delete", "-f", w.deletionPolicy(), "--ignore-not-found"); err != nil {
			t.Errorf("the tests after this one may fail too: %v", err)
		}
	})
	w.kubectl("apply", "-f", w.deletionPolicy())
	probe := newWorldWithoutNeutron(t)
	probe.protected("probe")
	probe.waitProtected("probe")
	for _, test := range []struct {
		name string
		run  func(*testing.T)
	}{
		{"a Network that is being deleted already", func(t *testing.T) { w.at(t).leaves("leaving") }},
		{"the types", func(t *testing.T) { w.at(t).typesAreRight("samplecrd-deletion", "samplecrd-deletion-of-namespaces") }},
		{"the Network", theNetworkIsProtected},
		{"the values of the label", theValueFalseDoesNotProtect},
		{"the CustomResourceDefinition", theDefinitionCanBeProtected},
		{"the namespace", theNamespaceIsProtected},
		{"the owner", theGarbageCollectorIsRefused},
		{"the annotation of a Deployment", theControllerIsRefused},
		{"a namespace that is being deleted already", theNamespaceControllerIsRefused},
	} {
		t.Run(test.name, test.run)
	}
	w.kubectl("delete", "-f", w.deletionPolicy())
	probe.eventually(func() error { return errors.Join(probe.dryDeletions("probe")) })
}

func theNetworkIsProtected(t *testing.T) {
	w := newWorldWithoutNeutron(t)
	w.protected("net")
	refusal := w.isProtected("net")
	in := "--namespace=" + w.namespace
	file := w.file("net.yaml", manifest("net", "10.0.0.0/24", ""))
	w.tryToDelete(`Error from server (Forbidden): networks.samplecrd.k8s.io "net" is forbidden: `+refusal, in, "network", "net")
	w.tryToDelete(refusal, in, "network", "net", "--dry-run=server")
	w.tryToDelete(refusal, in, "network", "net", "--cascade=foreground")
	w.tryToDelete(refusal, in, "network", "net", "--force", "--grace-period=0")
	w.tryToDelete(refusal, in, "-f", file)
	_, err := w.clusterKubectl("", "replace", "--force", in, "-f", file)
	w.contains(fmt.Sprint(err), refusal)

	w.apply("other", "10.0.1.0/24", "")
	w.tryToDelete(refusal, in, "networks", "--all")
	w.waitGone("other")
	err = w.client.SamplecrdV1().Networks(w.namespace).DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{})
	w.contains(fmt.Sprint(err), refusal)
	w.stays("net")

	// All else is as before.
	w.kubectl("label", "network", "net", "a=b")
	w.apply("net", "10.0.1.0/24", "")
	w.lift(refusal)
	w.kubectl("delete", "-f", file)
	w.waitGone("net")
}

func theValueFalseDoesNotProtect(t *testing.T) {
	w := newWorldWithoutNeutron(t)
	w.protected("net")
	for _, value := range []string{"", "True", "yes", "no"} {
		w.kubectl("label", "--overwrite", "network", "net", protection+"="+value)
		w.waitProtected("net")
	}
	w.kubectl("label", "--overwrite", "network", "net", protection+"=false")
	w.kubectl("delete", "network", "net", "--dry-run=server")
	w.deleteNamespace()
}

// deleteNamespace deletes the namespace, and waits until it is gone. The API server may know a little later that nothing
// in it is protected any more.
func (w *world) deleteNamespace() {
	w.Helper()
	w.eventually(func() error {
		_, err := w.clusterKubectl("", "delete", "namespace", w.namespace, "--timeout="+patience.String())
		return err
	})
}

func theDefinitionCanBeProtected(t *testing.T) {
	w := newWorldWithoutNeutron(t)
	const crd = "networks.samplecrd.k8s.io"
	refusal := deniedDeletion + "CustomResourceDefinition " + crd + " is protected from deletion, which deletes all Networks. To lift the protection, run: kubectl label crd " + crd + " " + protection + "-"
	w.kubectl("delete", "crd", crd, "--dry-run=server")
	w.kubectl("label", "crd", crd, protection+"=true")
	w.tryToDelete(refusal, "crd", crd, "--dry-run=server")
	w.must(w.applyCRD(crdOfToday)) // the label stays
	w.tryToDelete(refusal, "crd", crd, "--dry-run=server")
	w.lift(refusal)
	w.kubectl("delete", "crd", crd, "--dry-run=server")
}

func theNamespaceIsProtected(t *testing.T) {
	w := newWorldWithoutNeutron(t)
	empty := newWorldWithoutNeutron(t)
	empty.apply("net", "10.0.0.0/24", "")
	w.apply("other", "10.0.1.0/24", "")
	w.protected("net")
	refusal := w.hasProtected("net")
	w.waitProtected("net")
	w.tryToDelete(fmt.Sprintf("Error from server (Forbidden): namespaces %q is forbidden: %s", w.namespace, refusal), "namespace", w.namespace)
	namespace, err := w.kube.CoreV1().Namespaces().Get(t.Context(), w.namespace, metav1.GetOptions{})
	w.must(err)
	if namespace.DeletionTimestamp != nil {
		t.Error("the namespace is being deleted")
	}
	w.stays("net")
	w.stays("other")
	empty.deleteNamespace()
	w.lift(refusal)
	w.deleteNamespace()
}

// Without the policy for namespaces, or when it fails, the namespace waits for its protected Networks.
func theNamespaceControllerIsRefused(t *testing.T) {
	w := newWorldWithoutNeutron(t)
	w.kubectl("delete", "validatingadmissionpolicybinding", "samplecrd-deletion-of-namespaces")
	w.protected("net")
	w.eventually(func() error {
		_, err := w.clusterKubectl("", "delete", "namespace", w.namespace, "--wait=false")
		return err
	})
	refusal := w.isProtected("net")
	w.eventually(func() error {
		namespace, err := w.kube.CoreV1().Namespaces().Get(t.Context(), w.namespace, metav1.GetOptions{})
		w.must(err)
		for _, c := range namespace.Status.Conditions {
			if c.Type == corev1.NamespaceDeletionContentFailure && c.Status == corev1.ConditionTrue && strings.Contains(c.Message, refusal) {
				return nil
			}
		}
		return fmt.Errorf("no condition has the refusal: %+v", namespace.Status.Conditions)
	})
	w.stays("net")
	w.lift(refusal)
	w.kubectl("wait", "--for=delete", "namespace/"+w.namespace, "--timeout="+patience.String())
	w.kubectl("apply", "-f", w.deletionPolicy())
}

// waitForRefusal waits until the log of the kube-controller-manager has the refusal.
func (w *world) waitForRefusal(refusal string) {
	w.Helper()
	w.eventually(func() error {
		text, err := os.ReadFile(filepath.Join(dir, "whole-cluster", "logs", "kube-controller-manager.log"))
		w.must(err)
		if !strings.Contains(string(text), refusal) {
			return errors.New("the garbage collector was not refused")
		}
		return nil
	})
}

func theGarbageCollectorIsRefused(t *testing.T) {
	w := newWorld(t)
	w.start(retryQuickly)
	for _, cascade := range []string{"background", "foreground"} {
		w.deploy(cascade, "10.1.0.0/24", "")
		w.waitInForce(cascade, "10.1.0.0/24", "10.1.0.1")
		w.kubectl("label", "network", cascade, protection+"=true")
		w.kubectl("delete", "deployment", cascade, "--cascade="+cascade, "--wait=false")
		w.waitForRefusal(w.isProtected(cascade))
		w.stays(cascade)
		w.matches(cascade, "10.1.0.0/24", "10.1.0.1")
		_, err := w.kube.AppsV1().Deployments(w.namespace).Get(t.Context(), cascade, metav1.GetOptions{})
		if waits := cascade == "foreground"; waits && err != nil || !waits && !apierrors.IsNotFound(err) {
			t.Errorf("%s: the Deployment: %v", cascade, err)
		}
		w.lift(w.isProtected(cascade))
		w.waitGone(cascade)
		w.nothing(cascade)
		w.kubectl("wait", "--for=delete", "deployment/"+cascade, "--timeout="+patience.String())
	}
}

// The controller deletes the Network of a Deployment when the annotation is removed. It tries again until it may.
func theControllerIsRefused(t *testing.T) {
	w := newWorld(t)
	w.expected = failedToSync
	w.start(retryQuickly)
	w.deploy("web", "10.1.0.0/24", "")
	w.waitInForce("web", "10.1.0.0/24", "10.1.0.1")
	w.kubectl("label", "network", "web", protection+"=true")
	w.annotateDeployment("web", cidrAnnotation+"=10.2.0.0/24")
	w.waitInForce("web", "10.2.0.0/24", "10.2.0.1")
	w.annotateDeployment("web", cidrAnnotation+"-")
	w.waitForEvent("web", samplecrdv1.EventNetworkRefused, w.isProtected("web")) // so the label has stayed
	w.stays("web")
	w.lift(w.isProtected("web"))
	w.waitGone("web")
	w.nothing("web")
}

// leaves shows that the label has no effect on a Network that is being deleted, and that users learn it.
func (w *world) leaves(name string) {
	w.kubectl("delete", "network", name, "--wait=false") // it is not refused
	w.kubectl("label", "network", name, "a=b")
	_, err := w.clusterKubectl("", "delete", "namespace", w.namespace, "--dry-run=server")
	w.must(err)
	w.kubectl("label", "network", name, protection+"-")
	_, err = w.clusterKubectl("", "label", "-n", w.namespace, "network", name, protection+"=true")
	w.equal(fmt.Sprint(err), fmt.Sprintf("Error from server (Forbidden): networks.samplecrd.k8s.io %q is forbidden: %sNetwork %s/%s is being deleted, and nothing can stop that. Leave out the label %s. To keep the network in Neutron, set deletionPolicy to Retain",
		name, deniedDeletion, w.namespace, name, protection))
	w.kubectl("label", "network", name, protection+"=false")
	w.kubectl("patch", "network", name, "--type=merge", "-p", `{"spec":{"deletionPolicy":"Retain"}}`)
	w.release(name)
	w.waitGone(name)
}
