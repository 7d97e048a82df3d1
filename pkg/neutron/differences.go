// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package neutron

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// Differences describes to users how an imported network differs from the spec. Fields that the spec does not
// declare, and ownership marks, are not compared.
func (v *View) Differences() (texts []string) {
	if !v.Observed.Exists() {
		return nil
	}
	texts = describeDifferences("", v.networkChanges())
	if tags := v.tags(); tags != nil && *tags != v.Observed.Tags {
		texts = append(texts, difference(fieldTags, v.Observed.Tags.withoutMarks(), v.Network.Tags))
	}
	for i := range v.Subnets {
		subnet := &v.Subnets[i]
		existing := v.findSubnet(subnet)
		if existing == nil {
			texts = append(texts, describeMissing(v.Observed, subnet))
			continue
		}
		differing := v.declared(changes(subnetTable, v.forExisting(subnet, existing), existing), existing)
		texts = append(texts, describeDifferences(" of subnet "+existing.CIDR.String(), differing)...)
	}
	for _, project := range v.Projects {
		if v.Observed.SharesKnown && v.Observed.share(project) == nil {
			texts = append(texts, fmt.Sprintf("the network is not shared with project %s, as far as the credentials can see", project))
		}
	}
	return append(texts, v.routerDifferences()...)
}

// describeMissing says why the network does not have the subnet for the owner.
func describeMissing(observed *Observed, d *DesiredSubnet) string {
	if slices.ContainsFunc(observed.Subnets, func(s Subnet) bool { return s.CIDR == d.CIDR }) {
		return fmt.Sprintf("subnet %s has other IPv6 modes than the spec, or belongs to another owner", d.CIDR)
	}
	return fmt.Sprintf("subnet %s is missing", d.rangeText())
}

func describeDifferences(of string, changes []Change) (texts []string) {
	for _, c := range changes {
		if !c.IsDefault { // those are pools that change with the gateway
			texts = append(texts, difference(c.Label+of, c.Before, c.Value))
		}
	}
	return texts
}

// difference describes one difference.
func difference(label string, observed, desired any) string {
	verb := "is"
	if first, _, _ := strings.Cut(label, " of "); strings.HasSuffix(first, "s") {
		verb = "are" // tags, DNS servers, allocation pools
	}
	return fmt.Sprintf("%s %s %s, and the spec has %s", label, verb, shown(observed), shown(desired))
}

// shown returns a value as users see it: none for an empty one.
func shown(value any) string {
	text := Printable(fmt.Sprint(value))
	if address, ok := value.(netip.Addr); ok && !address.IsValid() || text == "" {
		return "none"
	}
	return text
}

// routerDifferences says which declared subnets are not attached to the declared router, and whether it has other routes than
// declared.
func (v *View) routerDifferences() (texts []string) {
	if v.Router == nil || !v.Router.isResolved() || !v.Observed.RoutersKnown {
		return nil
	}
	router := v.Router.Existing
	if own := v.ownRouter(); own != nil {
		router = own.ID
	}
	if router == "" {
		return []string{"there is no router of the Network's own"}
	}
	if own := v.ownRouter(); own != nil && v.Router.Routes != nil && *v.Router.Routes != own.Routes {
		texts = append(texts, difference(fieldRoutes, own.Routes, *v.Router.Routes))
	}
	for i := range v.Subnets {
		s := v.findSubnet(&v.Subnets[i])
		if s == nil {
			continue
		}
		isOn := func(in Interface) bool { return in.SubnetID == s.ID && in.RouterID == router }
		isAtGateway := func(in Interface) bool { return isOn(in) && in.Address == s.Gateway }
		switch {
		case slices.ContainsFunc(v.Observed.Interfaces, isAtGateway):
		case slices.ContainsFunc(v.Observed.Interfaces, isOn):
			if !v.keepsInterface(&v.Subnets[i], s) {
				texts = append(texts, fmt.Sprintf("subnet %s is not attached to router %s at its gateway", s.CIDR, router))
			}
		default:
			texts = append(texts, fmt.Sprintf("subnet %s is not attached to router %s", s.CIDR, router))
		}
	}
	return texts
}
