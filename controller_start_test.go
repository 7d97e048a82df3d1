// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
	"github.com/samplecrd/samplecrd-controller/pkg/clouds"
	"github.com/samplecrd/samplecrd-controller/pkg/fair"
	informers "github.com/samplecrd/samplecrd-controller/pkg/generated/informers/externalversions"
	"github.com/samplecrd/samplecrd-controller/pkg/neutron"
	"github.com/samplecrd/samplecrd-controller/pkg/neutron/embedded"
	"github.com/samplecrd/samplecrd-controller/pkg/testing/world"
)

// process is a whole controller: its informer runs, and so do its workers. Its own cloud is in one
// World, and the Networks and the clouds of Secrets are in another.
type process struct {
	*world.World
	t    *testing.T
	own  *world.World
	stop func()
	// answer lets the own cloud answer; until then it answers no request.
	answer func()

	mu    sync.Mutex
	ended sync.Cond // a sync
	// waited are the Networks whose sync found that their cloud is not ready, synced those that were
	// synced since.
	waited, synced map[cache.ObjectName]bool
}

func startProcess(t *testing.T, kubernetes, own *world.World) *process {
	t.Helper()
	answered := make(chan struct{})
	p := &process{World: kubernetes, t: t, own: own, answer: sync.OnceFunc(func() { close(answered) }),
		waited: map[cache.ObjectName]bool{}, synced: map[cache.ObjectName]bool{}}
	p.ended.L = &p.mu
	config, err := neutron.ParseConfig("test", own.Neutron.CloudsYAML("test"))
	must(t, err)
	own.Neutron.SetFault(func(*http.Request) *embedded.Fault { <-answered; return nil })
	cloud := neutron.NewCloud("test", neutron.NewClient(config, neutron.ClientOptions{Timeout: time.Hour}), world.Cluster, time.Hour)

	ctx, cancel := context.WithCancel(klog.NewContext(context.Background(), klog.Logger{}))
	factory := informers.NewSharedInformerFactory(p.Kube, 0)
	controller, err := NewController(ctx, p.Kube, factory.Samplecrd().V1().Networks(), newClouds(t, cloud, clouds.Options{Client: p.Secrets}), p.Events,
		ControllerOptions{Cluster: world.Cluster, Resync: time.Minute, Retry: testRetry, Limits: fair.Limits{PerCloud: 1, Total: 1}})
	must(t, err)
	controller.sync = func(ctx context.Context, key cache.ObjectName) error {
		err := controller.syncHandler(ctx, key)
		p.mu.Lock()
		defer p.mu.Unlock()
		defer p.ended.Broadcast()
		if errors.Is(err, clouds.ErrNotReady) {
			p.waited[key] = true
		} else if err == nil {
			p.synced[key] = true
		}
		return err
	}
	factory.StartWithContext(ctx)
	var running sync.WaitGroup
	running.Go(func() { _ = controller.Run(ctx, 2) })
	p.stop = sync.OnceFunc(func() {
		p.answer()
		cancel()
		running.Wait()
		factory.Shutdown()
	})
	t.Cleanup(p.stop)
	return p
}

// await waits until so many Networks are in the set.
func (p *process) await(set map[cache.ObjectName]bool, many int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(set) < many {
		p.ended.Wait()
	}
}

// The own cloud holds up its own Networks until it answers, and nobody else's.
func TestAnOwnCloudThatDoesNotAnswerTheFirstListHoldsUpNobodyElse(t *testing.T) {
	inOwn := world.NewNetwork("10.1.0.0/24", "", func(n *samplecrdv1.Network) { n.Name, n.UID = "in-own", "own" })
	w := world.New(t, inOwn, world.NewNetwork("10.0.0.0/24", "", world.WithCredentials))
	w.CreateSecret() // before the start: the informer sees no status that says that it is missing
	p := startProcess(t, w, world.New(t))
	p.await(p.synced, 1)
	p.ExpectReady(samplecrdv1.ReasonAvailable)
	p.own.ExpectJournal()
	p.answer()
	p.await(p.synced, 2)
	p.own.ExpectNeutron("default/in-own 10.1.0.0/24 10.1.0.1")
	p.ExpectNeutron("default/net-a 10.0.0.0/24 10.0.0.1")
}

// A restart lists Neutron once: the workers start before that, and look up no Network by itself.
func TestARestartMakesNoRequestForASingleNetwork(t *testing.T) {
	const many = 100
	networks := make([]*samplecrdv1.Network, many)
	for i := range networks {
		networks[i] = world.NewNetwork("10.0.0.0/24", "", func(n *samplecrdv1.Network) {
			n.Name, n.UID = fmt.Sprintf("net-%d", i), types.UID(fmt.Sprintf("22222222-0000-0000-0000-%012d", i))
		})
	}
	first := startProcess(t, world.New(t, networks...), world.New(t))
	first.answer()
	first.await(first.synced, many)
	first.stop()
	first.TakeJournal()
	first.own.TakeJournal()

	second := startProcess(t, first.World, first.own)
	second.await(second.waited, many)
	second.answer()
	second.await(second.synced, many)
	second.stop()
	second.ExpectJournal()
	second.own.ExpectJournal("GET networks", "GET subnets", "GET routers")
}
