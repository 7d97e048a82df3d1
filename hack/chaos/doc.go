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

// Package chaos tests the controller under faults. Two controllers of two clusters work in
// one project of one Neutron. Each uses a proxy that spoils a share of its requests to
// Kubernetes and to OpenStack, and each is killed repeatedly, as is kube-apiserver.
// Meanwhile users create, edit, pause, delete and re-create Networks, and other clients
// (strangers) have networks of the same names. Some watches are a second late. Keystone fails
// while all tokens are revoked, and etcd is restored from a backup. Then the faults stop, and an
// oracle reads both sides. After that, etcd is restored again with nothing else going on, and
// Keystone leads to another region or project for a while. In a run of its own, both controllers
// have the same cluster ID by mistake.
//
// More than half of the Networks have a router: one of their own, or an existing one of another
// client. Users move them, change their CIDRs and gateways while they are attached, remove their
// interfaces, delete their routers, and take away the routers' gateways, and other clients put ports,
// floating IPs and routers on their subnets for a while. The embedded Neutron dies in the middle of some
// requests, which leaves a half interface, or a router without a gateway. No Network may be Ready with a
// half interface at any time, no owner may have two routers, and none may be left over.
//
// Other Networks import networks that users have created in Neutron by hand, or only observe them. They
// come in pairs, which import the same networks, half of them from both clusters. Users switch between
// Observe and Managed, describe the networks anew, remove ownership tags, add tags of others, and
// delete the networks. At the end, one Network of those that import a network must have it, the others
// must tell why not, and what no Network has declared must be as users have set it. A Network that
// observes must not have changed anything, at any time.
//
// Some requests to Neutron cannot be undone, such as a deletion, or the detachment of a subnet
// from its router. For each of them, the journal shows what the users
// had requested when the controller read the Network before: a request that this did not permit
// is a violation, whatever the end looks like.
//
// With replicas, each controller is three processes, one of which leads. Leaders are killed,
// stopped, paused until another replica works, cut off from the API server, and killed while a
// namespace is deleted with its credentials, and followers are killed, with and without the other
// faults. The proxies, one for each process, record
// which process held the Lease at what time, and the requests of each: only the leader may
// send requests to OpenStack, or write to Kubernetes.
//
// The seed decides all random choices, but not the scheduling of the threads and processes:
// the same seed leads to the same faults and edits, in another order.
//
//	go -C hack test ./chaos -v -timeout 20m -run 'TestChaos$'     short, on the embedded Neutron
//	go -C hack test ./chaos -v -timeout 20m -run 'Replicas$'      short, with replicas
//	go -C hack test ./chaos -v -timeout 30m -run TestChaosReal    short, on the real one
//	go -C hack test ./chaos -v -timeout 6h -long                  all, the long runs too
//
// Each run prints its seed, the counts of what it did, and the violations. Its logs and a
// journal of all requests, faults, kills and edits are in hack/_output/chaos. A run in
// which one of the actors did nothing fails.
//
// These flags come after the package, and change the plans: -seed=7, -seeds (how many, one
// after the other), -networks, -edits (for each Network), -kills, -troubles (of replicas),
// -faults (per cent of the requests), -restarts (of kube-apiserver), -restores (of etcd),
// -keystone (failures) and -moves (to other places).
package chaos
