// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package traffic tests what machines notice of Networks: the controller as a process, on the real
// control plane, and the real Neutron with its agents. A machine is a network namespace, so the
// tests need Linux and root.
package traffic
