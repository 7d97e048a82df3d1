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

package v1

// The reasons of the events that the controller records on a Network. Besides these, a
// Network that ceases to be ready gets a Warning with the reason of its condition, and one
// that is ready again without anything having been done gets Available.
const (
	// EventCreated: the network was made in Neutron.
	EventCreated = "Created"
	// EventAdopted: a network that carried this Network's mark already was taken on: its
	// creation had not got as far as the status.
	EventAdopted = "Adopted"
	// EventUpdated: the network in Neutron was brought in line with an edit of the spec.
	EventUpdated = "Updated"
	// EventDriftRepaired: something had changed in Neutron, and was put right.
	EventDriftRepaired = "DriftRepaired"
	// EventForeignSubnet: somebody else has added a subnet to the network. It is left alone,
	// but goes when the network goes.
	EventForeignSubnet = "ForeignSubnet"
	// EventDeleted: the network is gone from Neutron.
	EventDeleted = "Deleted"
)
