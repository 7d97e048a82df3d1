// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/samplecrd/samplecrd-controller/pkg/neutron"
)

// The limits keep a status writable, whatever Neutron has. The API server refuses a status with a longer message than
// the CustomResourceDefinition allows, and etcd a larger object than 1.5 MiB.
const (
	// maxMessage is the length of a condition's message in bytes. The CustomResourceDefinition allows 32,768
	// characters. There can be three conditions with the same message.
	maxMessage = 8 << 10
	// maxEvent is the length of an event's message in bytes. The API of events allows no more.
	maxEvent = 1 << 10
	// maxSubnets is the length of status.subnets, many more than a Network can declare.
	maxSubnets = 200
	// maxExternalIPs is the length of status.router.externalIPs.
	maxExternalIPs = 50
)

// limited returns the text. If it is longer than limit bytes, it is cut between two characters, and a mark says so.
func limited(text string, limit int) string {
	const cut = " …"
	if len(text) <= limit {
		return text
	}
	return strings.ToValidUTF8(text[:max(0, limit-len(cut))], "") + cut
}

// joined returns the texts with the separator between them: as many as have room in limit bytes, and how many more
// there are.
func joined(texts []string, separator string, limit int) string {
	all := strings.Join(texts, separator)
	if len(all) <= limit || len(texts) < 2 {
		return limited(all, limit)
	}
	more := func(shown int) string { return fmt.Sprintf("%s… and %d more", separator, len(texts)-shown) }
	some, shown := limited(texts[0], limit-len(more(0))), 1
	for ; shown < len(texts)-1 && len(some)+len(separator)+len(texts[shown])+len(more(0)) <= limit; shown++ {
		some += separator + texts[shown]
	}
	return some + more(shown)
}

// shownSubnets returns the subnets for status.subnets. If there are too many, the first half is kept, the declared
// subnets among them. Of the others, those come first that are attached to the Network's router: the controller knows
// these interfaces by the ports in the status.
func (o Outcome) shownSubnets() []neutron.CurrentSubnet {
	if len(o.Subnets) <= maxSubnets {
		return o.Subnets
	}
	shown := slices.Clone(o.Subnets)
	attachedFirst := func(a, b neutron.CurrentSubnet) int {
		return cmp.Compare(min(len(b.RouterPortID), 1), min(len(a.RouterPortID), 1))
	}
	slices.SortStableFunc(shown[maxSubnets/2:], attachedFirst)
	return shown[:maxSubnets]
}

// omittedSubnets says how many subnets status.subnets lacks.
func omittedSubnets(o Outcome) string {
	if len(o.Subnets) <= maxSubnets {
		return ""
	}
	return fmt.Sprintf("; status.subnets has %d of %d subnets", maxSubnets, len(o.Subnets))
}
