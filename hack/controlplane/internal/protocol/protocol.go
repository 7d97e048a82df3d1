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

// Package protocol is how a program and the supervisor it started talk: a
// command is a line on the supervisor's standard input, a verb and the name of
// a component; each is answered by one JSON object on its standard output. The
// first answer, to no command, tells that the control plane is ready.
package protocol

// The components, by the names of their commands and logs.
const (
	Etcd              = "etcd"
	APIServer         = "kube-apiserver"
	ControllerManager = "kube-controller-manager"
)

// The verbs.
const (
	// Start starts a component and waits until it serves.
	Start = "start"
	// Stop ends a component with SIGTERM and waits for its end.
	Stop = "stop"
	// Kill ends a component with SIGKILL.
	Kill = "kill"
)

// Answer is how a command went.
type Answer struct {
	// Error is empty if all went well.
	Error string `json:"error,omitempty"`
	// Fatal means that the control plane ends with this error.
	Fatal bool `json:"fatal,omitempty"`
}
