// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/networks"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/subnets"
	"golang.org/x/sync/errgroup"

	"github.com/samplecrd/samplecrd-controller/hack/internal/stack"
	"github.com/samplecrd/samplecrd-controller/hack/neutron/realneutron"
	"github.com/samplecrd/samplecrd-controller/pkg/neutron/embedded"
)

// agent is the beginning of the controller's User-Agent.
const agent = "samplecrd-controller/"

// cloud is the Neutron of a stand.
type cloud struct {
	*stack.Neutron
	// calls counts the controller's requests to the embedded Neutron, or those of all clients.
	calls tally
	// latency is the delay of each answer of the embedded Neutron, in nanoseconds.
	latency atomic.Int64
	// all reports whether the requests of all clients are counted, not only those of this
	// repository's controller.
	all atomic.Bool
	// first and last are the times of the first and the last request since reset, firstChange
	// that of the first request that changes something: Unix times in nanoseconds, 0 if there
	// was none.
	first, firstChange, last atomic.Int64
	stop                     func() error
}

// startCloud starts an empty Neutron, with its files in dir.
func startCloud(ctx context.Context, real bool, dir string) (*cloud, error) {
	if real {
		return startRealCloud(ctx, dir)
	}
	neutron, err := stack.StartNeutron(ctx, dir, embedded.Options{})
	if err != nil {
		return nil, err
	}
	c := &cloud{Neutron: neutron, stop: neutron.Close}
	neutron.SetFault(c.see)
	return c, nil
}

func startRealCloud(ctx context.Context, dir string) (*cloud, error) {
	dir = filepath.Join(dir, "neutron")
	if err := realneutron.Purge(dir); err != nil {
		return nil, err
	}
	neutron, err := realneutron.Up(ctx, dir)
	if err != nil {
		return nil, err
	}
	cloudsYAML, err := os.ReadFile(neutron.CloudsYAML)
	if err != nil {
		return nil, errors.Join(err, neutron.Down())
	}
	client, err := stack.Connect(ctx, stack.Cloud, cloudsYAML)
	if err != nil {
		return nil, errors.Join(err, neutron.Down())
	}
	return &cloud{Neutron: &stack.Neutron{Client: client, CloudsYAML: neutron.CloudsYAML}, stop: neutron.Down}, nil
}

// isReal reports whether the Neutron is the real one, whose requests cannot be observed here.
func (c *cloud) isReal() bool { return c.Server == nil }

// see counts a request to the embedded Neutron, and delays its answer by the latency.
func (c *cloud) see(r *http.Request) *embedded.Fault {
	if !c.all.Load() && !strings.Contains(r.UserAgent(), agent) {
		return nil
	}
	now := time.Now().UnixNano()
	if request := neutronRequest(r.Method, r.URL.Path); request != "" {
		c.calls.add(request)
		c.first.CompareAndSwap(0, now)
		c.last.Store(now)
		if r.Method != http.MethodGet {
			c.firstChange.CompareAndSwap(0, now)
		}
	}
	if latency := c.latency.Load(); latency > 0 {
		return &embedded.Fault{Delay: time.Duration(latency)}
	}
	return nil
}

// neutronRequest returns the method and the collection, with /* for a single item. It returns
// "" for requests to Keystone.
func neutronRequest(method, path string) string {
	path, ok := strings.CutPrefix(path, "/networking/v2.0/")
	if !ok {
		return ""
	}
	collection, _, item := strings.Cut(path, "/")
	if item {
		collection += "/*"
	}
	return method + " " + collection
}

// reset clears the times of requests.
func (c *cloud) reset() {
	c.first.Store(0)
	c.firstChange.Store(0)
	c.last.Store(0)
}

// waitFor waits until came, such as cloud.first, is set, and returns its time. Only the
// embedded Neutron sets it.
func waitFor(ctx context.Context, came *atomic.Int64) (time.Time, error) {
	for came.Load() == 0 {
		if err := pause(ctx, time.Millisecond); err != nil {
			return time.Time{}, fmt.Errorf("wait for a request to Neutron: %w", err)
		}
	}
	return time.Unix(0, came.Load()), nil
}

// makeRaw creates n networks with their subnets over at most that many connections. It
// returns how long after the beginning each was complete. No ordinary client can be faster.
func (c *cloud) makeRaw(ctx context.Context, n, connections int) ([]time.Duration, error) {
	c.all.Store(true)
	defer c.all.Store(false)
	began := time.Now()
	cloudsYAML, err := os.ReadFile(c.CloudsYAML)
	if err != nil {
		return nil, err
	}
	client, err := stack.Connect(ctx, stack.Cloud, cloudsYAML)
	if err != nil {
		return nil, err
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost = connections
	transport.MaxConnsPerHost = connections
	defer transport.CloseIdleConnections()
	client.HTTPClient.Transport = transport

	times := make([]time.Duration, n)
	var next atomic.Int64
	group, ctx := errgroup.WithContext(ctx)
	for range connections {
		group.Go(func() error {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				network, err := networks.Create(ctx, client, networks.CreateOpts{
					Name: name(i), Description: "created by the benchmark",
				}).Extract()
				if err != nil {
					return fmt.Errorf("create network: %w", err)
				}
				gateway := gateway(i, 1)
				_, err = subnets.Create(ctx, client, subnets.CreateOpts{
					NetworkID: network.ID, Name: name(i), Description: "created by the benchmark",
					IPVersion: 4, CIDR: cidr(i), GatewayIP: &gateway,
				}).Extract()
				if err != nil {
					return fmt.Errorf("create subnet: %w", err)
				}
				times[i] = time.Since(began)
			}
			return nil
		})
	}
	return times, group.Wait()
}

// subnets returns all subnets by name.
func (c *cloud) subnets(ctx context.Context) (map[string]subnets.Subnet, error) {
	all, err := c.allSubnets(ctx)
	byName := make(map[string]subnets.Subnet, len(all))
	for _, s := range all {
		byName[s.Name] = s
	}
	return byName, err
}

func (c *cloud) allSubnets(ctx context.Context) ([]subnets.Subnet, error) {
	pages, err := subnets.List(c.Client, subnets.ListOpts{Limit: 1000}).AllPages(ctx)
	if err != nil {
		return nil, fmt.Errorf("list subnets: %w", err)
	}
	all, err := subnets.ExtractSubnets(pages)
	if err != nil {
		return nil, fmt.Errorf("list subnets: %w", err)
	}
	return all, nil
}

// removeGateway removes the gateway of a subnet without the controller's knowledge.
func (c *cloud) removeGateway(ctx context.Context, subnet subnets.Subnet) error {
	none := ""
	if _, err := subnets.Update(ctx, c.Client, subnet.ID, subnets.UpdateOpts{GatewayIP: &none}).Extract(); err != nil {
		return fmt.Errorf("update subnet: %w", err)
	}
	return nil
}
