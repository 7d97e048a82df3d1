// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package neutron

import (
	"cmp"
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"k8s.io/apimachinery/pkg/types"
)

// ErrorReason is what an Error means for the caller.
type ErrorReason string

// The reasons. What follows from each is in the table of package status. What the Cloud does with one is decided in isRefusal,
// isOutdated and withTaken (converge.go), prevents (preview.go) and invalidateAfter (take.go).
const (
	// Invalid: Neutron refused the content of the request (400).
	Invalid ErrorReason = "Invalid"
	// Forbidden: the credentials do not allow the request (403).
	Forbidden ErrorReason = "Forbidden"
	// Unauthenticated: Keystone refused the credentials, or Neutron refused a new token (401).
	Unauthenticated ErrorReason = "Unauthenticated"
	// NotFound: an object that the request names does not exist (404).
	NotFound ErrorReason = "NotFound"
	// InUse: ports prevent the change (409).
	InUse ErrorReason = "InUse"
	// OverQuota: the project's quota is used up (409).
	OverQuota ErrorReason = "OverQuota"
	// NoSegment: Neutron has no free VLAN, VNI or the like for another network (503).
	NoSegment ErrorReason = "NoSegment"
	// PoolEmpty: the subnet pool has no free block of the requested length (500).
	PoolEmpty ErrorReason = "PoolEmpty"
	// NoZone: Neutron has no availability zone of that name (404).
	NoZone ErrorReason = "NoZone"
	// Stale: the resource has changed since it was read (412).
	Stale ErrorReason = "Stale"
	// OtherCloud: the network was created in another cloud, according to the status, or may have been, because the answer was lost. No
	// answer of Neutron has this reason.
	OtherCloud ErrorReason = "OtherCloud"
	// OtherOwner: the network of the status carries the mark of another owner. No answer has this reason.
	OtherOwner ErrorReason = "OtherOwner"
	// NoCredentials: there are no credentials to authenticate with. No answer has this reason.
	NoCredentials ErrorReason = "NoCredentials"
	// NotPermitted: an administrator has not allowed the owner to use the cloud. No answer has this reason.
	NotPermitted ErrorReason = "NotPermitted"
	// ImportNotFound: the network that the spec imports is not there, or the credentials cannot see it.
	ImportNotFound ErrorReason = "ImportNotFound"
	// ImportRefused: the network that the spec imports must not be taken over.
	ImportRefused ErrorReason = "ImportRefused"
	// Paused: a user has paused the change. No answer has this reason.
	Paused ErrorReason = "Paused"
	// Unresolved: what the spec names is not in Neutron, or there are several of that name.
	Unresolved ErrorReason = "Unresolved"
	// AdminStateDown: the network, or its router, is switched off. No answer has this reason.
	AdminStateDown ErrorReason = "AdminStateDown"
	// Unrecorded: the status does not have the router of the next step yet. No answer has this
	// reason.
	Unrecorded ErrorReason = "Unrecorded"
	// Unavailable: there was no answer, or the answer does not tell what became of the request.
	// It may have taken effect.
	Unavailable ErrorReason = "Unavailable"
)

// Error is the error of every method that makes requests of Neutron or Keystone.
type Error struct {
	// Op is the operation, such as "create subnet".
	Op     string
	Reason ErrorReason
	// Message is Neutron's own message if there is one. It is the same for each repetition of
	// the same failure, and has no credentials in it.
	Message string
	// RetryAfter is how long to wait before a retry, as Neutron asks or because refused
	// credentials are not tried again at once; 0 if nothing asks for it.
	RetryAfter time.Duration
	// RequestID identifies the request in OpenStack's logs; "" if the answer has none. It differs
	// each time, so the text of the error does not contain it.
	RequestID string
	// Holder is the UID of another Network that the network of spec.import belongs to; "" if there is
	// none, or if it is not known.
	Holder types.UID

	err error
	// away means that the error is about the cloud, and not about the object of the request.
	away bool
	// unsent means that no request was sent: the error is that of another request.
	unsent bool
	// status is the status code of the answer; 0 if there was none.
	status int
	// isUnserved means that the cloud has no such objects, or none that the client may list.
	isUnserved bool
	// kind says more than the reason about some conflicts. It is "" for all other errors.
	kind string
}

func (e *Error) Error() string { return e.Op + ": " + e.Message }

// Unwrap returns the cause if there was no answer, and nil if there was one.
func (e *Error) Unwrap() error { return e.err }

// ofAnother returns the error for those that cannot send a request of their own because of it.
func ofAnother(err error) error {
	e, ok := errors.AsType[*Error](err)
	if !ok {
		return err
	}
	other := *e
	other.unsent = true
	return &other
}

// IsUnsent reports whether no request was sent: the error is that of another request.
func IsUnsent(err error) bool { return errorIn(err).unsent }

// isAway reports whether the error is about the cloud, and not about the object of the request.
func isAway(err error) bool {
	e := errorIn(err)
	return e.away || e.unsent || e.err != nil || e.Reason == Unauthenticated || e.Op == authenticate || e.Op == findNeutron
}

// errorIn returns the Error in the chain of err, or the zero Error if there is none.
func errorIn(err error) Error {
	if e, ok := errors.AsType[*Error](err); ok {
		return *e
	}
	return Error{}
}

// ReasonOf returns the ErrorReason of err, or "" if err has no Error in its chain.
func ReasonOf(err error) ErrorReason { return errorIn(err).Reason }

// RetryAfterOf returns the RetryAfter of err, or 0 if err has no Error in its chain.
func RetryAfterOf(err error) time.Duration { return errorIn(err).RetryAfter }

// RequestIDOf returns the RequestID of err, or "" if err has no Error in its chain.
func RequestIDOf(err error) string { return errorIn(err).RequestID }

// wrap turns an error of gophercloud into an Error. It returns nil for nil.
func wrap(op string, err error) error {
	if err == nil {
		return nil
	}
	if ReasonOf(err) != "" {
		return err
	}
	answer, ok := errors.AsType[gophercloud.ErrUnexpectedResponseCode](err)
	if !ok {
		_, unsent := errors.AsType[unsentError](err)
		return &Error{Op: op, Reason: Unavailable, Message: Printable(transportMessage(err)), err: err, unsent: unsent}
	}
	errorType, message := neutronError(answer.Body)
	kind := kindOf(errorType, message)
	reason, message := interpret(answer.Actual, errorType, cmp.Or(message, http.StatusText(answer.Actual)))
	// gophercloud's error is not kept: it holds the whole answer.
	e := &Error{Op: op, Reason: reason, Message: Printable(message), RequestID: requestIDOf(answer.ResponseHeader), kind: kind}
	e.status = answer.Actual
	e.away = answer.Actual >= http.StatusInternalServerError && answer.Method == http.MethodGet
	if answer.Actual == http.StatusTooManyRequests || answer.Actual == http.StatusServiceUnavailable {
		e.RetryAfter = min(retryAfter(answer.ResponseHeader), maxRetryAfter)
	}
	return e
}

const (
	// maxMessage is the length of a message in bytes; a condition allows 32,768.
	maxMessage = 1024
	// maxRetryAfter limits the wait that a server can ask for.
	maxRetryAfter = 10 * time.Minute
)

// interpret returns the reason and the message for that status code and type of an error.
func interpret(status int, errorType, message string) (ErrorReason, string) {
	reason, isKnown := typed[errorType]
	switch {
	case reason == NoSegment:
		return reason, message + " " + allSegmentsUsed
	case isKnown:
		return reason, message
	case status == http.StatusUnauthorized:
		return Unauthenticated, message
	case status == http.StatusPreconditionFailed:
		return Stale, message
	case errorType == "":
		// A proxy without a backend answers 404 too, which does not prove that an object is
		// gone. For the same reason a proxy's 400 or 403 is not final.
	case status == http.StatusBadRequest:
		return Invalid, message
	case status == http.StatusForbidden:
		return Forbidden, message
	case status == http.StatusNotFound:
		return NotFound, message
	case status == http.StatusConflict && strings.Contains(errorType, "InUse"):
		// NetworkInUse, SubnetInUse, GatewayIpInUse, RouterInterfaceInUseByFloatingIP and others.
		return InUse, message
	}
	return Unavailable, strings.TrimSpace(fmt.Sprintf("%d %s", status, message))
}

// The values of Error.kind. alreadyAttached is part of a message (_check_for_dup_router_subnets): that error has no type of its own. The
// others are types of errors in neutron_lib.
const (
	alreadyAttached  = "already has a port on subnet"
	addressAllocated = "IpAddressAlreadyAllocated"
	duplicatePolicy  = "DuplicateRbacPolicy"
)

func kindOf(errorType, message string) string {
	switch {
	case strings.Contains(message, alreadyAttached):
		return alreadyAttached
	case errorType == addressAllocated, errorType == duplicatePolicy:
		return errorType
	}
	return ""
}

// allSegmentsUsed is what the message of NoNetworkAvailable leaves out.
const allSegmentsUsed = "All VLANs, VNIs or other segments for networks of projects are in use: delete networks, or let an administrator of the cloud extend the ranges"

// typed are the reasons of errors of these types, whatever the status is. A number is the usual status, if it is not 400 or 409.
var typed = map[string]ErrorReason{
	"NoNetworkAvailable":                 NoSegment, // 503
	"SubnetAllocationError":              PoolEmpty, // 500: no free block of the subnet pool is large enough
	"AvailabilityZoneNotFound":           NoZone,    // 404: it can be one of Neutron's own configuration
	"OverQuota":                          OverQuota,
	"SubnetPoolQuotaExceeded":            OverQuota,
	addressAllocated:                     InUse,
	"IpAddressGenerationFailure":         InUse,
	"InvalidSharedSetting":               InUse,
	duplicatePolicy:                      InUse,
	"OverlappingAllocationPools":         Invalid,
	"GatewayConflictWithAllocationPools": Invalid,
	"IpamValueInvalid":                   Invalid,
}

// neutronError reads the body of an error of Neutron or Keystone. Any other body, such as a
// proxy's page, is not shown: a Secret can name any URL as its Keystone, and the user who reads
// the status may not be allowed to reach it.
func neutronError(body []byte) (errorType, message string) {
	var parsed struct {
		NeutronError struct{ Type, Message string }
		Error        struct{ Title, Message string }
	}
	if json.Unmarshal(body, &parsed) != nil {
		return "", ""
	}
	if parsed.Error.Message != "" {
		return parsed.Error.Title, parsed.Error.Message
	}
	return parsed.NeutronError.Type, parsed.NeutronError.Message
}

// transportMessage returns why there was no answer. It leaves out what differs each time (the
// local port, the time of day), so that the message stays the same during an outage.
func transportMessage(err error) string {
	if urlErr, ok := errors.AsType[*url.Error](err); ok {
		err = urlErr.Err
	}
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, errTimeout) {
		return "no answer in time"
	}
	if dnsErr, ok := errors.AsType[*net.DNSError](err); ok {
		if dnsErr.IsNotFound {
			return "lookup " + dnsErr.Name + ": no such host"
		}
		return "lookup " + dnsErr.Name + ": no answer from a name server"
	}
	if certErr, ok := errors.AsType[x509.CertificateInvalidError](err); ok && certErr.Reason == x509.Expired {
		return "the server's certificate has expired or is not yet valid"
	}
	if opErr, ok := errors.AsType[*net.OpError](err); ok && opErr.Addr != nil {
		return fmt.Sprintf("%s %s: %v", opErr.Op, opErr.Addr, opErr.Err)
	}
	return err.Error()
}

// retryAfter returns the value of the header Retry-After, which is a number of seconds or a date
// (RFC 9110, section 10.2.3); 0 if there is none. A date is compared with that of the answer: the
// clocks of the two machines may differ.
func retryAfter(header http.Header) time.Duration {
	value := header.Get("Retry-After")
	if seconds, err := strconv.Atoi(value); err == nil {
		return max(0, time.Duration(seconds)*time.Second)
	}
	date, err := http.ParseTime(value)
	if err != nil {
		return 0
	}
	now, err := http.ParseTime(header.Get("Date"))
	if err != nil {
		now = time.Now()
	}
	return max(0, date.Sub(now))
}

// asUnresolved returns the error of a request that names a router or an external network. NotFound
// becomes Unresolved: the spec names something that does not exist.
func asUnresolved(err error) error { return withReason(err, Unresolved, NotFound) }

// withReason returns the error with the reason in place of one of those.
func withReason(err error, reason ErrorReason, insteadOf ...ErrorReason) error {
	if e := errorIn(err); slices.Contains(insteadOf, e.Reason) {
		e.Reason = reason
		return &e
	}
	return err
}

// asUnserved returns the error of a list, which follows one of networks that Neutron has answered. A 404 means that
// Neutron has no such objects, and Forbidden that the client may not list them.
func asUnserved(err error) error {
	e := errorIn(err)
	if isAway(err) || e.status != http.StatusNotFound && e.Reason != Forbidden {
		return err
	}
	e.isUnserved = true
	return &e
}

// unlessGone returns the error, unless it says that the object does not exist.
func unlessGone(err error) error {
	if ReasonOf(err) == NotFound {
		return nil
	}
	return err
}
