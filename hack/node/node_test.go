//go:build linux

// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/samplecrd/samplecrd-controller/hack/controlplane/cluster"
	"github.com/samplecrd/samplecrd-controller/hack/internal/stack"
	"github.com/samplecrd/samplecrd-controller/pkg/neutron/embedded"
)

const (
	// nodeAddress is the node's address and name. Pods also reach Neutron at this address.
	nodeAddress = "10.2.0.1"
	// serviceAddress is the address at which pods expect Kubernetes.
	serviceAddress = "10.0.0.1"
	// cloud is the entry of clouds.yaml that artifacts/deploy uses.
	cloud = "mycloud"
	// pauseImage is the image in conf/containerd.toml.
	pauseImage = "samplecrd.local/pause:node"
)

// Shared by all tests.
var (
	controlPlane *cluster.Cluster
	neutron      *stack.Neutron
)

// inside sets up the node, of which this process is the first, and runs the tests.
func inside(m *testing.M, cgroup string) int {
	ctx := context.Background()
	for _, step := range []struct {
		what string
		do   func() error
	}{
		{"mount", mountAll},
		{"set the addresses", addAddresses},
		{"start containerd", func() error { return startContainerd(ctx) }},
		{"start the control plane", func() error { return startControlPlane(ctx) }},
		{"start Neutron", func() error { return startNeutron(ctx) }},
		{"start the kubelet", func() error { return startKubelet(cgroup) }},
	} {
		if err := step.do(); err != nil {
			fmt.Fprintf(os.Stderr, "node: %s: %v\n", step.what, err)
			return 1
		}
	}
	code := m.Run()
	if code != 0 {
		fmt.Fprintf(os.Stderr, "node: the logs are in %s and %s\n", logs(), filepath.Join(controlPlane.Dir(), "logs"))
	}
	return code
}

// mountAll gives the node its own mounts, and its own folders for the data of containerd
// and the kubelet. These mounts are not visible outside.
func mountAll() error {
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		return err
	}
	err := syscall.Mount("proc", "/proc", "proc", 0, "")
	for _, folder := range []string{"/run", "/var/lib", "/var/log"} {
		err = errors.Join(err, syscall.Mount("tmpfs", folder, "tmpfs", 0, "mode=755"))
	}
	return errors.Join(err,
		pretend("vm/overcommit_memory", "1"),
		pretend("kernel/panic", "10"),
		pretend("kernel/panic_on_oops", "1"),
		os.Symlink(filepath.Join(dir, "root/usr/lib/cni"), "/var/lib/cni-plugins"),
		os.Symlink(configuration(), "/run/cni"),
	)
}

// pretend makes a kernel setting appear to have the value that the kubelet wants. The
// machine's setting does not change.
func pretend(setting, value string) error {
	file := filepath.Join("/run", filepath.Base(setting))
	if err := os.WriteFile(file, []byte(value+"\n"), 0o444); err != nil {
		return err
	}
	return syscall.Mount(file, filepath.Join("/proc/sys", setting), "", syscall.MS_BIND, "")
}

func addAddresses() error {
	ctx := context.Background()
	_, err := output(ctx, nil, "ip", "link", "set", "lo", "up")
	for _, address := range []string{nodeAddress, serviceAddress} {
		_, errAdd := output(ctx, nil, "ip", "address", "add", address+"/32", "dev", "lo")
		err = errors.Join(err, errAdd)
	}
	return err
}

func logs() string { return filepath.Join(dir, "logs") }

// configuration returns the folder with the programs' configuration files.
func configuration() string { return filepath.Join(dir, "..", "..", "node", "conf") }

// start starts a program that runs as long as the node.
func start(name, program string, args ...string) error {
	file, err := os.Create(filepath.Join(logs(), name+".log"))
	if err != nil {
		return err
	}
	cmd := exec.Command(program, args...)
	cmd.Stdout, cmd.Stderr = file, file
	if err := cmd.Start(); err != nil {
		return err
	}
	go func() {
		err := cmd.Wait()
		log.Fatalf("node: %s ended: %v: see %s", name, err, file.Name())
	}()
	return nil
}

func startContainerd(ctx context.Context) error {
	if err := errors.Join(os.RemoveAll(logs()), os.Mkdir(logs(), 0o755)); err != nil {
		return err
	}
	programs := []string{filepath.Join(dir, "root/usr/bin"), filepath.Join(dir, "root/usr/sbin"), os.Getenv("PATH")}
	if err := os.Setenv("PATH", strings.Join(programs, ":")); err != nil {
		return err
	}
	if err := start("containerd", "containerd", "--config", filepath.Join(configuration(), "containerd.toml")); err != nil {
		return err
	}
	err := wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, patience, true, func(ctx context.Context) (bool, error) {
		_, err := output(ctx, nil, "ctr", "version")
		return err == nil, nil
	})
	if err != nil {
		return err
	}
	return importImages(ctx)
}

func importImages(ctx context.Context) error {
	pause := filepath.Join(dir, "pause.tar")
	if err := writePauseImage(pause); err != nil {
		return err
	}
	controller, err := filepath.Glob(filepath.Join(dir, "release", "*-image-linux-"+runtime.GOARCH+".tar"))
	if err != nil || len(controller) != 1 {
		return fmt.Errorf("the release's images: %v, %w", controller, err)
	}
	for _, image := range []string{pause, controller[0]} {
		if _, err := output(ctx, nil, "ctr", "--namespace=k8s.io", "images", "import", image); err != nil {
			return err
		}
	}
	return nil
}

// writePauseImage writes an image with one file, the first container of each pod.
func writePauseImage(file string) error {
	program, err := os.ReadFile(filepath.Join(dir, "pause"))
	if err != nil {
		return err
	}
	var files bytes.Buffer
	archive := tar.NewWriter(&files)
	err = archive.WriteHeader(&tar.Header{Name: "pause", Mode: 0o755, Size: int64(len(program))})
	if err != nil {
		return err
	}
	_, err = archive.Write(program)
	if err = errors.Join(err, archive.Close()); err != nil {
		return err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(files.Bytes())), nil })
	if err != nil {
		return err
	}
	image, err := mutate.ConfigFile(empty.Image, &v1.ConfigFile{
		OS:           "linux",
		Architecture: runtime.GOARCH,
		Config:       v1.Config{Entrypoint: []string{"/pause"}},
		RootFS:       v1.RootFS{Type: "layers"},
	})
	if err != nil {
		return err
	}
	if image, err = mutate.AppendLayers(image, layer); err != nil {
		return err
	}
	tag, err := name.NewTag(pauseImage)
	if err != nil {
		return err
	}
	return tarball.WriteToFile(file, tag, image)
}

// startControlPlane starts the control plane and makes it reachable for pods.
func startControlPlane(ctx context.Context) error {
	binary, err := cluster.Built()
	if err != nil {
		return err
	}
	controlPlane, err = cluster.Start(ctx, cluster.Options{Binary: binary, Dir: filepath.Join(dir, "cluster"), Fresh: true})
	if err != nil {
		return err
	}
	config, err := clientcmd.BuildConfigFromFlags("", controlPlane.Kubeconfig())
	if err != nil {
		return err
	}
	return forward(serviceAddress+":443", config.Host)
}

// startNeutron starts Neutron and makes it reachable for pods.
func startNeutron(ctx context.Context) (err error) {
	neutron, err = stack.StartNeutron(ctx, dir, embedded.Options{})
	if err != nil {
		return err
	}
	server, err := url.Parse(neutron.URL())
	if err != nil {
		return err
	}
	return forward(net.JoinHostPort(nodeAddress, server.Port()), neutron.URL())
}

// cloudsYAML returns the path of the pods' clouds.yaml.
func cloudsYAML() string {
	return strings.ReplaceAll(string(neutron.Server.CloudsYAML(cloud)), "127.0.0.1", nodeAddress)
}

// forward forwards the connections to an address. On more than one node, kube-proxy does
// this.
func forward(address, server string) error {
	to, err := url.Parse(server)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				log.Fatalf("node: listen on %s: %v", address, err)
			}
			go join(client, to.Host)
		}
	}()
	return nil
}

// join connects two connections until either ends.
func join(client net.Conn, address string) {
	defer client.Close()
	server, err := net.Dial("tcp", address)
	if err != nil {
		return // the client sees that its connection is closed
	}
	defer server.Close()
	ended := make(chan struct{}, 2)
	for _, to := range []struct{ dst, src net.Conn }{{client, server}, {server, client}} {
		go func() {
			_, _ = io.Copy(to.dst, to.src) // both ends see errors themselves
			ended <- struct{}{}
		}()
	}
	<-ended
}

// startKubelet starts the kubelet and the scheduler, and waits until pods can run.
func startKubelet(cgroup string) error {
	both := filepath.Join(dir, "kubelet")
	err := start("kubelet", both, "kubelet",
		"--config="+filepath.Join(configuration(), "kubelet.yaml"),
		"--kubeconfig="+controlPlane.Kubeconfig(),
		"--cgroup-root=/"+cgroup,
		"--hostname-override="+nodeAddress,
		"--node-ip="+nodeAddress)
	if err != nil {
		return err
	}
	err = start("kube-scheduler", both, "kube-scheduler",
		"--kubeconfig="+controlPlane.Kubeconfig(), "--leader-elect=false", "--secure-port=0")
	if err != nil {
		return err
	}
	for _, what := range []string{"create", "condition=Ready"} {
		if _, err := kubectl("", "wait", "--for="+what, "node/"+nodeAddress, "--timeout="+patience.String()); err != nil {
			return err
		}
	}
	return nil
}

// kubectl runs kubectl as the administrator, and returns its standard output.
func kubectl(stdin string, args ...string) (string, error) {
	cmd := controlPlane.Kubectl(args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("kubectl %s: %w: %s", strings.Join(args, " "), err, stderr.String())
	}
	return stdout.String(), nil
}
