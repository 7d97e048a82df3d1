// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package supervisor

import (
	"fmt"
	"path/filepath"

	"github.com/samplecrd/samplecrd-controller/hack/controlplane/internal/protocol"
)

// layout is the folder of a control plane. Its methods return the paths in it.
type layout struct{ dir string }

func (l layout) lock() string                { return filepath.Join(l.dir, "lock") }
func (l layout) ports() string               { return filepath.Join(l.dir, "ports.json") }
func (l layout) data() string                { return filepath.Join(l.dir, "etcd") }
func (l layout) logs() string                { return filepath.Join(l.dir, "logs") }
func (l layout) log(component string) string { return filepath.Join(l.logs(), component+".log") }
func (l layout) pki(name string) string      { return filepath.Join(l.dir, "pki", name) }
func (l layout) flexVolumes() string         { return filepath.Join(l.dir, "flexvolume") }
func (l layout) kubeconfig() string          { return filepath.Join(l.dir, "kubeconfig") }
func (l layout) managerKubeconfig() string {
	return filepath.Join(l.dir, "controller-manager.kubeconfig")
}

// arguments returns the command line of each component.
func arguments(l layout, p ports) map[string][]string {
	return map[string][]string{
		protocol.Etcd:              etcdArguments(l, p),
		protocol.APIServer:         apiServerArguments(l, p),
		protocol.ControllerManager: controllerManagerArguments(l),
	}
}

// etcd uses TLS and requires client certificates even on loopback, because it holds the
// Secrets and other users of the machine can connect to loopback too.
func etcdArguments(l layout, p ports) []string {
	clientURL, peerURL := localURL(p.EtcdClient), localURL(p.EtcdPeer)
	return []string{
		"--name=local",
		"--data-dir=" + l.data(),
		"--listen-client-urls=" + clientURL,
		"--advertise-client-urls=" + clientURL,
		"--listen-peer-urls=" + peerURL,
		"--initial-advertise-peer-urls=" + peerURL,
		"--initial-cluster=local=" + peerURL,
		"--client-cert-auth",
		"--trusted-ca-file=" + l.pki("etcd-ca.crt"),
		"--cert-file=" + l.pki("etcd.crt"),
		"--key-file=" + l.pki("etcd.key"),
		"--peer-client-cert-auth",
		"--peer-trusted-ca-file=" + l.pki("etcd-ca.crt"),
		"--peer-cert-file=" + l.pki("etcd.crt"),
		"--peer-key-file=" + l.pki("etcd.key"),
		// A crash of the machine may lose this data, which does not matter here.
		"--unsafe-no-fsync",
	}
}

func apiServerArguments(l layout, p ports) []string {
	return []string{
		"--bind-address=" + loopback,
		fmt.Sprintf("--secure-port=%d", p.APIServer),
		// Otherwise the address is taken from the machine's routes.
		"--advertise-address=" + loopback,
		// A loopback address is not allowed in Endpoints.
		"--endpoint-reconciler-type=none",
		"--etcd-servers=" + localURL(p.EtcdClient),
		"--etcd-cafile=" + l.pki("etcd-ca.crt"),
		"--etcd-certfile=" + l.pki("etcd.crt"),
		"--etcd-keyfile=" + l.pki("etcd.key"),
		"--client-ca-file=" + l.pki("ca.crt"),
		"--tls-cert-file=" + l.pki("apiserver.crt"),
		"--tls-private-key-file=" + l.pki("apiserver.key"),
		"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
		"--service-account-key-file=" + l.pki("service-account.key"),
		"--service-account-signing-key-file=" + l.pki("service-account.key"),
		"--service-cluster-ip-range=10.0.0.0/24",
		// No Node authorizer: there are no nodes.
		"--authorization-mode=RBAC",
		// OpenShift enables this plug-in: blockOwnerDeletion in an owner reference needs the
		// right to update the owner's finalizers.
		"--enable-admission-plugins=OwnerReferencesPermissionEnforcement",
		"--shutdown-delay-duration=0",
		// Otherwise a shutdown waits for watches to end by themselves.
		"--shutdown-watch-termination-grace-period=2s",
		"--profiling=false",
	}
}

// The controller manager runs its default controllers. It serves nothing; it is healthy if
// its controllers do their work.
func controllerManagerArguments(l layout) []string {
	return []string{
		"--kubeconfig=" + l.managerKubeconfig(),
		"--secure-port=0",
		// There is only one instance, and it would have to wait until the lease of an
		// earlier run expires.
		"--leader-elect=false",
		"--use-service-account-credentials",
		"--service-account-private-key-file=" + l.pki("service-account.key"),
		"--root-ca-file=" + l.pki("ca.crt"),
		// The controller manager creates this folder; the default is outside our folder.
		"--flex-volume-plugin-dir=" + l.flexVolumes(),
		"--kube-api-qps=500",
		"--kube-api-burst=1000",
		"--profiling=false",
	}
}

func localURL(port int) string {
	return fmt.Sprintf("https://%s:%d", loopback, port)
}
