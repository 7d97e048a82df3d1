// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package neutron

// effect is what a step does to what exists, and so to the steps after it. The zero effect is that of a step that adds
// something, or removes a mark.
type effect struct {
	// onlyUpdates means that the step only changes fields, and prevents no later step.
	onlyUpdates bool
	// movesGateway means that a subnet gets another gateway. A port can have its address, and then the subnet cannot be
	// attached any more.
	movesGateway bool
	// takesAway means that the step takes away a subnet of the Network or its connection, or begins to replace the subnet.
	takesAway bool
	// isRelease means that the step takes away what the spec no longer declares.
	isRelease bool
	// isLeftover means that the step deletes what is not connected to the network any more. Nothing depends on it.
	isLeftover bool
	// resource is what the step creates or deletes, by its name in quotas, and more is how many more there are afterwards.
	resource string
	more     int
}

// costs reports whether the step costs something if a later one fails.
func (e effect) costs() bool { return e.takesAway || e.movesGateway }

// effectOf returns the effect of the step. step may be nil.
func effectOf(step Step) effect {
	switch s := step.(type) {
	case UpdateNetwork, SetTags, UpdateRouter, ImportNetwork, WithdrawImport:
		return effect{onlyUpdates: true}
	case UpdateSubnet:
		moves := gatewayIn(s.Changes).IsValid()
		return effect{onlyUpdates: !moves, movesGateway: moves}
	case CreateSubnet:
		return effect{takesAway: len(s.Replaces) > 0, resource: "subnet", more: 1}
	case DeleteSubnet:
		return effect{takesAway: true, isRelease: true, resource: "subnet", more: -1}
	case DetachSubnet:
		return effect{takesAway: true, isRelease: len(s.Replaces) > 0}
	case CreateRouter:
		return effect{resource: "router", more: 1}
	case DeleteRouter:
		return effect{isRelease: true, isLeftover: true, resource: "router", more: -1}
	case DeleteNetwork:
		return effect{isRelease: true, isLeftover: true}
	}
	return effect{}
}
