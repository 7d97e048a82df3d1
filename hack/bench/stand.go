// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"k8s.io/client-go/kubernetes"
	restclient "k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/samplecrd/samplecrd-controller/hack/controlplane/cluster"
	"github.com/samplecrd/samplecrd-controller/hack/internal/stack"
	clientset "github.com/samplecrd/samplecrd-controller/pkg/generated/clientset/versioned"
)

// lab has what all stands share.
type lab struct {
	options
	// dir is the directory of all files that the benchmark writes.
	dir string
	// calmDown is the longest wait for an idle machine before a measurement.
	calmDown time.Duration
	// controlPlane and controller are the executables.
	controlPlane, controller string
	// profiles are the files for the profiles of the current run; nil if it makes none.
	profiles *profiles
}

func newLab(ctx context.Context, o options) (*lab, error) {
	root, err := stack.Root()
	if err != nil {
		return nil, err
	}
	l := &lab{options: o, calmDown: maxCalmDown, dir: filepath.Join(root, "hack", "_output", "bench")}
	l.crd = cmp.Or(o.crd, filepath.Join(root, "artifacts", "crd"))
	if err := os.MkdirAll(l.dir, 0o700); err != nil {
		return nil, err
	}
	if l.controlPlane, err = cluster.Build(ctx, os.Stderr); err != nil {
		return nil, err
	}
	if o.controller != "" {
		l.controller, err = filepath.Abs(o.controller)
		return l, err
	}
	l.controller, err = stack.BuildController(ctx)
	return l, err
}

// stand is a control plane and a Neutron. Both are empty at first, and run until close.
type stand struct {
	*lab
	cloud   *cloud
	cluster *cluster.Cluster // nil without Kubernetes
	config  *restclient.Config
	kube    kubernetes.Interface
	// counted are the requests to Kubernetes that are counted.
	counted      filter
	*watcher     // nil without Networks
	stopWatching context.CancelFunc
	// address is the last number of the gateways that the Networks were given last.
	address int
	started int
}

// equipment is what a stand has besides Neutron.
type equipment int

const (
	// networksToo is a control plane that has Networks, which a watcher watches.
	networksToo equipment = iota
	justKubernetes
	justNeutron
)

// open sets up a stand.
func (l *lab) open(ctx context.Context, with equipment) (s *stand, err error) {
	s = &stand{lab: l, counted: ownRequests, address: 1}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	if s.cloud, err = startCloud(ctx, l.neutron == realNeutron, l.dir); err != nil {
		return s, err
	}
	if with == justNeutron {
		return s, nil
	}
	s.cluster, err = cluster.Start(ctx, cluster.Options{Binary: l.controlPlane, Dir: filepath.Join(l.dir, "cluster"), Fresh: true})
	if err != nil {
		return s, err
	}
	if err := s.connect(); err != nil || with == justKubernetes {
		return s, err
	}
	if err := s.applyCRD(); err != nil {
		return s, err
	}
	return s, s.watchNetworks(ctx)
}

func (s *stand) applyCRD() error {
	if s.noRules {
		text, err := withoutRules(s.crd)
		if err != nil {
			return err
		}
		if err := s.kubectl(text, "apply", "-f", "-"); err != nil {
			return err
		}
	} else if err := s.kubectl("", "apply", "-f", s.crd); err != nil {
		return err
	}
	return s.kubectl("", "wait", "--for=condition=Established", "crd/networks.samplecrd.k8s.io", "--timeout=30s")
}

// kubectl runs kubectl with this input.
func (s *stand) kubectl(input string, args ...string) error {
	cmd := s.cluster.Kubectl(args...)
	cmd.Stdin = strings.NewReader(input)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("kubectl %s: %w: %s", strings.Join(args, " "), err, out)
	}
	return nil
}

func (s *stand) connect() (err error) {
	if s.config, err = clientcmd.BuildConfigFromFlags("", s.cluster.Kubeconfig()); err != nil {
		return err
	}
	s.config.QPS = -1 // no limit
	s.kube, err = kubernetes.NewForConfig(s.config)
	return err
}

func (s *stand) watchNetworks(ctx context.Context) error {
	client, err := clientset.NewForConfig(s.config)
	if err != nil {
		return err
	}
	ctx, s.stopWatching = context.WithCancel(ctx)
	s.watcher, err = watch(ctx, client)
	return err
}

func (s *stand) close() error {
	var errs []error
	if s.stopWatching != nil {
		s.stopWatching()
	}
	if s.cluster != nil {
		errs = append(errs, s.cluster.Stop())
	}
	if s.cloud != nil {
		errs = append(errs, s.cloud.stop())
	}
	return errors.Join(errs...)
}

// running is a process of the controller.
type running struct {
	*stack.Controller
	pid int
	// url is the address that it serves metrics at; "" if another controller runs.
	url string
	log *os.File
}

// servingAt matches the line of the controller's log with the address that it serves at.
var servingAt = regexp.MustCompile(`"Serving HTTP" address="(\S+)"`)

// start starts a controller to be measured.
func (s *stand) start(ctx context.Context, connections int) (*running, error) {
	s.cloud.latency.Store(int64(s.latency))
	return s.launch(ctx, append([]string{
		fmt.Sprintf("-neutron-connections=%d", connections),
		fmt.Sprintf("-workers=%d", s.workersFor(connections)),
		"-resync=" + s.resync.String(),
		"-profiling",
	}, strings.Fields(s.flags)...)...)
}

// workersFor returns the controller's -workers for a number of connections.
func (l *lab) workersFor(connections int) int { return cmp.Or(l.workers, 4*connections) }

// startQuick starts a controller that is as fast as possible, and is not measured.
func (s *stand) startQuick(ctx context.Context) (*running, error) {
	s.cloud.latency.Store(0)
	connections := 32
	if s.cloud.isReal() {
		connections = 8
	}
	return s.launch(ctx, fmt.Sprintf("-workers=%d", 2*connections), fmt.Sprintf("-neutron-connections=%d", connections), "-kube-api-qps=10000", "-kube-api-burst=10000")
}

func (s *stand) launch(ctx context.Context, flags ...string) (*running, error) {
	flags = append([]string{"-kubeconfig=" + s.cluster.Kubeconfig(), "-bind-address=127.0.0.1:0"}, flags...)
	r, err := s.exec(ctx, s.cloud.Env(), "Serving HTTP", flags)
	if err != nil {
		return nil, err
	}
	r.url = "http://" + servingAt.FindStringSubmatch(r.Log.String())[1]
	return r, nil
}

// exec starts the controller's executable, and waits until text is in its log.
func (s *stand) exec(ctx context.Context, env []string, text string, flags []string) (*running, error) {
	s.started++
	log, err := os.Create(filepath.Join(s.dir, fmt.Sprintf("controller-%d.log", s.started)))
	if err != nil {
		return nil, err
	}
	c, err := stack.StartController(s.controller, env, log, flags...)
	if err != nil {
		return nil, errors.Join(err, log.Close())
	}
	r := &running{Controller: c, log: log}
	if err := c.Log.WaitFor(ctx, text); err != nil {
		return nil, errors.Join(err, r.stop())
	}
	processes, err := family(s.controller)
	if err != nil {
		return nil, errors.Join(err, r.stop())
	}
	r.pid = processes[controllerProcess].pid
	return r, nil
}

func (r *running) stop() error {
	defer r.log.Close()
	if err := r.Stop(); err != nil {
		return fmt.Errorf("stop the controller: %w; its log is %s", err, r.log.Name())
	}
	return nil
}

// waitUntilAllSynced waits until the controller has synced n Networks and its queue is empty. Syncs
// before the first list of Neutron only find that it is missing. When it is there, the Networks are
// enqueued again a moment later, so it must have been there at the scrape before.
func (r *running) waitUntilAllSynced(ctx context.Context, n int) error {
	for listed, wasListed := false, false; ; wasListed = listed {
		families, err := scrape(ctx, r.url)
		if err != nil {
			return err
		}
		listed = isListed(families)
		b := backlogOf(families, "networks")
		if wasListed && b.done >= float64(n) && b.waiting == 0 && b.unfinished == 0 {
			return nil
		}
		if err := pause(ctx, 100*time.Millisecond); err != nil {
			return fmt.Errorf("%.0f of %d Networks were synced, %.0f are waiting: %w", b.done, n, b.waiting, err)
		}
	}
}

// prepare adds Networks until there are n, all of them Ready. The controller itself makes them
// Ready: with no latency, that takes no longer than writing their status here would.
func (s *stand) prepare(ctx context.Context, n int) error {
	observed := len(s.all())
	if observed == n {
		return nil
	}
	if observed > n {
		return fmt.Errorf("there are %d Networks, more than %d", observed, n)
	}
	c, err := s.startQuick(ctx)
	if err != nil {
		return err
	}
	s.await(n, isReady)
	err = s.applyAll(ctx, observed, n, newMoments())
	if err == nil {
		_, err = s.wait(ctx)
	}
	if err == nil {
		err = rest(ctx, c.pid) // until it has recorded its events
	}
	return errors.Join(err, c.stop())
}
