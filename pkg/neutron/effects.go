// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package neutron

import "slices"

// Fields are all names that FieldsOf returns. They are label values of a metric.
var Fields = slices.Concat(
	[]string{fieldNetwork, fieldDuplicateNetwork, fieldTags, fieldSubnet, fieldObsoleteSubnet, fieldRouter, fieldObsoleteRouter, fieldInterface, fieldShare, fieldObsoleteShare, fieldRoutes},
	labelsIn(networkTable), labelsIn(subnetTable), labelsIn(routerTable),
)

const (
	fieldNetwork          = "network"
	fieldNetworkMark      = "network mark"
	fieldDuplicateNetwork = "duplicate network"
	fieldTags             = "tags"
	fieldSubnet           = "subnet"
	fieldObsoleteSubnet   = "obsolete subnet"
	fieldRouter           = "router"
	fieldObsoleteRouter   = "obsolete router"
	fieldInterface        = "router interface"
	fieldShare            = "share"
	fieldObsoleteShare    = "obsolete share"
	fieldRoutes           = "router routes"
)

// FieldsOf returns what the step repairs: what was missing, different or superfluous. Each name is one of Fields. A removal
// repairs nothing.
func FieldsOf(step Step) []string { return effectOf(step).repairs }

// effect is what a step does to what exists, and so to the steps after it. The zero effect is that of a step that
// cannot be undone, and that adds something or removes a mark.
type effect struct {
	// isReversible means that a later sync can repair what the step does. The Network is read past the cache right before any
	// other step.
	isReversible bool
	// repairs is what FieldsOf returns.
	repairs []string
	// onlyUpdates means that the step only changes fields, and prevents no later step.
	onlyUpdates bool
	// movesGateway means that a subnet gets another gateway. A port can have its address, and then the subnet cannot be
	// attached any more.
	movesGateway bool
	// takesAway means that the step takes away a subnet of the Network, its connection or the routes through it, or begins to
	// replace the subnet.
	takesAway bool
	// isRelease means that the step takes away what the spec no longer declares.
	isRelease bool
	// isApart means that nothing depends on the step: it deletes what is not connected to the network any more, or it is only about
	// another project.
	isApart bool
	// resource is what the step creates or deletes, by its name in quotas, and more is how many more there are afterwards.
	resource string
	more     int
}

// costs reports whether the step costs something if a later one fails.
func (e effect) costs() bool { return e.takesAway || e.movesGateway }

// effectOf returns the effect of the step. step may be nil.
func effectOf(step Step) effect {
	switch s := step.(type) {
	case CreateNetwork: // for a deleted Network, it would be an orphan
		return effect{repairs: []string{fieldNetwork}}
	case UpdateNetwork:
		return effect{isReversible: true, onlyUpdates: true, repairs: labels(s.Changes)}
	case SetTags:
		return effect{isReversible: true, onlyUpdates: true, repairs: []string{fieldTags}}
	case ImportNetwork, WithdrawImport:
		// The mark of a deleted Network would keep others from the network. The cache can lack what another replica has
		// confirmed, and without the mark the network becomes another Network's.
		return effect{onlyUpdates: true, repairs: []string{fieldNetworkMark}}
	case CreateSubnet: // on a network that is already ours
		return effect{isReversible: true, takesAway: len(s.Replaces) > 0, resource: "subnet", more: 1, repairs: []string{fieldSubnet}}
	case UpdateSubnet:
		moves := gatewayIn(s.Changes).IsValid()
		return effect{isReversible: true, onlyUpdates: !moves, movesGateway: moves, repairs: labels(s.Changes)}
	case DeleteSubnet:
		return effect{takesAway: true, isRelease: true, resource: "subnet", more: -1, repairs: []string{fieldObsoleteSubnet}}
	case DeleteNetwork:
		if s.IsDuplicate {
			return effect{isRelease: true, isApart: true, repairs: []string{fieldDuplicateNetwork}}
		}
		return effect{isRelease: true, isApart: true}
	case CreateRouter: // for a deleted Network, it would be an orphan
		return effect{resource: "router", more: 1, repairs: []string{fieldRouter}}
	case UpdateRouter:
		return effect{isReversible: true, onlyUpdates: true, repairs: labels(s.Changes)}
	case SetRoutes: // nothing remembers the routes that it removes
		return effect{isReversible: s.Before.without(s.Routes) == "", onlyUpdates: true, repairs: []string{fieldRoutes}}
	case RemoveRoutes: // a later sync cannot tell that they were there, if the spec does not declare them
		return effect{takesAway: true, isRelease: effectOf(s.Detach).isRelease}
	case AttachSubnet: // to a router that the Network no longer names, it would stay attached
		if s.Port != "" {
			return effect{} // it is only confirmed: the interface exists, as a rule
		}
		return effect{repairs: []string{fieldInterface}}
	case DetachSubnet:
		return effect{takesAway: true, isRelease: len(s.Replaces) > 0, repairs: []string{fieldInterface}}
	case DeleteRouter:
		return effect{isRelease: true, isApart: true, resource: "router", more: -1, repairs: []string{fieldObsoleteRouter}}
	case ShareNetwork: // with a project that the spec no longer names, it would stay shared
		return effect{isApart: true, repairs: []string{fieldShare}}
	case UnshareNetwork:
		return effect{isRelease: true, isApart: true, repairs: []string{fieldObsoleteShare}}
	case UnmarkSubnet, UnmarkRouter, UnmarkNetwork, UnmarkImport: // without the mark, nobody knows whose it was
		return effect{}
	}
	return effect{}
}
