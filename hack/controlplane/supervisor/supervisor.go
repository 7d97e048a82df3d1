// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package supervisor runs etcd, kube-apiserver and kube-controller-manager together, on
// loopback, as children of one process. Their certificates, ports, data and logs are in one
// folder, and none of them outlives the supervisor.
package supervisor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/samplecrd/samplecrd-controller/hack/controlplane/internal/protocol"
)

const (
	// startTimeout is long enough for slow machines; usually a control plane is ready in
	// seconds.
	startTimeout = 10 * time.Minute
	// lockTimeout is how long the children of a killed supervisor may take to end.
	lockTimeout  = 2 * time.Minute
	pollInterval = 50 * time.Millisecond
)

// Options are the options of Up.
type Options struct {
	// Dir holds the certificates, the data, the logs and the kubeconfig.
	Dir string
	// Fresh removes the files of earlier runs from Dir.
	Fresh bool
	// Control makes Up read commands from standard input, and stop when it ends.
	Control bool
}

type supervisor struct {
	layout
	binary    string
	arguments map[string][]string
	server    string
	client    *http.Client
	// inherited are the files that every component keeps open: the lifeline, and the lock,
	// which is therefore released when the last component has ended.
	inherited []*os.File
	running   map[string]*process
	// exited receives every process that has ended, expected or not.
	exited chan *process
}

// Up runs a control plane until the context is cancelled or, with Options.Control, until
// standard input ends. It returns nil in both cases.
func Up(ctx context.Context, opts Options) error {
	begin := time.Now()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var commands control
	if opts.Control {
		commands = readControl(os.Stdin, os.Stdout, cancel)
	}
	err := run(ctx, opts, commands, func(s *supervisor) {
		commands.answer(nil)
		fmt.Fprintf(os.Stderr, "control plane ready in %.1fs: export KUBECONFIG=%s (logs in %s)\n",
			time.Since(begin).Seconds(), s.kubeconfig(), s.logs())
	})
	if err != nil && ctx.Err() == nil {
		commands.fail(err)
		return err
	}
	return nil
}

func run(ctx context.Context, opts Options, commands control, ready func(*supervisor)) error {
	dir, err := filepath.Abs(opts.Dir)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	l := layout{dir: dir}
	lock, err := takeLock(ctx, l.lock())
	if err != nil {
		return err
	}
	defer lock.Close()
	s, closeLifeline, err := prepare(l, opts.Fresh, lock)
	if err != nil {
		return err
	}
	defer closeLifeline()
	if err = s.startAll(ctx); err == nil {
		ready(s)
		err = s.loop(ctx, commands)
	}
	s.stopAll(ctx.Err() == nil)
	return err
}

// takeLock ensures that only one supervisor, and no children of a dead one, use the folder.
func takeLock(ctx context.Context, file string) (*os.File, error) {
	f, err := os.OpenFile(file, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	err = poll(ctx, lockTimeout, func() (bool, error) {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return false, nil
		}
		return true, err
	})
	if errors.Is(err, context.DeadlineExceeded) {
		err = errors.New("another control plane is running there")
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("lock %s: %w", filepath.Dir(file), err)
	}
	return f, nil
}

// prepare creates everything that the components need to start.
func prepare(l layout, fresh bool, lock *os.File) (*supervisor, func(), error) {
	if fresh {
		if err := l.clear(); err != nil {
			return nil, nil, err
		}
	}
	p, err := choosePorts(l.ports())
	if err != nil {
		return nil, nil, err
	}
	server := localURL(p.APIServer)
	if err := errors.Join(os.RemoveAll(l.logs()), os.Mkdir(l.logs(), 0o700), ensurePKI(l.pki(""))); err != nil {
		return nil, nil, err
	}
	err = errors.Join(
		writeKubeconfig(l.kubeconfig(), server, "admin", l),
		writeKubeconfig(l.managerKubeconfig(), server, "controller-manager", l),
	)
	if err != nil {
		return nil, nil, err
	}
	client, err := adminClient(l)
	if err != nil {
		return nil, nil, err
	}
	binary, err := os.Executable()
	if err != nil {
		return nil, nil, err
	}
	lifeline, end, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	return &supervisor{
		layout:    l,
		binary:    binary,
		arguments: arguments(l, p),
		server:    server,
		client:    client,
		inherited: []*os.File{lifeline, lock},
		running:   map[string]*process{},
		exited:    make(chan *process, 16),
	}, func() { lifeline.Close(); end.Close() }, nil
}

// clear removes the files of earlier runs and nothing else, because the folder may have
// other files.
func (l layout) clear() error {
	for _, path := range []string{l.data(), l.logs(), l.pki(""), l.ports(), l.kubeconfig(), l.managerKubeconfig()} {
		if err := os.RemoveAll(path); err != nil {
			return fmt.Errorf("clear %s: %w", l.dir, err)
		}
	}
	return nil
}

// startAll starts the components and returns when the control plane is usable.
func (s *supervisor) startAll(ctx context.Context) error {
	// The API server waits for etcd itself, and has other work before that.
	if err := s.start(protocol.Etcd); err != nil {
		return err
	}
	if err := s.startReady(ctx, protocol.APIServer); err != nil {
		return err
	}
	if err := s.start(protocol.ControllerManager); err != nil {
		return err
	}
	// Pods cannot be created in a namespace before the controller manager has created its
	// default ServiceAccount.
	return s.waitFor(ctx, "/api/v1/namespaces/default/serviceaccounts/default")
}

// startReady starts a component. For the API server it waits until it is ready.
func (s *supervisor) startReady(ctx context.Context, name string) error {
	if err := s.start(name); err != nil {
		return err
	}
	if name != protocol.APIServer {
		return nil
	}
	return s.waitFor(ctx, "/readyz")
}

func (s *supervisor) start(name string) error {
	if s.running[name] != nil {
		return fmt.Errorf("start %s: it is already running", name)
	}
	command := append([]string{s.binary, name}, s.arguments[name]...)
	p, err := startProcess(name, s.log(name), command, s.inherited...)
	if err != nil {
		return err
	}
	s.running[name] = p
	go func() {
		<-p.done
		s.exited <- p
	}()
	return nil
}

// stop stops a component that is running, and waits until it has ended.
func (s *supervisor) stop(name string, signal os.Signal) {
	p := s.running[name]
	if p == nil {
		return
	}
	// Deleted first, so that the end of the process is not taken for a failure.
	delete(s.running, name)
	p.stop(signal)
}

// stopAll stops each component before those that it depends on. After a failure it kills
// them, because an API server without etcd waits a long time.
func (s *supervisor) stopAll(failed bool) {
	signal := syscall.SIGTERM
	if failed {
		signal = syscall.SIGKILL
	}
	for _, name := range []string{protocol.ControllerManager, protocol.APIServer, protocol.Etcd} {
		s.stop(name, signal)
	}
}

// loop executes commands until the context ends or a component fails.
func (s *supervisor) loop(ctx context.Context, commands control) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case p := <-s.exited:
			if s.running[p.name] == p {
				return p.failure()
			}
		case command := <-commands.lines:
			commands.answer(s.obey(ctx, command))
		}
	}
}

// waitFor waits until the API server answers the path with success. It fails at once if one
// of the running components has ended.
func (s *supervisor) waitFor(ctx context.Context, path string) error {
	err := poll(ctx, startTimeout, func() (bool, error) {
		for _, p := range s.running {
			select {
			case <-p.done:
				return false, p.failure()
			default:
			}
		}
		return s.answers(ctx, path), nil
	})
	if err != nil {
		return fmt.Errorf("wait for %s: %w", path, err)
	}
	return nil
}

func (s *supervisor) answers(ctx context.Context, path string) bool {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.server+path, nil)
	if err != nil {
		return false
	}
	response, err := s.client.Do(request)
	if err != nil {
		return false
	}
	defer response.Body.Close()
	_, _ = io.Copy(io.Discard, response.Body)
	return response.StatusCode == http.StatusOK
}

// poll calls done until it returns true or an error.
func poll(ctx context.Context, timeout time.Duration, done func() (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for {
		if ok, err := done(); ok || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}
