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

package neutron

import "time"

// Cloud reads and changes the networks of one project in one Neutron. It reads from the cache of
// its Observer or from Neutron itself. The answer to each change updates the cache.
//
// At most one method may run for an owner at a time; the work queue ensures that.
type Cloud struct {
	name     string
	client   *Client
	observer *Observer
}

// NewCloud returns the Cloud of the networks that carry the cluster's mark. All networks are
// listed once per period.
func NewCloud(name string, client *Client, cluster string, period time.Duration) *Cloud {
	observer := NewObserver(cluster, period, client.ListNetworks)
	client.circuit.opened = observer.RelistSoon
	return &Cloud{name: name, client: client, observer: observer}
}

// Name returns the name of the cloud that users know, such as its entry in clouds.yaml.
func (c *Cloud) Name() string { return c.name }

// Observer returns the cache of the cloud's networks. The caller runs it.
func (c *Cloud) Observer() *Observer { return c.observer }

// Client returns the client that sends the requests.
func (c *Cloud) Client() *Client { return c.client }
