// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package monitoring

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"syscall"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/samplecrd/samplecrd-controller/hack/controlplane/cluster"
	"github.com/samplecrd/samplecrd-controller/hack/internal/stack"
	clientset "github.com/samplecrd/samplecrd-controller/pkg/generated/clientset/versioned"
	"github.com/samplecrd/samplecrd-controller/pkg/neutron/embedded"
)

// SceneOptions are the options of StartScene.
type SceneOptions struct {
	// Programs is the folder of Prometheus' executables.
	Programs string
	// Dir holds the scene's files.
	Dir string
	// Every is Prometheus' scrape interval.
	Every time.Duration
	// Flags are additional flags of the controllers.
	Flags []string
}

// Scene is two replicas of the controller, with a real control plane, an embedded Neutron,
// and a Prometheus that scrapes the replicas.
type Scene struct {
	Prometheus *Prometheus
	// Addresses are the replicas' HTTP addresses.
	Addresses []string

	options      SceneOptions
	root         string
	binary       string
	controlPlane *cluster.Cluster
	neutron      *stack.Neutron
	client       clientset.Interface
	kube         kubernetes.Interface
	replicas     []*stack.Controller
}

const (
	replicas = 2
	// project is the controllers' project and user in Neutron; quota is its limit of
	// networks.
	project = "samplecrd"
	quota   = 50
)

// StartScene starts everything, and waits until Prometheus is ready. The caller must call
// Stop, even after an error.
func StartScene(ctx context.Context, o SceneOptions) (*Scene, error) {
	s := &Scene{options: o}
	for _, start := range []func(context.Context) error{s.build, s.startKubernetes, s.startNeutron, s.startReplicas, s.startPrometheus} {
		if err := start(ctx); err != nil {
			return s, err
		}
	}
	return s, nil
}

func (s *Scene) build(ctx context.Context) (err error) {
	if s.root, err = stack.Root(); err != nil {
		return err
	}
	if err := errors.Join(os.RemoveAll(s.options.Dir), os.MkdirAll(s.options.Dir, 0o700)); err != nil {
		return err
	}
	s.binary, err = stack.BuildController(ctx)
	return err
}

func (s *Scene) startKubernetes(ctx context.Context) error {
	executable, err := cluster.Build(ctx, os.Stderr)
	if err != nil {
		return err
	}
	s.controlPlane, err = cluster.Start(ctx, cluster.Options{Binary: executable, Dir: filepath.Join(s.options.Dir, "cluster"), Fresh: true})
	if err != nil {
		return err
	}
	config, err := clientcmd.BuildConfigFromFlags("", s.controlPlane.Kubeconfig())
	if err != nil {
		return err
	}
	config.QPS = -1 // no limit
	if s.client, err = clientset.NewForConfig(config); err != nil {
		return err
	}
	if s.kube, err = kubernetes.NewForConfig(config); err != nil {
		return err
	}
	for _, args := range [][]string{
		{"apply", "-f", filepath.Join(s.root, "artifacts", "crd")},
		{"wait", "--for=condition=Established", "crd/networks.samplecrd.k8s.io", "--timeout=5m"},
	} {
		if out, err := s.controlPlane.Kubectl(args...).CombinedOutput(); err != nil {
			return fmt.Errorf("kubectl %s: %w: %s", args[0], err, out)
		}
	}
	return nil
}

func (s *Scene) startNeutron(ctx context.Context) (err error) {
	s.neutron, err = stack.StartNeutron(ctx, s.options.Dir, embedded.Options{
		Projects: []embedded.Project{{Name: project, Quota: map[string]int{"network": quota}}},
	})
	return err
}

// servingAt matches the HTTP address in a controller's log.
var servingAt = regexp.MustCompile(`"Serving HTTP" address="(\S+)"`)

func (s *Scene) startReplicas(ctx context.Context) error {
	for range replicas {
		c, err := s.startReplica("127.0.0.1:0")
		if err != nil {
			return err
		}
		s.replicas = append(s.replicas, c)
		if err := c.Log.WaitFor(ctx, "Serving HTTP"); err != nil {
			return errors.Join(err, errors.New(c.Log.String()))
		}
		s.Addresses = append(s.Addresses, servingAt.FindStringSubmatch(c.Log.String())[1])
	}
	return nil
}

func (s *Scene) startReplica(address string) (*stack.Controller, error) {
	flags := []string{"-kubeconfig=" + s.controlPlane.Kubeconfig(), "-leader-elect=true", "-bind-address=" + address}
	return stack.StartController(s.binary, s.neutron.Env(), nil, append(flags, s.options.Flags...)...)
}

func (s *Scene) startPrometheus(ctx context.Context) (err error) {
	s.Prometheus, err = StartPrometheus(ctx, PrometheusOptions{
		Programs: s.options.Programs,
		Dir:      filepath.Join(s.options.Dir, "prometheus"),
		Targets:  s.Addresses,
		Rules:    filepath.Join(s.root, "artifacts", "monitoring", "alerts.yaml"),
		Every:    s.options.Every,
	})
	return err
}

// crash kills a replica, and waits until it has ended.
func (s *Scene) crash(replica int) error {
	c := s.replicas[replica]
	err := c.Signal(syscall.SIGKILL)
	<-c.Done()
	return err
}

// restart starts a replica that has ended, on its earlier address, and waits until it serves there.
func (s *Scene) restart(ctx context.Context, replica int) error {
	c, err := s.startReplica(s.Addresses[replica])
	if err != nil {
		return err
	}
	s.replicas[replica] = c
	return c.Log.WaitFor(ctx, "Serving HTTP")
}

// Logs returns the replicas' output.
func (s *Scene) Logs() (logs string) {
	for i, c := range s.replicas {
		logs += fmt.Sprintf("replica %d:\n%s", i, c.Log)
	}
	return logs
}

// Stop stops everything in reverse order.
func (s *Scene) Stop() (err error) {
	if s.Prometheus != nil {
		err = errors.Join(err, s.Prometheus.Stop())
	}
	for _, c := range s.replicas {
		err = errors.Join(err, c.Stop())
	}
	if s.neutron != nil {
		err = errors.Join(err, s.neutron.Close())
	}
	if s.controlPlane != nil {
		err = errors.Join(err, s.controlPlane.Stop())
	}
	return err
}
