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

// Package status says what a Network's status is, given what was seen in Neutron. All
// conditions are derived here, in one place.
package status

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"

	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
	samplecrdv1ac "github.com/samplecrd/samplecrd-controller/pkg/generated/applyconfiguration/samplecrd/v1"
	"github.com/samplecrd/samplecrd-controller/pkg/neutron"
)

// Outcome is how a sync ended.
type Outcome struct {
	// Cloud is the name of the cloud that the Network is for; "" if it is not known.
	Cloud string
	// Place is where in it the Network is to be; nil if it is not known.
	Place *neutron.Place
	// Looked says that Neutron itself was looked at, even if Have does not tell.
	Looked bool
	// Have is the network in Neutron, the zero Network if there is none; nil if Neutron
	// could not be asked: then what was known stays.
	Have *neutron.Network
	// Subnet is the subnet in force; nil if there is none.
	Subnet *neutron.Subnet
	// Foreign are the network's other subnets, which somebody else has made.
	Foreign []neutron.Subnet
	// Err is why Neutron does not match the spec; nil if it does. It comes from Neutron.
	Err error
	// Away is since when Neutron has given no good answer; zero if it has.
	Away time.Time
}

// Compute returns the status of the network after a sync with that outcome. It changes
// nothing, and tells the time of a transition from the clock.
func Compute(network *samplecrdv1.Network, o Outcome) samplecrdv1.NetworkStatus {
	var status samplecrdv1.NetworkStatus
	network.Status.DeepCopyInto(&status)
	status.ObservedGeneration = network.Generation
	if neutron.ReasonOf(o.Err) != neutron.OtherCloud {
		status.Cloud = cmp.Or(o.Cloud, status.Cloud)
		if o.Place != nil {
			status.ProjectID, status.Region = o.Place.Project, o.Place.Region
		}
	}
	if o.Have != nil {
		status.NetworkID = o.Have.ID
		status.MTU = int32(o.Have.MTU)
		status.SubnetID, status.CIDR, status.Gateway = "", "", ""
	}
	if o.Subnet != nil {
		var text [64]byte
		status.SubnetID = o.Subnet.ID
		status.CIDR = keep(network.Status.CIDR, o.Subnet.CIDR.AppendTo(text[:0]))
		status.Gateway = keep(network.Status.Gateway, appendGateway(text[:0], o.Subnet.Gateway))
	}
	if requested := RequestedLook(network); requested != "" && (o.Have != nil || o.Looked) {
		status.LastHandledReconcileAt = requested
	}
	setConditions(&status, network.Generation, o)
	return status
}

// RequestedLook returns the value of the annotation that asks for a look at Neutron, if
// there was none for that value yet; "" otherwise.
func RequestedLook(network *samplecrdv1.Network) string {
	requested := network.Annotations[samplecrdv1.AnnotationReconcileRequestedAt]
	if requested == network.Status.LastHandledReconcileAt {
		return ""
	}
	return requested
}

// keep returns before if that is what now says, which takes no memory, and mostly it is.
func keep(before string, now []byte) string {
	if before == string(now) {
		return before
	}
	return string(now)
}

func appendGateway(text []byte, address netip.Addr) []byte {
	if !address.IsValid() {
		return append(text, samplecrdv1.GatewayNone...)
	}
	return address.AppendTo(text)
}

func setConditions(status *samplecrdv1.NetworkStatus, generation int64, o Outcome) {
	condition := metav1.Condition{
		Type:               samplecrdv1.ConditionReady,
		Status:             metav1.ConditionTrue,
		ObservedGeneration: generation,
		Reason:             samplecrdv1.ReasonAvailable,
		Message:            inOrderMessage(o.Foreign),
	}
	also := ""
	if o.Err != nil {
		condition.Status = metav1.ConditionFalse
		condition.Reason, also = reason(neutron.ReasonOf(o.Err))
		condition.Message = message(Ready(status), condition, o)
	}
	meta.SetStatusCondition(&status.Conditions, condition)
	for _, other := range []string{samplecrdv1.ConditionReconciling, samplecrdv1.ConditionStalled} {
		if other != also {
			if meta.FindStatusCondition(status.Conditions, other) != nil {
				meta.RemoveStatusCondition(&status.Conditions, other)
			}
			continue
		}
		condition.Type, condition.Status = other, metav1.ConditionTrue
		meta.SetStatusCondition(&status.Conditions, condition)
	}
}

// inOrderMessage names the subnets that are not ours: they are left alone, but go when
// the network goes.
func inOrderMessage(foreign []neutron.Subnet) string {
	const inOrder = "Neutron matches the spec"
	if len(foreign) == 0 {
		return inOrder
	}
	const enough = 5
	names := make([]string, 0, enough)
	for _, s := range foreign[:min(enough, len(foreign))] {
		names = append(names, fmt.Sprintf("%s (%s)", s.CIDR, s.ID))
	}
	message := inOrder + "; left alone what somebody else has added to the network: subnet " + strings.Join(names, ", ")
	if more := len(foreign) - enough; more > 0 {
		message += fmt.Sprintf(" and %d more", more)
	}
	return message
}

// message returns what there is to say of the error. While an outage lasts that is what
// was said when it began: each attempt may fail in a way of its own, and none of that is
// worth a write.
func message(before *metav1.Condition, now metav1.Condition, o Outcome) string {
	if now.Reason != samplecrdv1.ReasonNeutronUnavailable {
		return o.Err.Error()
	}
	if o.Away.IsZero() {
		return o.Err.Error()
	}
	if before != nil && before.Reason == now.Reason && before.ObservedGeneration == now.ObservedGeneration {
		return before.Message
	}
	return "Neutron is not available since " + o.Away.UTC().Format(time.RFC3339) + ": " + o.Err.Error()
}

// reason returns the reason for errors of that kind, and which condition besides Ready
// tells what to expect; "" is none.
func reason(kind neutron.ErrorReason) (reason, condition string) {
	switch kind {
	case neutron.Invalid:
		return samplecrdv1.ReasonInvalidSpec, samplecrdv1.ConditionStalled
	case neutron.Forbidden:
		return samplecrdv1.ReasonForbidden, samplecrdv1.ConditionStalled
	case neutron.OtherCloud:
		return samplecrdv1.ReasonOtherCloud, samplecrdv1.ConditionStalled
	case neutron.Paused:
		return samplecrdv1.ReasonPaused, ""
	case neutron.NoCredentials:
		return samplecrdv1.ReasonNoCredentials, samplecrdv1.ConditionReconciling
	case neutron.Unauthenticated:
		return samplecrdv1.ReasonAuthenticationFailed, samplecrdv1.ConditionReconciling
	case neutron.InUse:
		return samplecrdv1.ReasonInUse, samplecrdv1.ConditionReconciling
	case neutron.OverQuota:
		return samplecrdv1.ReasonQuotaExceeded, samplecrdv1.ConditionReconciling
	}
	return samplecrdv1.ReasonNeutronUnavailable, samplecrdv1.ConditionReconciling
}

// Equal says whether two statuses say the same. It is asked at the end of every sync, and so
// compares field by field.
func Equal(a, b *samplecrdv1.NetworkStatus) bool {
	return a.ObservedGeneration == b.ObservedGeneration &&
		a.NetworkID == b.NetworkID &&
		a.SubnetID == b.SubnetID &&
		a.CIDR == b.CIDR &&
		a.Gateway == b.Gateway &&
		a.Cloud == b.Cloud &&
		a.ProjectID == b.ProjectID &&
		a.Region == b.Region &&
		a.MTU == b.MTU &&
		a.LastHandledReconcileAt == b.LastHandledReconcileAt &&
		slices.EqualFunc(a.Conditions, b.Conditions, equalConditions)
}

func equalConditions(a, b metav1.Condition) bool {
	sameTime := a.LastTransitionTime.Equal(&b.LastTransitionTime)
	a.LastTransitionTime, b.LastTransitionTime = metav1.Time{}, metav1.Time{}
	return sameTime && a == b
}

// Tells says whether an error says anything of how Neutron and the spec stand to each
// other. An error of Kubernetes does not, nor one that only means that Neutron has
// changed since it was looked at.
func Tells(err error) bool {
	switch neutron.ReasonOf(err) {
	case "", neutron.NotFound, neutron.Stale:
		return false
	}
	return true
}

// Ready returns the Ready condition; nil if there is none yet.
func Ready(status *samplecrdv1.NetworkStatus) *metav1.Condition {
	return meta.FindStatusCondition(status.Conditions, samplecrdv1.ConditionReady)
}

// Known says whether the controller has written the status yet: the API server itself
// gives a Network a Ready condition that is Unknown.
func Known(status *samplecrdv1.NetworkStatus) bool {
	ready := Ready(status)
	return ready != nil && ready.Status != metav1.ConditionUnknown
}

// InOrder says whether Neutron was last seen to match the network's present generation.
func InOrder(network *samplecrdv1.Network) bool {
	ready := Ready(&network.Status)
	return ready != nil && ready.Status == metav1.ConditionTrue && ready.ObservedGeneration == network.Generation
}

// ApplyConfiguration returns the status for a server-side apply. That takes away what
// it was given before and is not given any more, so it is given all of the status. The
// resourceVersion that was read goes along: a Network made anew under the same name
// refuses it (409). The UID would not do: for the status of a custom resource, the API
// server takes no notice of it.
func ApplyConfiguration(network *samplecrdv1.Network, status samplecrdv1.NetworkStatus) *samplecrdv1ac.NetworkApplyConfiguration {
	apply := &samplecrdv1ac.NetworkStatusApplyConfiguration{
		ObservedGeneration: optional(status.ObservedGeneration),
		NetworkID:          optional(status.NetworkID),
		SubnetID:           optional(status.SubnetID),
		CIDR:               optional(status.CIDR),
		Gateway:            optional(status.Gateway),
		Cloud:              optional(status.Cloud),
		ProjectID:          optional(status.ProjectID),
		Region:             optional(status.Region),
		MTU:                optional(status.MTU),

		LastHandledReconcileAt: optional(status.LastHandledReconcileAt),
	}
	for _, c := range status.Conditions {
		apply.WithConditions(metav1ac.Condition().
			WithType(c.Type).
			WithStatus(c.Status).
			WithObservedGeneration(c.ObservedGeneration).
			WithLastTransitionTime(c.LastTransitionTime).
			WithReason(c.Reason).
			WithMessage(c.Message))
	}
	return samplecrdv1ac.Network(network.Name, network.Namespace).WithResourceVersion(network.ResourceVersion).WithStatus(apply)
}

// optional returns nil for the zero value, so that it is left out.
func optional[T comparable](value T) *T {
	var zero T
	if value == zero {
		return nil
	}
	return &value
}
