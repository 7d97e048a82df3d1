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
