// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package v1 is version v1 of the samplecrd.k8s.io API: the kinds Network and ClusterCloud, the types and
// reasons of its conditions, the reasons of its events, and its annotations.
//
// +k8s:deepcopy-gen=package
// +k8s:openapi-gen=true
// +kubebuilder:object:generate=false
// +groupName=samplecrd.k8s.io
package v1
