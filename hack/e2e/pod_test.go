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
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/samplecrd/samplecrd-controller/hack/internal/stack"
)

// These tests have no node. They read a pod from Kubernetes, and do what a kubelet and a
// container runtime do with it as far as the controller can notice: arguments, environment,
// files, user, capabilities, and a read-only root file system. They do not apply the
// seccomp profile.

// pod is a pod of the Deployment.
type pod struct {
	*world
	object    *corev1.Pod
	container *corev1.Container
	// root is the container's root folder, as seen from outside.
	root    string
	process *stack.Controller
}

// podPrograms builds, once, the controller as the image has it, and the runner of containers.
var podPrograms = sync.OnceValues(func() (programs struct{ controller, runner string }, err error) {
	root, err := stack.Root()
	if err != nil {
		return programs, err
	}
	programs.controller, programs.runner = filepath.Join(dir, "controller-static"), filepath.Join(dir, "pod")
	for folder, args := range map[string][]string{
		root:                        {"build", "-o", programs.controller, "."},
		filepath.Join(root, "hack"): {"build", "-o", programs.runner, "./e2e/pod"},
	} {
		cmd := exec.Command("go", args...)
		cmd.Dir, cmd.Env = folder, append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			return programs, fmt.Errorf("go %s: %w: %s", strings.Join(args, " "), err, out)
		}
	}
	return programs, nil
})

// inUserNamespace is the command that runs the runner for a user other than root.
var inUserNamespace = []string{"unshare", "--user", "--mount", "--map-user=65532", "--map-group=65532", "--keep-caps"}

// needsNamespaces skips the test where the kernel does not allow mount namespaces.
func needsNamespaces(t *testing.T) {
	t.Helper()
	probe := []string{"unshare", "--mount", "true"}
	if os.Geteuid() != 0 {
		probe = append(slices.Clone(inUserNamespace), "true")
	}
	if out, err := exec.Command(probe[0], probe[1:]...).CombinedOutput(); err != nil {
		t.Skipf("%s: %v: %s: without a mount namespace, a pod's files cannot be where the controller looks for them", strings.Join(probe, " "), err, out)
	}
}

// pods waits until Kubernetes has n pods of the Deployment.
func (w *world) pods(namespace string, n int) (pods []*pod) {
	w.Helper()
	w.eventually(func() error {
		list, err := w.kube.CoreV1().Pods(namespace).List(w.Context(), metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=" + deployedName})
		w.must(err)
		pods = nil
		for _, object := range list.Items {
			pods = append(pods, &pod{world: w, object: &object, container: &object.Spec.Containers[0]})
		}
		if len(pods) != n {
			return fmt.Errorf("%d pods, want %d", len(pods), n)
		}
		return nil
	})
	return pods
}

// createSecrets creates the Secrets that the Deployment mounts, after the Deployment as the
// README says. Its pods wait for them.
func (w *world) createSecrets(namespace string) {
	w.Helper()
	file := w.file("clouds.yaml.of-pods", cloudsYAML(w.neutron.URL(), project, password))
	cert, key := filepath.Join(w.dir, "tls.crt"), filepath.Join(w.dir, "tls.key")
	w.writeCertificate(cert, key, 1)
	w.kubectl("create", "secret", "generic", "clouds", "--from-file=clouds.yaml="+file, "--namespace="+namespace)
	w.kubectl("create", "secret", "tls", "samplecrd-controller-tls", "--cert="+cert, "--key="+key, "--namespace="+namespace)
	w.Cleanup(func() {
		out, err := w.controlPlane.Kubectl("delete", "secret", "clouds", "samplecrd-controller-tls", "--namespace="+namespace).CombinedOutput()
		if err != nil {
			w.Errorf("delete the Secrets: %v: %s", err, out)
		}
	})
}

// start runs the pod's container.
func (p *pod) start() {
	p.Helper()
	programs, err := podPrograms()
	p.must(err)
	// Each pod has a folder of its own, since there may be two pods.
	p.root = filepath.Join(p.dir, p.object.Name)
	p.must(os.MkdirAll(filepath.Join(p.root, "proc"), 0o755))
	p.must(os.Link(programs.controller, filepath.Join(p.root, "samplecrd-controller")))
	for _, mount := range p.container.VolumeMounts {
		p.mount(mount)
	}
	env := p.environment()
	file, err := os.Create(filepath.Join(p.dir, "controller-"+p.object.Name+".log"))
	p.must(err)
	command := []string{programs.runner, "-root=" + p.root, fmt.Sprintf("-user=%d", *p.object.Spec.SecurityContext.RunAsUser)}
	if os.Geteuid() != 0 {
		command = append(slices.Clone(inUserNamespace), command...)
	}
	for _, name := range slices.Sorted(maps.Keys(env)) {
		command = append(command, "-env="+name+"="+env[name])
	}
	command = append(append(command, "/samplecrd-controller"), p.arguments(env)...)
	p.process, err = stack.StartController(command[0], nil, file, command[1:]...)
	p.must(err)
	p.Cleanup(func() {
		defer file.Close()
		if err := p.process.Stop(); err != nil {
			p.Errorf("stop pod %s: %v", p.object.Name, err)
		}
		for _, trouble := range []string{"panic: ", failedToSync} {
			if p.process.Log.Count(trouble) > 0 && trouble != p.expected {
				p.Errorf("%q in the log of pod %s", trouble, p.object.Name)
			}
		}
	})
}

// environment returns the variables of the container.
func (p *pod) environment() map[string]string {
	p.Helper()
	server := p.adminConfig.Host
	host, port, _ := strings.Cut(strings.TrimPrefix(server, "https://"), ":")
	env := map[string]string{
		"HOME": "/", "HOSTNAME": p.object.Name, "PATH": "/bin",
		"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": port,
	}
	for _, from := range p.container.EnvFrom {
		object, err := p.kube.CoreV1().ConfigMaps(p.object.Namespace).Get(p.Context(), from.ConfigMapRef.Name, metav1.GetOptions{})
		p.must(err)
		for name, value := range object.Data {
			env[name] = value
		}
	}
	for _, variable := range p.container.Env {
		if variable.ValueFrom == nil {
			env[variable.Name] = variable.Value
			continue
		}
		if variable.ValueFrom.FieldRef.FieldPath != "metadata.namespace" {
			p.Fatalf("variable %s is from the pod's field %s, which this test does not know", variable.Name, variable.ValueFrom.FieldRef.FieldPath)
		}
		env[variable.Name] = p.object.Namespace
	}
	return env
}

// bindAddress is the only argument that is replaced: pods have addresses of their own.
var bindAddress = regexp.MustCompile(`^-bind-address=:\d+$`)

// arguments returns the arguments of the container.
func (p *pod) arguments(env map[string]string) (args []string) {
	p.Helper()
	for _, arg := range p.container.Args {
		for name, value := range env {
			arg = strings.ReplaceAll(arg, "$("+name+")", value)
		}
		args = append(args, bindAddress.ReplaceAllString(arg, "-bind-address=:0"))
	}
	if slices.Equal(args, p.container.Args) {
		p.Fatalf("no -bind-address in %q", args)
	}
	return args
}

// mount writes the files of a volume into the container's root folder.
func (p *pod) mount(mount corev1.VolumeMount) {
	p.Helper()
	i := slices.IndexFunc(p.object.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == mount.Name })
	volume := p.object.Spec.Volumes[i]
	switch {
	case !mount.ReadOnly:
		p.Fatalf("volume %s is writable", volume.Name)
	case volume.Secret != nil:
		secret, err := p.kube.CoreV1().Secrets(p.object.Namespace).Get(p.Context(), volume.Secret.SecretName, metav1.GetOptions{})
		p.must(err)
		for name, content := range secret.Data {
			p.write(filepath.Join(mount.MountPath, name), content, os.FileMode(*volume.Secret.DefaultMode))
		}
	case volume.Projected != nil:
		for _, source := range volume.Projected.Sources {
			p.project(mount.MountPath, source, os.FileMode(*volume.Projected.DefaultMode))
		}
	default:
		p.Fatalf("volume %s is of a kind that this test does not know", volume.Name)
	}
}

// project writes the files of the pod's service account.
func (p *pod) project(folder string, source corev1.VolumeProjection, mode os.FileMode) {
	p.Helper()
	switch {
	case source.ServiceAccountToken != nil:
		p.write(filepath.Join(folder, source.ServiceAccountToken.Path), []byte(p.token()), 0o600)
	case source.ConfigMap != nil:
		object, err := p.kube.CoreV1().ConfigMaps(p.object.Namespace).Get(p.Context(), source.ConfigMap.Name, metav1.GetOptions{})
		p.must(err)
		for _, item := range source.ConfigMap.Items {
			content := []byte(object.Data[item.Key])
			p.write(filepath.Join(folder, item.Path), content, mode)
		}
	case source.DownwardAPI != nil:
		// The namespace is the only such field.
		p.write(filepath.Join(folder, source.DownwardAPI.Items[0].Path), []byte(p.object.Namespace), mode)
	}
}

// token returns a token of the pod's service account. Like a kubelet's, it is bound to the
// pod.
func (p *pod) token() string {
	p.Helper()
	token, err := p.kube.CoreV1().ServiceAccounts(p.object.Namespace).CreateToken(p.Context(), p.object.Spec.ServiceAccountName, &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{
			BoundObjectRef: &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: p.object.Name, UID: p.object.UID},
		},
	}, metav1.CreateOptions{})
	p.must(err)
	return token.Status.Token
}

// write writes a file into the container atomically. As on a node, its owner is root and its
// group is the pod's; the token's owner is the pod's user.
func (p *pod) write(path string, content []byte, mode os.FileMode) {
	p.Helper()
	path = filepath.Join(p.root, path)
	p.must(os.MkdirAll(filepath.Dir(path), 0o755))
	p.must(os.WriteFile(path+".new", content, mode))
	if os.Geteuid() == 0 {
		user := 0
		if mode == 0o600 {
			user = int(*p.object.Spec.SecurityContext.RunAsUser)
		}
		p.must(os.Chown(path+".new", user, int(*p.object.Spec.SecurityContext.FSGroup)))
	}
	p.must(os.Rename(path+".new", path))
}

// passes waits until the probe succeeds. If atOnce is set, the first probe must succeed.
func (p *pod) passes(probe *corev1.Probe, atOnce bool) {
	p.Helper()
	if port := probe.HTTPGet.Port.StrVal; port != p.container.Ports[0].Name {
		p.Fatalf("the probe is for port %q", port)
	}
	s := p.site()
	p.eventually(func() error {
		code, body, err := s.try(http.MethodGet, probe.HTTPGet.Path, "")
		if code != http.StatusOK {
			err = errors.Join(err, fmt.Errorf("%s: %d %s", probe.HTTPGet.Path, code, body))
		}
		if atOnce {
			p.must(err)
		}
		return err
	})
}

// site is the pod's HTTP server.
func (p *pod) site() *site {
	p.Helper()
	return p.siteOf(p.process, strings.ToLower(string(p.container.LivenessProbe.HTTPGet.Scheme)))
}

// leads waits until one of the pods leads, and returns it and the others.
func (w *world) leads(pods ...*pod) (leader *pod, others []*pod) {
	w.Helper()
	w.eventually(func() error {
		leader, others = nil, nil
		for _, p := range pods {
			if p.process.Log.Count("Starting workers") > 0 {
				leader = p
			} else {
				others = append(others, p)
			}
		}
		if leader == nil {
			return errors.New("no pod leads")
		}
		return nil
	})
	return leader, others
}

func deployedPodServesHTTPS(t *testing.T) {
	needsNamespaces(t)
	w := newWorld(t)
	w.takeAway(systemNamespace)
	w.applyAll(w.overlay(clusterWide, "components: [HTTPS]\n"))
	w.createSecrets(systemNamespace)
	p := w.pods(systemNamespace, 2)[0]
	p.start()
	p.waitForLog(p.process, "Serving HTTP")
	p.passes(p.container.LivenessProbe, true)
	p.passes(p.container.ReadinessProbe, false)
	w.leads(p)
	s := p.site()
	w.create("net", "10.1.0.0/16", "10.1.0.1")
	may, reader := w.mayUpdate("may", "net"), w.mayListAll("reader")
	path := "/reconcile/" + w.namespace + "/net"
	s.ask(http.MethodPost, path, "", http.StatusUnauthorized)
	s.ask(http.MethodPost, path, reader, http.StatusForbidden)
	at := strings.TrimSpace(s.ask(http.MethodPost, path, may, http.StatusAccepted))
	w.kubectl("wait", "network/net", "--for=jsonpath={.status.lastHandledReconcileAt}="+at, "--timeout="+patience.String())
	s.ask(http.MethodGet, "/orphans", reader, http.StatusOK)
	w.delete("net")
}
