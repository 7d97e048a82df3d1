// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package neutron

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"unicode"

	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
	"go4.org/netipx"
	"golang.org/x/text/runes"
	"golang.org/x/text/transform"
	"golang.org/x/text/unicode/norm"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// Desired is what the spec of a Network declares, in Neutron's terms. Who the owner is, and what is known of its objects, is
// in its Identity.
type Desired struct {
	Network DesiredNetwork
	// Subnets are in the order of the spec.
	Subnets []DesiredSubnet
	// Router is nil if the Network declares none.
	Router *DesiredRouter
	// Projects are the IDs of the other projects that can use the network.
	Projects []string
	// Refused are fields that the Network does not declare, and whose default Neutron refuses to restore.
	Refused map[subnetField]bool
	// LeftOut are the IDs of the projects for which Neutron refuses to begin or to end the sharing.
	LeftOut []string
}

// DesiredNetwork has the fields of the network of a Desired. The zero value of a field means that
// the Network does not declare it.
type DesiredNetwork struct {
	// Name and Mark are the name and the description in Neutron. They are "" for an imported network, which keeps its own.
	Name, Mark string

	MTU                 int
	PortSecurityEnabled *bool
	DNSDomain           string
	// Tags is nil if the Network does not declare them.
	Tags             *Tags
	Shared, External bool
	// ZoneHints are a set, like tags.
	ZoneHints Tags

	NetworkType, PhysicalNetwork string
	SegmentationID               int
}

// DesiredSubnet is one subnet of a Desired. The zero value of a field means that the Network does
// not declare it.
type DesiredSubnet struct {
	// Name and Mark are the name and the description in Neutron.
	Name, Mark string
	// Label is the name in spec.additionalSubnets, "" for the spec's own subnet.
	Label string
	// CIDR is masked: its host bits are 0. It is the zero Prefix if the subnet is from a subnet pool.
	CIDR netip.Prefix
	// SubnetPool is the pool from which Neutron takes the CIDR; nil if the Network declares the CIDR.
	SubnetPool *DesiredSubnetPool
	// Gateway is the zero Addr for Neutron's choice, the first address.
	Gateway netip.Addr
	// NoGateway requests a subnet without a gateway; Gateway is then ignored.
	NoGateway bool

	DNSNameservers Addresses
	Pools          Pools
	Routes         Routes
	// NoDHCP requests a subnet without DHCP servers.
	NoDHCP              bool
	AddressMode, RAMode string
}

// isResolved reports whether the names that the spec has are resolved.
func (d *Desired) isResolved() bool {
	return d.Router.isResolved() && !slices.ContainsFunc(d.Subnets, func(s DesiredSubnet) bool { return s.isUnresolved() })
}

// isResolved reports whether the names that the spec has for the router are resolved.
func (r *DesiredRouter) isResolved() bool {
	return r == nil || r.ExternalNetwork != "" || r.Existing != ""
}

// DesiredRouter is the router of a Desired. Either ExternalNetwork or Existing is set, once the
// names are resolved.
type DesiredRouter struct {
	// Name and Mark are the name and the description of a router of the Network's own.
	Name, Mark string
	// Spec is what the Network declares, and ZoneHints are its availability zones.
	Spec      samplecrdv1.RouterSpec
	ZoneHints Tags
	// Routes is nil if the Network does not declare the routes of a router of its own.
	Routes *Routes
	// ExternalNetwork is the ID of the external network of a router of the Network's own.
	ExternalNetwork string
	// Existing is the ID of a router that is not the Network's own.
	Existing string
}

// NewDesired reads the spec. Its error is final: an *Error of reason Invalid. The API server
// refuses most of such specs, but not those that were stored under an older
// CustomResourceDefinition.
func NewDesired(network *samplecrdv1.Network, cluster string) (Desired, error) {
	spec := &network.Spec
	name, mark := Name(network.Namespace, network.Name), Owner{Cluster: cluster, UID: network.UID}.Mark()
	desired := Desired{Network: newDesiredNetwork(spec)}
	if spec.Import == nil {
		desired.Network.Name, desired.Network.Mark = name, mark
		if network.IsObserved() {
			return Desired{}, &Error{Op: "spec.managementPolicy", Reason: Invalid, Message: "Observe needs import"}
		}
	}
	if reason := equalTags(spec.Tags); reason != "" {
		return Desired{}, &Error{Op: "spec.tags", Reason: Invalid, Message: reason}
	}
	if spec.Router != nil {
		desired.Router = newDesiredRouter(spec.Router, name, mark)
	}
	for _, share := range spec.SharedWith {
		desired.Projects = append(desired.Projects, share.ProjectID)
	}
	if spec.CIDR != "" || spec.SubnetPool != nil || spec.Import == nil {
		if err := desired.add("", &spec.SubnetSpec); err != nil {
			return Desired{}, err
		}
	}
	for i := range spec.AdditionalSubnets {
		s := &spec.AdditionalSubnets[i]
		if err := desired.add(s.Name, &s.SubnetSpec); err != nil {
			return Desired{}, err
		}
	}
	for i := range desired.Subnets {
		s := &desired.Subnets[i]
		s.Name, s.Mark = name, mark
		if s.Label != "" {
			s.Name = Name(name, s.Label)
		}
	}
	return desired, nil
}

func newDesiredNetwork(spec *samplecrdv1.NetworkSpec) DesiredNetwork {
	n := DesiredNetwork{
		PortSecurityEnabled: spec.PortSecurityEnabled,
		// Neutron returns it in lower case.
		DNSDomain: strings.ToLower(spec.DNSDomain),
		Shared:    spec.Shared,
		External:  spec.External,
		ZoneHints: NewTags(spec.AvailabilityZoneHints...),
		MTU:       int(ptr.Deref(spec.MTU, 0)),
	}
	if spec.Tags != nil {
		n.Tags = new(NewTags(spec.Tags...))
	}
	if p := spec.Provider; p != nil {
		n.NetworkType, n.PhysicalNetwork, n.SegmentationID = p.NetworkType, p.PhysicalNetwork, int(ptr.Deref(p.SegmentationID, 0))
	}
	return n
}

func newDesiredRouter(spec *samplecrdv1.RouterSpec, name, mark string) *DesiredRouter {
	r := &DesiredRouter{Name: name, Mark: mark, Spec: *spec, ZoneHints: NewTags(spec.AvailabilityZoneHints...)}
	if spec.Routes != nil && spec.Existing == nil {
		r.Routes = new(newHostRoutes(spec.Routes))
	}
	return r
}

// equalTags returns the reason why the tags are not valid: two that Neutron's database may treat as equal. A request with
// such tags takes minutes, and fails. The rules of the CustomResourceDefinition compare only ASCII letters.
func equalTags(tags []samplecrdv1.Tag) (reason string) {
	if len(tags) < 2 {
		return ""
	}
	withoutAccents := transform.Chain(norm.NFD, runes.Remove(runes.In(unicode.Mn)))
	seen := map[string]samplecrdv1.Tag{}
	for _, tag := range tags {
		folded, _, err := transform.String(withoutAccents, strings.ToLower(string(tag)))
		if err != nil {
			folded = string(tag)
		}
		if other, isKnown := seen[folded]; isKnown {
			return fmt.Sprintf("%q and %q must not differ only in upper and lower case and in accents", other, tag)
		}
		seen[folded] = tag
	}
	return ""
}

// add adds a subnet. label is its name in the spec.
func (d *Desired) add(label string, spec *samplecrdv1.SubnetSpec) error {
	field := fieldOf(label)
	subnet, err := newDesiredSubnet(field, spec)
	if err != nil {
		return err
	}
	for _, other := range d.Subnets {
		if other.CIDR.Overlaps(subnet.CIDR) {
			return &Error{Op: field + ".cidr", Reason: Invalid, Message: fmt.Sprintf("%s overlaps with %s, another subnet of this Network", subnet.CIDR, other.CIDR)}
		}
	}
	if d.Router != nil && subnet.AddressMode != "" && subnet.RAMode == "" {
		return &Error{Op: field + ".ipv6", Reason: Invalid, Message: "needs raMode if the Network has a router"}
	}
	subnet.Label = label
	d.Subnets = append(d.Subnets, subnet)
	return nil
}

// fieldOf returns where the spec of the subnet with that label is.
func fieldOf(label string) string {
	if label == "" {
		return "spec"
	}
	return "spec.additionalSubnets[" + label + "]"
}

func newDesiredSubnet(field string, spec *samplecrdv1.SubnetSpec) (DesiredSubnet, error) {
	invalid := func(name, format string, args ...any) (DesiredSubnet, error) {
		return DesiredSubnet{}, &Error{Op: field + "." + name, Reason: Invalid, Message: fmt.Sprintf(format, args...)}
	}
	cidr, err := netip.ParsePrefix(spec.CIDR)
	hasGateway := spec.Gateway != "" && spec.Gateway != samplecrdv1.GatewayNone
	switch {
	case spec.SubnetPool != nil && (spec.CIDR != "" || spec.AllocationPools != nil || spec.HostRoutes != nil || hasGateway):
		return invalid("subnetPool", "must not be set with cidr, an address as gateway, allocationPools or hostRoutes")
	case spec.SubnetPool != nil && spec.IPv6 != nil && (spec.SubnetPool.PrefixLength != 64 || !ptr.Deref(spec.EnableDHCP, true)):
		// Neutron accepts it, and creates a subnet without modes.
		return invalid("ipv6", "needs a subnetPool of IPv6 with the prefixLength 64, and DHCP")
	case spec.SubnetPool == nil && err != nil:
		return invalid("cidr", "%q is not an address and a prefix length, such as 192.168.0.0/16", spec.CIDR)
	}
	subnet := DesiredSubnet{
		CIDR:           cidr.Masked(),
		NoDHCP:         !ptr.Deref(spec.EnableDHCP, true),
		DNSNameservers: NewAddresses(spec.DNSNameservers...),
		Routes:         newHostRoutes(spec.HostRoutes),
	}
	if spec.SubnetPool != nil {
		subnet.SubnetPool = &DesiredSubnetPool{Spec: *spec.SubnetPool}
	}
	if spec.IPv6 != nil {
		subnet.AddressMode, subnet.RAMode = string(spec.IPv6.AddressMode), string(spec.IPv6.RAMode)
	}
	switch spec.Gateway {
	case "":
	case samplecrdv1.GatewayNone:
		subnet.NoGateway = true
	default:
		// Neutron accepts a gateway outside the CIDR. What is not an address is the zero Addr, which is in none.
		if subnet.Gateway, _ = netip.ParseAddr(spec.Gateway); !subnet.CIDR.Contains(subnet.Gateway) {
			return invalid("gateway", "%q is not an address inside %s, nor %s", spec.Gateway, subnet.CIDR, samplecrdv1.GatewayNone)
		}
	}
	var reason string
	if subnet.Pools, reason = newPools(&subnet, spec.AllocationPools); reason != "" {
		return invalid("allocationPools", "%s", reason)
	}
	return subnet, nil
}

// newPools returns the pools, or the reason why they are not valid. The rules of the
// CustomResourceDefinition cannot order IPv6 addresses, and Neutron refuses some of these pools with
// 409, which otherwise means that a resource is in use.
func newPools(subnet *DesiredSubnet, pools []samplecrdv1.AllocationPool) (set Pools, reason string) {
	ranges := make([]netipx.IPRange, 0, len(pools))
	for _, p := range pools {
		text := string(p.Start) + "-" + string(p.End)
		r, err := netipx.ParseIPRange(text)
		switch {
		case err != nil:
			return "", text + " is not a range of addresses: its end must not be before its start"
		case !subnet.CIDR.Contains(r.From()) || !subnet.CIDR.Contains(r.To()):
			return "", fmt.Sprintf("%s is not inside %s", text, subnet.CIDR)
		case !subnet.NoGateway && r.Contains(subnet.Gateway):
			return "", fmt.Sprintf("%s must not contain the gateway, %s", text, subnet.Gateway)
		}
		for _, other := range ranges {
			if r.Overlaps(other) {
				return "", fmt.Sprintf("%s overlaps with %s", text, other)
			}
		}
		ranges = append(ranges, r)
	}
	return NewPools(ranges...), ""
}

func newHostRoutes(routes []samplecrdv1.HostRoute) Routes {
	all := make([]Route, len(routes))
	for i, r := range routes {
		all[i] = Route{r.Destination, string(r.NextHop)}
	}
	return newRoutes(all)
}

func newStatusRoutes(routes []samplecrdv1.RouteStatus) Routes {
	all := make([]Route, len(routes))
	for i, r := range routes {
		all[i] = Route(r)
	}
	return newRoutes(all)
}

// Identity is what a Network knows of its objects in Neutron. The mark of the Owner is the
// proof; everything else comes from the spec and the status, which users can write.
type Identity struct {
	Owner Owner
	// Import is the ID of the network that the spec imports, "" if the Network creates its own. What the
	// Network does not declare stays as it was found, then.
	Import string
	// Imported means that the status says that the network was taken over.
	Imported bool
	// IsDeleted means that the Network is being deleted.
	IsDeleted bool
	// MovingFrom is the owner from which the subcommand move gets the network; "" unless it is doing so.
	MovingFrom string
	// ReadOnly means that nothing may be changed in Neutron: spec.managementPolicy is Observe.
	ReadOnly bool
	// NetworkID is the ID of the network that was seen last; "" if none was.
	NetworkID string
	// CloudName and Place are where that network was created; zero if that is not known.
	CloudName string
	Place     Place
	// Abandoned means that a user has cleared the cloud in the status: what was created elsewhere, or may have been, is given up.
	Abandoned bool
	// HasAsked means that the status has ReferenceNotFound for this spec, and no reconcile was requested since.
	HasAsked bool
	// SubnetIDs are those of the subnets in the status. A subnet that has lost its mark still belongs to the owner if its
	// ID is one of them.
	SubnetIDs []string
	// Recorded has the IDs of the subnets in the status, by their names in spec.additionalSubnets. The name of the spec's own is "".
	Recorded map[string]string
	// PortIDs has, by the ID of a subnet, the ID of the port in the status: of an interface that Neutron
	// has confirmed. IPv6 subnets share a port, so the port alone does not tell whose an interface is.
	PortIDs map[string]string
	// Routed means that the spec or the status has a router.
	Routed bool
	// RouterRecorded means that the status has a router. No router is created, and no subnet is
	// attached, before that.
	RouterRecorded bool
	// RouterID is the ID of the router in the status. It is "" if the router is not created yet.
	RouterID string
	// IsShared means that the spec or the status has projects that the network is shared with, so that Neutron must be asked for them.
	// For a deletion it does not matter.
	IsShared bool
	// SharedWith are the IDs of these projects in the status. The network is shared with no other one before that, and what it is
	// shared with besides is somebody else's.
	SharedWith []string
	// Existing is the existing router that the spec names; nil if there is none. Declared is its ID,
	// once the name is resolved. A status from a backup may not have it.
	Existing *samplecrdv1.NeutronReference
	Declared string
	// Routes are those in the status: the spec declares them, or has declared them before.
	Routes Routes
	// AllRoutes means that every route of a router of the Network's own may be removed: the spec declares which ones that
	// router has, or the Network is gone.
	AllRoutes bool
}

// NewIdentity reads the metadata and the status.
func NewIdentity(network *samplecrdv1.Network, cluster string) Identity {
	identity := Identity{
		Owner:     Owner{Cluster: cluster, UID: network.UID},
		NetworkID: network.Status.NetworkID,
		CloudName: network.Status.Cloud,
		Place:     Place{Project: network.Status.ProjectID, Region: network.Status.Region},
		Routed:    network.Spec.Router != nil || network.Status.Router != nil,
		IsDeleted: network.DeletionTimestamp != nil,
		ReadOnly:  network.IsObserved(),
		Imported:  network.Status.Imported,

		MovingFrom: network.Annotations[samplecrdv1.AnnotationMovingFrom],

		IsShared:   network.DeletionTimestamp.IsZero() && len(network.Spec.SharedWith)+len(network.Status.SharedWith) > 0,
		SharedWith: network.Status.SharedWith,
	}
	// The API server itself gives a new Network the condition, with Unknown.
	ready := meta.FindStatusCondition(network.Status.Conditions, samplecrdv1.ConditionReady)
	identity.Abandoned = network.Status.Cloud == "" && ready != nil && ready.Status != metav1.ConditionUnknown
	requested := network.Annotations[samplecrdv1.AnnotationReconcileRequestedAt]
	identity.HasAsked = ready != nil && ready.Reason == samplecrdv1.ReasonReferenceNotFound && ready.ObservedGeneration == network.Generation &&
		(requested == "" || requested == network.Status.LastHandledReconcileAt)
	if network.Spec.Import != nil {
		identity.Import = network.Spec.Import.NetworkID
	}
	if r := network.Status.Router; r != nil {
		identity.RouterRecorded, identity.RouterID, identity.Routes = true, r.ID, newStatusRoutes(r.Routes)
	}
	if r := network.Spec.Router; r != nil {
		identity.Existing, identity.AllRoutes = r.Existing, r.Routes != nil && r.Existing == nil
	}
	for _, s := range network.Status.Subnets {
		if identity.PortIDs == nil {
			identity.PortIDs, identity.Recorded = map[string]string{}, map[string]string{}
		}
		identity.SubnetIDs = append(identity.SubnetIDs, s.ID)
		identity.PortIDs[s.ID] = s.RouterPortID
		if s.Name != "" || s.ID == network.Status.SubnetID {
			identity.Recorded[s.Name] = s.ID
		}
	}
	return identity
}

// isRouted reports whether the owner needs routers: its spec or status has one, or Neutron has one with the
// owner's mark.
func (i Identity) isRouted(observed *Observed) bool {
	return i.Routed || slices.ContainsFunc(observed.Routers, func(r Router) bool { return r.isOwnedBy(i.Owner) })
}
