// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package world

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/gophercloud/gophercloud/v2"
	"k8s.io/apimachinery/pkg/api/equality"

	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
	"github.com/samplecrd/samplecrd-controller/pkg/status"
	"github.com/samplecrd/samplecrd-controller/pkg/testing/meaning"
)

// Snapshot is all that Neutron has, with every field that an administrator sees, the revisions too. The
// keys are a collection and an ID, such as "subnets/0b1c…".
type Snapshot map[string]map[string]any

// collections are those of a Snapshot.
var collections = []string{"networks", "subnets", "ports", "routers", "floatingips", "rbac-policies"}

// Snapshot returns what Neutron has now.
func (w *World) Snapshot() Snapshot {
	w.t.Helper()
	s := Snapshot{}
	for _, collection := range collections {
		var list map[string][]map[string]any
		w.send(w.adminClient(), http.MethodGet, collection, nil, &list)
		for _, object := range list[strings.ReplaceAll(collection, "-", "_")] {
			s[collection+"/"+object["id"].(string)] = object
		}
	}
	return s
}

// adminClient returns a client of an administrator.
func (w *World) adminClient() *gophercloud.ServiceClient {
	w.t.Helper()
	if w.admin == nil {
		w.admin = w.UserClient("test-admin")
	}
	return w.admin
}

// Diff returns a line for each field that differs from an earlier Snapshot, and for each object that is new
// or gone; "" for nothing.
func (s Snapshot) Diff(before Snapshot) string {
	var lines []string
	for key, object := range before {
		now, isThere := s[key]
		if !isThere {
			lines = append(lines, fmt.Sprintf("- %s: %v", key, object))
			continue
		}
		for field, value := range object {
			if !equality.Semantic.DeepEqual(value, now[field]) {
				lines = append(lines, fmt.Sprintf("  %s: %s: %v became %v", key, field, value, now[field]))
			}
		}
	}
	for key, object := range s {
		if _, wasThere := before[key]; !wasThere {
			lines = append(lines, fmt.Sprintf("+ %s: %v", key, object))
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// Kept returns what was there before, without the fields that change when something else comes.
func (s Snapshot) Kept(before Snapshot) Snapshot {
	kept := Snapshot{}
	for key, object := range s {
		if before[key] != nil {
			kept[key] = withoutRevision(object)
		}
	}
	return kept
}

// withoutRevision returns the object without the fields that change when something is connected to it.
func withoutRevision(object map[string]any) map[string]any {
	object = maps.Clone(object)
	delete(object, "revision_number")
	delete(object, "updated_at")
	return object
}

// Strangers returns what does not belong to the Network, without the fields that change when somebody
// else connects something. specs are those that the Network has had.
func (w *World) Strangers(s Snapshot, specs ...*samplecrdv1.NetworkSpec) Snapshot {
	w.t.Helper()
	ours := w.ours(s, specs)
	strangers := Snapshot{}
	for key, object := range s {
		if ours(key, object) {
			continue
		}
		strangers[key] = withoutRevision(object)
	}
	return strangers
}

// ours returns a function that reports whether an object belongs to the Network.
func (w *World) ours(s Snapshot, specs []*samplecrdv1.NetworkSpec) func(key string, object map[string]any) bool {
	isMarked := func(object map[string]any) bool {
		text, _ := object["description"].(string)
		_, marked := ownerOf(text)
		return marked
	}
	network := ""
	if n := w.Find(); n != nil {
		network = n.Status.NetworkID
	}
	var routers, cidrs, projects []string
	for _, spec := range specs {
		spec = w.bind(spec)
		projects = append(projects, projectsOf(spec)...)
		if spec.Router != nil && spec.Router.Existing != nil {
			routers = append(routers, spec.Router.Existing.ID, w.ids[spec.Router.Existing.Name])
		}
		for _, declared := range meaning.SubnetsOf(spec) {
			if spec.Import != nil && declared.CIDR != "" {
				cidrs = append(cidrs, declared.CIDR)
			}
		}
	}
	for key, object := range s {
		if key == "routers/"+object["id"].(string) && isMarked(object) {
			routers = append(routers, object["id"].(string))
		}
	}
	return func(key string, object map[string]any) bool {
		cidr, _ := object["cidr"].(string)
		router, _ := object["device_id"].(string)
		project, _ := object["target_tenant"].(string)
		switch {
		case key == "networks/"+network, isMarked(object):
			return true
		case object["device_owner"] == "network:router_gateway":
			return slices.Contains(routers, router)
		case object["object_id"] == network:
			return slices.Contains(projects, project)
		case object["network_id"] != network:
			return false
		case object["device_owner"] == "network:router_interface":
			return slices.Contains(routers, router)
		}
		return cidr != "" && slices.Contains(cidrs, cidr)
	}
}

// IsReady reports whether the Network says that Neutron matches its spec, and returns what it says.
func (w *World) IsReady() (isReady bool, reason, message string) {
	w.t.Helper()
	n := w.Get()
	ready := status.Ready(&n.Status)
	return status.IsAvailable(n) && n.Status.ObservedGeneration == n.Generation, ready.Reason, ready.Message
}
