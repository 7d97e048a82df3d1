// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package deployment

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/google/uuid"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"

	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
)

// deploymentKind is the kind in an owner reference to a Deployment.
var deploymentKind = appsv1.SchemeGroupVersion.WithKind("Deployment")

// requestsNetwork reports whether the Deployment requests a Network. The annotations may be
// invalid.
func requestsNetwork(d *appsv1.Deployment) bool {
	_, ok := d.Annotations[samplecrdv1.AnnotationNetworkCIDR]
	return ok
}

// requestAnnotations are the annotations of a Deployment that request a Network.
var requestAnnotations = []string{samplecrdv1.AnnotationNetworkCIDR, samplecrdv1.AnnotationNetworkGateway, samplecrdv1.AnnotationNetworkTemplate}

// sameRequest reports whether both Deployments request the same Network.
func sameRequest(a, b *appsv1.Deployment) bool {
	return requestsNetwork(a) == requestsNetwork(b) &&
		!slices.ContainsFunc(requestAnnotations, func(name string) bool { return a.Annotations[name] != b.Annotations[name] })
}

// request is the Network that the annotations of a Deployment request.
type request struct {
	// auto requests a range: a block of the CIDR pool, or one that Neutron takes from a subnet
	// pool. cidr and subnetPool are empty until one of them is chosen.
	auto       bool
	cidr       string
	subnetPool *samplecrdv1.SubnetPoolSpec
	gateway    string
	// templateName is the name of the Network to take over from. It is empty if there is none.
	templateName string
	// template is that Network. It is nil until it is read.
	template *samplecrdv1.Network
}

// parse returns the request in the annotations, or an error that names the wrong one. The API
// server can still refuse the Network.
func parse(annotations map[string]string) (request, error) {
	r := request{
		cidr:         annotations[samplecrdv1.AnnotationNetworkCIDR],
		gateway:      annotations[samplecrdv1.AnnotationNetworkGateway],
		templateName: annotations[samplecrdv1.AnnotationNetworkTemplate],
	}
	if r.cidr == samplecrdv1.NetworkCIDRAuto {
		if r.gateway != "" && r.gateway != samplecrdv1.GatewayNone {
			return request{}, fmt.Errorf("annotation %s: %s is not possible with %s: %s, only %s is", samplecrdv1.AnnotationNetworkGateway, quote(r.gateway),
				samplecrdv1.AnnotationNetworkCIDR, samplecrdv1.NetworkCIDRAuto, samplecrdv1.GatewayNone)
		}
		return request{auto: true, gateway: r.gateway, templateName: r.templateName}, nil
	}
	cidr, err := netip.ParsePrefix(r.cidr)
	if err != nil {
		return request{}, fmt.Errorf("annotation %s: %s must be an address and a prefix length, such as 10.1.0.0/24, or %s",
			samplecrdv1.AnnotationNetworkCIDR, quote(r.cidr), samplecrdv1.NetworkCIDRAuto)
	}
	if r.gateway == "" || r.gateway == samplecrdv1.GatewayNone {
		return r, nil
	}
	if gateway, err := netip.ParseAddr(r.gateway); err != nil || !cidr.Masked().Contains(gateway) {
		return request{}, fmt.Errorf("annotation %s: %s must be an address inside %s, or %s",
			samplecrdv1.AnnotationNetworkGateway, quote(r.gateway), cidr.Masked(), samplecrdv1.GatewayNone)
	}
	return r, nil
}

// rangeText describes the addresses of the Network to users.
func (r request) rangeText() string {
	if p := r.subnetPool; p != nil {
		return fmt.Sprintf("/%d from subnet pool %s", p.PrefixLength, cmp.Or(p.Name, p.ID))
	}
	return r.cidr
}

// quote returns the value of an annotation in quotes. It cuts a long value.
func quote(value string) string {
	const maxLength = 64
	if len(value) > maxLength {
		return fmt.Sprintf("%q…", value[:maxLength])
	}
	return fmt.Sprintf("%q", value)
}

// labelValue returns the value of LabelDeployment for a Deployment of that name.
func labelValue(name string) string {
	if len(name) <= validation.LabelValueMaxLength {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	return name[:54] + "-" + hex.EncodeToString(sum[:4])
}

// newNetwork returns the Network to create for a Deployment.
func newNetwork(d *appsv1.Deployment, r request) *samplecrdv1.Network {
	network := &samplecrdv1.Network{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:       d.Namespace,
			Name:            d.Name,
			Labels:          map[string]string{samplecrdv1.LabelDeployment: labelValue(d.Name)},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(d, deploymentKind)},
		},
		Spec: samplecrdv1.NetworkSpec{SubnetSpec: samplecrdv1.SubnetSpec{CIDR: r.cidr, SubnetPool: r.subnetPool, Gateway: r.gateway}},
	}
	if r.auto && r.cidr != "" {
		metav1.SetMetaDataAnnotation(&network.ObjectMeta, samplecrdv1.AnnotationAllocatedCIDR, r.cidr)
	}
	if r.template != nil {
		metav1.SetMetaDataAnnotation(&network.ObjectMeta, samplecrdv1.AnnotationAppliedTemplate, r.templateName)
		takeOver(&network.Spec, &r.template.Spec)
		network.Spec.CloudCredentialsRef = r.template.Spec.CloudCredentialsRef.DeepCopy()
	}
	return network
}

// patchFor returns the merge patch that makes a Network match the request. The patch has only
// fields that the request governs. It is nil if nothing differs.
func patchFor(network *samplecrdv1.Network, d *appsv1.Deployment, r request) (map[string]any, error) {
	desired := newNetwork(d, r)
	metadata, annotations := map[string]any{}, map[string]any{}
	if label := desired.Labels[samplecrdv1.LabelDeployment]; network.Labels[samplecrdv1.LabelDeployment] != label {
		metadata["labels"] = map[string]any{samplecrdv1.LabelDeployment: label}
	}
	for _, name := range writtenAnnotations {
		if value := desired.Annotations[name]; network.Annotations[name] != value {
			annotations[name] = orNull(value)
			metadata["annotations"] = annotations
		}
	}
	if !metav1.IsControlledBy(network, d) {
		others := slices.DeleteFunc(slices.Clone(network.OwnerReferences), func(r metav1.OwnerReference) bool { return r.UID == d.UID })
		metadata["ownerReferences"] = append(others, desired.OwnerReferences...)
	}
	spec, err := mergePatch(network.Spec, desiredSpec(network, r))
	if err != nil || len(metadata)+len(spec) == 0 {
		return nil, err
	}
	// Preconditions: the API server refuses the patch if the Network is another one, or has
	// changed.
	metadata["uid"], metadata["resourceVersion"] = network.UID, network.ResourceVersion
	return map[string]any{"metadata": metadata, "spec": spec}, nil
}

// writtenAnnotations are the annotations that the controller writes on a Network.
var writtenAnnotations = []string{samplecrdv1.AnnotationAllocatedCIDR, samplecrdv1.AnnotationAppliedTemplate}

// desiredSpec returns the spec of a Network with the changes that follow from the request.
// Without a template the fields beside cidr, subnetPool and gateway stay as users set them,
// except that they are cleared once after a template.
func desiredSpec(network *samplecrdv1.Network, r request) *samplecrdv1.NetworkSpec {
	spec := network.Spec.DeepCopy()
	spec.CIDR, spec.SubnetPool, spec.Gateway = r.cidr, r.subnetPool, r.gateway
	switch {
	case r.template != nil:
		takeOver(spec, &r.template.Spec)
	case network.Annotations[samplecrdv1.AnnotationAppliedTemplate] != "":
		takeOver(spec, &samplecrdv1.NetworkSpec{})
	}
	return spec
}

// mergePatch returns the JSON merge patch that leads from one object to the other.
func mergePatch(from, to any) (map[string]any, error) {
	before, err := json.Marshal(from)
	if err != nil {
		return nil, err
	}
	after, err := json.Marshal(to)
	if err != nil {
		return nil, err
	}
	data, err := jsonpatch.CreateMergePatch(before, after)
	if err != nil {
		return nil, err
	}
	var patch map[string]any
	return patch, json.Unmarshal(data, &patch)
}

// describeChanges describes a patch of patchFor for the message of an event.
func describeChanges(patch map[string]any, r request) string {
	var all, settings []string
	spec, _ := patch["spec"].(map[string]any)
	for _, field := range slices.Sorted(maps.Keys(spec)) {
		switch field {
		case "cidr", "subnetPool":
			if spec[field] != nil { // if one comes, the other one goes
				all = append(all, "cidr "+r.rangeText())
			}
		case "gateway":
			all = append(all, "gateway "+cmp.Or(r.gateway, "chosen by Neutron"))
		default:
			settings = append(settings, field)
		}
	}
	if len(settings) > 0 && r.template != nil {
		all = append(all, strings.Join(settings, ", ")+" of Network "+r.templateName)
	} else if len(settings) > 0 {
		all = append(all, strings.Join(settings, ", ")+" removed, because there is no template any more")
	}
	if len(all) == 0 {
		return "labels and annotations"
	}
	return strings.Join(all, ", ")
}

func orNull(value string) any {
	if value == "" {
		return nil
	}
	return value
}

// chooseRange returns the block or the subnet pool for a request for auto. A Network keeps the
// block in its annotation, or else its subnet pool. Otherwise it gets the given pool. chooseRange
// returns neither if the allocator has to choose a block.
func chooseRange(network *samplecrdv1.Network, pool *samplecrdv1.SubnetPoolSpec) (block string, _ *samplecrdv1.SubnetPoolSpec) {
	if network == nil {
		return "", pool
	}
	allocated := network.Annotations[samplecrdv1.AnnotationAllocatedCIDR]
	if _, err := netip.ParsePrefix(allocated); err == nil {
		return allocated, nil
	}
	return "", cmp.Or(network.Spec.SubnetPool, pool)
}

// preferredBlock returns the spec.cidr of a Network, which the Network keeps if it is a block of
// the CIDR pool.
func preferredBlock(network *samplecrdv1.Network) netip.Prefix {
	if network == nil {
		return netip.Prefix{}
	}
	cidr, _ := netip.ParsePrefix(network.Spec.CIDR)
	return cidr.Masked()
}

// subnetPool returns the reference to the subnet pool with that name or ID. A UUID is an ID. It
// returns nil for "".
func subnetPool(nameOrID string, prefixLength int) *samplecrdv1.SubnetPoolSpec {
	if nameOrID == "" {
		return nil
	}
	pool := samplecrdv1.NeutronReference{Name: nameOrID}
	if id, err := uuid.Parse(nameOrID); err == nil && id.String() == nameOrID {
		pool = samplecrdv1.NeutronReference{ID: nameOrID}
	}
	return &samplecrdv1.SubnetPoolSpec{NeutronReference: pool, PrefixLength: int32(prefixLength)}
}

// event is an event to record on a Deployment.
type event struct{ eventType, reason, message string }

// obstacle returns an event if the Deployment cannot own the Network of its name. It returns
// nil if there is no such Network, or if the Deployment owns it or can adopt it.
func obstacle(network *samplecrdv1.Network, d *appsv1.Deployment) *event {
	if network == nil {
		return nil
	}
	owner := metav1.GetControllerOf(network)
	switch {
	case !network.DeletionTimestamp.IsZero():
		return &event{corev1.EventTypeNormal, samplecrdv1.EventNetworkBeingDeleted,
			fmt.Sprintf("Network %s is being deleted; a new one is created when it is gone", network.Name)}
	case owner != nil && owner.UID == d.UID:
		return nil
	case owner != nil && isDeployment(owner) && owner.Name == d.Name:
		return &event{corev1.EventTypeNormal, samplecrdv1.EventNetworkBeingDeleted,
			fmt.Sprintf("Network %s belongs to an earlier Deployment of this name; a new one is created when it is gone", network.Name)}
	case owner != nil:
		return &event{corev1.EventTypeWarning, samplecrdv1.EventNetworkNotOwned,
			fmt.Sprintf("Network %s belongs to %s %s and is left alone; give the Deployment another name, or delete the Network", network.Name, owner.Kind, owner.Name)}
	case network.Labels[samplecrdv1.LabelDeployment] != labelValue(d.Name):
		return &event{corev1.EventTypeWarning, samplecrdv1.EventNetworkNotOwned,
			fmt.Sprintf("Network %s was not created for this Deployment and is left alone; to let the Deployment adopt it, label it %s=%s; otherwise delete it",
				network.Name, samplecrdv1.LabelDeployment, labelValue(d.Name))}
	}
	return nil
}

// isDeployment reports whether the owner is a Deployment, in any version of the API.
func isDeployment(owner *metav1.OwnerReference) bool {
	version, err := schema.ParseGroupVersion(owner.APIVersion)
	return err == nil && version.Group == deploymentKind.Group && owner.Kind == deploymentKind.Kind
}

// deploymentNeedsSync reports whether a Deployment has changed in a way that matters to a
// sync. Its deletion does not matter: the garbage collector deletes the Network.
func deploymentNeedsSync(before, now *appsv1.Deployment) bool {
	return before.UID != now.UID || !sameRequest(before, now)
}

// networkNeedsSync reports whether a Network has changed in a way that matters to a sync of
// its Deployment, or of those that take over from it. The status does not matter.
func networkNeedsSync(before, now *samplecrdv1.Network) bool {
	return before.UID != now.UID ||
		before.Generation != now.Generation ||
		before.DeletionTimestamp.IsZero() != now.DeletionTimestamp.IsZero() ||
		before.Labels[samplecrdv1.LabelDeployment] != now.Labels[samplecrdv1.LabelDeployment] ||
		slices.ContainsFunc(writtenAnnotations, func(name string) bool { return before.Annotations[name] != now.Annotations[name] }) ||
		!equality.Semantic.DeepEqual(before.OwnerReferences, now.OwnerReferences)
}

// Trim returns a Deployment with only the fields that the Controller reads. It is a transform
// for the informer: without it, the cache has the pod templates of the whole cluster.
func Trim(object any) (any, error) {
	d, ok := object.(*appsv1.Deployment)
	if !ok {
		return object, nil
	}
	trimmed := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{
		Namespace:         d.Namespace,
		Name:              d.Name,
		UID:               d.UID,
		ResourceVersion:   d.ResourceVersion,
		DeletionTimestamp: d.DeletionTimestamp,
	}}
	for _, name := range requestAnnotations {
		if value, ok := d.Annotations[name]; ok {
			metav1.SetMetaDataAnnotation(&trimmed.ObjectMeta, name, value)
		}
	}
	return trimmed, nil
}
