// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package e2e tests the controller as users run it: the executable, between a real
// Kubernetes control plane with the real kubectl, and an embedded Neutron that fails on
// request. Requests to both sides are counted at the HTTP level. TestRealNeutron has the real
// Neutron.
//
// The tests show what needs these: the API server's rules, rights and admission, kubectl's words,
// signals, kills, upgrades, TLS. What the controller does about each state of both sides
// is shown by the systematic tests and by the simulation.
//
// Each test has a namespace, a Neutron and a controller of its own. Those of TestWholeCluster, and of
// TestHostileTenants, have a control plane of their own. A part of TestRealNeutron has two.
package e2e
