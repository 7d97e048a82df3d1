// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package neutron is the cloud side of the controller. A View is whose network it is (Identity), what the spec declares
// (Desired), and what Neutron has of the owner (Observed, cached by the Observer). View.Next and NextRemoval are pure functions that decide
// the next Step. The Cloud checks the preconditions of that step, and takes it.
//
// The package reads the spec and the status of a Network, and writes nothing to Kubernetes. Begin with desired.go, plan.go and
// converge.go.
package neutron
