// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/samplecrd/samplecrd-controller/hack/internal/stack"
)

// What artifacts/deploy creates.
const (
	systemNamespace = "samplecrd-system"
	deployedName    = "samplecrd-controller"
)

// The kustomizations of artifacts/deploy that are applied as they are.
const (
	clusterWide  = "."
	oneNamespace = "namespaced"
)

// kustomization returns the folder of a kustomization of artifacts/deploy.
func (w *world) kustomization(name string) string {
	w.Helper()
	root, err := stack.Root()
	w.must(err)
	return filepath.Join(root, "artifacts", "deploy", name)
}

// overlay writes a kustomization that has one of artifacts/deploy among its resources, as a
// user does who edits nothing there. It returns the folder.
func (w *world) overlay(of, text string) string {
	w.Helper()
	folder := filepath.Join(w.dir, "overlay")
	w.must(os.MkdirAll(folder, 0o700))
	relative := func(name string) string {
		path, err := filepath.Rel(folder, w.kustomization(name))
		w.must(err)
		return path
	}
	text = fmt.Sprintf("resources: [%s]\n", relative(of)) + strings.ReplaceAll(text, "HTTPS", relative("https"))
	w.must(os.WriteFile(filepath.Join(folder, "kustomization.yaml"), []byte(text), 0o600))
	return folder
}

// built returns the objects of a kustomization.
func (w *world) built(folder string) (objects []*unstructured.Unstructured) {
	w.Helper()
	text := w.kubectl("kustomize", folder)
	decoder := yaml.NewYAMLOrJSONDecoder(strings.NewReader(text), 4096)
	for {
		object := &unstructured.Unstructured{}
		if err := decoder.Decode(object); err != nil {
			break
		}
		objects = append(objects, object)
	}
	if len(objects) < strings.Count(text, "\nkind: ") {
		w.Fatalf("only %d objects can be read of:\n%s", len(objects), text)
	}
	return objects
}

// find returns the objects of that kind, converted to T.
func find[T any](w *world, objects []*unstructured.Unstructured, kind string) (found []*T) {
	w.Helper()
	for _, object := range objects {
		if object.GetKind() == kind {
			typed := new(T)
			w.must(runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, typed))
			found = append(found, typed)
		}
	}
	return found
}

// applyAll applies a kustomization, and returns what kubectl printed for each object. It
// fails if kubectl writes a warning, or anything else, to standard error.
func (w *world) applyAll(folder string, flags ...string) []string {
	w.Helper()
	cmd := w.controlPlane.Kubectl(append([]string{"apply", "-k", folder, "--validate=strict"}, flags...)...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil || stderr.Len() > 0 {
		w.Fatalf("kubectl apply -k %s: %v: %s", folder, err, stderr.String())
	}
	return strings.Split(strings.TrimSpace(stdout.String()), "\n")
}

// takeAway deletes the Deployment at the end of the test, since nothing needs its pods
// then. The other objects do not disturb other tests.
func (w *world) takeAway(namespace string) {
	w.Cleanup(func() {
		out, err := w.controlPlane.Kubectl("delete", "deployment", deployedName, "--namespace="+namespace, "--cascade=foreground", "--ignore-not-found").CombinedOutput()
		if err != nil {
			w.Errorf("delete the Deployment: %v: %s", err, out)
		}
	})
}

// The tests that use samplecrd-system are part of TestWholeCluster.

func deployIsOneCommandThatCanBeRepeated(t *testing.T) {
	w := newWorldWithoutNeutron(t)
	folder := w.kustomization(clusterWide)
	w.takeAway(systemNamespace)
	w.applyAll(folder)
	before := w.versions(folder)
	w.applyAll(folder)
	if diff := cmp.Diff(before, w.versions(folder)); diff != "" {
		t.Errorf("the second apply changed objects (-before +after):\n%s", diff)
	}
	// The pods pass the admission of the namespace, which refuses unrestricted ones.
	w.kubectl("wait", "--for=jsonpath={.status.replicas}=2", "deployment", deployedName, "--namespace="+systemNamespace, "--timeout="+patience.String())

	// These tests rely on strict validation: it refuses unknown fields.
	mistyped := w.overlay(clusterWide, `
patches:
- target: {kind: Deployment, name: samplecrd-controller}
  patch: '[{op: add, path: /spec/template/spec/containers/0/livenesProbe, value: {}}]'
`)
	_, err := w.tryKubectl("", "apply", "-k", mistyped, "--validate=strict", "--dry-run=server")
	w.contains(fmt.Sprint(err), "livenesProbe")
}

// versions returns the generation of each object, or its resource version, which changes
// with each write, if it has no generation.
func (w *world) versions(folder string) map[string]string {
	w.Helper()
	versions := map[string]string{}
	for _, object := range w.built(folder) {
		fields := strings.Fields(w.kubectl("get", object.GetKind(), object.GetName(), "--namespace="+object.GetNamespace(),
			"-o", "jsonpath={.metadata.generation} {.metadata.resourceVersion}"))
		versions[object.GetKind()+" "+object.GetName()] = fields[0]
	}
	return versions
}

func deployOverlaysOfAUser(t *testing.T) {
	w := newWorldWithoutNeutron(t)
	w.namespace += "-overlay"
	const mine = `
namespace: %s
components: %s
images:
- {name: samplecrd-controller, newName: images.example.com/net/controller, newTag: v1.2.3}
configMapGenerator:
- {name: samplecrd-controller-environment, behavior: merge, literals: [OS_CLOUD=mine]}
`
	for _, test := range []struct{ name, of, components string }{
		{"cluster-wide with HTTPS", clusterWide, "[HTTPS]"},
		{"one namespace", oneNamespace, "[]"},
		{"one namespace with HTTPS", oneNamespace, "[HTTPS]"},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := w.at(t)
			// A dry run fails in a namespace that does not exist.
			w.applyText("apiVersion: v1\nkind: Namespace\nmetadata:\n  name: " + w.namespace + "\n")
			folder := w.overlay(test.of, fmt.Sprintf(mine, w.namespace, test.components))
			objects := w.built(folder)
			w.inOneNamespace(objects, test.of == oneNamespace && test.components == "[]")
			deployment := find[appsv1.Deployment](w, objects, "Deployment")[0]
			w.equal(deployment.Spec.Template.Spec.Containers[0].Image, "images.example.com/net/controller:v1.2.3")
			environment := find[corev1.ConfigMap](w, objects, "ConfigMap")[0]
			w.equal(environment.Data["OS_CLOUD"], "mine")
			w.equal(deployment.Spec.Template.Spec.Containers[0].EnvFrom[0].ConfigMapRef.Name, environment.Name)
			w.applyAll(folder, "--dry-run=server")
		})
	}
}

// inOneNamespace fails unless all objects, and the subjects of all bindings, are in the world's namespace. Objects of the
// cluster are in none.
func (w *world) inOneNamespace(objects []*unstructured.Unstructured, noneOfTheCluster bool) {
	w.Helper()
	for _, object := range objects {
		if namespace := object.GetNamespace(); namespace != w.namespace && (namespace != "" || noneOfTheCluster) {
			w.Errorf("%s %s is in namespace %q", object.GetKind(), object.GetName(), namespace)
		}
		subjects, _, err := unstructured.NestedSlice(object.Object, "subjects")
		w.must(err)
		for _, subject := range subjects {
			if namespace := subject.(map[string]any)["namespace"]; namespace != w.namespace {
				w.Errorf("%s %s is for an account in namespace %s", object.GetKind(), object.GetName(), namespace)
			}
		}
	}
}

func deployedPodsAreAsRestrictedAsCanBe(t *testing.T) {
	w := newWorldWithoutNeutron(t)
	for _, components := range []string{"[]", "[HTTPS]"} {
		folder := w.overlay(clusterWide, "components: "+components+"\n")
		w.takeAway(systemNamespace)
		w.applyAll(folder)
		deployment := find[appsv1.Deployment](w, w.built(folder), "Deployment")[0]
		if _, err := w.admit(deployment.Spec.Template, func(*corev1.PodSpec) {}); err != nil {
			t.Errorf("with components %s: %v", components, err)
		}
		// Without any one of these settings, the namespace refuses the pod, so each is needed.
		for what, spoil := range map[string]func(*corev1.PodSpec){
			"runAsNonRoot":             func(s *corev1.PodSpec) { s.SecurityContext.RunAsNonRoot = nil },
			"runAsUser":                func(s *corev1.PodSpec) { *s.SecurityContext.RunAsUser = 0 },
			"seccompProfile":           func(s *corev1.PodSpec) { s.SecurityContext.SeccompProfile = nil },
			"allowPrivilegeEscalation": func(s *corev1.PodSpec) { s.Containers[0].SecurityContext.AllowPrivilegeEscalation = nil },
			"capabilities":             func(s *corev1.PodSpec) { s.Containers[0].SecurityContext.Capabilities = nil },
			"host namespaces":          func(s *corev1.PodSpec) { s.HostNetwork = true },
		} {
			_, err := w.admit(deployment.Spec.Template, spoil)
			if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), `violates PodSecurity "restricted:latest"`) || !strings.Contains(err.Error(), what) {
				t.Errorf("without %s: %v", what, err)
			}
		}
		// The level restricted does not require this setting.
		if readOnly := deployment.Spec.Template.Spec.Containers[0].SecurityContext.ReadOnlyRootFilesystem; readOnly == nil || !*readOnly {
			t.Error("the root file system can be written to")
		}
	}
}

// admit creates a pod of the template, with a change, as a dry run, and returns the API
// server's answer.
func (w *world) admit(template corev1.PodTemplateSpec, change func(*corev1.PodSpec)) (*corev1.Pod, error) {
	w.Helper()
	pod := &corev1.Pod{ObjectMeta: *template.ObjectMeta.DeepCopy(), Spec: *template.Spec.DeepCopy()}
	pod.GenerateName = deployedName + "-"
	change(&pod.Spec)
	return w.kube.CoreV1().Pods(systemNamespace).Create(w.Context(), pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
}

func deployGrantsNetworksToEditAndView(t *testing.T) {
	w := newWorldWithoutNeutron(t)
	w.takeAway(systemNamespace)
	w.applyAll(w.kustomization(clusterWide))
	for role, can := range map[string]bool{"view": false, "edit": true, "admin": true} {
		as := []string{"auth", "can-i", "--as=" + role}
		w.kubectl("create", "rolebinding", role, "--clusterrole="+role, "--user="+role)
		w.eventually(func() error { // the controller manager adds the rules to the roles
			_, err := w.tryKubectl("", append(as, "list", "networks.samplecrd.k8s.io")...)
			return err
		})
		for _, verb := range []string{"create", "update", "patch", "delete", "deletecollection"} {
			if _, err := w.tryKubectl("", append(as, verb, "networks.samplecrd.k8s.io")...); can != (err == nil) {
				t.Errorf("the role %s: %s: %v", role, verb, err)
			}
		}
		if _, err := w.tryKubectl("", append(as, "patch", "networks.samplecrd.k8s.io", "--subresource=status")...); err == nil {
			t.Errorf("the role %s grants the status of Networks", role)
		}
	}
}
