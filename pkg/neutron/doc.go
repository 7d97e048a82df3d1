// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package neutron is the cloud side of the controller. A View is whose network it is (Identity), what the spec declares
// (Desired), and what Neutron has of the owner (Observed, cached by the Observer). View.Next and NextRemoval are pure functions that decide
// the next Step. The Cloud checks the preconditions of that step, and takes it.
//
// The package reads the spec and the status of a Network, and writes nothing to Kubernetes. Begin with desired.go, plan.go and
// converge.go.
//
// Its files are in four rooms. Each of them uses only those before it (TestTheRoomsUseOnlyThoseBeforeThem):
//
//   - API: the requests of Neutron and Keystone, the answers and the errors, and the ownership marks in them. It knows no
//     Network of Kubernetes. Begin with client.go.
//     circuit.go client.go config.go connections.go credentials.go details.go errors.go importtag.go list.go listnetworks.go
//     mark.go network.go place.go ports.go request.go routers.go texts.go transport.go
//   - Plan: what is desired, what is observed, and the steps between them. It makes no request, and knows no time and no
//     context. Begin with plan.go.
//     blockers.go describe.go desired.go differences.go effects.go expect.go fields.go importplan.go joint.go observed.go
//     ownership.go plan.go removal.go routerplan.go routersteps.go steps.go
//   - Observer: the cache that lists Neutron once per period. It knows owners by their UIDs, and no spec.
//     observer.go
//   - Cloud: it reads, checks what can prevent a step, takes it, and remembers who waits for what. Begin with converge.go.
//     ahead.go attach.go cloud.go converge.go import.go imports.go preconditions.go preview.go recovery.go relist.go
//     routing.go take.go waits.go
//
// They are no packages of their own: the Cloud goes through the plan, and through Neutron's answers, by about 130 names that are
// nobody else's business and would have to be exported.
package neutron
