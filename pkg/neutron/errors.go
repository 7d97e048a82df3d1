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

package neutron

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/gophercloud/gophercloud/v2"
)

// ErrorReason says what an Error means for the caller.
type ErrorReason string

// The kinds of errors. Only Invalid and Forbidden are final: trying again cannot help.
const (
	// Invalid: Neutron refused the content of the request (400).
	Invalid ErrorReason = "Invalid"
	// Forbidden: the credentials lack the right (403).
	Forbidden ErrorReason = "Forbidden"
	// Unauthenticated: Keystone refused the credentials, or Neutron a fresh token (401).
	Unauthenticated ErrorReason = "Unauthenticated"
	// NotFound: what the request names is not there (404).
	NotFound ErrorReason = "NotFound"
	// InUse: ports stand in the way (409).
	InUse ErrorReason = "InUse"
	// OverQuota: the project's quota is used up (409).
	OverQuota ErrorReason = "OverQuota"
	// Stale: the resource has changed since it was read (412).
	Stale ErrorReason = "Stale"
	// OtherCloud: the network was made in another cloud. No answer says so: it is what the
	// controller makes of a status that speaks of one.
	OtherCloud ErrorReason = "OtherCloud"
	// NoCredentials: there is nothing to authenticate with. No answer says so.
	NoCredentials ErrorReason = "NoCredentials"
	// Paused: a change waits because somebody has said so. No answer says so.
	Paused ErrorReason = "Paused"
	// Unavailable: no answer, or one that says nothing of the request. Whether the
	// request took effect is not known.
	Unavailable ErrorReason = "Unavailable"
)

// Error is what every method that talks to Neutron or Keystone returns on failure.
type Error struct {
	// Op is what was tried, such as "create subnet".
	Op     string
	Reason ErrorReason
	// Message is Neutron's own word where it gave one, and is the same each time the
	// same thing happens. It contains no credentials.
	Message string
	// RetryAfter is how long Neutron asked to be left alone; 0 if it did not.
	RetryAfter time.Duration
	// RequestID is what OpenStack calls the request in its logs; "" if it did not say. It is
	// another one each time, and so no part of the text.
	RequestID string

	err error
}

func (e *Error) Error() string { return e.Op + ": " + e.Message }

// Unwrap returns why there was no answer; nil if there was one.
func (e *Error) Unwrap() error { return e.err }

// ReasonOf returns the ErrorReason of err, and "" for an error that did not come from Neutron.
func ReasonOf(err error) ErrorReason {
	if err == nil {
		return "" // as at the end of most syncs
	}
	var e *Error
	if errors.As(err, &e) {
		return e.Reason
	}
	return ""
}

// RetryAfterOf returns how long Neutron asked, with err, to be left alone; 0 if it did not.
func RetryAfterOf(err error) time.Duration {
	var e *Error
	if errors.As(err, &e) {
		return e.RetryAfter
	}
	return 0
}

// RequestIDOf returns what OpenStack calls, in its logs, the request that ended in err; ""
// if it did not say.
func RequestIDOf(err error) string {
	var e *Error
	if errors.As(err, &e) {
		return e.RequestID
	}
	return ""
}

// wrap makes an Error of what gophercloud returned; nil stays nil.
func wrap(op string, err error) error {
	if err == nil {
		return nil
	}
	var known *Error
	if errors.As(err, &known) {
		return err
	}
	// A 401 that could not be cured by authenticating again hides why: Keystone may be
	// down, or the password wrong. And Keystone's 404 must not pass for Neutron's.
	var reauth *gophercloud.ErrUnableToReauthenticate
	if errors.As(err, &reauth) && reauth.ErrReauth != nil {
		return authenticationError(reauth.ErrReauth)
	}
	var answer gophercloud.ErrUnexpectedResponseCode
	if !errors.As(err, &answer) {
		return &Error{Op: op, Reason: Unavailable, Message: Printable(transportMessage(err)), err: err}
	}
	kind, message := answered(answer)
	// Not with gophercloud's error, which holds all of the answer.
	e := &Error{Op: op, Reason: kind, Message: Printable(message), RequestID: requestIDOf(answer.ResponseHeader)}
	if answer.Actual == http.StatusTooManyRequests || answer.Actual == http.StatusServiceUnavailable {
		e.RetryAfter = min(retryAfter(answer.ResponseHeader), maxRetryAfter)
	}
	return e
}

const (
	// maxMessage is how long a message may get, in bytes; a condition takes 32,768.
	maxMessage = 1024
	// maxRetryAfter is how long we let ourselves be sent away.
	maxRetryAfter = 10 * time.Minute
)

// answered tells what an answer with an unexpected status code means.
func answered(answer gophercloud.ErrUnexpectedResponseCode) (ErrorReason, string) {
	errorType, message := neutronError(answer.Body)
	if message == "" {
		message = http.StatusText(answer.Actual)
	}
	switch answer.Actual {
	case http.StatusBadRequest:
		if errorType != "" {
			return Invalid, message
		}
	case http.StatusUnauthorized:
		return Unauthenticated, message
	case http.StatusForbidden:
		if errorType != "" {
			return Forbidden, message
		}
	case http.StatusNotFound:
		// A proxy whose backend is away says 404 too, and that is no proof that anything
		// is gone. Nor is its 400 or 403 final.
		if errorType != "" {
			return NotFound, message
		}
	case http.StatusPreconditionFailed:
		return Stale, message
	case http.StatusConflict:
		// NetworkInUse, SubnetInUse, GatewayIpInUse: in Neutron's source all end so.
		if strings.HasSuffix(errorType, "InUse") {
			return InUse, message
		}
		if errorType == "OverQuota" {
			return OverQuota, message
		}
	}
	return Unavailable, strings.TrimSpace(fmt.Sprintf("%d %s", answer.Actual, message))
}

// neutronError reads the body of an error: Neutron's, or Keystone's. What is neither, such as
// a proxy's page, is not shown: where Secrets name Keystones, it may be of anything that the
// controller can reach, and the status be read by who could not reach it himself.
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

// transportMessage says why there was no answer, without what differs from one time
// to the next (the local port, the time of day), so that a message repeats itself while
// an outage lasts.
func transportMessage(err error) string {
	var urlErr *url.Error
	if errors.As(err, &urlErr) {
		err = urlErr.Err
	}
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, errTimeout) {
		return "no answer in time"
	}
	var dnsErr *net.DNSError
	if errors.As(err, &dnsErr) {
		if dnsErr.IsNotFound {
			return "lookup " + dnsErr.Name + ": no such host"
		}
		return "lookup " + dnsErr.Name + ": no answer from a name server"
	}
	var certErr x509.CertificateInvalidError
	if errors.As(err, &certErr) && certErr.Reason == x509.Expired {
		return "the server's certificate has expired or is not yet valid"
	}
	var opErr *net.OpError
	if errors.As(err, &opErr) && opErr.Addr != nil {
		return fmt.Sprintf("%s %s: %v", opErr.Op, opErr.Addr, opErr.Err)
	}
	return err.Error()
}

// retryAfter reads the header of that name, which is a number of seconds or a date
// (RFC 9110, section 10.2.3).
func retryAfter(header http.Header) time.Duration {
	value := header.Get("Retry-After")
	if seconds, err := strconv.Atoi(value); err == nil {
		return max(0, time.Duration(seconds)*time.Second)
	}
	if date, err := http.ParseTime(value); err == nil {
		return max(0, time.Until(date))
	}
	return 0
}
