/*
Copyright The samplecrd-controller Authors.

Licensed under the Apache License, Version 2.0 (the "License");
you may not use this file except in compliance with the License.
You may obtain a copy of the License at

    http://www.apache.org/licenses/LICENSE-2.0

Unless required by applicable law or agreed to in writing, software
distributed under the License is distributed on an "AS IS" BASIS,
WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
See the License for the specific language governing permissions and
limitations under the License.
*/

package neutron

import (
	"fmt"
	"net/netip"
	"slices"

	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
)

// Desired is what a Network declares, in Neutron's terms: a network and its subnets.
type Desired struct {
	Owner Owner
	Name  string
	// Subnets is a list although a Network declares one subnet: while a CIDR is being
	// replaced, Neutron holds two.
	Subnets []DesiredSubnet
	// Known is the ID of the subnet in the status. A subnet that has lost its mark still
	// belongs to the owner if it has this ID.
	Known string
}

// DesiredSubnet is one subnet of a Desired.
type DesiredSubnet struct {
	// CIDR is masked: its host bits are 0.
	CIDR netip.Prefix
	// Gateway is the zero Addr for Neutron's choice, the first address.
	Gateway netip.Addr
	// NoGateway asks for a subnet without a gateway; Gateway is ignored then.
	NoGateway bool
}

// NewDesired reads the spec. Its error is final: an *Error of reason Invalid. The API server
// refuses most of such specs, but not those that were stored under an older
// CustomResourceDefinition.
func NewDesired(network *samplecrdv1.Network, cluster string) (Desired, error) {
	subnet, err := newDesiredSubnet(&network.Spec)
	if err != nil {
		return Desired{}, err
	}
	return Desired{
		Owner:   Owner{Cluster: cluster, UID: network.UID},
		Name:    Name(network.Namespace, network.Name),
		Subnets: []DesiredSubnet{subnet},
		Known:   network.Status.SubnetID,
	}, nil
}

func newDesiredSubnet(spec *samplecrdv1.NetworkSpec) (DesiredSubnet, error) {
	cidr, err := netip.ParsePrefix(spec.CIDR)
	if err != nil {
		return DesiredSubnet{}, &Error{Op: "spec.cidr", Reason: Invalid,
			Message: fmt.Sprintf("%q is not an address and a prefix length, such as 192.168.0.0/16", spec.CIDR)}
	}
	subnet := DesiredSubnet{CIDR: cidr.Masked()}
	switch spec.Gateway {
	case "":
	case samplecrdv1.GatewayNone:
		subnet.NoGateway = true
	default:
		// Neutron accepts a gateway outside the CIDR.
		subnet.Gateway, err = netip.ParseAddr(spec.Gateway)
		if err != nil || !subnet.CIDR.Contains(subnet.Gateway) {
			return DesiredSubnet{}, &Error{Op: "spec.gateway", Reason: Invalid,
				Message: fmt.Sprintf("%q is not an address inside %s, nor %s", spec.Gateway, subnet.CIDR, samplecrdv1.GatewayNone)}
		}
	}
	return subnet, nil
}

// Identity is what a Network knows of its network in Neutron. The mark of the Owner is the
// proof; everything else comes from the status, which people can write.
type Identity struct {
	Owner Owner
	// NetworkID is the ID of the network that was seen last; "" if none was.
	NetworkID string
	// CloudName and Place are where that network was created; zero if that is not known.
	CloudName string
	Place     Place
}

// NewIdentity reads the metadata and the status.
func NewIdentity(network *samplecrdv1.Network, cluster string) Identity {
	return Identity{
		Owner:     Owner{Cluster: cluster, UID: network.UID},
		NetworkID: network.Status.NetworkID,
		CloudName: network.Status.Cloud,
		Place:     Place{Project: network.Status.ProjectID, Region: network.Status.Region},
	}
}

// Marks reports whether the network carries the owner's mark. Without the mark it is never
// deleted.
func (i Identity) Marks(n *Network) bool {
	owner, marked := OwnerOf(n.Description)
	return marked && owner == i.Owner
}

// covers reports whether the network belongs to the owner although it may have lost its mark:
// it has the known ID, and a subnet with the mark.
func (i Identity) covers(n *Network) bool {
	if _, marked := OwnerOf(n.Description); marked {
		return i.Marks(n)
	}
	return n.ID == i.NetworkID && slices.ContainsFunc(n.Subnets, func(s Subnet) bool {
		owner, marked := OwnerOf(s.Description)
		return marked && owner == i.Owner
	})
}
