//go:build linux

// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// TestDeployment installs a release as described in the README, uses it, and removes it.
func TestDeployment(t *testing.T) {
	w := world{T: t, system: "samplecrd-system", namespace: "default"}
	w.run(
		step{"two replicas become available", world.install},
		step{"the processes have the restrictions of their pods", world.checkProcesses},
		step{"one of them leads", world.checkLeader},
		step{"a Network becomes ready", world.createNetwork},
		step{"a rolling restart loses no edit", world.restart},
		step{"the other replica continues when the leader is killed", world.killLeader},
		step{"what was removed in the wrong order is finished by another installation", world.removeTooEarly},
		step{"everything is removed", world.remove},
	)
}

// TestNamespacedDeployment does the same with a controller for one namespace, which serves HTTPS.
func TestNamespacedDeployment(t *testing.T) {
	w := world{T: t, system: "team", namespace: "team"}
	w.run(
		step{"two replicas become available", world.installNamespaced},
		step{"a Network becomes ready", world.createNetwork},
		step{"Networks of other namespaces are ignored", world.checkOtherNamespace},
		step{"a rolling restart loses no edit", world.restart},
		step{"everything is removed", world.removeNamespaced},
	)
}

// manifest returns the path of the release's install.yaml.
func manifest() string { return filepath.Join(dir, "release", "install.yaml") }

func (w world) install() {
	w.kubectl("apply", "--filename="+manifest())
	w.createSecret()
	w.waitAvailable()
}

// createSecret creates what the pods wait for.
func (w world) createSecret() {
	w.Helper()
	w.inSystem("create", "secret", "generic", "clouds", "--from-literal=clouds.yaml="+cloudsYAML())
}

func (w world) waitAvailable() {
	w.Helper()
	w.inSystem("rollout", "status", deployment, within)
	// A pod that has just become ready may be reported as not ready once more: a kubelet
	// sync that was in progress writes its older result.
	w.eventually(func() error {
		if got := w.inSystem("get", deployment, "--output=jsonpath={.status.availableReplicas}"); got != "2" {
			return fmt.Errorf("available replicas: %q", got)
		}
		return nil
	})
}

func (w world) checkProcesses() {
	all := w.processes()
	if len(all) != 2 {
		w.Fatalf("got %d processes, want 2", len(all))
	}
	for _, p := range all {
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.pid))
		w.must(err)
		for _, want := range []string{
			`Uid:\t65532\t65532\t65532\t65532`,
			`Gid:\t65532\t65532\t65532\t65532`,
			`CapPrm:\t0+`,
			`CapEff:\t0+`,
			`CapBnd:\t0+`,
			`NoNewPrivs:\t1`,
			`Seccomp:\t2`, // a filter
		} {
			if !regexp.MustCompile(`(?m)^` + want + `$`).Match(status) {
				w.Errorf("%s: /proc status has no line %s:\n%s", p.pod, want, status)
			}
		}
		mounts, err := os.ReadFile(fmt.Sprintf("/proc/%d/mounts", p.pid))
		w.must(err)
		if !regexp.MustCompile(`(?m)^\S+ / overlay ro,`).Match(mounts) {
			w.Errorf("%s: the root file system is writable:\n%s", p.pod, mounts)
		}
	}
}

func (w world) checkLeader() {
	leader := w.leader()
	addresses := w.inSystem("get", "pods", `--output=jsonpath={range .items[*]}{.metadata.name}={.status.podIP}{"\n"}{end}`)
	for pod := range strings.FieldsSeq(addresses) {
		name, address, _ := strings.Cut(pod, "=")
		leads := 0
		if name == leader {
			leads = 1
		}
		want := fmt.Sprintf("leader_election_master_status{name=%q} %d\n", "samplecrd-controller", leads)
		w.eventually(func() error {
			if !strings.Contains(w.metrics(address), want) {
				return fmt.Errorf("the metrics of %s do not have %s", name, want)
			}
			return nil
		})
	}
}

func (w world) createNetwork() {
	w.apply("net", w.namespace, "10.9.0.1")
	w.kubectl("wait", "--for=condition=Ready", "network/net", "--namespace="+w.namespace, within)
	w.waitMatches("10.9.0.1")
	// The kubelet receives a line through containerd, some time after it was written.
	leader := w.leader()
	w.eventually(func() error {
		if log := w.inSystem("logs", leader); !strings.Contains(log, w.namespace+"/net") {
			return fmt.Errorf("the leader's log has no line about the Network:\n%s", log)
		}
		return nil
	})
}

// restart edits the Network as fast as it can while all pods are replaced.
func (w world) restart() {
	before := w.processes()
	w.inSystem("rollout", "restart", deployment)
	done := make(chan error, 1)
	go func() {
		_, err := kubectl("", "rollout", "status", deployment, "--namespace="+w.system, within)
		done <- err
	}()
	last := ""
	for rolling, edits := true, 1; rolling; edits++ {
		select {
		case err := <-done:
			w.must(err)
			rolling = false
		default:
		}
		last = fmt.Sprintf("10.9.%d.%d", 1+edits/250, 1+edits%250)
		w.apply("net", w.namespace, last)
	}
	w.waitMatches(last)
	// The old pods finish the work that they have begun.
	w.eventually(func() error {
		now := w.processes()
		if len(now) != 2 || slices.ContainsFunc(before, func(p process) bool { return slices.Contains(now, p) }) {
			return fmt.Errorf("the processes were %v, and are now %v", before, now)
		}
		return nil
	})
}

func (w world) killLeader() {
	leader := w.leader()
	restarts := func() int {
		n, err := strconv.Atoi(w.inSystem("get", "pod/"+leader, "--output=jsonpath={.status.containerStatuses[0].restartCount}"))
		w.must(err)
		return n
	}
	before := restarts()
	for _, p := range w.processes() {
		if p.pod == leader {
			w.must(syscall.Kill(p.pid, syscall.SIGKILL))
		}
	}
	w.apply("net", w.namespace, "10.9.0.99")
	w.waitMatches("10.9.0.99")
	w.eventually(func() error {
		if restarts() == before {
			return fmt.Errorf("the container of %s was not restarted", leader)
		}
		return nil
	})
	w.inSystem("rollout", "status", deployment, within)
}

// removeTooEarly deletes the CRD while a Network exists and no controller runs. At the end
// everything is as before, with another network.
func (w world) removeTooEarly() {
	const crd = "crd/networks.samplecrd.k8s.io"
	w.removeDeployment()
	w.kubectl("delete", "--filename="+manifest(), "--ignore-not-found", "--wait=false")
	w.kubectl("wait", "--for=delete", "namespace/"+w.system, within)
	w.kubectl("wait", "--for=condition=Terminating", crd, within)
	w.kubectl("get", "network/net", "--namespace="+w.namespace)
	w.waitMatches("10.9.0.99")

	w.kubectl("apply", "--filename="+manifest())
	w.createSecret()
	w.kubectl("wait", "--for=delete", crd, within)
	w.checkNeutronIsEmpty()
	w.kubectl("apply", "--filename="+manifest())
	w.waitAvailable()
	w.createNetwork()
}

func (w world) remove() {
	w.removeNetwork()
	w.removeDeployment()
	w.kubectl("delete", "--filename="+manifest(), "--ignore-not-found", within)
	w.checkNoProcesses()
}

func (w world) removeNetwork() {
	w.Helper()
	w.kubectl("delete", "network/net", "--namespace="+w.namespace, within)
	w.checkNeutronIsEmpty()
}

func (w world) checkNeutronIsEmpty() {
	w.Helper()
	all, err := neutron.Networks(w.Context())
	w.must(err)
	if len(all) > 0 {
		w.Errorf("Neutron still has %+v", all)
	}
}

// removeDeployment returns when its pods are gone, so that nothing waits for them in a
// namespace that is deleted next.
func (w world) removeDeployment() {
	w.Helper()
	w.inSystem("delete", deployment, "--cascade=foreground", within)
}

func (w world) checkNoProcesses() {
	w.Helper()
	if left := w.processes(); len(left) > 0 {
		w.Errorf("processes %v still run", left)
	}
}

// installNamespaced installs the release's image for only this namespace.
func (w world) installNamespaced() {
	w.kubectl("apply", "--kustomize="+filepath.Join(artifacts(), "crd"))
	w.kubectl("create", "namespace", w.system)
	w.kubectl("label", "namespace", w.system, "pod-security.kubernetes.io/enforce=restricted")
	w.must(os.MkdirAll(overlay(), 0o755))
	w.must(os.WriteFile(filepath.Join(overlay(), "kustomization.yaml"), fmt.Appendf(nil, `
resources: [%[1]s/namespaced]
components: [%[1]s/https]
namespace: %s
images: [{name: samplecrd-controller, newTag: %s}]
configMapGenerator:
- name: samplecrd-controller-environment
  behavior: merge
  literals: [CLUSTER_ID=node]
`, "../../../../artifacts/deploy", w.system, w.releasedTag()), 0o600))
	w.kubectl("apply", "--kustomize="+overlay())
	w.createSecret()
	w.createCertificate()
	w.waitAvailable() // the kubelet's probes use HTTPS
}

// createCertificate creates the Secret of the component https, with any certificate.
func (w world) createCertificate() {
	w.Helper()
	server := httptest.NewTLSServer(http.NotFoundHandler())
	defer server.Close()
	pair := server.TLS.Certificates[0]
	key, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	w.must(err)
	w.inSystem("create", "secret", "generic", "samplecrd-controller-tls",
		"--from-literal=tls.crt="+string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: pair.Certificate[0]})),
		"--from-literal=tls.key="+string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key})))
}

func artifacts() string { return filepath.Join(dir, "..", "..", "..", "artifacts") }

func overlay() string { return filepath.Join(dir, "overlay") }

// releasedTag returns the tag of the release's image.
func (w world) releasedTag() string {
	w.Helper()
	text, err := os.ReadFile(manifest())
	w.must(err)
	found := regexp.MustCompile(`image: samplecrd-controller:(\S+)`).FindSubmatch(text)
	if found == nil {
		w.Fatalf("%s has no image", manifest())
	}
	return string(found[1])
}

func (w world) checkOtherNamespace() {
	w.apply("other", "default", "10.9.0.1")
	// A later edit has taken effect, so the controller has had time for this one.
	w.apply("net", w.namespace, "10.9.0.2")
	w.waitMatches("10.9.0.2")
	if got := w.kubectl("get", "network/other", "--output=jsonpath={.metadata.finalizers}{.status.observedGeneration}"); got != "" {
		w.Errorf("the controller has reconciled it: %s", got)
	}
	w.kubectl("delete", "network/other", within)
}

func (w world) removeNamespaced() {
	w.removeNetwork()
	w.removeDeployment()
	w.kubectl("delete", "--kustomize="+overlay(), "--ignore-not-found", within)
	w.kubectl("delete", "namespace/"+w.system, within)
	w.kubectl("delete", "--kustomize="+filepath.Join(artifacts(), "crd"), within)
	w.checkNoProcesses()
}
