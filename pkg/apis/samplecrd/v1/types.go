// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Network declares a network in OpenStack Neutron, with its subnets, and with a router if it
// needs a way out.
//
// The controller creates them, keeps them as the spec says, and deletes them when the
// Network is deleted.
//
// +genclient
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true
// +kubebuilder:resource:shortName=net,scope=Namespaced
// +kubebuilder:subresource:status
// +kubebuilder:metadata:annotations="api-approved.kubernetes.io=unapproved, a third party's example"
// +kubebuilder:printcolumn:name="CIDR",type=string,JSONPath=`.status.cidr`,description="The CIDR of the subnet in Neutron"
// +kubebuilder:printcolumn:name="Gateway",type=string,JSONPath=`.status.gateway`,description="The gateway of the subnet in Neutron"
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`,description="Whether Neutron matches the spec, or a network that is only observed can be read"
// +kubebuilder:printcolumn:name="Status",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`,description="The reason of the Ready condition"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`,description="The time since the Network was created"
// +kubebuilder:printcolumn:name="Network ID",type=string,priority=1,JSONPath=`.status.networkID`,description="The ID of the network in Neutron"
// +kubebuilder:printcolumn:name="Cloud",type=string,priority=1,JSONPath=`.status.cloud`,description="The cloud that has the network"
// +kubebuilder:printcolumn:name="External IP",type=string,priority=1,JSONPath=`.status.router.externalIPs[0]`,description="The address of the router in its external network"
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].message`,description="The message of the Ready condition"
type Network struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired state of the network. Every field except availabilityZoneHints,
	// cloudCredentialsRef, import and provider can change at any time.
	//
	// A field that is not set means Neutron's default, and the controller restores the default if
	// another client changes it. This does not hold for availabilityZoneHints, mtu,
	// portSecurityEnabled, provider, router.routes, sharedWith and tags: if they are not set, the
	// controller leaves alone what the cloud or another client chooses.
	// Neutron's field description is not here, because it carries the ownership mark.
	//
	// For a Network that imports its network, a field that is not set stays as it was found.
	//
	// +required
	Spec NetworkSpec `json:"spec"`
	// status is the state that the controller last observed in Neutron.
	// Only the controller writes it.
	//
	// Until the first sync Ready is Unknown, so that a client that waits for a new
	// Network does not take it for ready.
	//
	// +optional
	// +kubebuilder:default={conditions: {{type: "Ready", status: "Unknown", reason: "Pending", message: "Waiting for the controller", lastTransitionTime: "1970-01-01T00:00:00Z"}}}
	Status NetworkStatus `json:"status,omitempty"`
}

// NetworkSpec is the desired state of a network and its subnets. Network.Spec says what a field
// that is not set means.
//
// +kubebuilder:validation:XValidation:fieldPath=".cloudCredentialsRef",reason=FieldValueForbidden,message="cannot be added, changed or removed: delete the Network and create another one",rule="has(self.cloudCredentialsRef) ? has(oldSelf.cloudCredentialsRef) && self.cloudCredentialsRef == oldSelf.cloudCredentialsRef : !has(oldSelf.cloudCredentialsRef)"
// +kubebuilder:validation:XValidation:fieldPath=".import",reason=FieldValueForbidden,message="cannot be added, changed or removed: delete the Network and create another one",rule="has(self.__import__) ? has(oldSelf.__import__) && self.__import__ == oldSelf.__import__ : !has(oldSelf.__import__)"
// +kubebuilder:validation:XValidation:fieldPath=".availabilityZoneHints",reason=FieldValueForbidden,message="cannot be added, changed or removed: delete the Network and create another one",rule="has(self.availabilityZoneHints) ? has(oldSelf.availabilityZoneHints) && self.availabilityZoneHints == oldSelf.availabilityZoneHints : !has(oldSelf.availabilityZoneHints)"
// +kubebuilder:validation:XValidation:fieldPath=".provider",reason=FieldValueForbidden,message="cannot be added or removed: delete the Network and create another one",rule="has(self.provider) == has(oldSelf.provider)"
// +kubebuilder:validation:XValidation:fieldPath=".managementPolicy",reason=FieldValueInvalid,message="Observe needs import, which says what to observe",rule=`self.?managementPolicy.orValue("") != 'Observe' || has(self.__import__)`
// +kubebuilder:validation:XValidation:fieldPath=".cidr",reason=FieldValueRequired,message="is required",messageExpression="has(self.__import__) ? 'is required if another field of the subnet is set: it says which subnet of the imported network is meant' : 'is required unless subnetPool or import is set'",rule="has(self.cidr) || has(self.subnetPool) || has(self.__import__) && !(has(self.gateway) || has(self.dnsNameservers) || has(self.allocationPools) || has(self.hostRoutes) || has(self.enableDHCP) || has(self.ipv6))"
// +kubebuilder:validation:XValidation:fieldPath=".additionalSubnets",reason=FieldValueInvalid,message="must not overlap with cidr",messageExpression="self.additionalSubnets.map(a, has(a.cidr) && isCIDR(a.cidr) && (cidr(self.cidr).containsIP(cidr(a.cidr).ip()) || cidr(a.cidr).containsIP(cidr(self.cidr).ip())), a.name + ', ' + a.cidr + ', overlaps with cidr, ' + self.cidr)[0]",rule=`!has(self.additionalSubnets) || [self.?cidr.orValue("")].all(c, !isCIDR(c) || !self.additionalSubnets.exists(a, [a.?cidr.orValue("")].exists(d, isCIDR(d) && (cidr(c).containsIP(cidr(d).ip()) || cidr(d).containsIP(cidr(c).ip())))))`
// +kubebuilder:validation:XValidation:fieldPath=".router",reason=FieldValueInvalid,message="needs a subnet: cidr, subnetPool or additionalSubnets",rule="!has(self.router) || has(self.cidr) || has(self.subnetPool) || self.?additionalSubnets.orValue([]).size() > 0"
// +kubebuilder:validation:XValidation:fieldPath=".router",reason=FieldValueInvalid,message="needs a gateway in each subnet",messageExpression="has(self.gateway) && self.gateway == 'None' ? 'needs a gateway in each subnet, and ' + (has(self.cidr) ? self.cidr : 'the one from subnetPool') + ' has the gateway None' : self.additionalSubnets.map(a, has(a.gateway) && a.gateway == 'None', 'needs a gateway in each subnet, and ' + (has(a.cidr) ? a.cidr : a.name) + ' has the gateway None')[0]",rule=`!has(self.router) || self.?gateway.orValue("") != 'None' && (!has(self.additionalSubnets) || self.additionalSubnets.all(a, a.?gateway.orValue("") != 'None'))`
// +kubebuilder:validation:XValidation:fieldPath=".router",reason=FieldValueInvalid,message="needs raMode in each subnet that has addressMode",messageExpression="has(self.ipv6) && has(self.ipv6.addressMode) && !has(self.ipv6.raMode) ? 'needs raMode in each subnet that has addressMode, and ' + (has(self.cidr) ? self.cidr : 'the one from subnetPool') + ' has none' : self.additionalSubnets.map(a, has(a.ipv6) && has(a.ipv6.addressMode) && !has(a.ipv6.raMode), 'needs raMode in each subnet that has addressMode, and ' + (has(a.cidr) ? a.cidr : a.name) + ' has none')[0]",rule="!has(self.router) || !(has(self.ipv6) && has(self.ipv6.addressMode) && !has(self.ipv6.raMode)) && (!has(self.additionalSubnets) || self.additionalSubnets.all(a, !(has(a.ipv6) && has(a.ipv6.addressMode) && !has(a.ipv6.raMode))))"
type NetworkSpec struct {
	// The subnet of the network.
	SubnetSpec `json:",inline"`

	// import takes over a network that exists in Neutron, instead of creating one. Taking over
	// changes nothing but a tag, the ownership mark. After that the network is kept as the spec
	// says; what the spec leaves out stays as it was found. It cannot be added, changed or removed
	// later.
	//
	// +optional
	Import *ImportSpec `json:"import,omitempty"`

	// managementPolicy says what the controller may do in Neutron. Managed (the default) keeps the
	// network as the spec says. Observe reads the network and never writes to Neutron; the Ready
	// condition tells what differs from the spec. Observe needs import. It can be changed.
	//
	// +optional
	ManagementPolicy ManagementPolicy `json:"managementPolicy,omitempty"`

	// additionalSubnets are more subnets of the network: the IPv6 half of a dual-stack network,
	// or more room. Their address ranges must not overlap.
	//
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:XValidation:reason=FieldValueInvalid,message="must not overlap",messageExpression="self.map(a, has(a.cidr) && isCIDR(a.cidr) && self.exists(b, a.name != b.name && has(b.cidr) && isCIDR(b.cidr) && (cidr(a.cidr).containsIP(cidr(b.cidr).ip()) || cidr(b.cidr).containsIP(cidr(a.cidr).ip()))), self.map(b, a.name != b.name && has(b.cidr) && isCIDR(b.cidr) && (cidr(a.cidr).containsIP(cidr(b.cidr).ip()) || cidr(b.cidr).containsIP(cidr(a.cidr).ip())), a.name + ', ' + a.cidr + ', overlaps with ' + b.name + ', ' + b.cidr)[0])[0]",rule="self.all(a, [a.?cidr.orValue('')].all(c, !isCIDR(c) || self.all(b, [b.?cidr.orValue('')].all(d, !isCIDR(d) || !(cidr(c).containsIP(cidr(d).ip()) || cidr(d).containsIP(cidr(c).ip())) || a.name == b.name))))"
	AdditionalSubnets []AdditionalSubnet `json:"additionalSubnets,omitempty"`

	// router connects all subnets to a router: the way out of the network. Each subnet then needs
	// a gateway, which is the address of the router in it. If it is not set, the controller
	// connects no router. It can be changed.
	//
	// +optional
	Router *RouterSpec `json:"router,omitempty"`

	// mtu is the maximum transmission unit in bytes. If it is not set, Neutron chooses the
	// largest that the cloud can carry, and status.mtu shows it. If it is removed later, the
	// last value stays.
	//
	// +optional
	// +kubebuilder:validation:Minimum=68
	// +kubebuilder:validation:Maximum=65535
	MTU *int32 `json:"mtu,omitempty"`

	// portSecurityEnabled is the default for ports that are created later: whether Neutron drops
	// packets with a foreign source address, and applies security groups. If it is not set, the
	// cloud chooses. If it is removed later, the last value stays.
	//
	// +optional
	PortSecurityEnabled *bool `json:"portSecurityEnabled,omitempty"`

	// dnsDomain is the domain of the network's ports in an external DNS service, in lower
	// case and with a dot at its end, such as "team.example.org.". If it is empty, the network has
	// no domain.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=255
	// +kubebuilder:validation:XValidation:reason=FieldValueInvalid,message="must be a domain name in lower case with a dot at its end, such as team.example.org.",rule="self == '' || self.matches('^([a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?[.])+$') && !self.matches('(^|[.])[0-9]+[.]$')"
	DNSDomain string `json:"dnsDomain,omitempty"`

	// tags are the tags of the network in Neutron, in any order. If they are set, the network has
	// exactly these; the empty list removes all. If they are not set, they are left alone. Tags
	// that differ only in case or in accents are refused, because Neutron's database treats them as equal.
	//
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=50
	// +kubebuilder:validation:XValidation:reason=FieldValueInvalid,message="must not differ only in upper and lower case",messageExpression="self.map(t, self.exists(u, u != t && u.lowerAscii() == t.lowerAscii()), t + ' and ' + self.filter(u, u != t && u.lowerAscii() == t.lowerAscii())[0] + ' must not differ only in upper and lower case')[0]",optionalOldSelf=true,rule="oldSelf.hasValue() && oldSelf.value() == self || [self.map(t, t.lowerAscii())].all(l, l.all(t, l.exists_one(u, u == t))) || !self.exists(t, self.exists(u, u != t && u.lowerAscii() == t.lowerAscii()))"
	Tags []Tag `json:"tags,omitzero"`

	// shared makes the network usable in all projects. The default is false. Neutron's default
	// policy allows only administrators to set it to true.
	//
	// +optional
	Shared bool `json:"shared,omitempty"`

	// sharedWith are the projects that can use the network beside its own, in any order. They see it
	// under its ID and can have ports in it. Neutron accepts any ID, and does not check that there is
	// such a project. The network's own project is refused. If a project is removed later, the
	// controller ends the sharing as soon as that project has no ports in the network. With whom
	// somebody else has shared the network is left alone, unless the spec names that project too.
	//
	// +optional
	// +listType=map
	// +listMapKey=projectID
	// +kubebuilder:validation:MaxItems=32
	SharedWith []Share `json:"sharedWith,omitempty"`

	// external makes the network one that routers can have their gateway in. The default is
	// false. Neutron's default policy allows only administrators to set it to true. A network that
	// is imported, and not only observed, must not become external.
	//
	// +optional
	External bool `json:"external,omitempty"`

	// availabilityZoneHints are the availability zones that are to serve the network: where Neutron
	// runs its DHCP servers. If they are not set, the cloud chooses. A zone that Neutron does not
	// know is refused with the reason ReferenceNotFound. Neutron sets the hints only when it creates
	// the network, so they cannot be added, changed or removed later.
	//
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=10
	// +kubebuilder:validation:XValidation:reason=FieldValueInvalid,message="must have at most 255 characters together, where each zone counts 4 more",rule="self.map(z, size(z) + 4).sum() <= 255"
	AvailabilityZoneHints []AvailabilityZone `json:"availabilityZoneHints,omitempty"`

	// provider says how the cloud carries the network. Neutron's default policy allows only
	// administrators to set it. If it is not set, the cloud chooses. It cannot be added or removed
	// later, and only the segmentation ID of a VLAN can change.
	//
	// +optional
	Provider *ProviderSpec `json:"provider,omitempty"`

	// cloudCredentialsRef names a Secret in the namespace of the Network, or a ClusterCloud. It has
	// the cloud, the project and the credentials for the network. If it is not set, the
	// controller uses its own cloud, which an administrator can reserve for chosen namespaces.
	//
	// It is immutable: it cannot be added, changed or removed later, because the network
	// stays in the cloud in which it was created.
	//
	// +optional
	CloudCredentialsRef *CloudCredentialsReference `json:"cloudCredentialsRef,omitempty"`

	// deletionPolicy says what happens to the network in Neutron when the Network is
	// deleted. Delete deletes it. Retain leaves it in Neutron without its ownership mark,
	// with its subnets and its router, and no controller manages it any more. The default is
	// Delete; for a Network that imports its network it is Retain.
	//
	// +optional
	DeletionPolicy DeletionPolicy `json:"deletionPolicy,omitempty"`
}

// SubnetSpec is the desired state of a subnet.
//
// Each rule below passes what another rule refuses, so that one mistake gives one message. Mistakes
// that exclude each other share a rule, whose messageExpression says which one it is.
//
// The API server evaluates all rules at each write of the object, also of its status. What costs
// there is a read of a field of an object: it copies the schemas of all fields that the object can
// have. So a rule begins with a field that is mostly not set, a list of one element binds a value
// that is read once, and what concerns only a list is a rule of the list. A rule that compares the
// elements of a list with each other passes the list if it was so before.
//
// The rules about the first and the last address take an IPv4 address as a number n: if the
// CIDR has s addresses, (n + 1) mod s is 1 for the first address and 0 for the last one. CEL
// has no function that returns the last address, and none that compares two addresses.
// Neutron refuses both addresses for IPv4 only. For IPv6 the first address is its default.
//
// CEL cannot convert hexadecimal digits to a number. So the order of IPv6 addresses is
// checked by the controller, which refuses with the reason InvalidSpec: a range whose start
// is after its end, ranges that overlap, and a range around the gateway. The rules find only
// IPv6 ranges that have the same start or end, and a gateway that is the start or the end.
//
// A messageExpression builds the whole message within map, and uses format for string(x),
// because the API server of Kubernetes 1.31 knows no maximum length of string(x), nor of an
// element of a list that map or filter returns. It refuses expressions whose cost it cannot
// limit, and + costs as much as its operands are long.
//
// +kubebuilder:validation:XValidation:fieldPath=".gateway",reason=FieldValueInvalid,message="must be an address inside cidr, but not its first or last one",messageExpression="self.gateway + (ip(self.gateway).family() != cidr(self.cidr).ip().family() ? ' is not of the same IP family as cidr, ' + self.cidr : !cidr(self.cidr).containsIP(self.gateway) ? ' is not an address inside cidr, ' + self.cidr : ' must not be the first or the last address of cidr, ' + self.cidr + ': they are the network address and the broadcast address')",rule=`[self.?gateway.orValue("")].all(g, !isIP(g) || [self.?cidr.orValue("")].all(c, !isCIDR(c) || cidr(c).containsIP(g) && (ip(g).family() == 6 || cidr(c).prefixLength() > 30 || (int(g.split('.')[0]) * 16777216 + int(g.split('.')[1]) * 65536 + int(g.split('.')[2]) * 256 + int(g.split('.')[3]) + 1) % [4294967296, 2147483648, 1073741824, 536870912, 268435456, 134217728, 67108864, 33554432, 16777216, 8388608, 4194304, 2097152, 1048576, 524288, 262144, 131072, 65536, 32768, 16384, 8192, 4096, 2048, 1024, 512, 256, 128, 64, 32, 16, 8, 4][cidr(c).prefixLength()] > 1)))`
// +kubebuilder:validation:XValidation:fieldPath=".dnsNameservers",reason=FieldValueInvalid,message="must be of the same IP family as cidr",messageExpression="self.dnsNameservers.map(d, isIP(d) && ip(d).family() != cidr(self.cidr).ip().family(), d + ' is not of the same IP family as cidr, ' + self.cidr)[0]",rule=`!has(self.dnsNameservers) || [self.?cidr.orValue("")].all(c, !isCIDR(c) || self.dnsNameservers.all(d, !isIP(d) || ip(d).family() == cidr(c).ip().family()))`
// +kubebuilder:validation:XValidation:fieldPath=".allocationPools",reason=FieldValueInvalid,message="must be inside cidr",messageExpression="self.allocationPools.map(p, [p.start, p.end].exists(a, isIP(a) && !cidr(self.cidr).containsIP(a)), p.start + '-' + p.end + ' is not inside cidr, ' + self.cidr)[0]",rule=`!has(self.allocationPools) || [self.?cidr.orValue("")].all(c, !isCIDR(c) || self.allocationPools.all(p, [p.start, p.end].all(a, !isIP(a) || cidr(c).containsIP(a))))`
// +kubebuilder:validation:XValidation:fieldPath=".allocationPools",reason=FieldValueInvalid,message="must not have the first or the last address of cidr in them: they are the network address and the broadcast address",messageExpression="'must not have the first or the last address of cidr, ' + self.cidr + ', in them: they are the network address and the broadcast address'",rule=`!has(self.allocationPools) || [self.?cidr.orValue("")].all(c, !isCIDR(c) || cidr(c).ip().family() == 6 || cidr(c).prefixLength() > 30 || self.allocationPools.all(p, [p.start, p.end].all(a, !isIP(a) || !cidr(c).containsIP(a) || (int(a.split('.')[0]) * 16777216 + int(a.split('.')[1]) * 65536 + int(a.split('.')[2]) * 256 + int(a.split('.')[3]) + 1) % [4294967296, 2147483648, 1073741824, 536870912, 268435456, 134217728, 67108864, 33554432, 16777216, 8388608, 4194304, 2097152, 1048576, 524288, 262144, 131072, 65536, 32768, 16384, 8192, 4096, 2048, 1024, 512, 256, 128, 64, 32, 16, 8, 4][cidr(c).prefixLength()] > 1)))`
// +kubebuilder:validation:XValidation:fieldPath=".allocationPools",reason=FieldValueInvalid,message="must not have the gateway in them",messageExpression=`'must not have the gateway' + (has(self.gateway) && self.gateway != "" ? ', ' + self.gateway + ', in them' : ' in them: it is not set, so it is the first usable address of cidr, ' + self.cidr)`,rule=`!has(self.allocationPools) || [self.?cidr.orValue("")].all(c, !isCIDR(c) || [self.?gateway.orValue("")].all(g, g == "" && cidr(c).ip().family() == 4 && cidr(c).prefixLength() > 30 || !self.allocationPools.exists(p, [p.start, p.end].all(a, isIP(a) && cidr(c).containsIP(a)) && (g == "" ? (cidr(c).ip().family() == 6 ? string(cidr(c).masked().ip()) == p.start : string(cidr(c).masked().ip()) != p.start && cidr(p.start + '/31').containsIP(cidr(c).masked().ip())) : isIP(g) && cidr(c).containsIP(g) && (cidr(c).ip().family() == 6 ? string(ip(g)) in [p.start, p.end] : [[p.start, g, p.end].map(a, int(a.split('.')[0]) * 16777216 + int(a.split('.')[1]) * 65536 + int(a.split('.')[2]) * 256 + int(a.split('.')[3]))].exists(n, n[0] <= n[1] && n[1] <= n[2]))))))`
// +kubebuilder:validation:XValidation:fieldPath=".hostRoutes",reason=FieldValueInvalid,message="must be of the same IP family as cidr",messageExpression="self.hostRoutes.map(r, (isCIDR(r.destination) && cidr(r.destination).ip().family() != cidr(self.cidr).ip().family() || isIP(r.nextHop) && ip(r.nextHop).family() != cidr(self.cidr).ip().family()), r.destination + ' via ' + r.nextHop + ' is not of the same IP family as cidr, ' + self.cidr)[0]",rule=`!has(self.hostRoutes) || [self.?cidr.orValue("")].all(c, !isCIDR(c) || self.hostRoutes.all(r, [r.destination].all(d, !isCIDR(d) || cidr(d).ip().family() == cidr(c).ip().family()) && [r.nextHop].all(h, !isIP(h) || ip(h).family() == cidr(c).ip().family())))`
// +kubebuilder:validation:XValidation:fieldPath=".ipv6",reason=FieldValueInvalid,message="needs an IPv6 cidr with the prefix length 64",messageExpression="(cidr(self.cidr).ip().family() == 4 ? 'must not be set for an IPv4 cidr, ' : 'needs a cidr with the prefix length 64, not ') + self.cidr",rule=`!has(self.ipv6) || [self.?cidr.orValue("")].all(c, !isCIDR(c) || cidr(c).ip().family() == 6 && cidr(c).prefixLength() == 64)`
// +kubebuilder:validation:XValidation:fieldPath=".subnetPool",reason=FieldValueForbidden,message="must not be set with cidr, an address as gateway, allocationPools or hostRoutes",messageExpression="'must not be set with ' + (has(self.cidr) ? 'cidr: either the Network declares its address range, or Neutron takes one from the pool' : has(self.allocationPools) ? 'allocationPools: the address range is not known before Neutron has chosen it' : has(self.hostRoutes) ? 'hostRoutes: the address range is not known before Neutron has chosen it' : 'the gateway ' + self.gateway + ': the address range is not known before Neutron has chosen it. Leave gateway out, or set it to None')",rule=`!has(self.subnetPool) || !has(self.cidr) && !has(self.allocationPools) && !has(self.hostRoutes) && self.?gateway.orValue("") in ["", "None"]`
// +kubebuilder:validation:XValidation:fieldPath=".ipv6",reason=FieldValueInvalid,message="needs a subnetPool of IPv6 and the prefixLength 64",rule="!has(self.ipv6) || !has(self.subnetPool) || self.subnetPool.prefixLength == 64"
// +kubebuilder:validation:XValidation:fieldPath=".ipv6",reason=FieldValueInvalid,message="must not be set if enableDHCP is false",rule="!has(self.ipv6) || self.?enableDHCP.orValue(true)"
type SubnetSpec struct {
	// cidr is the address range of the subnet, IPv4 or IPv6, as an address and a prefix length,
	// such as 192.168.0.0/16 or fd00:1::/64. Bits after the prefix length
	// are ignored: 192.168.1.0/16 means 192.168.0.0/16.
	//
	// If the CIDR changes, the controller replaces the subnet, because Neutron cannot
	// change it in place. While ports use the subnet, the old CIDR stays in force
	// (Ready=False, reason InUse).
	//
	// Exactly one of cidr and subnetPool is required, also in each of additionalSubnets. Only a
	// Network that imports its network can leave out both in the spec itself: then the subnets of
	// that network that the spec does not declare are left alone. If the imported network has a
	// subnet with this CIDR, that subnet is taken over, and is not deleted when the CIDR changes.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=43
	// +kubebuilder:validation:XValidation:reason=FieldValueInvalid,rule="isCIDR(self)",message="must be an IPv4 or IPv6 address and a prefix length, such as 192.168.0.0/16 or fd00:1::/64"
	CIDR string `json:"cidr,omitempty"`

	// subnetPool lets Neutron choose the address range of the subnet, in place of cidr: a free block
	// of a subnet pool of the project, or of one that is shared with all projects. With the
	// credentials of an administrator and an id, it can be the pool of any project. The status shows
	// the block. The subnet keeps it until the subnet is deleted.
	//
	// The addresses are not known before Neutron has chosen the block. So gateway can only be None or
	// left out, and allocationPools and hostRoutes cannot be set.
	//
	// If the pool or the prefix length changes, the controller replaces the subnet, as if cidr
	// changed. On one network, Neutron takes all subnets of the same IP version from one pool, or
	// none of them from a pool. So the controller deletes the old subnet before it creates one from
	// another pool. If the name leads to another pool later, the pool has changed: set id if that can
	// happen. To keep the block without the pool, set cidr to the block and remove subnetPool.
	//
	// +optional
	SubnetPool *SubnetPoolSpec `json:"subnetPool,omitempty"`

	// gateway is the address of the subnet's gateway, inside cidr, such as 192.168.0.1.
	//
	// None means a subnet without a gateway. If it is not set, Neutron chooses the first address
	// of the subnet, and the status shows it. It can be changed.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=39
	// +kubebuilder:validation:XValidation:reason=FieldValueInvalid,rule="self == '' || self == 'None' || isIP(self)",message="must be an IP address inside cidr, such as 192.168.0.1, or None"
	Gateway string `json:"gateway,omitempty"`

	// dnsNameservers are the addresses of the DNS servers that the network's DHCP servers
	// announce, in this order. They are of the IP family of cidr. The default is none.
	//
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=5
	// +kubebuilder:validation:XValidation:reason=FieldValueInvalid,message="must not have an address twice",messageExpression="self.map(d, !self.exists_one(e, e == d), d + ' must not be in the list twice')[0]",optionalOldSelf=true,rule="oldSelf.hasValue() && oldSelf.value() == self || self.all(d, self.exists_one(e, e == d))"
	DNSNameservers []IPAddress `json:"dnsNameservers,omitempty"`

	// allocationPools are the address ranges that Neutron takes the addresses of ports from, in
	// any order. If they are not set, they are all addresses of cidr except the gateway. They are
	// inside cidr, do not overlap, and do not contain the gateway.
	//
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=10
	// +kubebuilder:validation:XValidation:reason=FieldValueInvalid,message="must not overlap",messageExpression="self.map(p, self.filter(q, p.start == q.start || p.end == q.end || [p.start, p.end, q.start, q.end].all(a, isIP(a) && ip(a).family() == 4) && [[p.start, p.end, q.start, q.end].map(a, int(a.split('.')[0]) * 16777216 + int(a.split('.')[1]) * 65536 + int(a.split('.')[2]) * 256 + int(a.split('.')[3]))].exists(n, n[0] <= n[3] && n[2] <= n[1])).size() > 1, p.start + '-' + p.end + ' overlaps with another range')[0]",optionalOldSelf=true,rule="oldSelf.hasValue() && oldSelf.value() == self || !self.exists(p, self.filter(q, p.start == q.start || p.end == q.end || [p.start, p.end, q.start, q.end].all(a, isIP(a) && ip(a).family() == 4) && [[p.start, p.end, q.start, q.end].map(a, int(a.split('.')[0]) * 16777216 + int(a.split('.')[1]) * 65536 + int(a.split('.')[2]) * 256 + int(a.split('.')[3]))].exists(n, n[0] <= n[3] && n[2] <= n[1])).size() > 1)"
	AllocationPools []AllocationPool `json:"allocationPools,omitempty"`

	// hostRoutes are the routes that the network's DHCP servers announce, in any order. They are
	// of the IP family of cidr. The default is none.
	//
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=20
	// +kubebuilder:validation:XValidation:reason=FieldValueInvalid,message="must not have a route twice",messageExpression="self.map(r, !self.exists_one(q, q.destination == r.destination && q.nextHop == r.nextHop), r.destination + ' via ' + r.nextHop + ' must not be in the list twice')[0]",optionalOldSelf=true,rule="oldSelf.hasValue() && oldSelf.value() == self || self.all(r, self.exists_one(q, q.destination == r.destination && q.nextHop == r.nextHop))"
	HostRoutes []HostRoute `json:"hostRoutes,omitempty"`

	// enableDHCP says whether DHCP servers serve the subnet. The default is true.
	//
	// +optional
	EnableDHCP *bool `json:"enableDHCP,omitempty"`

	// ipv6 says how ports of an IPv6 subnet get their addresses. It needs a cidr or a subnetPool with
	// the prefix length 64, and DHCP. If it is not set, the subnet has neither mode. Neutron cannot
	// change it in place: if it changes, the controller replaces the subnet.
	//
	// +optional
	IPv6 *IPv6Spec `json:"ipv6,omitempty"`
}

// SubnetPoolSpec names a subnet pool in Neutron, and says how large a block of it the subnet gets.
type SubnetPoolSpec struct {
	// The pool.
	NeutronReference `json:",inline"`

	// prefixLength is the prefix length of the block, such as 24 or 64. The pool limits it, with its
	// min_prefixlen and max_prefixlen.
	//
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=128
	PrefixLength int32 `json:"prefixLength"`
}

// IPAddress is an IPv4 or IPv6 address in its canonical form, so that addresses can be
// compared as text.
//
// +kubebuilder:validation:MaxLength=39
// +kubebuilder:validation:XValidation:reason=FieldValueInvalid,message="must be an IPv4 or IPv6 address in its canonical form",messageExpression="isIP(self) ? 'must be written as %s'.format([string(ip(self))]) : 'must be an IPv4 or IPv6 address, such as 192.168.0.53 or fd00:1::53'",rule="isIP(self) && ip.isCanonical(self)"
type IPAddress string

// Tag is a tag of a network in Neutron.
//
// +kubebuilder:validation:MaxLength=60
// +kubebuilder:validation:XValidation:reason=FieldValueInvalid,message="must not be empty, and must not have a comma, a control character, or a blank at its start or end",rule="self.matches('^[^ ,[:cntrl:]]([^,[:cntrl:]]*[^ ,[:cntrl:]])?$')"
// +kubebuilder:validation:XValidation:reason=FieldValueInvalid,message="must not begin with samplecrd-owner-, which is the ownership mark of imported networks",rule="!self.lowerAscii().startsWith('samplecrd-owner-')"
type Tag string

// AvailabilityZone is the name of an availability zone in Neutron.
//
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=251
// +kubebuilder:validation:XValidation:reason=FieldValueInvalid,message="must not have a control character, or a blank at its start or end",rule="self.matches('^[^ [:cntrl:]]([^[:cntrl:]]*[^ [:cntrl:]])?$')"
type AvailabilityZone string

// AllocationPool is a range of addresses.
//
// +kubebuilder:validation:XValidation:fieldPath=".start",reason=FieldValueInvalid,message="must not be after end",messageExpression="self.start + ' must not be after end, ' + self.end",rule="[[self.start, self.end]].all(r, r.exists(a, !isIP(a) || ip(a).family() == 6) || [r.map(a, int(a.split('.')[0]) * 16777216 + int(a.split('.')[1]) * 65536 + int(a.split('.')[2]) * 256 + int(a.split('.')[3]))].exists(n, n[0] <= n[1]))"
type AllocationPool struct {
	// start is the first address of the range, such as 192.168.0.100.
	//
	// +required
	Start IPAddress `json:"start"`
	// end is the last address of the range, such as 192.168.0.200.
	//
	// +required
	End IPAddress `json:"end"`
}

// HostRoute is a static route: one that DHCP servers announce, or one of a router.
type HostRoute struct {
	// destination is the address range that the route leads to, in its canonical form, such as
	// 10.99.0.0/16. Unlike in cidr, bits after the prefix length are refused.
	//
	// +required
	// +kubebuilder:validation:MaxLength=43
	// +kubebuilder:validation:XValidation:reason=FieldValueInvalid,message="must be an IPv4 or IPv6 address and a prefix length in its canonical form",messageExpression="isCIDR(self) ? 'must be written as %s'.format([string(cidr(self).masked())]) : 'must be an IPv4 or IPv6 address and a prefix length, such as 10.99.0.0/16 or fd00:9::/64'",rule="isCIDR(self) && self == string(cidr(self).masked())"
	Destination string `json:"destination"`
	// nextHop is the address of the next router. In hostRoutes, it can be outside cidr. In
	// router.routes, it must be in a subnet that the router is connected to.
	//
	// +required
	NextHop IPAddress `json:"nextHop"`
}

// IPv6Spec says how ports of an IPv6 subnet get their addresses. The two modes must be the
// same if both are set.
//
// +kubebuilder:validation:XValidation:reason=FieldValueInvalid,message="must have addressMode, raMode or both",rule="has(self.addressMode) || has(self.raMode)"
// +kubebuilder:validation:XValidation:fieldPath=".raMode",reason=FieldValueInvalid,message="must be the same as addressMode",messageExpression="self.raMode + ' must be the same as addressMode, ' + self.addressMode",rule="!has(self.addressMode) || !has(self.raMode) || self.addressMode == self.raMode"
type IPv6Spec struct {
	// addressMode says how ports get their addresses (ipv6_address_mode in Neutron).
	//
	// +optional
	AddressMode IPv6Mode `json:"addressMode,omitempty"`
	// raMode says who sends router advertisements, and for what (ipv6_ra_mode in Neutron). If it
	// is not set, Neutron's routers send none.
	//
	// +optional
	RAMode IPv6Mode `json:"raMode,omitempty"`
}

// IPv6Mode is a mode of Neutron's ipv6_address_mode and ipv6_ra_mode.
//
// +kubebuilder:validation:Enum=slaac;dhcpv6-stateful;dhcpv6-stateless
type IPv6Mode string

// The IPv6 modes.
const (
	// IPv6ModeSLAAC means that ports compute their addresses from router advertisements.
	IPv6ModeSLAAC IPv6Mode = "slaac"
	// IPv6ModeDHCPv6Stateful means that ports get their addresses from DHCPv6.
	IPv6ModeDHCPv6Stateful IPv6Mode = "dhcpv6-stateful"
	// IPv6ModeDHCPv6Stateless means SLAAC for addresses, and DHCPv6 for everything else.
	IPv6ModeDHCPv6Stateless IPv6Mode = "dhcpv6-stateless"
)

// AdditionalSubnet is another subnet of the network.
//
// +kubebuilder:validation:XValidation:fieldPath=".cidr",reason=FieldValueRequired,message="is required unless subnetPool is set",rule="has(self.cidr) || has(self.subnetPool)"
type AdditionalSubnet struct {
	// name identifies the subnet in this Network, such as v6.
	//
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Name string `json:"name"`

	SubnetSpec `json:",inline"`
}

// RouterSpec says which router the network is connected to. Exactly one of externalNetwork and
// existing is set.
//
// +kubebuilder:validation:XValidation:fieldPath=".availabilityZoneHints",reason=FieldValueForbidden,message="must not be set with existing: the zones of a router that exists cannot change",rule="!has(self.availabilityZoneHints) || !has(self.existing) || has(self.externalNetwork)"
// +kubebuilder:validation:XValidation:fieldPath=".routes",reason=FieldValueForbidden,message="must not be set with existing: the routes of a router that exists stay as they are",rule="!has(self.routes) || !has(self.existing) || has(self.externalNetwork)"
// +kubebuilder:validation:XValidation:reason=FieldValueInvalid,message="must have exactly one of externalNetwork and existing",messageExpression="'must have exactly one of externalNetwork and existing, and has ' + (has(self.existing) ? 'both' : 'neither')",rule="has(self.externalNetwork) != has(self.existing)"
type RouterSpec struct {
	// externalNetwork requests a router of this Network's own, with its gateway in that external
	// network. The controller creates the router, and deletes it with the network. If it changes,
	// the controller replaces the router.
	//
	// +optional
	ExternalNetwork *NeutronReference `json:"externalNetwork,omitempty"`
	// existing connects the network to a router that exists. The controller adds and removes
	// the interfaces of this Network's subnets, and changes nothing else of the router.
	//
	// +optional
	Existing *NeutronReference `json:"existing,omitempty"`
	// availabilityZoneHints are the availability zones that are to serve a router of this Network's
	// own: where Neutron runs it. If they are not set, the cloud chooses. Neutron cannot change
	// them: if they are added or changed, the controller replaces the router. If they are removed
	// later, the router stays.
	//
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=10
	// +kubebuilder:validation:XValidation:reason=FieldValueInvalid,message="must have at most 255 characters together, where each zone counts 4 more",rule="self.map(z, size(z) + 4).sum() <= 255"
	AvailabilityZoneHints []AvailabilityZone `json:"availabilityZoneHints,omitempty"`
	// routes are the static routes of a router of this Network's own, in any order. If they are
	// set, the router has exactly these; the empty list removes all. If they are not set, they are
	// left alone. Each next hop must be in a subnet that the router is connected to: one of this
	// Network, or one of the external network. Before the controller disconnects a subnet from the
	// router, it removes the routes through that subnet. It sets the declared ones again
	// afterwards. If the field is removed later, its routes stay until the controller disconnects
	// their subnet, and are not set again.
	//
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=30
	// +kubebuilder:validation:XValidation:reason=FieldValueInvalid,message="must have a next hop of the same IP family as the destination",messageExpression="self.map(r, isCIDR(r.destination) && isIP(r.nextHop) && cidr(r.destination).ip().family() != ip(r.nextHop).family(), r.destination + ' via ' + r.nextHop + ' must have a next hop of the same IP family as the destination')[0]",rule="self.all(r, !isCIDR(r.destination) || !isIP(r.nextHop) || cidr(r.destination).ip().family() == ip(r.nextHop).family())"
	// +kubebuilder:validation:XValidation:reason=FieldValueInvalid,message="must not have a route twice",messageExpression="self.map(r, !self.exists_one(q, q.destination == r.destination && q.nextHop == r.nextHop), r.destination + ' via ' + r.nextHop + ' must not be in the list twice')[0]",optionalOldSelf=true,rule="oldSelf.hasValue() && oldSelf.value() == self || self.all(r, self.exists_one(q, q.destination == r.destination && q.nextHop == r.nextHop))"
	Routes []HostRoute `json:"routes,omitzero"`
}

// NeutronReference names an object in Neutron. Exactly one of its fields is set.
//
// +kubebuilder:validation:XValidation:reason=FieldValueInvalid,message="must have exactly one of name and id",messageExpression="'must have exactly one of name and id, and has ' + (has(self.id) ? 'both, ' + self.name + ' and ' + self.id : 'neither')",rule="has(self.name) != has(self.id)"
type NeutronReference struct {
	// name is the name of the object. The credentials must see exactly one object of that name.
	//
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=255
	Name string `json:"name,omitempty"`
	// id is the ID of the object.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9][A-Za-z0-9._-]*$`
	ID string `json:"id,omitempty"`
}

// Share names a project that the network is shared with.
type Share struct {
	// projectID is the ID of the project in Keystone.
	//
	// +required
	// +kubebuilder:validation:MaxLength=36
	// +kubebuilder:validation:XValidation:reason=FieldValueInvalid,message="must be the ID of a project, 32 hexadecimal digits or a UUID in lower case: openstack project show -f value -c id NAME prints it",messageExpression="self == '*' ? 'must be the ID of one project: shared, and not sharedWith, shares the network with all projects' : 'must be the ID of a project, 32 hexadecimal digits or a UUID in lower case: openstack project show -f value -c id NAME prints it'",rule="self.matches('^([0-9a-f]{32}|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12})$')"
	ProjectID string `json:"projectID"`
}

// ProviderSpec says how the cloud carries a network. Neutron changes only the segmentation ID
// of a VLAN.
//
// +kubebuilder:validation:XValidation:fieldPath=".networkType",reason=FieldValueForbidden,message="cannot change: delete the Network and create another one",messageExpression="'cannot change from ' + oldSelf.networkType + ' to ' + self.networkType + ': delete the Network and create another one'",rule="self.networkType == oldSelf.networkType"
// +kubebuilder:validation:XValidation:fieldPath=".physicalNetwork",reason=FieldValueForbidden,message="cannot be added, changed or removed: delete the Network and create another one",rule="has(self.physicalNetwork) == has(oldSelf.physicalNetwork) && (!has(self.physicalNetwork) || self.physicalNetwork == oldSelf.physicalNetwork)"
// +kubebuilder:validation:XValidation:fieldPath=".segmentationID",reason=FieldValueForbidden,message="cannot be removed, and only that of networkType vlan can be added or changed: delete the Network and create another one",rule="self.networkType != oldSelf.networkType || (has(self.segmentationID) ? self.networkType == 'vlan' || has(oldSelf.segmentationID) && self.segmentationID == oldSelf.segmentationID : !has(oldSelf.segmentationID))"
type ProviderSpec struct {
	// networkType is the type of the network, such as vlan, vxlan, flat or local.
	//
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=32
	NetworkType string `json:"networkType"`
	// physicalNetwork is the name of the physical network, for vlan and flat.
	//
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	PhysicalNetwork string `json:"physicalNetwork,omitempty"`
	// segmentationID is the VLAN ID or the tunnel ID.
	//
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=16777215
	SegmentationID *int32 `json:"segmentationID,omitempty"`
}

// ImportSpec names the network that a Network takes over.
type ImportSpec struct {
	// networkID is the ID of the network in Neutron. With managementPolicy Managed it must be a
	// network of the project of the credentials that is not an external network, that carries
	// no other owner's mark, and that has the availabilityZoneHints of the spec, if there are any.
	//
	// +required
	// +kubebuilder:validation:MaxLength=36
	// +kubebuilder:validation:XValidation:reason=FieldValueInvalid,message="must be the ID of a network in Neutron, a UUID in lower case, such as 3d3b7f0a-6a3c-4c2b-9d2b-2f1f3a0e9c11",rule="self.matches('^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$')"
	NetworkID string `json:"networkID"`
}

// ManagementPolicy says what the controller may do in Neutron for a Network.
//
// +kubebuilder:validation:Enum=Managed;Observe
type ManagementPolicy string

// The management policies.
const (
	// ManagementManaged keeps the network in Neutron as the spec says. An empty policy means the same.
	ManagementManaged ManagementPolicy = "Managed"
	// ManagementObserve reads the network and never writes to Neutron, not even a mark.
	ManagementObserve ManagementPolicy = "Observe"
)

// DeletionPolicy says what happens to a network in Neutron when its Network is deleted.
//
// +kubebuilder:validation:Enum=Delete;Retain
type DeletionPolicy string

// The deletion policies.
const (
	// DeletionDelete deletes the network from Neutron. An empty policy means the same, except for
	// an imported network.
	DeletionDelete DeletionPolicy = "Delete"
	// DeletionRetain leaves the network and its router in Neutron, without their ownership marks.
	DeletionRetain DeletionPolicy = "Retain"
)

// CloudCredentialsReference names an entry of the clouds.yaml in a Secret, or a ClusterCloud.
//
// +kubebuilder:validation:XValidation:reason=FieldValueInvalid,message="must have secretName and cloudName, or clusterCloudName alone",rule="has(self.clusterCloudName) ? !has(self.secretName) && !has(self.cloudName) : has(self.secretName) && has(self.cloudName)"
type CloudCredentialsReference struct {
	// secretName is the name of a Secret in the namespace of the Network. Its key
	// clouds.yaml has the clouds.yaml file of the OpenStack clients. Its optional key
	// cacert has the PEM certificates of the authorities that sign the cloud's
	// certificate.
	//
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:reason=FieldValueInvalid,message="must be a valid name of a Secret: letters in lower case, digits, dashes and dots",rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')"
	SecretName string `json:"secretName,omitempty"`

	// cloudName is the name of the entry in the Secret's clouds.yaml, not that of a ClusterCloud.
	//
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:reason=FieldValueInvalid,message="must not have a control character, or a blank at its start or end",rule="self.matches('^[^ [:cntrl:]]([^[:cntrl:]]*[^ [:cntrl:]])?$')"
	CloudName string `json:"cloudName,omitempty"`

	// clusterCloudName is the name of a ClusterCloud, by which an administrator offers a cloud to
	// chosen namespaces. It takes the place of secretName and cloudName.
	//
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:reason=FieldValueInvalid,message="must be a valid name of a ClusterCloud: letters in lower case, digits, dashes and dots",rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')"
	ClusterCloudName string `json:"clusterCloudName,omitempty"`
}

// GatewayNone as spec.gateway means a subnet without a gateway. The spelling is that of
// a Service's clusterIP.
const GatewayNone = "None"

// NetworkStatus is the state that the controller last observed in Neutron. It keeps the
// last observed values while Neutron is unavailable.
type NetworkStatus struct {
	// observedGeneration is the metadata.generation that the status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// networkID is the ID of the network in Neutron.
	// +optional
	NetworkID string `json:"networkID,omitempty"`

	// imported is true when the network of spec.import carries this Network's ownership mark.
	// +optional
	Imported bool `json:"imported,omitempty"`

	// subnetID is the ID of the subnet in Neutron.
	// +optional
	SubnetID string `json:"subnetID,omitempty"`

	// cidr is the CIDR of the subnet in Neutron. It differs from spec.cidr in the bits
	// after the prefix length, and until the controller has replaced the subnet. With
	// spec.subnetPool, it is the block that Neutron has chosen.
	// +optional
	CIDR string `json:"cidr,omitempty"`

	// gateway is the gateway of the subnet in Neutron. None means that it has no gateway.
	// +optional
	Gateway string `json:"gateway,omitempty"`

	// cloud is the cloud that has the network: the name of the entry in clouds.yaml, or
	// the address of Keystone if there is no such entry.
	// +optional
	Cloud string `json:"cloud,omitempty"`

	// projectID is the ID of the OpenStack project that has the network. For an observed network
	// of another project it is the project of the credentials.
	// +optional
	ProjectID string `json:"projectID,omitempty"`

	// region is the region of the cloud that has the network. It is that of the endpoint
	// in Keystone's catalog which the controller uses, whether the credentials name a
	// region or not. It is empty if the catalog has no region for that endpoint, and in a
	// status that was written before the controller recorded this.
	// +optional
	Region string `json:"region,omitempty"`

	// mtu is the maximum transmission unit of the network in Neutron, in bytes.
	// +optional
	MTU int32 `json:"mtu,omitempty"`

	// subnets are the subnets of this Network in Neutron: the declared ones in the order of the
	// spec, and then those that the spec no longer declares. subnetID, cidr and gateway above are
	// those of the first one without a name. For a Network that imports its network, the other subnets of that network
	// follow. There are at most 200; the Ready condition says if some are left out.
	// +optional
	// +listType=atomic
	Subnets []SubnetStatus `json:"subnets,omitempty"`

	// router is the router that the subnets are connected to, or will be. The controller writes it
	// before it creates a router or connects a subnet, so that it finds both when the spec has
	// changed in between.
	// +optional
	Router *RouterStatus `json:"router,omitempty"`

	// sharedWith are the IDs of the projects that the spec shares the network with, or has shared it
	// with while that has not ended. The controller writes a project here before it shares the network
	// with it: what Neutron has of it carries no ownership mark.
	// +optional
	// +listType=atomic
	SharedWith []string `json:"sharedWith,omitempty"`

	// lastHandledReconcileAt is the last value of the annotation
	// samplecrd.k8s.io/reconcile-requested-at that the controller has handled.
	// +optional
	LastHandledReconcileAt string `json:"lastHandledReconcileAt,omitempty"`

	// conditions describe the state of the Network. Ready is always present. Reconciling
	// is present, and True, only while the controller still has work to do. Stalled is
	// present, and True, only while a user must act before the spec can take effect.
	// +optional
	// +patchMergeKey=type
	// +patchStrategy=merge
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty" patchMergeKey:"type" patchStrategy:"merge"`
}

// SubnetStatus is a subnet as the controller last observed it in Neutron.
type SubnetStatus struct {
	// name is the name in spec.additionalSubnets. It is empty for the subnet of spec.cidr or
	// spec.subnetPool, and for one that the spec no longer declares.
	// +optional
	Name string `json:"name,omitempty"`
	// id is the ID of the subnet.
	// +required
	ID string `json:"id"`
	// cidr is the CIDR of the subnet.
	// +required
	CIDR string `json:"cidr"`
	// gateway is the gateway of the subnet. None means that it has no gateway.
	// +required
	Gateway string `json:"gateway"`
	// routerPortID is the ID of the port that connects the subnet to the router. It is set when
	// Neutron has confirmed the connection.
	// +optional
	RouterPortID string `json:"routerPortID,omitempty"`
}

// RouterStatus is a router as the controller last observed it in Neutron.
type RouterStatus struct {
	// id is the ID of the router. It is empty until a router of the Network's own is created.
	// +optional
	ID string `json:"id,omitempty"`
	// externalIPs are the addresses of the router in its external network, at most 50.
	// +optional
	// +listType=atomic
	ExternalIPs []string `json:"externalIPs,omitempty"`
	// routes are the routes that spec.router.routes declares, and those that it has declared before
	// and that a router of the Network's own still has. The controller writes them before it sets
	// them, so that it knows which ones it may remove when the spec has changed in between.
	// +optional
	// +listType=atomic
	Routes []RouteStatus `json:"routes,omitempty"`
}

// RouteStatus is a static route of a router.
type RouteStatus struct {
	// destination is the address range that the route leads to.
	// +required
	Destination string `json:"destination"`
	// nextHop is the address of the next router.
	// +required
	NextHop string `json:"nextHop"`
}

// NetworkList is a list of Networks.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true
type NetworkList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Network `json:"items"`
}

// IsRetained reports whether the network stays in Neutron when the Network is deleted.
func (n *Network) IsRetained() bool {
	return n.Spec.DeletionPolicy == DeletionRetain || n.Spec.DeletionPolicy == "" && n.Spec.Import != nil
}

// IsObserved reports whether the controller must not write to Neutron for the Network.
func (n *Network) IsObserved() bool { return n.Spec.ManagementPolicy == ManagementObserve }
