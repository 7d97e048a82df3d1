// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package deployment

import (
	"fmt"
	"net/netip"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/client-go/tools/cache"

	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
)

// templatesOf returns the key of the Network that the Deployment takes over from, if any.
func templatesOf(d *appsv1.Deployment) []string {
	name := d.Annotations[samplecrdv1.AnnotationNetworkTemplate]
	if name == "" || !requestsNetwork(d) {
		return nil
	}
	return []string{cache.NewObjectName(d.Namespace, name).String()}
}

// takeOver sets the fields of the spec that follow a template. The other fields stay as they
// are: they can be in only one Network, or cannot change. The fields of the subnet depend on
// spec.CIDR: entries of the other IP family are left out, as well as routes over a next hop in
// the template's subnet. With a subnet pool the range is not known, nor its IP family: all DNS
// servers are taken over, the IPv6 modes if the prefix length is the one that they need, and no routes.
func takeOver(spec, template *samplecrdv1.NetworkSpec) {
	template = template.DeepCopy()
	spec.DNSNameservers = slices.DeleteFunc(template.DNSNameservers, func(server samplecrdv1.IPAddress) bool {
		return spec.SubnetPool == nil && !sameFamily(string(server), spec.CIDR)
	})
	spec.HostRoutes = slices.DeleteFunc(template.HostRoutes, func(route samplecrdv1.HostRoute) bool {
		return !sameFamily(string(route.NextHop), spec.CIDR) || contains(template.CIDR, string(route.NextHop))
	})
	spec.EnableDHCP = template.EnableDHCP
	spec.IPv6 = template.IPv6
	if !sameFamily("::", spec.CIDR) && (spec.SubnetPool == nil || spec.SubnetPool.PrefixLength != 64) {
		spec.IPv6 = nil
	}
	spec.Router = routerOf(spec.Router, template.Router)
	spec.MTU = template.MTU
	spec.PortSecurityEnabled = template.PortSecurityEnabled
	spec.DNSDomain = template.DNSDomain
	spec.Tags = template.Tags
	spec.Shared, spec.SharedWith = template.Shared, template.SharedWith
}

// routerOf returns the router of the template. The routes are those of the Network: their next hops are in its subnets.
func routerOf(router, template *samplecrdv1.RouterSpec) *samplecrdv1.RouterSpec {
	if template != nil {
		template.Routes = nil
	}
	if template != nil && router != nil && template.Existing == nil {
		template.Routes = router.Routes
	}
	return template
}

// sameFamily reports whether the address and the CIDR are valid and of the same IP family.
func sameFamily(address, cidr string) bool {
	a, err := netip.ParseAddr(address)
	if err != nil {
		return false
	}
	c, err := netip.ParsePrefix(cidr)
	return err == nil && a.Is4() == c.Addr().Is4()
}

// contains reports whether the address is inside the CIDR.
func contains(cidr, address string) bool {
	c, err := netip.ParsePrefix(cidr)
	if err != nil {
		return false
	}
	a, err := netip.ParseAddr(address)
	return err == nil && c.Masked().Contains(a)
}

// templateObstacle returns an event if the Network of the Deployment cannot take over from the
// requested template. network is nil if it is not created yet.
func templateObstacle(network *samplecrdv1.Network, d *appsv1.Deployment, r request) *event {
	name, template := quote(r.templateName), r.template
	var reason string
	switch {
	case r.templateName == d.Name:
		reason = "it is the Deployment's own Network; name another one"
	case template == nil || !template.DeletionTimestamp.IsZero():
		reason = "it does not exist, or is being deleted; waiting for it"
	case template.Annotations[samplecrdv1.AnnotationAppliedTemplate] != "":
		reason = fmt.Sprintf("it takes over from Network %s itself; name that one", quote(template.Annotations[samplecrdv1.AnnotationAppliedTemplate]))
	case network != nil && !equality.Semantic.DeepEqual(network.Spec.CloudCredentialsRef, template.Spec.CloudCredentialsRef):
		reason = fmt.Sprintf("it has other credentials than Network %[1]s, and these cannot change; delete Network %[1]s to create it again with the new ones", network.Name)
	default:
		return nil
	}
	return &event{corev1.EventTypeWarning, samplecrdv1.EventNetworkTemplateUnusable,
		fmt.Sprintf("Network %s of annotation %s cannot be the template of this Deployment: %s", name, samplecrdv1.AnnotationNetworkTemplate, reason)}
}
