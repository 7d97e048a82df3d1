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

package v1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Network declares a network in OpenStack Neutron, with one subnet.
//
// The controller makes the network and the subnet, keeps them as the spec says,
// and removes them when the Network is deleted.
//
// +genclient
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true
// +kubebuilder:resource:shortName=net,scope=Namespaced
// +kubebuilder:subresource:status
// +kubebuilder:metadata:annotations="api-approved.kubernetes.io=unapproved, a third party's example"
// +kubebuilder:printcolumn:name="CIDR",type=string,JSONPath=`.status.cidr`,description="The CIDR that is in force in Neutron"
// +kubebuilder:printcolumn:name="Gateway",type=string,JSONPath=`.status.gateway`,description="The gateway that is in force in Neutron"
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`,description="Whether Neutron was seen to match the spec"
// +kubebuilder:printcolumn:name="Status",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`,description="Why the Network is ready, or is not"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`,description="The time since the Network was created"
// +kubebuilder:printcolumn:name="Network ID",type=string,priority=1,JSONPath=`.status.networkID`,description="The ID of the network in Neutron"
// +kubebuilder:printcolumn:name="Cloud",type=string,priority=1,JSONPath=`.status.cloud`,description="The cloud in which the network is"
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].message`,description="What there is to say about it"
type Network struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what the network shall be.
	// +required
	Spec NetworkSpec `json:"spec"`
	// status is what the controller last saw in Neutron, and what it makes of it.
	// Only the controller writes it.
	//
	// The default keeps those who wait for a Network from taking one for ready that no
	// controller has looked at.
	//
	// +optional
	// +kubebuilder:default={conditions: {{type: "Ready", status: "Unknown", reason: "Pending", message: "Waiting for the controller", lastTransitionTime: "1970-01-01T00:00:00Z"}}}
	Status NetworkStatus `json:"status,omitempty"`
}

// NetworkSpec is what a network shall be. It says nothing of how to get there:
// any field may be changed at any time, and the controller finds the way.
//
// A gateway is held against the CIDR by the rules below, each of which passes what
// another one refuses, so that one mistake gives one message. The last rule counts an
// IPv4 address as a number n: with s addresses in the CIDR, (n + 1) mod s is 1 for the
// first address and 0 for the last. CEL has no other way to the last one. Neutron
// refuses both for IPv4 only; for IPv6 the first address is its own default.
//
// +kubebuilder:validation:XValidation:fieldPath=".cloudCredentialsRef",reason=FieldValueForbidden,message="can be neither added, changed nor removed: delete the Network, and make another",rule="has(self.cloudCredentialsRef) == has(oldSelf.cloudCredentialsRef) && (!has(self.cloudCredentialsRef) || self.cloudCredentialsRef == oldSelf.cloudCredentialsRef)"
// +kubebuilder:validation:XValidation:fieldPath=".gateway",reason=FieldValueInvalid,message="must be of the same IP family as cidr",messageExpression="self.gateway + ' is not of the same IP family as cidr, ' + self.cidr",rule="!has(self.gateway) || !isIP(self.gateway) || !isCIDR(self.cidr) || ip(self.gateway).family() == cidr(self.cidr).ip().family()"
// +kubebuilder:validation:XValidation:fieldPath=".gateway",reason=FieldValueInvalid,message="must be an address inside cidr",messageExpression="self.gateway + ' is not an address inside cidr, ' + self.cidr",rule="!has(self.gateway) || !isIP(self.gateway) || !isCIDR(self.cidr) || ip(self.gateway).family() != cidr(self.cidr).ip().family() || cidr(self.cidr).containsIP(self.gateway)"
// +kubebuilder:validation:XValidation:fieldPath=".gateway",reason=FieldValueInvalid,message="must be neither the first address of cidr, which is the network's, nor the last, which is for broadcasts",messageExpression="self.gateway + ' must be neither the first address of cidr, ' + self.cidr + ', which is the network\\'s, nor the last, which is for broadcasts'",rule="!has(self.gateway) || !isIP(self.gateway) || !isCIDR(self.cidr) || ip(self.gateway).family() == 6 || !cidr(self.cidr).containsIP(self.gateway) || cidr(self.cidr).prefixLength() > 30 || (int(self.gateway.split('.')[0]) * 16777216 + int(self.gateway.split('.')[1]) * 65536 + int(self.gateway.split('.')[2]) * 256 + int(self.gateway.split('.')[3]) + 1) % [4294967296, 2147483648, 1073741824, 536870912, 268435456, 134217728, 67108864, 33554432, 16777216, 8388608, 4194304, 2097152, 1048576, 524288, 262144, 131072, 65536, 32768, 16384, 8192, 4096, 2048, 1024, 512, 256, 128, 64, 32, 16, 8, 4][cidr(self.cidr).prefixLength()] > 1"
type NetworkSpec struct {
	// cidr is the range of addresses of the network's subnet, IPv4 or IPv6, as an
	// address and a prefix length: 192.168.0.0/16 or fd00:1::/64.
	//
	// Bits beyond the prefix length are ignored: 192.168.1.0/16 means 192.168.0.0/16.
	// The CIDR may be changed. Neutron cannot change a subnet's CIDR, so the
	// controller replaces the subnet; while it has ports, the Network stays on the
	// old CIDR and says so (Ready=False, reason InUse).
	//
	// +required
	// +kubebuilder:validation:MaxLength=43
	// +kubebuilder:validation:XValidation:reason=FieldValueInvalid,rule="isCIDR(self)",message="must be an IPv4 or IPv6 address and a prefix length, such as 192.168.0.0/16 or fd00:1::/64"
	CIDR string `json:"cidr"`

	// gateway is the address of the subnet's gateway, inside cidr: 192.168.0.1.
	//
	// None means a subnet without a gateway. Left out, Neutron chooses: the first
	// address of the subnet; status.gateway shows it. The gateway may be changed.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=39
	// +kubebuilder:validation:XValidation:reason=FieldValueInvalid,rule="self == '' || self == 'None' || isIP(self)",message="must be an IP address inside cidr, such as 192.168.0.1, or None"
	Gateway string `json:"gateway,omitempty"`

	// cloudCredentialsRef names a Secret in the Network's own namespace that says in which
	// cloud and project the network is made, and with whose rights. Left out, it is the
	// controller's own cloud. It can be neither added, changed nor removed later: the
	// network would be lost.
	//
	// +optional
	CloudCredentialsRef *CloudCredentialsReference `json:"cloudCredentialsRef,omitempty"`

	// deletionPolicy says what becomes of the network in Neutron when the Network is
	// deleted. Delete, which is meant if it is left out: it is deleted. Retain: it stays,
	// with the ownership mark taken off, and nobody looks after it any more.
	//
	// +optional
	DeletionPolicy DeletionPolicy `json:"deletionPolicy,omitempty"`
}

// DeletionPolicy says what becomes of a network when its Network is deleted.
//
// +kubebuilder:validation:Enum=Delete;Retain
type DeletionPolicy string

// The deletion policies.
const (
	// DeletionDelete: the network is deleted from Neutron. No policy means the same.
	DeletionDelete DeletionPolicy = "Delete"
	// DeletionRetain: the network stays in Neutron, without its ownership mark.
	DeletionRetain DeletionPolicy = "Retain"
)

// CloudCredentialsReference names an entry of a clouds.yaml in a Secret.
type CloudCredentialsReference struct {
	// secretName is the name of a Secret in the Network's namespace. Its key clouds.yaml
	// holds a file of that name, as every OpenStack client reads it; its key cacert, if it
	// is there, the PEM certificates of the authorities that the cloud's own is held
	// against.
	//
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	SecretName string `json:"secretName"`

	// cloudName is the entry of clouds.yaml.
	//
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	CloudName string `json:"cloudName"`
}

// GatewayNone as spec.gateway means a subnet without a gateway, spelled as in the
// clusterIP of a Service.
const GatewayNone = "None"

// NetworkStatus is what the controller last saw in Neutron. An outage of Neutron
// does not wipe it: what was known stays.
type NetworkStatus struct {
	// observedGeneration is the metadata.generation that the status speaks of.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// networkID is the ID of the network in Neutron.
	// +optional
	NetworkID string `json:"networkID,omitempty"`

	// subnetID is the ID of the subnet in Neutron.
	// +optional
	SubnetID string `json:"subnetID,omitempty"`

	// cidr is the CIDR in force: that of the subnet in Neutron. It differs from
	// spec.cidr in bits beyond the prefix length, and while spec.cidr waits to be
	// brought into force.
	// +optional
	CIDR string `json:"cidr,omitempty"`

	// gateway is the gateway in force; None if the subnet has none.
	// +optional
	Gateway string `json:"gateway,omitempty"`

	// cloud tells in which cloud the network is: the entry of clouds.yaml, or the
	// address of Keystone if there is none.
	// +optional
	Cloud string `json:"cloud,omitempty"`

	// projectID is the ID of the project in which the network is.
	// +optional
	ProjectID string `json:"projectID,omitempty"`

	// region is the region of the cloud in which the network is; empty if the credentials
	// name none.
	// +optional
	Region string `json:"region,omitempty"`

	// mtu is the network's maximum transmission unit in bytes, as Neutron has it.
	// +optional
	MTU int32 `json:"mtu,omitempty"`

	// lastHandledReconcileAt is the value of the annotation
	// samplecrd.k8s.io/reconcile-requested-at for which Neutron was looked at last.
	// +optional
	LastHandledReconcileAt string `json:"lastHandledReconcileAt,omitempty"`

	// conditions say how it stands. Ready is always there. Reconciling is there, and
	// True, only while the controller has work to do; Stalled only while the spec
	// cannot be brought into force without somebody's help.
	// +optional
	// +patchMergeKey=type
	// +patchStrategy=merge
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty" patchMergeKey:"type" patchStrategy:"merge"`
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
