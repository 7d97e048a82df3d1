// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"time"

	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
	"github.com/samplecrd/samplecrd-controller/pkg/neutron"
)

// Response is what follows from an error of Neutron.
type Response struct {
	// Reason is the reason of the condition Ready=False; "" if the error says nothing about
	// Neutron and the spec, and the status stays as it is.
	Reason string
	// Condition is the other condition that is True: Reconciling, Stalled, or "".
	Condition string
	// RetryAfter is when the sync is tried again; 0 for exponential back-off.
	RetryAfter time.Duration
	// IsPaced means that such Networks take turns: each asks Neutron again for what it has refused.
	IsPaced bool
	// Final errors are tried again only when something changes: the Network, its Secret, or
	// Neutron. In case the error was not final after all, they are also tried once per resync.
	Final bool
}

const (
	// inUseDelay is a fallback: the Cloud wakes a Network soon after the ports are gone.
	inUseDelay = time.Minute
	// byHandDelay is for what a person has to do, such as raising a quota or extending a range of VLANs.
	byHandDelay = time.Minute
)

// responses is the table of what the answers of Neutron mean.
var responses = map[neutron.ErrorReason]Response{
	neutron.Invalid:         {Reason: samplecrdv1.ReasonInvalidSpec, Condition: samplecrdv1.ConditionStalled, Final: true},
	neutron.Forbidden:       {Reason: samplecrdv1.ReasonForbidden, Condition: samplecrdv1.ConditionStalled, Final: true},
	neutron.OtherCloud:      {Reason: samplecrdv1.ReasonOtherCloud, Condition: samplecrdv1.ConditionStalled, Final: true},
	neutron.OtherOwner:      {Reason: samplecrdv1.ReasonOtherOwner, Condition: samplecrdv1.ConditionStalled, Final: true},
	neutron.ImportNotFound:  {Reason: samplecrdv1.ReasonNetworkNotFound, Condition: samplecrdv1.ConditionStalled, Final: true},
	neutron.ImportRefused:   {Reason: samplecrdv1.ReasonImportRefused, Condition: samplecrdv1.ConditionStalled, Final: true},
	neutron.Paused:          {Reason: samplecrdv1.ReasonPaused, Final: true},
	neutron.NoCredentials:   {Reason: samplecrdv1.ReasonNoCredentials, Condition: samplecrdv1.ConditionReconciling, Final: true},
	neutron.NotPermitted:    {Reason: samplecrdv1.ReasonCloudNotPermitted, Condition: samplecrdv1.ConditionStalled, Final: true},
	neutron.Unauthenticated: {Reason: samplecrdv1.ReasonAuthenticationFailed, Condition: samplecrdv1.ConditionReconciling, RetryAfter: byHandDelay},
	neutron.OverQuota:       {Reason: samplecrdv1.ReasonQuotaExceeded, Condition: samplecrdv1.ConditionReconciling, RetryAfter: byHandDelay, IsPaced: true},
	neutron.NoSegment:       {Reason: samplecrdv1.ReasonNoSegmentAvailable, Condition: samplecrdv1.ConditionReconciling, RetryAfter: byHandDelay, IsPaced: true},
	neutron.PoolEmpty:       {Reason: samplecrdv1.ReasonSubnetPoolExhausted, Condition: samplecrdv1.ConditionReconciling, RetryAfter: byHandDelay, IsPaced: true},
	neutron.InUse:           {Reason: samplecrdv1.ReasonInUse, Condition: samplecrdv1.ConditionReconciling, RetryAfter: inUseDelay},
	neutron.Unresolved:      {Reason: samplecrdv1.ReasonReferenceNotFound, Condition: samplecrdv1.ConditionReconciling, RetryAfter: byHandDelay, IsPaced: true},
	neutron.NoZone:          {Reason: samplecrdv1.ReasonReferenceNotFound, Condition: samplecrdv1.ConditionReconciling, RetryAfter: byHandDelay, IsPaced: true},
	neutron.AdminStateDown:  {Reason: samplecrdv1.ReasonAdminStateDown, Condition: samplecrdv1.ConditionStalled, Final: true},
	neutron.Unrecorded:      {Reason: samplecrdv1.ReasonProgressing, Condition: samplecrdv1.ConditionReconciling, RetryAfter: time.Millisecond},
	neutron.Unavailable:     {Reason: samplecrdv1.ReasonNeutronUnavailable, Condition: samplecrdv1.ConditionReconciling, IsPaced: true},
	// These mean that what was observed is out of date: the next sync observes again.
	neutron.NotFound: {},
	neutron.Stale:    {},
}

// Reasons returns all reasons of the Ready condition.
func Reasons() map[string]bool {
	reasons := map[string]bool{samplecrdv1.ReasonPending: true, samplecrdv1.ReasonAvailable: true, samplecrdv1.ReasonObserved: true, samplecrdv1.ReasonDiffers: true}
	for _, response := range responses {
		reasons[response.Reason] = true
	}
	delete(reasons, "")
	return reasons
}

// responseTo returns the row of the table. Errors of Kubernetes have none: the zero Response.
func responseTo(err error) Response { return responses[neutron.ReasonOf(err)] }

// IsReported reports whether the status says what the error means.
func IsReported(err error) bool { return responseTo(err).Reason != "" }

// RetryAfter returns when to try again after the error; known is false if only the queue's
// back-off can tell. Neutron's own request to wait comes first. Resync is the delay of final
// errors.
func RetryAfter(err error, resync time.Duration) (delay time.Duration, known bool) {
	if requested := neutron.RetryAfterOf(err); requested > 0 {
		return requested, true
	}
	response := responseTo(err)
	if response.Final {
		return resync, true
	}
	return response.RetryAfter, response.RetryAfter > 0
}

// IsPaced reports whether the retries after the error take turns with others of the same credentials, if their delay is known. Not those
// of a name that Neutron is asked for once more, which takes seconds.
func IsPaced(err error) bool {
	isSecondLook := neutron.ReasonOf(err) == neutron.Unresolved && neutron.RetryAfterOf(err) > 0
	return responseTo(err).IsPaced && !isSecondLook
}

// IsPremature reports whether an error must not yet replace a status that says Available: Neutron
// has not been listed since the controller started, so nothing contradicts that status. Refused
// credentials are reported, because a person has to correct them. The router of the next step is
// written, because the step waits for it.
func IsPremature(cloud *neutron.Cloud, network *samplecrdv1.Network, err error) bool {
	reason := neutron.ReasonOf(err)
	if cloud == nil || reason == neutron.Unauthenticated || reason == neutron.Unrecorded {
		return false
	}
	_, _, listErr := cloud.Observer().Get(network.UID)
	return listErr != nil && IsAvailable(network) && network.DeletionTimestamp.IsZero()
}
