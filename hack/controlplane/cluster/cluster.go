// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package cluster builds, starts and stops a real Kubernetes control plane (etcd,
// kube-apiserver and kube-controller-manager) for tests and for development. The control
// plane is a separate executable, so importing this package does not compile Kubernetes.
package cluster

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/samplecrd/samplecrd-controller/hack/controlplane/internal/protocol"
)

// stopTimeout is enough for three components that stop one after the other.
const stopTimeout = 3 * time.Minute

// Options are the options of Start.
type Options struct {
	// Binary is the executable, from Build or Built.
	Binary string
	// Dir holds the control plane's data, certificates, logs and kubeconfig.
	// One control plane at a time can run in it.
	Dir string
	// Fresh removes the files of earlier control planes from Dir. Otherwise their data is
	// kept, and their kubeconfig stays valid if its port is free.
	Fresh bool
	// Stderr receives the supervisor's output. Nil discards it; errors are returned in any
	// case.
	Stderr io.Writer
}

// Cluster is a running control plane. It ends with the process that started it, even if
// that process crashes.
type Cluster struct {
	binary, dir string
	cmd         *exec.Cmd

	mu    sync.Mutex // one command at a time
	stdin io.WriteCloser

	answers chan protocol.Answer
	// done is closed when the control plane has ended; err is set before that.
	done chan struct{}
	err  error
}

// Start starts a control plane and waits until it is ready. The context limits only this
// wait.
func Start(ctx context.Context, opts Options) (*Cluster, error) {
	dir, err := filepath.Abs(opts.Dir)
	if err != nil {
		return nil, fmt.Errorf("start control plane: %w", err)
	}
	args := []string{"up", "-control", "-dir", dir}
	if opts.Fresh {
		args = append(args, "-fresh")
	}
	cmd := exec.Command(opts.Binary, args...)
	cmd.Stderr = opts.Stderr
	// A process group of its own: Ctrl-C reaches only the caller, who then calls Stop.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	stdin, errIn := cmd.StdinPipe()
	stdout, errOut := cmd.StdoutPipe()
	if err := errors.Join(errIn, errOut); err != nil {
		return nil, fmt.Errorf("start control plane: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start control plane: %w", err)
	}
	c := &Cluster{
		binary:  opts.Binary,
		dir:     dir,
		cmd:     cmd,
		stdin:   stdin,
		answers: make(chan protocol.Answer, 1),
		done:    make(chan struct{}),
	}
	go c.listen(stdout)
	if err := c.await(ctx); err != nil {
		_ = c.Stop() // its error is the one that await returned
		return nil, fmt.Errorf("start control plane: %w", err)
	}
	return c, nil
}

// listen forwards answers until the supervisor ends.
func (c *Cluster) listen(stdout io.Reader) {
	defer close(c.done)
	for answers := json.NewDecoder(stdout); ; {
		var a protocol.Answer
		if err := answers.Decode(&a); err != nil {
			break
		}
		if a.Fatal {
			c.err = errors.New(a.Error)
			continue
		}
		c.answers <- a
	}
	// A fatal answer is more informative than the exit status.
	if err := c.cmd.Wait(); c.err == nil {
		c.err = err
	}
}

// await returns the supervisor's next answer as an error.
func (c *Cluster) await(ctx context.Context) error {
	select {
	case a := <-c.answers:
		if a.Error != "" {
			return errors.New(a.Error)
		}
		return nil
	case <-c.done:
		if c.err != nil {
			return c.err
		}
		return errors.New("the control plane has ended")
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Kubeconfig returns the path of a kubeconfig of a cluster administrator.
func (c *Cluster) Kubeconfig() string {
	return filepath.Join(c.dir, "kubeconfig")
}

// Dir returns the folder of the control plane; the components' logs are in its
// logs folder.
func (c *Cluster) Dir() string {
	return c.dir
}

// Etcd returns the URL of etcd, and with what a client reaches it: the certificates of kube-apiserver.
func (c *Cluster) Etcd() (endpoint string, config *tls.Config, err error) {
	pki := func(name string) string { return filepath.Join(c.dir, "pki", name) }
	certificate, errCertificate := tls.LoadX509KeyPair(pki("etcd.crt"), pki("etcd.key"))
	ca, errCA := os.ReadFile(pki("etcd-ca.crt"))
	data, errPorts := os.ReadFile(filepath.Join(c.dir, "ports.json"))
	if err := errors.Join(errCertificate, errCA, errPorts); err != nil {
		return "", nil, fmt.Errorf("reach etcd: %w", err)
	}
	var ports struct {
		EtcdClient int `json:"etcdClient"`
	}
	if err := json.Unmarshal(data, &ports); err != nil {
		return "", nil, fmt.Errorf("reach etcd: %w", err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	return fmt.Sprintf("https://127.0.0.1:%d", ports.EtcdClient), &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{certificate}}, nil
}

// Kubectl returns a command that runs kubectl as the administrator. It ignores the user's
// own configuration.
func (c *Cluster) Kubectl(args ...string) *exec.Cmd {
	cmd := exec.Command(Kubectl(c.binary), args...)
	cmd.Env = append(os.Environ(),
		"KUBECONFIG="+c.Kubeconfig(),
		"KUBERC=off",
		// The default cache is keyed by host and port. Another control plane with other
		// resources may have had the same port.
		"KUBECACHEDIR="+filepath.Join(c.dir, "cache"),
	)
	return cmd
}

// RestartAPIServer stops kube-apiserver, starts it again on the same port, and
// waits until it is ready.
func (c *Cluster) RestartAPIServer() error {
	return errors.Join(c.StopAPIServer(), c.StartAPIServer())
}

// StopAPIServer stops kube-apiserver gracefully, and waits until it has ended.
func (c *Cluster) StopAPIServer() error {
	return c.command(protocol.Stop, protocol.APIServer)
}

// KillAPIServer ends kube-apiserver with SIGKILL, like a crash.
func (c *Cluster) KillAPIServer() error {
	return c.command(protocol.Kill, protocol.APIServer)
}

// StartAPIServer starts kube-apiserver on its port after StopAPIServer or
// KillAPIServer, and waits until it is ready.
func (c *Cluster) StartAPIServer() error {
	return c.command(protocol.Start, protocol.APIServer)
}

// Backup copies etcd's data into folder, which must not exist. For the copy it ends etcd with
// SIGKILL, like a crash, and starts it again. kube-apiserver keeps running, but its requests
// fail for that time, and some also for a second or two afterwards.
func (c *Cluster) Backup(folder string) error {
	err := c.command(protocol.Kill, protocol.Etcd)
	if err == nil {
		err = os.CopyFS(folder, os.DirFS(c.etcdData()))
	}
	return errors.Join(err, c.command(protocol.Start, protocol.Etcd))
}

// Restore stops the control plane, replaces etcd's data by a backup, starts everything again,
// and waits until it is ready. While is called when nothing runs; it may be nil. The
// resourceVersions go back to those of the backup.
func (c *Cluster) Restore(folder string, while func()) error {
	// The caches of kube-controller-manager too would be newer than the data.
	for _, component := range []string{protocol.APIServer, protocol.ControllerManager, protocol.Etcd} {
		if err := c.command(protocol.Kill, component); err != nil {
			return err
		}
	}
	if while != nil {
		while()
	}
	err := os.RemoveAll(c.etcdData())
	if err == nil {
		err = os.CopyFS(c.etcdData(), os.DirFS(folder))
	}
	if err != nil {
		return fmt.Errorf("restore the data of etcd: %w", err)
	}
	for _, component := range []string{protocol.Etcd, protocol.APIServer, protocol.ControllerManager} {
		if err := c.command(protocol.Start, component); err != nil {
			return err
		}
	}
	return nil
}

func (c *Cluster) etcdData() string { return filepath.Join(c.dir, "etcd") }

// command makes the supervisor act on a component.
func (c *Cluster) command(verb, component string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, err := fmt.Fprintln(c.stdin, verb, component)
	if err == nil {
		// This wait must not be interrupted: the next command would receive this command's
		// answer. The supervisor limits the time.
		err = c.await(context.Background())
	}
	if err != nil {
		return fmt.Errorf("%s %s: %w", verb, component, err)
	}
	return nil
}

// Done returns a channel that is closed when the control plane has ended, by Stop or by a
// failure.
func (c *Cluster) Done() <-chan struct{} {
	return c.done
}

// Stop stops the control plane and waits until it has ended. If it failed before, Stop
// returns that error. Stop may be called more than once.
func (c *Cluster) Stop() error {
	c.stdin.Close() // makes the supervisor stop
	select {
	case <-c.done:
	case <-time.After(stopTimeout):
		_ = c.cmd.Process.Kill()
		<-c.done
	}
	return c.err
}
