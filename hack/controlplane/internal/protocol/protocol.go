// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package protocol is the protocol between a program and the supervisor that it started. A
// command is a line on the supervisor's standard input, with a verb and the name of a
// component. The supervisor answers each with one JSON object on its standard output. The
// first answer, which belongs to no command, means that the control plane is ready.
package protocol

// The components. The names are those of their commands and logs.
const (
	Etcd              = "etcd"
	APIServer         = "kube-apiserver"
	ControllerManager = "kube-controller-manager"
)

// The verbs.
const (
	// Start starts a component and waits until it serves.
	Start = "start"
	// Stop ends a component with SIGTERM and waits until it has ended.
	Stop = "stop"
	// Kill ends a component with SIGKILL.
	Kill = "kill"
)

// Answer is the result of a command.
type Answer struct {
	// Error is empty on success.
	Error string `json:"error,omitempty"`
	// Fatal means that the control plane ends with this error.
	Fatal bool `json:"fatal,omitempty"`
}
