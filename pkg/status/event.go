// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
	"github.com/samplecrd/samplecrd-controller/pkg/neutron"
)

// Event is an event to record on a Network.
type Event struct{ Type, Reason, Message string }

// EventFor returns the event for the outcome of a sync; nil if there is nothing new. The next
// status is the one that Compute returns for it.
func EventFor(network *samplecrdv1.Network, o Outcome, next *samplecrdv1.NetworkStatus) *Event {
	event := eventFor(network, o, next)
	if event != nil {
		event.Message = limited(event.Message, maxEvent)
	}
	return event
}

func eventFor(network *samplecrdv1.Network, o Outcome, next *samplecrdv1.NetworkStatus) *Event {
	if o.Finalized != "" {
		return &Event{corev1.EventTypeNormal, samplecrdv1.EventDeleted, o.Finalized}
	}
	if o.IsImport(network) {
		return &Event{corev1.EventTypeNormal, samplecrdv1.EventImported, importedMessage(o)}
	}
	if o.Err == nil && (len(o.Steps) > 0 || o.Adopted) {
		return changed(network, o)
	}
	return transition(Ready(&network.Status), Ready(next), o)
}

// IsImport reports whether this sync took the network over, and did nothing else. The status does not say so
// yet.
func (o Outcome) IsImport(network *samplecrdv1.Network) bool {
	return o.Imported && !cmp.Or(o.Before, network).Status.Imported && has[neutron.ImportNetwork](o.Steps)
}

func importedMessage(o Outcome) string {
	text := fmt.Sprintf("Imported network %s, named %q", o.Observed.ID, neutron.Printable(o.Observed.Name))
	if len(o.TakenOver) > 0 {
		text += ", with " + describeSubnets(o.TakenOver)
	}
	if len(o.Differences) == 0 {
		return text + "; it matches the spec"
	}
	text += "; it differs from the spec, and is changed: "
	return text + joined(o.Differences, "; ", max(0, maxEvent-len(text)))
}

// describeSubnets returns the CIDRs of the subnets.
func describeSubnets(subnets []neutron.CurrentSubnet) string {
	cidrs := make([]string, len(subnets))
	for i, s := range subnets {
		cidrs[i] = s.CIDR.String()
	}
	if len(cidrs) > 1 {
		return "subnets " + strings.Join(cidrs, ", ")
	}
	return "subnet " + strings.Join(cidrs, ", ")
}

// changed returns the event for what was done in Neutron.
func changed(network *samplecrdv1.Network, o Outcome) *Event {
	normal := func(reason, format string, args ...any) *Event {
		return &Event{corev1.EventTypeNormal, reason, fmt.Sprintf(format, args...)}
	}
	steps := make([]string, len(o.Steps))
	for i, step := range o.Steps {
		steps[i] = step.String()
	}
	done := strings.Join(steps, ", ")
	switch {
	case o.Adopted:
		return normal(samplecrdv1.EventAdopted, "Adopted network %s, which carries this Network's mark", o.Observed.ID)
	case cmp.Or(o.Before, network).Status.NetworkID == "":
		return normal(samplecrdv1.EventCreated, "Created network %s with %s", o.Observed.ID, o.describe())
	case o.IsRepair(network):
		return normal(samplecrdv1.EventDriftRepaired, "Repaired drift in Neutron: %s", done)
	}
	return normal(samplecrdv1.EventUpdated, "Updated network %s: %s", o.Observed.ID, done)
}

// describe returns the CIDRs of the subnets, and the router.
func (o Outcome) describe() string {
	text := describeSubnets(o.Subnets)
	switch {
	case o.Router == nil:
		return text
	case has[neutron.CreateRouter](o.Steps):
		return text + " and router " + o.Router.ID
	}
	return text + ", attached to router " + o.Router.ID
}

// has reports whether one of the steps is an S.
func has[S neutron.Step](steps []neutron.Step) bool {
	return slices.ContainsFunc(steps, func(step neutron.Step) bool { _, ok := step.(S); return ok })
}

// IsRepair reports whether the steps repaired drift: Neutron matched this generation before.
func (o Outcome) IsRepair(network *samplecrdv1.Network) bool {
	before := cmp.Or(o.Before, network)
	return o.Err == nil && len(o.Steps) > 0 && before.Status.NetworkID != "" && IsAvailable(before)
}

// transition returns the event for a change of the Ready condition; nil if its reason is the
// same, if the Network is ready for the first time, or if the controller is still at work. What is
// unmanaged is reported when it appears.
func transition(before, now *metav1.Condition, o Outcome) *Event {
	isFirst := before == nil || before.Status == metav1.ConditionUnknown
	if now.Status == metav1.ConditionTrue && (isFirst || before.Status == now.Status) {
		if reason := unmanagedReason(before, o); reason != "" {
			return &Event{corev1.EventTypeWarning, reason, now.Message}
		}
	}
	if now.Status == metav1.ConditionTrue && o.IsObserved {
		return observedEvent(before, now)
	}
	if isFirst && now.Status == metav1.ConditionTrue || !isFirst && before.Reason == now.Reason || now.Reason == samplecrdv1.ReasonProgressing {
		return nil
	}
	if now.Status == metav1.ConditionTrue {
		return &Event{corev1.EventTypeNormal, now.Reason, now.Message}
	}
	return &Event{corev1.EventTypeWarning, now.Reason, now.Message}
}

// observedEvent returns the event for a network that is only observed; nil if the condition is as before.
func observedEvent(before, now *metav1.Condition) *Event {
	switch {
	case before != nil && before.Reason == now.Reason && before.Message == now.Message:
		return nil
	case now.Reason == samplecrdv1.ReasonDiffers:
		return &Event{corev1.EventTypeWarning, now.Reason, now.Message}
	}
	return &Event{corev1.EventTypeNormal, now.Reason, now.Message}
}

// unmanagedReason returns the reason of the event for what is unmanaged and the condition does not
// name yet; "" if there is nothing new.
func unmanagedReason(before *metav1.Condition, o Outcome) string {
	isNew := func(text string) bool {
		return text != "" && (before == nil || !strings.Contains(before.Message, text))
	}
	switch {
	case isNew(unmanagedSubnets(o)):
		return samplecrdv1.EventUnmanagedSubnet
	case isNew(unmanagedInterfaces(o)):
		return samplecrdv1.EventUnmanagedInterface
	}
	return ""
}

// FinalizedMessage returns the message of the event for a Network whose finalizer was removed.
// Kept is the network that stays in Neutron; nil if none does.
func FinalizedMessage(network *samplecrdv1.Network, kept *neutron.Network) string {
	if network.IsObserved() {
		return observedLeftMessage(network)
	}
	switch {
	case kept == nil && network.Spec.Import != nil && network.IsRetained():
		return "The imported network is not in Neutron"
	case kept == nil && network.IsRetained():
		return "No network in Neutron carries this Network's ownership mark"
	case kept == nil:
		return "Neutron has confirmed that the network is gone"
	case network.Spec.Import != nil && !network.Status.Imported:
		return "Left network " + kept.ID + " in Neutron: this Network has not taken it over"
	case network.IsRetained() && network.Spec.Import != nil:
		return "Left the imported network " + kept.ID + " in Neutron without its ownership mark"
	case network.IsRetained():
		return "Left network " + kept.ID + " in Neutron without its ownership mark, as deletionPolicy says"
	}
	return "Left network " + kept.ID + " in Neutron: another client removed its ownership mark"
}

// observedLeftMessage is FinalizedMessage for a network that is only observed.
func observedLeftMessage(network *samplecrdv1.Network) string {
	text := "Left the network in Neutron as it is: managementPolicy is Observe"
	if network.Status.Imported {
		text += "; it keeps its ownership mark, the tag that begins with " + neutron.ImportTagPrefix + string(network.UID)
	}
	return text
}
