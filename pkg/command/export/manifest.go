// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package export

import (
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"

	yamlv2 "go.yaml.in/yaml/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
	"github.com/samplecrd/samplecrd-controller/pkg/neutron"
)

// Options are what the manifests have besides what Neutron has.
type Options struct {
	// Namespace is that of the Networks.
	Namespace string
	// Project is the ID of the project of the credentials; "" if it is not known.
	Project string
	// Credentials is nil for the controller's own cloud.
	Credentials *samplecrdv1.CloudCredentialsReference
}

// Manifest is a Network that imports a network of Neutron and only observes it.
type Manifest struct {
	// Network is nil if no Network can import it.
	Network *samplecrdv1.Network
	// Title names the network in Neutron.
	Title string
	// Notes say what a user must know about the network.
	Notes []string
	// Comments say what the Network does not declare.
	Comments []string
}

// Manifests returns a manifest for each of the networks, ordered by name. Each declares its network
// as it is, so that nothing differs after it is applied. What the API cannot declare, or would
// refuse, is in the comments.
func Manifests(networks []*neutron.NetworkDetails, o Options) []Manifest {
	networks = slices.Clone(networks)
	slices.SortFunc(networks, func(a, b *neutron.NetworkDetails) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.ID, b.ID))
	})
	networks = slices.CompactFunc(networks, func(a, b *neutron.NetworkDetails) bool { return a.ID == b.ID })
	names, ids := make([]string, len(networks)), make([]string, len(networks))
	for i, n := range networks {
		// A network that the controller has retained has the name namespace/name.
		names[i], ids[i] = objectName(strings.TrimPrefix(n.Name, o.Namespace+"/")), n.ID
	}
	manifests := make([]Manifest, len(networks))
	for i, name := range unique(names, ids, "network") {
		manifests[i] = newManifest(networks[i], name, o)
	}
	return manifests
}

// networkID matches the IDs that spec.import accepts.
var networkID = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)

func newManifest(n *neutron.NetworkDetails, name string, o Options) Manifest {
	m := Manifest{Title: titleOf(n)}
	if !networkID.MatchString(n.ID) {
		m.Notes = append(m.Notes, "No Network can import it: its ID is not a UUID in lower case")
		return m
	}
	m.Network = &samplecrdv1.Network{
		TypeMeta:   metav1.TypeMeta{APIVersion: samplecrdv1.GroupVersion.String(), Kind: "Network"},
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: o.Namespace},
		Spec: samplecrdv1.NetworkSpec{
			Import:              &samplecrdv1.ImportSpec{NetworkID: n.ID},
			ManagementPolicy:    samplecrdv1.ManagementObserve,
			DeletionPolicy:      samplecrdv1.DeletionRetain,
			CloudCredentialsRef: o.Credentials,
			Shared:              n.Shared,
		},
	}
	m.limit(n, o)
	m.setNetwork(n)
	m.setZones(n)
	m.setTags(n)
	m.setShares(n)
	m.setSubnets(n)
	m.commentOnNetwork(n)
	m.commentOnRouters(n)
	return m
}

func titleOf(n *neutron.NetworkDetails) string {
	if n.Name == "" {
		return "network " + neutron.Printable(n.ID)
	}
	return fmt.Sprintf("network %s (%s)", neutron.Printable(n.Name), neutron.Printable(n.ID))
}

// comment adds a comment. It is one line, whatever Neutron's texts contain.
func (m *Manifest) comment(format string, args ...any) {
	m.Comments = append(m.Comments, neutron.Printable(fmt.Sprintf(format, args...)))
}

// limit adds a note if the network cannot be managed with these credentials.
func (m *Manifest) limit(n *neutron.NetworkDetails, o Options) {
	if n.External {
		m.Notes = append(m.Notes, "It is an external network: it can be observed, but managementPolicy Managed is refused")
	}
	if o.Project != "" && n.Project != "" && n.Project != o.Project {
		m.Notes = append(m.Notes, fmt.Sprintf("It belongs to another project, %s: it can be observed, but managementPolicy Managed is refused", neutron.Printable(n.Project)))
	}
}

// Limits of the CustomResourceDefinition.
const (
	leastMTU, mostMTU     = 68, 65535
	maxDomain             = 255
	maxTags, maxTag       = 50, 60
	maxZones, maxAllZones = 10, 255
	maxProjects           = 32
	maxAdditionalSubnets  = 8
	maxDNSNameservers     = 5
	maxPools, maxRoutes   = 10, 20
)

var (
	project        = regexp.MustCompile(`^([0-9a-f]{32}|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12})$`)
	domain         = regexp.MustCompile(`^([a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?[.])+$`)
	numericTopmost = regexp.MustCompile(`(^|[.])[0-9]+[.]$`)
)

func (m *Manifest) setNetwork(n *neutron.NetworkDetails) {
	spec := &m.Network.Spec
	if !ptr.Deref(n.PortSecurity, true) {
		spec.PortSecurityEnabled = ptr.To(false)
	}
	switch {
	case leastMTU <= n.MTU && n.MTU <= mostMTU:
		spec.MTU = ptr.To(int32(n.MTU))
	case n.MTU != 0:
		m.comment("mtu: %d; the API accepts %d to %d", n.MTU, leastMTU, mostMTU)
	}
	switch {
	case n.DNSDomain == "":
	case len(n.DNSDomain) <= maxDomain && domain.MatchString(n.DNSDomain) && !numericTopmost.MatchString(n.DNSDomain):
		spec.DNSDomain = n.DNSDomain
	default:
		m.comment("dns_domain: %q; the API accepts only a domain name in lower case with a dot at its end", n.DNSDomain)
	}
}

// setZones declares all availability zones or none. Each counts four characters more.
func (m *Manifest) setZones(n *neutron.NetworkDetails) {
	zones := n.ZoneHints.All()
	length := 0
	for _, zone := range zones {
		length += len([]rune(zone)) + 4
	}
	if len(zones) > maxZones || length > maxAllZones || slices.ContainsFunc(zones, isOdd) {
		m.comment("availability_zone_hints: %q; the API accepts at most %d, of %d characters together, and no blank or control character at the start or end of one", zones, maxZones, maxAllZones)
		return
	}
	for _, zone := range zones {
		m.Network.Spec.AvailabilityZoneHints = append(m.Network.Spec.AvailabilityZoneHints, samplecrdv1.AvailabilityZone(zone))
	}
}

// setShares declares the projects that the network is shared with, except those with an ID of another form, and the network's own.
func (m *Manifest) setShares(n *neutron.NetworkDetails) {
	for _, s := range n.Shares {
		if s.ProjectID == n.Project || !project.MatchString(s.ProjectID) || len(m.Network.Spec.SharedWith) == maxProjects {
			m.comment("shared with project %q; the API accepts at most %d other projects, and only IDs of 32 hexadecimal digits or UUIDs, in lower case", s.ProjectID, maxProjects)
			continue
		}
		m.Network.Spec.SharedWith = append(m.Network.Spec.SharedWith, samplecrdv1.Share{ProjectID: s.ProjectID})
	}
}

// setTags declares all tags or none: a Network that declares tags has exactly these.
func (m *Manifest) setTags(n *neutron.NetworkDetails) {
	tags := n.Tags.All()
	if fault := faultOfTags(tags); fault != "" {
		m.comment("tags: %q; %s", tags, fault)
		return
	}
	for _, tag := range tags {
		m.Network.Spec.Tags = append(m.Network.Spec.Tags, samplecrdv1.Tag(tag))
	}
}

func faultOfTags(tags []string) string {
	if len(tags) > maxTags {
		return fmt.Sprintf("the API accepts at most %d", maxTags)
	}
	seen := map[string]bool{}
	for _, tag := range tags {
		lower := strings.ToLower(tag)
		switch {
		case len([]rune(tag)) > maxTag:
			return fmt.Sprintf("the API accepts at most %d characters in each", maxTag)
		case isOdd(tag) || strings.Contains(tag, ","):
			return "the API accepts no empty tag, and no comma, control character, or blank at the start or end of one"
		case strings.HasPrefix(lower, neutron.ImportTagPrefix):
			return "the API accepts none that begins with " + neutron.ImportTagPrefix
		case seen[lower]:
			return "the API accepts no two that differ only in upper and lower case"
		}
		seen[lower] = true
	}
	return ""
}

// isOdd reports whether the text is empty, or has a control character, or a blank at its start or end.
func isOdd(text string) bool {
	return text == "" || strings.TrimFunc(text, unicode.IsSpace) != text || strings.ContainsFunc(text, isUnprintable)
}

// isUnprintable also finds bytes that are not UTF-8.
func isUnprintable(r rune) bool { return r == unicode.ReplacementChar || !unicode.IsPrint(r) }

// commentOnNetwork comments on attributes that no Network can declare, or that it should not.
func (m *Manifest) commentOnNetwork(n *neutron.NetworkDetails) {
	if n.Description != "" {
		m.comment("description: %q", n.Description)
	}
	if n.AdminDown {
		m.comment("admin_state_up: false; the network forwards no packets")
	}
	if n.QoSPolicy != "" {
		m.comment("qos_policy_id: %s", n.QoSPolicy)
	}
	if ptr.Deref(n.VLANTransparent, false) {
		m.comment("vlan_transparent: true")
	}
	if n.NetworkType != "" || n.PhysicalNetwork != "" || n.SegmentationID != 0 {
		m.comment("provider: networkType %q, physicalNetwork %q, segmentationID %d", n.NetworkType, n.PhysicalNetwork, n.SegmentationID)
	}
	if n.Segments > 0 {
		m.comment("segments: there are %d", n.Segments)
	}
}

func (m *Manifest) commentOnRouters(n *neutron.NetworkDetails) {
	attached := map[string][]string{} // CIDRs by router
	var routers []string
	for _, i := range n.Interfaces {
		if attached[i.RouterID] == nil {
			routers = append(routers, i.RouterID)
		}
		cidr := i.SubnetID
		if s := slices.IndexFunc(n.Subnets, func(s neutron.Subnet) bool { return s.ID == i.SubnetID }); s >= 0 {
			cidr = n.Subnets[s].CIDR.String()
		}
		attached[i.RouterID] = append(attached[i.RouterID], cidr)
	}
	slices.Sort(routers)
	for _, id := range routers {
		var router neutron.Router
		name := id
		if r := slices.IndexFunc(n.Routers, func(r neutron.Router) bool { return r.ID == id }); r >= 0 {
			router = n.Routers[r]
		}
		if router.Name != "" {
			name = fmt.Sprintf("%s (%s)", router.Name, id)
		}
		m.comment("router: %s is attached to %s; to declare it, add to the spec: router: {existing: {id: %q}}", name, strings.Join(attached[id], ", "), id)
		if router.Routes != "" {
			m.comment("routes of router %s: %s; only those of a router that a Network creates can be declared", name, router.Routes)
		}
	}
}

// intro is the line before the comments.
const intro = "The manifest does not declare the following. It stays as it is in Neutron:"

// YAML returns the document: the notes and comments, and the manifest if there is one.
func (m Manifest) YAML() ([]byte, error) {
	var b strings.Builder
	fmt.Fprintf(&b, "# In Neutron: %s\n", m.Title)
	for _, note := range m.Notes {
		fmt.Fprintf(&b, "# %s\n", note)
	}
	if len(m.Comments) > 0 {
		fmt.Fprintf(&b, "# %s\n", intro)
	}
	for _, comment := range m.Comments {
		fmt.Fprintf(&b, "#   %s\n", comment)
	}
	if m.Network == nil {
		return []byte(b.String()), nil
	}
	spec, err := inOrder(m.Network.Spec)
	if err != nil {
		return nil, err
	}
	document, err := yamlv2.Marshal(yamlv2.MapSlice{
		{Key: "apiVersion", Value: m.Network.APIVersion},
		{Key: "kind", Value: m.Network.Kind},
		{Key: "metadata", Value: yamlv2.MapSlice{{Key: "name", Value: m.Network.Name}, {Key: "namespace", Value: m.Network.Namespace}}},
		{Key: "spec", Value: spec},
	})
	b.Write(document)
	return []byte(b.String()), err
}

// first are the fields that a manifest begins with.
var first = []string{"import", "managementPolicy", "deletionPolicy", "cloudCredentialsRef"}

// inOrder returns the spec with the fields in the order of the Go types, except that those of the
// import come first. sigs.k8s.io/yaml would sort them.
func inOrder(spec samplecrdv1.NetworkSpec) (ordered yamlv2.MapSlice, err error) {
	text, err := json.Marshal(spec)
	if err != nil {
		return nil, err
	}
	// JSON is YAML.
	if err := yamlv2.Unmarshal(text, &ordered); err != nil {
		return nil, err
	}
	rank := func(item yamlv2.MapItem) int {
		name, _ := item.Key.(string)
		if i := slices.Index(first, name); i >= 0 {
			return i
		}
		return len(first)
	}
	slices.SortStableFunc(ordered, func(a, b yamlv2.MapItem) int { return cmp.Compare(rank(a), rank(b)) })
	return ordered, nil
}
