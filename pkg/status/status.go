// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package status decides what follows from the outcome of a sync: the status with its
// conditions, the event, and when to try again. It only decides; the caller acts.
package status

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
	"github.com/samplecrd/samplecrd-controller/pkg/neutron"
)

// CloudState is what is known of the Network's cloud, whatever the sync has found.
type CloudState struct {
	// Cloud is the name of the Network's cloud; "" if it is not known.
	Cloud string
	// Place is where in the cloud the Network works; nil if it is not known.
	Place *neutron.Place
	// Away is since when Neutron has given no good answer; zero if the last answer was good.
	Away time.Time
	// IsOutage reports whether that is an outage, and not a failure of single requests.
	IsOutage bool
}

// Observation is what a sync has seen in Neutron.
type Observation struct {
	// Observed is what Neutron has; nil if Neutron could not be read: then the status keeps what was known.
	Observed *neutron.Observed
	// Subnets are the owner's subnets, the declared ones first.
	Subnets []neutron.CurrentSubnet
	// Router is the router that the status names; nil if there is none.
	Router *samplecrdv1.RouterStatus
	// SharedWith are the projects for the status.
	SharedWith []string
	// TakenOver are the declared subnets that exist, if the network is imported.
	TakenOver []neutron.CurrentSubnet
	// Imported reports that the network of spec.import carries the Network's mark.
	Imported bool
	// IsObserved reports that the network must not be changed, and Differences how it differs from the
	// spec. For an import, Differences is also set before the first change.
	IsObserved  bool
	Differences []string
	// Unmanaged are the network's other subnets, which another client created.
	Unmanaged []neutron.Subnet
	// UnmanagedInterfaces are the interfaces on the subnets that another client created.
	UnmanagedInterfaces []neutron.Interface
}

// Outcome is the result of a sync.
type Outcome struct {
	CloudState
	Observation

	// Read reports that Neutron was read, even if Observed is nil.
	Read bool
	// Adopted reports that the network was found by its mark, and was not in the status yet.
	Adopted bool
	// Steps were applied in Neutron.
	Steps []neutron.Step
	// Before is the Network as it was before the Steps, if earlier syncs applied some of them; nil
	// if this sync applied all of them. See Unrecorded.
	Before *samplecrdv1.Network
	// Finalized is the message of the event for a Network whose finalizer was removed; it has
	// no status any more. "" if the finalizer stays.
	Finalized string

	// Err is why Neutron does not match the spec; nil if it does.
	Err error
}

// Observing returns what is seen in this view.
func Observing(v neutron.View) Observation {
	if v.Observed == nil {
		return Observation{}
	}
	o := Observation{Observed: v.Observed, Subnets: v.Shown(), SharedWith: v.CurrentProjects(), Imported: v.IsImported(), IsObserved: v.ReadOnly}
	if v.Import == "" {
		o.Unmanaged, o.UnmanagedInterfaces = v.Unmanaged(), v.UnmanagedInterfaces()
	} else if !v.Imported || v.ReadOnly {
		o.TakenOver, o.Differences = v.Current(), v.Differences()
	}
	if id, exists := v.CurrentRouter(); exists {
		o.Router = &samplecrdv1.RouterStatus{ID: id, Routes: routesOf(v)}
		for _, r := range v.Observed.Routers {
			if r.ID == id {
				ips := r.Gateway.IPs.All()
				o.Router.ExternalIPs = ips[:min(len(ips), maxExternalIPs)]
			}
		}
	}
	return o
}

// routesOf returns status.router.routes.
func routesOf(v neutron.View) (routes []samplecrdv1.RouteStatus) {
	for _, route := range v.KnownRoutes().All() {
		routes = append(routes, samplecrdv1.RouteStatus(route))
	}
	return routes
}

// subnet returns the subnet of spec.cidr, or the one that it will replace; nil if there is
// neither.
func (o Outcome) subnet() *neutron.Subnet {
	for _, s := range o.Subnets {
		if s.Label == "" {
			return s.Subnet
		}
	}
	return nil
}

// In returns the outcome with what is known of the cloud.
func (o Outcome) In(cloud *neutron.Cloud) Outcome {
	if cloud == nil {
		return o
	}
	o.Cloud = cloud.Name()
	if place, ok := cloud.Client().Place(); ok {
		o.Place = &place
	}
	o.Away, o.IsOutage = cloud.Client().Away()
	return o
}

// Compute returns the status of the Network after a sync with this outcome. It reads the clock
// for the time of a transition, and has no other side effect.
func Compute(network *samplecrdv1.Network, o Outcome) samplecrdv1.NetworkStatus {
	var status samplecrdv1.NetworkStatus
	network.Status.DeepCopyInto(&status)
	status.ObservedGeneration = network.Generation
	// While the network is not seen, the place stays the one where it was created, or may have been: it is what a
	// later sync compares, so that it does not create a second network in another place.
	if o.Observed != nil || status.NetworkID == "" && neutron.ReasonOf(o.Err) != neutron.OtherCloud {
		status.Cloud = cmp.Or(o.Cloud, status.Cloud)
		if o.Place != nil {
			status.ProjectID, status.Region = o.Place.Project, o.Place.Region
		}
	}
	if o.Observed != nil {
		status.NetworkID, status.Imported = o.Observed.ID, o.Imported
		status.MTU, status.SharedWith = int32(o.Observed.MTU), o.SharedWith
		status.SubnetID, status.CIDR, status.Gateway = "", "", ""
		status.Subnets, status.Router = o.subnetStatuses(), o.Router
	}
	if s := o.subnet(); s != nil {
		status.SubnetID, status.CIDR, status.Gateway = s.ID, s.CIDR.String(), gatewayText(s.Gateway)
	}
	if requested := RequestedReconcile(network); requested != "" && (o.Observed != nil || o.Read) {
		status.LastHandledReconcileAt = requested
	}
	setConditions(&status, network.Generation, o)
	return status
}

// subnetStatuses returns status.subnets.
func (o Outcome) subnetStatuses() []samplecrdv1.SubnetStatus {
	shown := o.shownSubnets()
	if len(shown) == 0 {
		return nil
	}
	statuses := make([]samplecrdv1.SubnetStatus, len(shown))
	for i, s := range shown {
		statuses[i] = samplecrdv1.SubnetStatus{
			Name: s.Label, ID: s.ID, CIDR: s.CIDR.String(), Gateway: gatewayText(s.Gateway), RouterPortID: s.RouterPortID,
		}
	}
	return statuses
}

// RequestedReconcile returns the value of the annotation that requests a live read of Neutron,
// if that value has not been handled yet; "" otherwise.
func RequestedReconcile(network *samplecrdv1.Network) string {
	requested := network.Annotations[samplecrdv1.AnnotationReconcileRequestedAt]
	if requested == network.Status.LastHandledReconcileAt {
		return ""
	}
	return requested
}

func gatewayText(address netip.Addr) string {
	if !address.IsValid() {
		return samplecrdv1.GatewayNone
	}
	return address.String()
}

func setConditions(status *samplecrdv1.NetworkStatus, generation int64, o Outcome) {
	condition := metav1.Condition{
		Type:               samplecrdv1.ConditionReady,
		Status:             metav1.ConditionTrue,
		ObservedGeneration: generation,
		Reason:             availableReason(o),
		Message:            availableMessage(o),
	}
	also := ""
	if isKnownBetter(Ready(status), generation, o.Err) {
		return
	}
	if o.Err != nil {
		condition.Status = metav1.ConditionFalse
		response := responseTo(o.Err)
		if response.Reason == "" { // for callers that do not ask IsReported
			response = responses[neutron.Unavailable]
		}
		condition.Reason, also = response.Reason, response.Condition
		condition.Message = message(Ready(status), condition, o)
	}
	condition.Message = limited(condition.Message, maxMessage)
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

// isKnownBetter reports whether the condition says what Neutron last answered about the Network, and the error only
// that no request was sent since. A condition whose cause is in Kubernetes may be out of date.
func isKnownBetter(before *metav1.Condition, generation int64, err error) bool {
	if !neutron.IsUnsent(err) || neutron.ReasonOf(err) != neutron.Unavailable {
		return false
	}
	if before == nil || before.Status != metav1.ConditionFalse || before.ObservedGeneration != generation {
		return false
	}
	switch before.Reason {
	case samplecrdv1.ReasonPaused, samplecrdv1.ReasonNoCredentials, samplecrdv1.ReasonCloudNotPermitted, samplecrdv1.ReasonAuthenticationFailed, samplecrdv1.ReasonProgressing:
		return false
	}
	return true
}

// availableReason returns the reason of Ready=True.
func availableReason(o Outcome) string {
	switch {
	case !o.IsObserved:
		return samplecrdv1.ReasonAvailable
	case len(o.Differences) > 0:
		return samplecrdv1.ReasonDiffers
	}
	return samplecrdv1.ReasonObserved
}

// availableMessage names the subnets and interfaces of other clients. They are left alone, but Neutron
// deletes such subnets with the network, and such interfaces prevent its deletion.
func availableMessage(o Outcome) string {
	switch {
	case o.IsObserved && len(o.Differences) > 0:
		const differs = "The network is only observed, and differs from the spec: "
		omitted := omittedSubnets(o)
		return differs + joined(o.Differences, "; ", maxMessage-len(differs)-len(omitted)) + omitted
	case o.IsObserved:
		return "The network is only observed, and matches the spec" + omittedSubnets(o)
	}
	return "Neutron matches the spec" + unmanagedSubnets(o) + unmanagedInterfaces(o) + omittedSubnets(o)
}

func unmanagedSubnets(o Outcome) string {
	if len(o.Unmanaged) == 0 {
		return ""
	}
	names := make([]string, len(o.Unmanaged))
	for i, s := range o.Unmanaged {
		names[i] = fmt.Sprintf("%s (%s)", s.CIDR, s.ID)
	}
	return "; the network also has unmanaged subnets, which are left alone: " + neutron.FirstOf(names)
}

func unmanagedInterfaces(o Outcome) string {
	if len(o.UnmanagedInterfaces) == 0 {
		return ""
	}
	names := make([]string, len(o.UnmanagedInterfaces))
	for i, in := range o.UnmanagedInterfaces {
		names[i] = fmt.Sprintf("%s (port %s)", in.RouterID, in.PortID)
	}
	slices.Sort(names)
	names = slices.Compact(names) // one port can be in several IPv6 subnets
	return "; the network also has interfaces of other routers, which are left alone: " + neutron.FirstOf(names)
}

// message returns the text for the error. While Neutron gives no good answer, it stays the text
// that was written first since then: each attempt may fail in another way, and none of that is
// worth a write. An error that the message has already stays too: it may be the Network's own.
// What an edit took away in vain stays in the text until the next edit.
func message(before *metav1.Condition, now metav1.Condition, o Outcome) string {
	text := o.Err.Error()
	isEdit := before == nil || before.ObservedGeneration != now.ObservedGeneration
	if !isEdit && before.Status == metav1.ConditionFalse && !strings.Contains(text, neutron.TakenBefore) {
		if _, taken, found := strings.Cut(before.Message, neutron.TakenBefore); found {
			text += neutron.TakenBefore + taken
		}
	}
	if now.Reason != samplecrdv1.ReasonNeutronUnavailable || o.Away.IsZero() {
		return text
	}
	outage := "Neutron has not been available since " + o.Away.UTC().Format(time.RFC3339) + ": "
	if !isEdit && before.Reason == now.Reason {
		// The times of conditions have no fractions of a second.
		isSince := !before.LastTransitionTime.Time.Before(o.Away.Truncate(time.Second))
		if isSince || strings.HasPrefix(before.Message, outage) || before.Message == text {
			return before.Message
		}
	}
	if !o.IsOutage {
		return text
	}
	return outage + text
}

// Equal reports whether two statuses are the same. Every sync ends with it, so it compares
// field by field.
func Equal(a, b *samplecrdv1.NetworkStatus) bool {
	return a.ObservedGeneration == b.ObservedGeneration &&
		a.NetworkID == b.NetworkID &&
		a.Imported == b.Imported &&
		a.SubnetID == b.SubnetID &&
		a.CIDR == b.CIDR &&
		a.Gateway == b.Gateway &&
		a.Cloud == b.Cloud &&
		a.ProjectID == b.ProjectID &&
		a.Region == b.Region &&
		a.MTU == b.MTU &&
		slices.Equal(a.Subnets, b.Subnets) &&
		equality.Semantic.DeepEqual(a.Router, b.Router) &&
		slices.Equal(a.SharedWith, b.SharedWith) &&
		a.LastHandledReconcileAt == b.LastHandledReconcileAt &&
		slices.EqualFunc(a.Conditions, b.Conditions, equalConditions)
}

func equalConditions(a, b metav1.Condition) bool {
	sameTime := a.LastTransitionTime.Equal(&b.LastTransitionTime)
	a.LastTransitionTime, b.LastTransitionTime = metav1.Time{}, metav1.Time{}
	return sameTime && a == b
}

// Ready returns the Ready condition; nil if there is none yet.
func Ready(status *samplecrdv1.NetworkStatus) *metav1.Condition {
	return meta.FindStatusCondition(status.Conditions, samplecrdv1.ConditionReady)
}

// Known reports whether the controller has written the status yet: the API server itself gives
// a Network a Ready condition that is Unknown.
func Known(status *samplecrdv1.NetworkStatus) bool {
	ready := Ready(status)
	return ready != nil && ready.Status != metav1.ConditionUnknown
}

// IsAvailable reports whether Neutron was last seen to match the Network's current generation.
func IsAvailable(network *samplecrdv1.Network) bool {
	ready := Ready(&network.Status)
	return ready != nil && ready.Status == metav1.ConditionTrue && ready.ObservedGeneration == network.Generation
}

// Patch returns the JSON merge patch that turns the Network's status into next. Lists are replaced
// as a whole, so that no part of a condition can stay when the condition goes; a server-side apply
// leaves the fields that another client owns as well, and the API server refuses that rest. The
// patch has the resourceVersion that was read: the base of the patch is then what the API server
// has, and a Network that was created again under the same name refuses it (409). The UID would
// not help: the API server ignores it for the status of a custom resource.
func Patch(network *samplecrdv1.Network, next *samplecrdv1.NetworkStatus) ([]byte, error) {
	type object struct {
		Metadata struct {
			ResourceVersion string `json:"resourceVersion,omitempty"`
		} `json:"metadata"`
		Status *samplecrdv1.NetworkStatus `json:"status"`
	}
	before, after := object{Status: &network.Status}, object{Status: next}
	after.Metadata.ResourceVersion = network.ResourceVersion
	original, err := json.Marshal(before)
	if err != nil {
		return nil, err
	}
	modified, err := json.Marshal(after)
	if err != nil {
		return nil, err
	}
	return jsonpatch.CreateMergePatch(original, modified)
}
