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

// agent is what the controller's User-Agent begins with.
const agent = "samplecrd-controller/"

// cloud is the Neutron that is worked with.
type cloud struct {
	*stack.Neutron
	// calls counts what the controller, or the raw loop, asks of the embedded one.
	calls tally
	// latency is what each answer of the embedded one takes, in nanoseconds.
	latency atomic.Int64
	// raw says that it is the raw loop that is measured.
	raw atomic.Bool
	// first and last are when requests came since reset, firstChange when the first one did
	// that changes something: nanoseconds of the Unix time; 0: none has.
	first, firstChange, last atomic.Int64
	stop                     func() error
}

// startCloud starts a Neutron that holds nothing, with its files in dir.
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

// isReal says whether it is one that cannot be observed.
func (c *cloud) isReal() bool { return c.Server == nil }

// see is told of each request that comes to the embedded Neutron, and has it wait.
func (c *cloud) see(r *http.Request) *embedded.Fault {
	if !c.raw.Load() && !strings.Contains(r.UserAgent(), agent) {
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

// neutronRequest returns the method and the collection, with /* for one of its items;
// "" for a request that is not for Neutron but for Keystone.
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

// reset forgets when requests came.
func (c *cloud) reset() {
	c.first.Store(0)
	c.firstChange.Store(0)
	c.last.Store(0)
}

// waitFor waits for a request since reset, and returns when it came: first, say. It is the
// embedded Neutron only that knows.
func waitFor(ctx context.Context, came *atomic.Int64) (time.Time, error) {
	for came.Load() == 0 {
		if err := pause(ctx, time.Millisecond); err != nil {
			return time.Time{}, fmt.Errorf("wait for a request to Neutron: %w", err)
		}
	}
	return time.Unix(0, came.Load()), nil
}

// makeRaw makes n networks with their subnets, with so many connections and no more, and
// returns when each was there, counted from the beginning. It is what an ordinary client
// can do at best.
func (c *cloud) makeRaw(ctx context.Context, n, connections int) ([]time.Duration, error) {
	c.raw.Store(true)
	defer c.raw.Store(false)
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
					Name: name(i), Description: "made by a loop",
				}).Extract()
				if err != nil {
					return fmt.Errorf("create network: %w", err)
				}
				gateway := gateway(i, 1)
				_, err = subnets.Create(ctx, client, subnets.CreateOpts{
					NetworkID: network.ID, Name: name(i), Description: "made by a loop",
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

// subnets returns the subnets by the names that the controller gives them.
func (c *cloud) subnets(ctx context.Context) (map[string]subnets.Subnet, error) {
	pages, err := subnets.List(c.Client, subnets.ListOpts{Limit: 1000}).AllPages(ctx)
	if err != nil {
		return nil, fmt.Errorf("list subnets: %w", err)
	}
	all, err := subnets.ExtractSubnets(pages)
	if err != nil {
		return nil, fmt.Errorf("list subnets: %w", err)
	}
	byName := make(map[string]subnets.Subnet, len(all))
	for _, s := range all {
		byName[s.Name] = s
	}
	return byName, nil
}

// removeGateway takes the gateway off a subnet, behind the controller's back.
func (c *cloud) removeGateway(ctx context.Context, subnet subnets.Subnet) error {
	none := ""
	if _, err := subnets.Update(ctx, c.Client, subnet.ID, subnets.UpdateOpts{GatewayIP: &none}).Extract(); err != nil {
		return fmt.Errorf("update subnet: %w", err)
	}
	return nil
}
