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

package deployment

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"

	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
)

// kind is what a controller reference to a Deployment says.
var kind = appsv1.SchemeGroupVersion.WithKind("Deployment")

// wants says whether the Deployment asks for a Network, be it in words that make sense.
func wants(d *appsv1.Deployment) bool {
	_, ok := d.Annotations[samplecrdv1.AnnotationNetworkCIDR]
	return ok
}

// asksTheSame says whether both Deployments ask for the same Network.
func asksTheSame(a, b *appsv1.Deployment) bool {
	return wants(a) == wants(b) &&
		a.Annotations[samplecrdv1.AnnotationNetworkCIDR] == b.Annotations[samplecrdv1.AnnotationNetworkCIDR] &&
		a.Annotations[samplecrdv1.AnnotationNetworkGateway] == b.Annotations[samplecrdv1.AnnotationNetworkGateway]
}

// request is what a Deployment's annotations ask for.
type request struct {
	// auto asks for a block of the pool; then cidr is empty until there is one.
	auto    bool
	cidr    string
	gateway string
}

// parse reads the annotations. Of what it lets through the API server may refuse more.
func parse(annotations map[string]string) (request, error) {
	r := request{cidr: annotations[samplecrdv1.AnnotationNetworkCIDR], gateway: annotations[samplecrdv1.AnnotationNetworkGateway]}
	if r.cidr == samplecrdv1.NetworkCIDRAuto {
		if r.gateway != "" && r.gateway != samplecrdv1.GatewayNone {
			return request{}, fmt.Errorf("annotation %s: %s: only %s can go with %s: %s", samplecrdv1.AnnotationNetworkGateway, shown(r.gateway),
				samplecrdv1.GatewayNone, samplecrdv1.AnnotationNetworkCIDR, samplecrdv1.NetworkCIDRAuto)
		}
		return request{auto: true, gateway: r.gateway}, nil
	}
	cidr, err := netip.ParsePrefix(r.cidr)
	if err != nil {
		return request{}, fmt.Errorf("annotation %s: %s is neither an address and a prefix length, such as 10.1.0.0/24, nor %s",
			samplecrdv1.AnnotationNetworkCIDR, shown(r.cidr), samplecrdv1.NetworkCIDRAuto)
	}
	if r.gateway == "" || r.gateway == samplecrdv1.GatewayNone {
		return r, nil
	}
	if gateway, err := netip.ParseAddr(r.gateway); err != nil || !cidr.Masked().Contains(gateway) {
		return request{}, fmt.Errorf("annotation %s: %s is not an address inside %s, nor %s",
			samplecrdv1.AnnotationNetworkGateway, shown(r.gateway), cidr.Masked(), samplecrdv1.GatewayNone)
	}
	return r, nil
}

// shown is the value of an annotation, or enough of it.
func shown(value string) string {
	const enough = 64
	if len(value) > enough {
		return fmt.Sprintf("%q…", value[:enough])
	}
	return fmt.Sprintf("%q", value)
}

// labelValue is the Deployment's name as LabelDeployment has it.
func labelValue(name string) string {
	if len(name) <= validation.LabelValueMaxLength {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	return name[:54] + "-" + hex.EncodeToString(sum[:4])
}

// newNetwork is the Network of a Deployment as it is created.
func newNetwork(d *appsv1.Deployment, r request) *samplecrdv1.Network {
	network := &samplecrdv1.Network{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:       d.Namespace,
			Name:            d.Name,
			Labels:          map[string]string{samplecrdv1.LabelDeployment: labelValue(d.Name)},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(d, kind)},
		},
		Spec: samplecrdv1.NetworkSpec{CIDR: r.cidr, Gateway: r.gateway},
	}
	if r.auto {
		network.Annotations = map[string]string{samplecrdv1.AnnotationAllocatedCIDR: r.cidr}
	}
	return network
}

// difference returns the merge patch that makes of a Network what newNetwork makes, and
// leaves alone all that newNetwork says nothing of. It is nil if there is none.
func difference(network *samplecrdv1.Network, d *appsv1.Deployment, r request) map[string]any {
	want := newNetwork(d, r)
	metadata, spec := map[string]any{}, map[string]any{}
	if label := want.Labels[samplecrdv1.LabelDeployment]; network.Labels[samplecrdv1.LabelDeployment] != label {
		metadata["labels"] = map[string]any{samplecrdv1.LabelDeployment: label}
	}
	if allocated := want.Annotations[samplecrdv1.AnnotationAllocatedCIDR]; network.Annotations[samplecrdv1.AnnotationAllocatedCIDR] != allocated {
		metadata["annotations"] = map[string]any{samplecrdv1.AnnotationAllocatedCIDR: orNull(allocated)}
	}
	if !metav1.IsControlledBy(network, d) {
		others := slices.DeleteFunc(slices.Clone(network.OwnerReferences), func(r metav1.OwnerReference) bool { return r.UID == d.UID })
		metadata["ownerReferences"] = append(others, want.OwnerReferences...)
	}
	if network.Spec.CIDR != want.Spec.CIDR {
		spec["cidr"] = want.Spec.CIDR
	}
	if network.Spec.Gateway != want.Spec.Gateway {
		spec["gateway"] = orNull(want.Spec.Gateway)
	}
	if len(metadata)+len(spec) == 0 {
		return nil
	}
	// It holds for this Network only, and for this version of it.
	metadata["uid"], metadata["resourceVersion"] = network.UID, network.ResourceVersion
	return map[string]any{"metadata": metadata, "spec": spec}
}

// changes tells of a difference.
func changes(network *samplecrdv1.Network, r request) string {
	var all []string
	if network.Spec.CIDR != r.cidr {
		all = append(all, "cidr "+r.cidr)
	}
	if network.Spec.Gateway != r.gateway {
		all = append(all, "gateway "+cmp.Or(r.gateway, "left to Neutron"))
	}
	if len(all) == 0 {
		return "labels and annotations" // which nobody else is to change
	}
	return strings.Join(all, ", ")
}

func orNull(value string) any {
	if value == "" {
		return nil
	}
	return value
}

// keepable returns the block that a Network has got already: the one that was allocated,
// and stays; or the one that it happens to have, which can stay if it is one of the pool's.
func keepable(network *samplecrdv1.Network) (allocated string, preferred netip.Prefix) {
	if network == nil {
		return "", netip.Prefix{}
	}
	allocated = network.Annotations[samplecrdv1.AnnotationAllocatedCIDR]
	if _, err := netip.ParsePrefix(allocated); err != nil {
		allocated = ""
	}
	if cidr, err := netip.ParsePrefix(network.Spec.CIDR); err == nil {
		preferred = cidr.Masked()
	}
	return allocated, preferred
}

// event is an event to record on a Deployment.
type event struct{ kind, reason, message string }

// obstacle returns what there is to say if the Network of the Deployment's name cannot be
// the Deployment's; nil if it is, or can be adopted, or if there is none.
func obstacle(network *samplecrdv1.Network, d *appsv1.Deployment) *event {
	if network == nil {
		return nil
	}
	owner := metav1.GetControllerOf(network)
	switch {
	case !network.DeletionTimestamp.IsZero():
		return &event{corev1.EventTypeNormal, samplecrdv1.EventNetworkBeingDeleted,
			fmt.Sprintf("Network %s is being deleted; there will be another one when it is gone", network.Name)}
	case owner != nil && owner.UID == d.UID:
		return nil
	case owner != nil && isDeployment(owner) && owner.Name == d.Name:
		return &event{corev1.EventTypeNormal, samplecrdv1.EventNetworkBeingDeleted,
			fmt.Sprintf("Network %s is the one of an earlier Deployment of this name; there will be another one when it is gone", network.Name)}
	case owner != nil:
		return &event{corev1.EventTypeWarning, samplecrdv1.EventNetworkNotOwned,
			fmt.Sprintf("Network %s belongs to %s %s and is left alone; give the Deployment another name, or delete the Network", network.Name, owner.Kind, owner.Name)}
	case network.Labels[samplecrdv1.LabelDeployment] != labelValue(d.Name):
		return &event{corev1.EventTypeWarning, samplecrdv1.EventNetworkNotOwned,
			fmt.Sprintf("Network %s was not made for this Deployment and is left alone; to hand it over, label it %s=%s, or else delete it",
				network.Name, samplecrdv1.LabelDeployment, labelValue(d.Name))}
	}
	return nil
}

// isDeployment says whether the owner is a Deployment, in whichever version of its API.
func isDeployment(owner *metav1.OwnerReference) bool {
	version, err := schema.ParseGroupVersion(owner.APIVersion)
	return err == nil && version.Group == kind.Group && owner.Kind == kind.Kind
}

// deploymentNeedsSync says whether something has changed in a Deployment that a sync looks
// at. Its deletion is not among that: the garbage collector takes the Network along.
func deploymentNeedsSync(before, now *appsv1.Deployment) bool {
	return before.UID != now.UID || !asksTheSame(before, now)
}

// networkNeedsSync says whether something has changed in a Network that a sync of its
// Deployment looks at. The status is not.
func networkNeedsSync(before, now *samplecrdv1.Network) bool {
	return before.UID != now.UID ||
		before.Generation != now.Generation ||
		before.DeletionTimestamp.IsZero() != now.DeletionTimestamp.IsZero() ||
		before.Labels[samplecrdv1.LabelDeployment] != now.Labels[samplecrdv1.LabelDeployment] ||
		before.Annotations[samplecrdv1.AnnotationAllocatedCIDR] != now.Annotations[samplecrdv1.AnnotationAllocatedCIDR] ||
		!equality.Semantic.DeepEqual(before.OwnerReferences, now.OwnerReferences)
}

// Trim keeps of a Deployment what the Controller looks at. It is an informer's transform:
// the pod templates of a whole cluster are much to keep for two annotations.
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
	for _, name := range []string{samplecrdv1.AnnotationNetworkCIDR, samplecrdv1.AnnotationNetworkGateway} {
		if value, ok := d.Annotations[name]; ok {
			metav1.SetMetaDataAnnotation(&trimmed.ObjectMeta, name, value)
		}
	}
	return trimmed, nil
}
