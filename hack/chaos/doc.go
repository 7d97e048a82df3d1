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

// Package chaos puts the controller to the test under faults. Two controllers of two
// clusters work in one project of one Neutron, each through a proxy that spoils a share of
// its requests to either side, and each is killed again and again; kube-apiserver is killed
// as well.
// Meanwhile clients create, edit, delete and re-create Networks, and strangers have networks
// of the same names. Then the faults stop, and an oracle reads both sides.
//
// All that is decided by chance is decided by the seed. What the threads of five processes
// make of it is not: the same seed leads to the same faults and edits, in another order.
//
//	go -C hack test ./chaos -run TestChaos -v
//
// These variables change what is done: CHAOS_SEED, CHAOS_SEEDS (how many, one after the
// other), CHAOS_NETWORKS, CHAOS_KILLS, CHAOS_FAULTS (per cent of the requests),
// CHAOS_RESTARTS (of kube-apiserver), and CHAOS_LONG=1, which sets them to what takes long.
// CHAOS_LATE_DELETES=1 spares the controller what it cannot prevent: see lateDeletes.
// CHAOS_CLOUDS_YAML and CHAOS_CLOUD name another Neutron than the embedded one, to be had
// without TLS. CHAOS_MUTATIONS=1 shows that the oracle finds fault with controllers that
// are broken on purpose.
package chaos
