// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// ClusterCloud offers a cloud to the Networks of the namespaces that an administrator chooses. A
// Network uses it by its name, in spec.cloudCredentialsRef.clusterCloudName. There is no kind of clouds
// for one namespace: a Network names a Secret there.
//
// The credentials are in a Secret of the controller's own namespace, so they stay there when the
// namespace of a Network is deleted. While the ClusterCloud exists, the controller also looks for
// orphans in its cloud, and finishes there what was deleted together with its own Secret.
//
// Only administrators should have the right to create or change a ClusterCloud.
//
// +genclient
// +genclient:nonNamespaced
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster
// +kubebuilder:metadata:annotations="api-approved.kubernetes.io=unapproved, a third party's example"
// +kubebuilder:printcolumn:name="Secret",type=string,JSONPath=`.spec.secretName`,description="The Secret with the credentials, in the controller's namespace"
// +kubebuilder:printcolumn:name="Cloud",type=string,JSONPath=`.spec.cloudName`,description="The entry of clouds.yaml"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`,description="The time since the ClusterCloud was created"
type ClusterCloud struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec says where the credentials are, and who may use them. All fields can change. If they lead to
	// another project or region then, the Networks that exist become OtherCloud.
	//
	// +required
	Spec ClusterCloudSpec `json:"spec"`
}

// ClusterCloudSpec says where the credentials of a cloud are, and who may use them.
type ClusterCloudSpec struct {
	// secretName is the name of a Secret in the controller's own namespace, the one of its flag
	// -cluster-resource-namespace. The Secret has the same keys as that of
	// spec.cloudCredentialsRef of a Network. Neither -allowed-auth-urls nor -denied-cidrs
	// applies to it.
	//
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:reason=FieldValueInvalid,message="must be a valid name of a Secret: letters in lower case, digits, dashes and dots",rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')"
	SecretName string `json:"secretName"`

	// cloudName is the name of the entry in clouds.yaml.
	//
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:reason=FieldValueInvalid,message="must not have a control character, or a blank at its start or end",rule="self.matches('^[^ [:cntrl:]]([^[:cntrl:]]*[^ [:cntrl:]])?$')"
	CloudName string `json:"cloudName"`

	// namespaceSelector says by their labels which namespaces may use the cloud. An empty selector
	// selects all namespaces. If it is not set, none is selected.
	//
	// When a namespace is no longer selected, its Networks stay as they are: they can be deleted, and
	// nothing else is changed in Neutron.
	//
	// +optional
	NamespaceSelector *metav1.LabelSelector `json:"namespaceSelector,omitempty"`
}

// ClusterCloudList is a list of ClusterClouds.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true
type ClusterCloudList struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard list metadata.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`

	// items are the ClusterClouds.
	Items []ClusterCloud `json:"items"`
}
