// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package neutron

import (
	"cmp"
	"encoding/json"
	"net/netip"
)

// The IDs of what a plan creates.
const (
	newNetwork = "new-network"
	newSubnet  = "new-subnet-"
	newRouter  = "new-router"
	newPort    = "new-port-"
	newShare   = "new-share-"
)

// overlay sets the fields of a request in an observed object, as Neutron does.
func overlay[O any](observed *O, fields map[string]any) {
	text, err := json.Marshal(fields)
	if err == nil {
		err = json.Unmarshal(text, observed)
	}
	if err != nil {
		panic(err) // the tables have only fields of the object
	}
}

// overlayChanges makes the changes in a subnet. JSON cannot take a gateway away.
func overlayChanges(s *Subnet, changes []Change) {
	overlay(s, update(changes))
	if gatewayChange(changes) != nil {
		s.Gateway = gatewayIn(changes)
	}
}

func (s CreateNetwork) expect(observed *Observed) *Observed {
	next := *observed
	overlay(&next.Network, creation(networkTable, &s.Network))
	next.ID, next.SharesKnown = newNetwork, true
	return &next
}

func (s UpdateNetwork) expect(observed *Observed) *Observed {
	next := *observed
	overlay(&next.Network, update(s.Changes))
	return &next
}

func (s SetTags) expect(observed *Observed) *Observed {
	next := *observed
	next.Tags = s.Tags
	return &next
}

func (s CreateSubnet) expect(observed *Observed) *Observed {
	desired := s.Subnet
	desired.CIDR = desired.expectedCIDR()
	created := Subnet{ID: newSubnet + cmp.Or(desired.Label, desired.CIDR.String()), NetworkID: observed.ID, CIDR: desired.CIDR, DHCP: true, PoolID: desired.poolID()}
	created.Gateway = defaultGateway(created.CIDR, netip.Addr{})
	overlay(&created, creation(subnetTable, &desired))
	overlayChanges(&created, changes(subnetTable, &desired, &created)) // Neutron's defaults
	// Neutron gives a subnet from a pool a gateway all the same. The step after it takes that away.
	if desired.SubnetPool != nil && desired.NoGateway {
		created.Gateway = created.CIDR.Addr().Next()
	}
	return observed.withSubnet(created)
}

func (s UpdateSubnet) expect(observed *Observed) *Observed {
	changed := *observed.subnet(s.ID)
	overlayChanges(&changed, s.Changes)
	return observed.withSubnet(changed)
}

func (s DeleteSubnet) expect(observed *Observed) *Observed { return observed.withoutSubnet(s.ID) }

func (s DeleteNetwork) expect(observed *Observed) *Observed {
	return observed.withoutNetwork(s.Network.ID)
}

func (s UnmarkSubnet) expect(observed *Observed) *Observed {
	s.Subnet.Description = withoutMark(s.Subnet.Description)
	return observed.withSubnet(s.Subnet)
}

func (s UnmarkRouter) expect(observed *Observed) *Observed {
	s.Router.Description = withoutMark(s.Router.Description)
	return observed.withRouter(s.Router)
}

func (s UnmarkNetwork) expect(observed *Observed) *Observed { return observed.withoutNetwork(s.ID) }
func (s UnmarkImport) expect(observed *Observed) *Observed  { return observed.withoutNetwork(s.ID) }

func (s CreateRouter) expect(observed *Observed) *Observed {
	created := Router{ID: newRouter}
	overlay(&created, creation(routerTable, &s.Router))
	return observed.withRouter(created)
}

func (s UpdateRouter) expect(observed *Observed) *Observed {
	changed := *observed.router(s.ID)
	overlay(&changed, update(s.Changes))
	return observed.withRouter(changed)
}

func (s SetRoutes) expect(observed *Observed) *Observed {
	return observed.withRoutes(s.Router, s.Routes)
}

func (s RemoveRoutes) expect(observed *Observed) *Observed {
	return observed.withRoutes(s.Detach.Router, observed.router(s.Detach.Router).Routes.without(s.Routes))
}

func (s DeleteRouter) expect(observed *Observed) *Observed { return observed.withoutRouter(s.ID) }

func (s AttachSubnet) expect(observed *Observed) *Observed {
	i := Interface{PortID: s.Port, RouterID: s.Router, SubnetID: s.Subnet, Address: observed.subnet(s.Subnet).Gateway, Confirmed: true}
	if i.PortID == "" {
		i.PortID = newPort + s.Subnet
	}
	return observed.withInterface(i)
}

func (s DetachSubnet) expect(observed *Observed) *Observed {
	return observed.withoutInterface(s.Router, s.Subnet)
}

func (s ShareNetwork) expect(observed *Observed) *Observed {
	return observed.withShare(Share{ID: newShare + s.Project, NetworkID: observed.ID, ProjectID: s.Project})
}

func (s UnshareNetwork) expect(observed *Observed) *Observed {
	return observed.withoutShare(s.Share.ID)
}

func (s ImportNetwork) expect(observed *Observed) *Observed {
	next := *observed
	next.Imported = true
	next.Tags = NewTags(append(observed.Tags.without(s.Obsolete...).All(), s.Owner.ImportTag())...)
	return &next
}

func (s WithdrawImport) expect(observed *Observed) *Observed {
	next := *observed
	next.Tags = observed.Tags.without(s.Tags...)
	return &next
}
