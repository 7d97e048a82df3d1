// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package neutron is the cloud side of the controller: the desired state (Desired), the observed
// state (Network, cached by the Observer), the pure function that decides the next step from the
// one to the other (Next), and the Cloud that applies it.
//
// The package reads the spec and the status of a Network, and writes nothing to Kubernetes.
package neutron
