// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package node runs the Deployment of artifacts/deploy on a real node: a kubelet of the
// control plane's version, containerd and runc. Its tests need Linux and root.
//
// The node is isolated from the machine: it has its own process IDs, mounts and network,
// and ends with the tests. Its files are in hack/_output/node.
package node
