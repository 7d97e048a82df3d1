// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package neutron is the cloud side of the controller. A View is whose network it is (Identity), what the spec declares
// (Desired), and what Neutron has of the owner (Observed, cached by the Observer). View.Next and NextRemoval are pure functions
// that decide the next Step. The Cloud checks the preconditions of that step, and takes it.
//
// The package reads the spec and the status of a Network, and writes nothing to Kubernetes. Begin with desired.go, plan.go and
// converge.go.
//
// Its files are in four rooms. Each of them uses only those before it (TestTheRoomsUseOnlyThoseBeforeThem):
//
// # API
//
// The requests of Neutron and Keystone, the answers and the errors, and the ownership marks in them. It knows no
// Network of Kubernetes. Begin with client.go.
//
//	circuit.go       no requests during an outage
//	client.go        the requests of networks, subnets and tags
//	config.go        clouds.yaml
//	connections.go   new connections when the certificates have changed
//	credentials.go   refused credentials are not tried again at once
//	details.go       what only export reads
//	errors.go        what an answer means
//	importtag.go     the mark of an imported network, a tag
//	list.go          pages of a list, and long filters
//	listnetworks.go  lists of networks with their subnets
//	mark.go          the mark of all else, in the description
//	meter.go         what is measured and logged of each request
//	network.go       Network and Subnet
//	place.go         the project and the region
//	ports.go         Port, and which ports count
//	routers.go       Router, its interfaces, floating IPs and quotas
//	shares.go        Share, and requests of RBAC policies
//	subnetpools.go   subnet pools
//	texts.go         the lists of a subnet in one canonical form each
//	transport.go     how many requests at the same time, and for how long
//	turn.go          a sync: its ID, and how long its requests may begin
//	untrusted.go     servers that a Secret names: where they may be, and what is quoted of them
//
// # Plan
//
// What is desired, what is observed, and the steps between them. It makes no request, and knows no time and no
// context. Begin with plan.go.
//
//	allocation.go    subnets whose CIDR Neutron takes from a subnet pool
//	blockers.go      which ports prevent a step
//	describe.go      the text of a step, and what it interrupts
//	desired.go       Desired and Identity: the spec and the status in Neutron's terms
//	differences.go   how a network that is only observed differs from the spec
//	effects.go       what a step means for those after it
//	expect.go        what is observed after a step
//	fields.go        the tables of fields: read, compared, sent
//	handover.go      what changes when another Network gets the marks
//	importplan.go    whether a network may be taken over
//	joint.go         which steps are checked before the first one is taken
//	observed.go      Observed, and copies of it with one thing changed
//	ownership.go     whose a network, a subnet and an interface are
//	plan.go          View, and the next step
//	removal.go       the next step of a deletion
//	routerplan.go    the next step for routers and interfaces
//	routes.go        the static routes of routers: which are set, removed and remembered
//	steps.go         the steps, as data
//
// # Observer
//
// The cache that lists Neutron once per period. It knows owners by their UIDs, and no spec.
//
//	clock.go     whether a list is older than a change
//	observer.go  the cache, and who is told when it changes
//
// # Cloud
//
// It reads, checks what can prevent a step, takes it, and remembers who waits for what. Begin with converge.go.
//
//	ahead.go          the checks of a joint plan
//	attach.go         what is special about attaching a subnet
//	cloud.go          Cloud, and reads of one owner
//	converge.go       the loops that take the steps
//	import.go         who imports which network, and how it is taken over
//	move.go           who owns what, and the requests of a handover
//	preconditions.go  what can prevent a step in Neutron
//	preview.go        what Converge and Remove would do
//	recovery.go       who waits for the end of an outage
//	relist.go         the lists for the Observer
//	routing.go        who needs routers, and what names lead to
//	sharing.go        who shares networks with other projects
//	take.go           the request of a step
//	waits.go          who waits for ports, and lists of those ports
//
// # Why they are no packages
//
// The Cloud goes through the plan, and through Neutron's answers, by about 130 names that are
// nobody else's business and would have to be exported.
package neutron
