// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
)

// What a Network wants, and what Neutron has. text replaces the words in capitals. Another Network, with the UID UID2, imports
// the network legacy.
const (
	wanted = `{
		"metadata": {"namespace": "a", "name": "b", "uid": "UID1", "finalizers": ["samplecrd.k8s.io/neutron"]},
		"spec": {"cidr": "fd00::/64", "gateway": "fd00::1", "ipv6": {"raMode": "slaac"}, "router": {"externalNetwork": {"id": "ext"}}},
		"status": {"networkID": "net", "router": {"id": "own"}, "conditions": [{"type": "Ready", "status": "True", "reason": "Available"}],
			"subnets": [{"id": "sub", "cidr": "fd00::/64", "gateway": "fd00::1"}]}}`
	inNeutron = `{
		"Networks": {"net": {"id": "net", "name": "a/b", "description": "MARK", "mtu": 1450, "port_security_enabled": true},
			"legacy": {"id": "legacy", "tags": ["TAG2"]}},
		"Subnets": {"sub": {"id": "sub", "name": "a/b", "description": "MARK", "network_id": "net", "cidr": "fd00::/64",
			"gateway_ip": "fd00::1", "enable_dhcp": true, "ipv6_ra_mode": "slaac"}, "made": {"description": "MARK", "network_id": "legacy"}},
		"Interfaces": {"sub": [{"device_id": "own", "fixed_ips": [{"subnet_id": "sub", "ip_address": "fd00::1"}]}]},
		"Routers": {"own": {"id": "own", "description": "MARK", "external_gateway_info": {"network_id": "ext"}, "routes": [{"destination": "fd99::/64", "nexthop": "fd00::7"}]}, "theirs": {"id": "theirs"}}}`
	uid = "00000000-0000-4000-8000-00000000000"
)

var text = strings.NewReplacer("MARK", ownerMark+"c/"+uid+"1", "TAG", importTag+uid, "UID", uid,
	"GONE", `"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}`, "RETAINED", `"deletionPolicy": "Retain"`,
	"ROUTES", `"routes": [{"destination": "fd99::/64", "nextHop": "fd00::7"}]`, "IMPORTED", `"cidr": "", "router": null, "import": {"networkID": "legacy"}`)

func parse[T any](of, changes string) *T {
	value := new(T)
	err := errors.Join(json.Unmarshal([]byte(text.Replace(of)), value), json.Unmarshal([]byte(text.Replace(changes)), value))
	if err != nil {
		panic(err)
	}
	return value
}

func TestRules(t *testing.T) {
	r := &Rules{Cluster: "c", IsStrange: func(string) bool { return false }, IsLegacy: func(id string) bool { return id == "legacy" }}
	const unmarked, external = `{"description": ""}`, `"description": "MARK", "external_gateway_info": {"network_id": "ext"}`
	// more is a second subnet of the CIDR, and a project that the network is shared with.
	const more = `{"Subnets": {"twin": {"id": "twin", "description": "MARK", "network_id": "net", "cidr": "fd00::/64", "ipv6_ra_mode": "slaac"}},
		"Shares": {"policy": {"id": "policy", "object_id": "net", "target_tenant": "p", "action": "access_as_shared"}}}`
	// permits and forbids are changes of the Network with which the request is permitted, and is not.
	for _, test := range []struct{ request, body, want, permits, forbids string }{
		{"POST networks", `{"network": {"description": "MARK"}}`, "creates a network", `{}`, `{GONE}`},
		{"DELETE networks/net", ``, "deletes a network", `{GONE}`, `{GONE, "spec": {RETAINED}}`},
		{"PUT networks/net", `{"network": ` + unmarked + `}`, "removes a mark", `{GONE, "spec": {RETAINED}}`, `{GONE}`},
		{"PUT subnets/made", `{"subnet": ` + unmarked + `}`, "removes a mark", `{GONE, "spec": {IMPORTED}}`, `{"spec": {IMPORTED}}`},
		{"PUT routers/own", `{"router": ` + unmarked + `}`, "removes a mark", `{GONE, "spec": {RETAINED}}`, `{}`},
		{"PUT routers/own", `{"router": {"routes": []}}`, "removes routes", `{"spec": {"gateway": "fd00::2", "router": {ROUTES}}}`, `{"spec": {"router": {ROUTES}}}`},
		{"PUT routers/own", `{"router": {"routes": []}}`, "removes routes", `{"spec": {"router": null}, "status": {"router": {ROUTES}}}`, `{"spec": {"router": null}}`},
		{"PUT routers/own", `{"router": {"routes": []}}`, "removes routes", `{"spec": {"router": {"routes": []}}}`, `{}`},
		{"PUT routers/own", `{"router": {"routes": [{"destination": "fd98::/64", "nexthop": "fd00::7"}]}}`, "removes routes", `{GONE, "spec": {"router": {ROUTES}}}`, `{GONE, "spec": {RETAINED, "router": {ROUTES}}}`},
		{"PUT routers/theirs", `{}`, "it has no mark", `{}`, `{}`},
		{"PUT networks/legacy/tags/TAG1", ``, "marks an imported network", `{"spec": {IMPORTED}}`, `{"spec": {IMPORTED, "managementPolicy": "Observe"}}`},
		{"DELETE networks/legacy/tags/TAG1", ``, "removes the mark of an imported network", `{GONE, "spec": {IMPORTED}}`, `{GONE, "spec": {IMPORTED, "deletionPolicy": "Delete"}, "status": {"imported": true}}`},
		// UID2 has marked it too, and it was never confirmed.
		{"DELETE networks/legacy/tags/TAG1", ``, "removes the mark of an imported network", `{GONE, "spec": {IMPORTED, "deletionPolicy": "Delete"}}`, `{GONE, "spec": {IMPORTED, "managementPolicy": "Observe"}}`},
		{"PUT networks/legacy/tags", `{"tags": ["a"]}`, "it removes the mark of UID2", `{}`, `{}`},
		{"DELETE subnets/sub", ``, "deletes a subnet", `{"spec": {"ipv6": null}}`, `{}`},
		{"DELETE subnets/twin", ``, "deletes a subnet", `{}`, `{"metadata": {"annotations": {"samplecrd.k8s.io/paused": "true"}}}`},
		{"POST subnets", `{"subnet": {"network_id": "net", "subnetpool_id": "pool", "prefixlen": 64, "ip_version": 6}}`, "takes a CIDR from a subnet pool",
			`{"spec": {"additionalSubnets": [{"name": "more", "subnetPool": {"id": "pool", "prefixLength": 64}}]}}`, `{"spec": {"additionalSubnets": [{"name": "more", "subnetPool": {"id": "pool", "prefixLength": 65}}]}}`},
		{"POST rbac-policies", `{"rbac_policy": {"object_id": "net", "target_tenant": "p", "action": "access_as_shared"}}`, "shares a network",
			`{"spec": {"sharedWith": [{"projectID": "p"}]}, "status": {"sharedWith": ["p"]}}`, `{"spec": {"sharedWith": [{"projectID": "p"}]}}`},
		{"DELETE rbac-policies/policy", ``, "ends the sharing of a network", `{"status": {"sharedWith": ["p"]}}`, `{}`},
		{"POST routers", `{"router": {` + external + `}}`, "creates a router", `{}`, `{"spec": {"router": null}}`},
		{"POST routers", `{"router": {` + external + `, "availability_zone_hints": ["az2"]}}`, "creates a router",
			`{"spec": {"router": {"availabilityZoneHints": ["az2"]}}}`, `{"spec": {"router": {"availabilityZoneHints": ["nova"]}}}`},
		{"DELETE routers/own", ``, "deletes a router", `{"spec": {"router": null}}`, `{}`},
		{"PUT routers/own/remove_router_interface", `{"subnet_id": "sub"}`, "detaches a subnet", `{"spec": {"ipv6": null}}`, `{}`},
		{"PUT routers/own/add_router_interface", `{"subnet_id": "sub"}`, "attaches a subnet", `{}`, `{"spec": {"router": null}}`},
	} {
		method, path, _ := strings.Cut(text.Replace(test.request), " ")
		d, wrong := r.DeedOf(parse[Snapshot](inNeutron, more), method, path, []byte(text.Replace(test.body)))
		if got := string(d.Kind) + wrong; got != text.Replace(test.want) {
			t.Errorf("%s %s: %s, want %s", test.request, test.body, got, test.want)
		}
		permits, forbids := parse[samplecrdv1.Network](wanted, test.permits), parse[samplecrdv1.Network](wanted, test.forbids)
		if wrong == "" && (!r.Permits(permits, d) || r.Permits(forbids, d)) {
			t.Errorf("%s %s: permitted %t and %t", test.request, test.body, r.Permits(permits, d), r.Permits(forbids, d))
		}
	}
}

func TestDisagreements(t *testing.T) {
	r := &Rules{Cluster: "c", IsStrange: func(string) bool { return false }, IsLegacy: func(id string) bool { return id == "legacy" }}
	for _, test := range []struct{ network, neutron, want string }{
		{`{}`, `{}`, ""},
		{`{GONE}`, `{}`, "a/b was deleted, and is still there"},
		{`{}`, `{"Networks": {"net": {}}}`, "has no mark"},
		{`{"spec": {"gateway": "fd00::2"}}`, `{}`, "want 1 network"},
		{`{"spec": {"router": {ROUTES}}, "status": {"router": {ROUTES}}}`, `{}`, ""},
		{`{"spec": {"router": {ROUTES}}}`, `{}`, "want 1 network"},
		{`{"spec": {"router": {"routes": []}}}`, `{}`, "want 1 network"},
		{`{"spec": {"router": null}}`, `{}`, "left over: router own of UID1"},
		{`{"metadata": {"uid": "UID3"}}`, `{}`, "left over: network net of UID1"},
		{`{}`, `{"Networks": {"legacy": {"id": "legacy", "tags": ["TAG1"]}}}`, "the tag of UID1"},
		{`{"spec": {IMPORTED}}`, `{}`, "want one of the reasons"},
		{`{"spec": {IMPORTED}}`, `{"Networks": {"legacy": {"id": "legacy"}}}`, "0 of 1 Networks"},
	} {
		networks := []*samplecrdv1.Network{parse[samplecrdv1.Network](wanted, test.network)}
		found := r.Disagreements(networks, parse[Snapshot](inNeutron, test.neutron), func(owner string) bool { return owner == uid+"2" })
		got := strings.Join(found, "\n")
		if want := text.Replace(test.want); !strings.Contains(got, want) || want == "" && got != "" {
			t.Errorf("%s %s: want %q, got:\n%s", test.network, test.neutron, want, got)
		}
	}
}

// A request that a process has given up may be judged after the process has sent it again, and has read the result.
func TestJudgeLooksAtWhatWasReadBeforeTheRequest(t *testing.T) {
	r := &Rules{Cluster: "c", IsStrange: func(string) bool { return false }, IsLegacy: func(string) bool { return false }}
	h, deleted := &History{}, parse[samplecrdv1.Network](wanted, `{GONE}`)
	read := func() Reads {
		h.Read("p", deleted.Namespace, deleted.Name, h.Len())
		return h.ReadBy("p")
	}
	h.Add(deleted, false)
	before := read()
	h.Add(deleted, true)
	after := read()
	creation := &Deed{Kind: Creates, UID: string(deleted.UID)}
	removal := &Deed{Kind: Withdraws, UID: string(deleted.UID), network: "legacy"}
	deleted.Spec = parse[samplecrdv1.Network](wanted, `{"spec": {IMPORTED}}`).Spec
	if wrong := r.Judge(h, "p", before, removal); wrong != "" {
		t.Errorf("judged late: %s", wrong)
	}
	for _, d := range []*Deed{removal, creation} {
		if wrong := r.Judge(h, "p", after, d); !strings.Contains(wrong, "is gone") {
			t.Errorf("%s after it was read that its owner is gone: %q", d.Kind, wrong)
		}
	}
	if wrong := r.Judge(h, "p", before, creation); wrong == "" {
		t.Error("a network is created for a Network that is being deleted")
	}
	// The finalizer came too late: the API server has deleted the Network without having marked it.
	bypassed := parse[samplecrdv1.Network](wanted, `{"spec": {IMPORTED}}`)
	h.Add(bypassed, true)
	after = read()
	if wrong := r.Judge(h, "p", after, removal); wrong != "" {
		t.Errorf("after it was read that its owner is gone in spite of its finalizer: %s", wrong)
	}
	if wrong := r.Judge(h, "p", after, &Deed{Kind: Deletes, UID: string(deleted.UID)}); wrong != "" {
		t.Errorf("it is retained, but what a crash has left of it is an orphan: %s", wrong)
	}
	if wrong := r.Judge(h, "p", after, creation); !strings.Contains(wrong, "does not want that: paused false, deleted true") {
		t.Errorf("creation for an owner that is gone in spite of its finalizer: %q", wrong)
	}
	if wrong := r.Judge(h, "q", h.ReadBy("q"), removal); !strings.Contains(wrong, "without a read") {
		t.Errorf("by a process that has read nothing: %q", wrong)
	}
}

// A process reads the owner of an orphan by the name of the network, unless somebody has renamed the network.
func TestJudgeOfAnOrphanThatWasRenamed(t *testing.T) {
	r := &Rules{Cluster: "c", IsStrange: func(string) bool { return false }, IsLegacy: func(string) bool { return false }}
	for _, test := range []struct {
		name   string
		isGone bool
		want   string
	}{
		{"a/b", true, "without a read of it before"},
		{"renamed", true, ""},
		{"renamed", false, "without a read of it before"},
	} {
		now := parse[Snapshot](inNeutron, `{}`)
		network, router := now.Networks["net"], now.Routers["own"]
		network.Name, router.Name = test.name, "a/b"
		now.Networks["net"], now.Routers["own"] = network, router
		d, wrong := r.DeedOf(now, "DELETE", "networks/net", nil)
		h, owner := &History{}, parse[samplecrdv1.Network](wanted, `{GONE}`)
		h.Add(owner, false)
		h.Add(owner, test.isGone)
		wrong += r.Judge(h, "p", h.ReadBy("p"), d)
		if !strings.HasSuffix(wrong, test.want) || test.want == "" && wrong != "" {
			t.Errorf("%s, gone %t: %q, want %q", test.name, test.isGone, wrong, test.want)
		}
	}
}

// A change that the model of the handover does not take is none of a handover.
func TestIsHandover(t *testing.T) {
	from, to := Owner{"c", "11111111-0000-4000-8000-000000000000"}, Owner{"d", "11111111-0000-4000-8000-000000000000"}
	marks := map[string]string{"old": from.Mark(), "new": to.Mark()}
	tags := map[string][]string{"tag of old": {from.Tag()}, "tags of both": {from.Tag(), "theirs", to.Tag()}}
	for _, test := range []struct {
		name, network, subnet, router, id string
		want                              bool
	}{
		{"the network goes first", "old", "old", "old", "n", true},
		{"a router before its network", "old", "old", "old", "r", false},
		{"a subnet before a router", "new", "old", "old", "s", false},
		{"a subnet at the end", "new", "old", "new", "s", true},
		{"the unlock at the end", "new", "new", "new", "", true},
		{"the unlock too early", "new", "old", "new", "", false},
		{"the network a second time", "new", "old", "old", "n", false},
		{"the new tag", "tag of old", "old", "old", to.Tag(), true},
		{"the old tag before the new one", "tag of old", "new", "new", from.Tag(), false},
		{"a subnet under both tags", "tags of both", "old", "new", "s", true},
		{"the old tag before a subnet", "tags of both", "old", "new", from.Tag(), false},
		{"the old tag at the end", "tags of both", "new", "new", from.Tag(), true},
		{"the new tag goes", "tags of both", "new", "new", to.Tag(), false},
		{"the unlock under both tags", "tags of both", "new", "new", "", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			network := Network{Description: marks[test.network]}
			network.Tags = tags[test.network]
			s := &Snapshot{Networks: map[string]Network{"n": network}, Subnets: map[string]Subnet{"s": {Description: marks[test.subnet]}},
				Routers: map[string]Router{"r": {Description: marks[test.router]}}}
			if got := s.IsHandover(from, to, test.id); got != test.want {
				t.Errorf("got %t", got)
			}
		})
	}
}
