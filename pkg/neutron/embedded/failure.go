// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package embedded

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/google/uuid"
)

// failure is a refused request: Neutron's status, exception name and message.
type failure struct {
	status  int
	kind    string
	message string
}

func (f *failure) answer() *answer {
	type neutronError struct {
		Type    string `json:"type"`
		Message string `json:"message"`
		Detail  string `json:"detail"`
	}
	return jsonAnswer(f.status, map[string]neutronError{"NeutronError": {f.kind, f.message, ""}})
}

// badRequest is a refusal by the API layer, before the plug-in is called.
func badRequest(format string, args ...any) *failure {
	return &failure{http.StatusBadRequest, "HTTPBadRequest", fmt.Sprintf(format, args...)}
}

// badValue is the API layer's refusal of one attribute's value.
func badValue(attr, reason string) *failure {
	return badRequest("Invalid input for %s. Reason: %s.", attr, reason)
}

// invalidInput is a refusal by the plug-in, or by the conversion of a value. The message
// gets a full stop even if it already ends with one, as in Neutron.
func invalidInput(format string, args ...any) *failure {
	return &failure{http.StatusBadRequest, "InvalidInput", "Invalid input for operation: " + fmt.Sprintf(format, args...) + "."}
}

// badResource is neutron-lib's BadRequest.
func badResource(resource, message string) *failure {
	return &failure{http.StatusBadRequest, "BadRequest", fmt.Sprintf("Bad %s request: %s.", resource, message)}
}

// conflict is a 409 with any exception name.
func conflict(kind, format string, args ...any) *failure {
	return &failure{http.StatusConflict, kind, fmt.Sprintf(format, args...)}
}

func notFound(kind, format string, args ...any) *failure {
	return &failure{http.StatusNotFound, kind, fmt.Sprintf(format, args...)}
}

// missing is a 404 for an unknown ID. The router service's messages have no full stop.
func missing(title, id string) *failure {
	switch title {
	case "Router":
		return notFound("RouterNotFound", "Router %s could not be found", id)
	case "Floatingip":
		return notFound("FloatingIPNotFound", "Floating IP %s could not be found", id)
	case "Subnetpool":
		return notFound("SubnetPoolNotFound", "Subnet pool %s could not be found.", id)
	case "Rbac_policy":
		return notFound("RbacPolicyNotFound", "RBAC policy of type unknown with ID %s not found", id)
	}
	return notFound(title+"NotFound", "%s %s could not be found.", title, id)
}

// notFoundPath is also the answer to a caller that may see an object but not change it.
func notFoundPath() *failure {
	return notFound("HTTPNotFound", "The resource could not be found.")
}

func methodNotAllowed(method string) *failure {
	message := "The method " + method + " is not allowed for this resource."
	if method == http.MethodPatch {
		message = "The server could not comply with the request since it is either malformed or otherwise incorrect."
	}
	return &failure{http.StatusMethodNotAllowed, "HTTPMethodNotAllowed", message}
}

// disallowed is a refusal by the policy engine. oslo.policy joins rules in pairs.
func disallowed(rules ...string) *failure {
	text := "rule:" + rules[0]
	for _, r := range rules[1:] {
		text = "(" + text + " and rule:" + r + ")"
	}
	return &failure{http.StatusForbidden, "PolicyNotAuthorized", text + " is disallowed by policy"}
}

// internalError is Neutron's answer to a bug of its own. It contains no details.
func internalError() *failure {
	return &failure{http.StatusInternalServerError, "HTTPInternalServerError",
		"Request Failed: internal server error while processing your request."}
}

// newUUID returns a random UUID of version 4.
func newUUID() string { return uuid.NewString() }

// newID returns 32 random hexadecimal digits, Keystone's form of an ID.
func newID() string { return strings.ReplaceAll(newUUID(), "-", "") }
