// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
)

// rules are the data of the ConfigMap samplecrd-networks.
type rules map[string]string

// The rules that the tests try.
var (
	noRules  = rules{"reservedCIDRs": "", "deletionPolicyRetain": "", "imports": ""}
	allRules = rules{
		"reservedCIDRs":        "# the platform team's own\n10.96.0.0/12  Services of the cluster\n\n  fd00:10::/32\n",
		"deletionPolicyRetain": "Forbidden",
		"imports":              "Forbidden",
	}
	observeOnly = rules{"reservedCIDRs": "", "deletionPolicyRetain": "Forbidden", "imports": "ObserveOnly"}
	// newRules are those that a ConfigMap may leave out, as those above do.
	newRules = rules{
		"reservedCIDRs": "", "deletionPolicyRetain": "", "imports": "",
		"deletionPolicyDeleteOfImports": "Forbidden", "cloudCredentialsRef": "Required", "routerExisting": "Forbidden",
		"shared": "Forbidden", "sharedWith": "Forbidden", "external": "Forbidden", "provider": "Forbidden",
	}
	somePools = rules{
		"reservedCIDRs": "10.96.0.0/12", "deletionPolicyRetain": "", "imports": "",
		"subnetPools": "# shared with all projects\ntenants v4\n\n  3d3b7f0a-6a3c-4c2b-9d2b-2f1f3a0e9c11\n",
	}
	noPools = rules{"reservedCIDRs": "", "deletionPolicyRetain": "", "imports": "", "subnetPools": "Forbidden"}
)

// What the API server writes before and after the messages of the policies.
const (
	deniedCreate = "ValidatingAdmissionPolicy 'samplecrd-networks' with binding 'samplecrd-networks-create' denied request: "
	deniedUpdate = "ValidatingAdmissionPolicy 'samplecrd-networks' with binding 'samplecrd-networks-update' denied request: "
	deniedRules  = "ValidatingAdmissionPolicy 'samplecrd-networks-rules' with binding 'samplecrd-networks-rules' denied request: "

	services     = "10.96.0.0/12 (Services of the cluster)"
	isReserved   = ". Choose another address range. The reserved ranges are in ConfigMap samplecrd-system/samplecrd-networks. Ranges from subnet pools are not compared with them"
	noRetain     = "deletionPolicy Retain is forbidden by ConfigMap samplecrd-system/samplecrd-networks. Set deletionPolicy to Delete, or leave it out"
	noImport     = "import is forbidden by ConfigMap samplecrd-system/samplecrd-networks. Leave it out: then the controller creates a network"
	noManaging   = "managementPolicy Managed of an imported network is forbidden by ConfigMap samplecrd-system/samplecrd-networks. Leave managementPolicy at Observe"
	onlyObserve  = "import is allowed only with managementPolicy Observe, by ConfigMap samplecrd-system/samplecrd-networks. Set managementPolicy to Observe"
	noDelete     = "deletionPolicy Delete of an imported network is forbidden by ConfigMap samplecrd-system/samplecrd-networks. Set deletionPolicy to Retain, or leave it out"
	noRef        = "cloudCredentialsRef is required by ConfigMap samplecrd-system/samplecrd-networks. Set cloudCredentialsRef to a Secret of this namespace, or to a ClusterCloud"
	noExisting   = "router.existing is forbidden by ConfigMap samplecrd-system/samplecrd-networks. Set router.externalNetwork instead: then the controller creates a router. Or leave router out"
	noSharedWith = "sharedWith is forbidden by ConfigMap samplecrd-system/samplecrd-networks. Leave it out, or add no project to it"
	noShared     = "shared is forbidden by ConfigMap samplecrd-system/samplecrd-networks. Set shared to false, or leave it out"
	noExternal   = "external is forbidden by ConfigMap samplecrd-system/samplecrd-networks. Set external to false, or leave it out"
	noProvider   = "provider is forbidden by ConfigMap samplecrd-system/samplecrd-networks. Leave provider out: then the cloud chooses it"
	sameProvider = "a change of provider is forbidden by ConfigMap samplecrd-system/samplecrd-networks. Leave provider as it is"
	noPool       = "subnetPool is forbidden by ConfigMap samplecrd-system/samplecrd-networks. Set cidr instead"
	aPool        = "the subnet pool with the %s is not allowed by ConfigMap samplecrd-system/samplecrd-networks. Choose one of these: name tenants v4, id 3d3b7f0a-6a3c-4c2b-9d2b-2f1f3a0e9c11"
	stayObserver = "provider is forbidden by ConfigMap samplecrd-system/samplecrd-networks. Leave managementPolicy at Observe"
	askToCorrect = "the rules for Networks have mistakes, so that no spec of a Network can be written. Ask your administrator to correct ConfigMap samplecrd-system/samplecrd-networks: "
	noConfigMap  = "failed to configure binding: no params found for policy binding with `Deny` parameterNotFoundAction"

	theImport = `import: {networkID: 3d3b7f0a-6a3c-4c2b-9d2b-2f1f3a0e9c11}`
	theRef    = `cloudCredentialsRef: {secretName: team-cloud, cloudName: team}`
	theVLAN   = `provider: {networkType: vlan, physicalNetwork: physnet1, segmentationID: 7}`
)

// probe is the CIDR of a Network that is refused as soon as the rules of setRules are in force.
const probe = "192.0.2.0/24"

// edited is a Network without a controller, from before the rules. It shows which rules are in force for updates.
const edited = "edited"

// installPolicies installs artifacts/deploy/admission as a user does, and removes it at the end
// of the test.
func (w *world) installPolicies() {
	w.Helper()
	_, err := w.tryKubectl(manifest(edited, "10.0.0.0/24", ""), "create", "-f", "-")
	w.must(err)
	w.kubectl("apply", "-f", w.kustomization("namespace.yaml"))
	folder := w.kustomization("admission")
	w.Cleanup(func() {
		if _, err := w.clusterKubectl("", "delete", "-k", folder, "--ignore-not-found"); err != nil {
			w.Errorf("the tests after this one may fail too: %v", err)
		}
	})
	w.applyAll(folder)
}

// removePolicies removes them, and waits until the API server knows. Until then it refuses the
// probe, because of the rules or because there are none.
func (w *world) removePolicies() {
	w.Helper()
	w.setRules(noRules, "until the policies are gone")
	_, err := w.clusterKubectl("", "delete", "-k", w.kustomization("admission"), "--ignore-not-found")
	w.must(err)
	w.eventually(func() error { return errors.Join(w.probe()...) })
}

// probe tries to create and to update a Network with the CIDR of that name. The API server does not learn of the bindings
// for creations and for updates at the same moment.
func (w *world) probe() []error {
	w.Helper()
	return []error{w.dryRun(manifest("probe", probe, "")), w.dryEdit(edited, `{"spec":{"cidr":"`+probe+`"}}`)}
}

// setRules writes the rules, and a reserved range of that name, and waits until they are in force.
func (w *world) setRules(r rules, name string) {
	w.Helper()
	data := maps.Clone(r)
	data["reservedCIDRs"] += "\n" + probe + " " + name + "\n"
	w.must(w.writeRules(data))
	w.eventually(func() error {
		for _, err := range w.probe() {
			if err == nil || !strings.Contains(err.Error(), probe+" ("+name+")") {
				return fmt.Errorf("%s is not in force: %v", name, err)
			}
		}
		return nil
	})
}

// writeRules applies the ConfigMap.
func (w *world) writeRules(data rules) error {
	w.Helper()
	text, err := json.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "data": data,
		"metadata": map[string]string{"name": "samplecrd-networks", "namespace": systemNamespace},
	})
	w.must(err)
	_, err = w.clusterKubectl(string(text), "apply", "-f", "-")
	return err
}

// clusterKubectl runs kubectl without a namespace, and returns what it writes.
func (p *plane) clusterKubectl(stdin string, args ...string) (string, error) {
	cmd := p.controlPlane.Kubectl(args...)
	cmd.Stdin = strings.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%s", strings.TrimSpace(string(out)))
	}
	return string(out), err
}

// spec returns a Network with that spec, in YAML.
func spec(name, text string) string {
	return fmt.Sprintf("apiVersion: samplecrd.k8s.io/v1\nkind: Network\nmetadata: {name: %s}\nspec: %s\n", name, text)
}

// forbidden fails unless the error is that message, or there is none if the message is "".
func (w *world) forbidden(err error, name, message string) {
	w.Helper()
	if message == "" {
		if err != nil {
			w.Errorf("refused: %v", err)
		}
		return
	}
	if !apierrors.IsForbidden(err) {
		w.Fatalf("want it forbidden, got %v", err)
	}
	w.equal(err.Error(), fmt.Sprintf("networks.samplecrd.k8s.io %q is forbidden: %s", name, message))
}

// manyRanges returns that many lines of reserved ranges, each about as long as it can be.
func manyRanges(n int) string {
	var lines strings.Builder
	for i := range n {
		fmt.Fprintf(&lines, "fd00:1111:2222:%x:4444::/80  Services of the cluster number %d in the data centre\n", 4096+i, i)
	}
	return lines.String()
}

// nineSubnets returns a spec with as many subnets as there can be.
func nineSubnets() string {
	var more []string
	for i := range 8 {
		more = append(more, fmt.Sprintf(`{name: s%d, cidr: "fd00:aaaa:bbbb:cccc:dddd:eeee:ffff:%d/128"}`, i, i))
	}
	return `{cidr: 10.0.0.0/24, additionalSubnets: [` + strings.Join(more, ", ") + `]}`
}

// manyPools returns that many lines of subnet pools. They are more than a message can have.
func manyPools(n int) string {
	var lines strings.Builder
	for i := range n {
		fmt.Fprintf(&lines, "3d3b7f0a-6a3c-4c2b-9d2b-%012d\n", i)
	}
	return lines.String()
}

// ninePooledSubnets returns a spec with as many subnets as there can be, and no pool of manyPools.
func ninePooledSubnets() string {
	const pool = `subnetPool: {id: 4d3b7f0a-6a3c-4c2b-9d2b-2f1f3a0e9c11, prefixLength: 64}`
	var more []string
	for i := range 8 {
		more = append(more, fmt.Sprintf(`{name: s%d, %s}`, i, pool))
	}
	return `{` + pool + `, additionalSubnets: [` + strings.Join(more, ", ") + `]}`
}

// These tests are part of TestWholeCluster: the policies are for the whole cluster, and the tests share the
// namespace samplecrd-system.

// everything is the name of a group of newNetworks.
const everything = "all rules"

// newNetworks are specs, and the refusal under the rules of that name, "" for none.
var newNetworks = []struct{ rules, why, spec, message string }{
	{"none", "Retain", `{cidr: 10.0.0.0/24, deletionPolicy: Retain}`, ""},
	{"none", "what others reserve", `{cidr: 10.96.0.0/12}`, ""},
	{"none", "a subnet pool", `{subnetPool: {name: other, prefixLength: 24}, additionalSubnets: [{name: v6, subnetPool: {id: x, prefixLength: 64}}]}`, ""},

	{everything, "a free range", `{cidr: 10.0.0.0/24}`, ""},
	{everything, "the range before", `{cidr: 10.95.255.0/24}`, ""},
	{everything, "dual stack", `{cidr: 10.0.0.0/24, additionalSubnets: [{name: v6, cidr: "fd00:11::/64"}]}`, ""},
	{everything, "routes and DNS servers may be in a reserved range", `{cidr: 10.0.0.0/24, dnsNameservers: [10.96.0.10], hostRoutes: [{destination: 10.96.0.0/12, nextHop: 10.0.0.2}]}`, ""},
	{everything, "inside", `{cidr: 10.96.3.0/24}`, "10.96.3.0/24 overlaps with the reserved range " + services + isReserved},
	{everything, "the last address", `{cidr: 10.111.255.255/32, enableDHCP: false}`, "10.111.255.255/32 overlaps with the reserved range " + services + isReserved},
	{everything, "around it", `{cidr: 10.0.0.0/8}`, "10.0.0.0/8 overlaps with the reserved range " + services + isReserved},
	{everything, "host bits outside it", `{cidr: 10.1.0.0/8}`, "10.1.0.0/8 overlaps with the reserved range " + services + isReserved},
	{everything, "IPv6", `{cidr: "FD00:10:5::/64"}`, `FD00:10:5::/64 overlaps with the reserved range fd00:10::/32` + isReserved},
	{everything, "an additional subnet", `{cidr: 10.0.0.0/24, additionalSubnets: [{name: more, cidr: 10.100.0.0/24}, {name: v6, cidr: "fd00:10::/64"}]}`, "10.100.0.0/24 overlaps with the reserved range " + services + `; fd00:10::/64 overlaps with the reserved range fd00:10::/32` + isReserved},
	{everything, "Neutron chooses the range", `{subnetPool: {name: other, prefixLength: 24}, additionalSubnets: [{name: v6, subnetPool: {id: x, prefixLength: 64}}]}`, ""},
	{everything, "an additional subnet beside one from a pool", `{subnetPool: {name: other, prefixLength: 64}, additionalSubnets: [{name: v4, cidr: 10.100.0.0/24}]}`, "10.100.0.0/24 overlaps with the reserved range " + services + isReserved},
	{everything, "an additional subnet from a pool", `{cidr: 10.100.0.0/24, additionalSubnets: [{name: v6, subnetPool: {name: other, prefixLength: 64}}]}`, "10.100.0.0/24 overlaps with the reserved range " + services + isReserved},
	{everything, "Retain", `{cidr: 10.0.0.0/24, deletionPolicy: Retain}`, noRetain},
	{everything, "an import", `{` + theImport + `}`, noImport},

	{"the new rules", "credentials", `{cidr: 10.0.0.0/24, ` + theRef + `}`, ""},
	{"the new rules", "no credentials", `{cidr: 10.0.0.0/24}`, noRef},
	{"the new rules", "an import without credentials", `{` + theImport + `}`, noRef},
	{"the new rules", "an import that is deleted", `{` + theImport + `, deletionPolicy: Delete, ` + theRef + `}`, noDelete},
	{"the new rules", "an import that observes, and is deleted when it does not", `{` + theImport + `, managementPolicy: Observe, deletionPolicy: Delete, ` + theRef + `}`, noDelete},
	{"the new rules", "an import that is retained", `{` + theImport + `, deletionPolicy: Retain, ` + theRef + `}`, ""},
	{"the new rules", "an import that is retained by default", `{` + theImport + `, ` + theRef + `}`, ""},
	{"the new rules", "Delete without an import", `{cidr: 10.0.0.0/24, deletionPolicy: Delete, ` + theRef + `}`, ""},
	{"the new rules", "a router that exists", `{cidr: 10.0.0.0/24, router: {existing: {name: main}}, ` + theRef + `}`, noExisting},
	{"the new rules", "a router of its own", `{cidr: 10.0.0.0/24, router: {externalNetwork: {name: public}}, ` + theRef + `}`, ""},
	{"the new rules", "shared", `{cidr: 10.0.0.0/24, shared: true, ` + theRef + `}`, noShared},
	{"the new rules", "shared-with", `{cidr: 10.0.0.0/24, sharedWith: [{projectID: 0123456789abcdef0123456789abcdef}], ` + theRef + `}`, noSharedWith},
	{"the new rules", "external", `{cidr: 10.0.0.0/24, external: true, ` + theRef + `}`, noExternal},
	{"the new rules", "neither", `{cidr: 10.0.0.0/24, shared: false, external: false, ` + theRef + `}`, ""},
	{"the new rules", "provider", `{cidr: 10.0.0.0/24, ` + theVLAN + `, ` + theRef + `}`, noProvider},
	{"none", "what the new rules refuse", `{` + theImport + `, deletionPolicy: Delete, cidr: 10.0.0.0/24, router: {existing: {name: main}}, shared: true, external: true, ` + theVLAN + `}`, ""},

	{"pools", "no pool", `{cidr: 10.0.0.0/24, additionalSubnets: [{name: v6, cidr: "fd00:1::/64"}]}`, ""},
	{"pools", "by name and by ID", `{subnetPool: {name: tenants v4, prefixLength: 24}, additionalSubnets: [{name: v6, subnetPool: {id: 3d3b7f0a-6a3c-4c2b-9d2b-2f1f3a0e9c11, prefixLength: 64}}]}`, ""},
	{"pools", "another name", `{subnetPool: {name: tenants, prefixLength: 24}}`, fmt.Sprintf(aPool, "name tenants")},
	{"pools", "another ID", `{subnetPool: {id: 4d3b7f0a-6a3c-4c2b-9d2b-2f1f3a0e9c11, prefixLength: 24}}`, fmt.Sprintf(aPool, "id 4d3b7f0a-6a3c-4c2b-9d2b-2f1f3a0e9c11")},
	{"pools", "an ID as a name", `{subnetPool: {name: 3d3b7f0a-6a3c-4c2b-9d2b-2f1f3a0e9c11, prefixLength: 24}}`, fmt.Sprintf(aPool, "name 3d3b7f0a-6a3c-4c2b-9d2b-2f1f3a0e9c11")},
	{"pools", "an additional subnet", `{subnetPool: {name: tenants v4, prefixLength: 24}, additionalSubnets: [{name: v6, subnetPool: {name: v6, prefixLength: 64}}]}`, fmt.Sprintf(aPool, "name v6")},
	{"pools", "an additional subnet beside cidr", `{cidr: 10.0.0.0/24, additionalSubnets: [{name: v6, subnetPool: {name: v6, prefixLength: 64}}]}`, fmt.Sprintf(aPool, "name v6")},
	{"no pools", "no pool", `{cidr: 10.0.0.0/24}`, ""},
	{"no pools", "a pool", `{subnetPool: {name: tenants v4, prefixLength: 24}}`, noPool},
	{"no pools", "its name", `{subnetPool: {name: Forbidden, prefixLength: 24}}`, noPool},

	{"observe only", "an import that manages", `{` + theImport + `, managementPolicy: Managed}`, onlyObserve},
	{"observe only", "an import that observes", `{` + theImport + `, managementPolicy: Observe}`, ""},
	{"observe only", "an import is retained by default, and may say so", `{` + theImport + `, managementPolicy: Observe, deletionPolicy: Retain}`, ""},
}

func admissionPoliciesRefuseNewNetworks(t *testing.T) {
	w := newWorldWithoutNeutron(t)
	w.installPolicies()
	for group, r := range map[string]rules{"none": noRules, everything: allRules, "observe only": observeOnly, "the new rules": newRules, "pools": somePools, "no pools": noPools} {
		w.setRules(r, group)
		for _, tc := range newNetworks {
			if tc.rules != group {
				continue
			}
			t.Run(tc.rules+": "+tc.why, func(t *testing.T) {
				message := tc.message
				if message != "" {
					message = deniedCreate + message
				}
				w.at(t).forbidden(w.dryRun(spec("net", tc.spec)), "net", message)
			})
		}
	}
	w.setRules(allRules, "the others")
	w.refused(w.dryRun(manifest("net", "10.96.0.0", "")), "spec.cidr", fmt.Sprintf(noCIDR, "10.96.0.0")) // by the CRD
	_, err := w.clusterKubectl(manifest("net", "10.96.3.0/24", ""), "create", "-n", w.namespace, "-f", "-")
	w.equal(fmt.Sprint(err), `Error from server (Forbidden): error when creating "STDIN": networks.samplecrd.k8s.io "net" is forbidden: `+
		deniedCreate+"10.96.3.0/24 overlaps with the reserved range "+services+isReserved)
	_, err = w.clusterKubectl(manifest("net", "10.96.3.0/24", ""), "create", "--dry-run=server", "-n", systemNamespace, "-f", "-")
	w.must(err) // the controller's namespace is excluded
	w.setRules(rules{"reservedCIDRs": manyRanges(1000), "deletionPolicyRetain": "", "imports": ""}, "many")
	w.must(w.dryRun(spec("net", nineSubnets())))
	w.setRules(with("subnetPools", manyPools(1000)), "many pools")
	w.forbidden(w.dryRun(spec("net", ninePooledSubnets())), "net", deniedCreate+"the subnet pool is not allowed. Choose another one, or set cidr instead")
	w.removePolicies()
}

// oldNetworks are Networks from before the rules.
var oldNetworks = map[string]string{
	"range":    `{cidr: 10.96.5.0/24}`,
	"retained": `{cidr: 10.0.0.0/24, deletionPolicy: Retain}`,
	"import":   `{` + theImport + `}`,
	"observed": `{` + theImport + `, managementPolicy: Observe}`,
	"admin":    `{cidr: 10.1.0.0/24, router: {existing: {name: main}}, shared: true, external: true, ` + theVLAN + `}`,
	"deleted":  `{` + theImport + `, deletionPolicy: Delete}`,
	"watched":  `{` + theImport + `, managementPolicy: Observe, cidr: 10.1.0.0/24, deletionPolicy: Delete, router: {existing: {name: main}}, shared: true, external: true}`,
	"pooled":   `{subnetPool: {name: old, prefixLength: 24}, additionalSubnets: [{name: v6, subnetPool: {name: v6, prefixLength: 64}}]}`,
	"watching": `{` + theImport + `, managementPolicy: Observe, subnetPool: {name: old, prefixLength: 24}}`,
	"vlan":     `{` + theImport + `, managementPolicy: Observe, ` + theVLAN + `}`,
}

// networkEdits are merge patches of the Networks that oldNetworks has, and the refusal, "" for none.
var networkEdits = []struct{ why, name, patch, message string }{
	{"the finalizer", "range", `{"metadata":{"finalizers":null}}`, ""},
	{"the gateway", "range", `{"spec":{"gateway":"10.96.5.9"}}`, ""},
	{"the bits after the prefix length", "range", `{"spec":{"cidr":"10.96.5.7/24"}}`, ""},
	{"out of the reserved range", "range", `{"spec":{"cidr":"10.0.0.0/24"}}`, ""},
	{"the old range becomes an additional subnet", "range", `{"spec":{"cidr":"10.0.0.0/24","additionalSubnets":[{"name":"old","cidr":"10.96.5.0/24"}]}}`, ""},
	{"another reserved range", "range", `{"spec":{"cidr":"10.96.6.0/24"}}`, "10.96.6.0/24 overlaps with the reserved range " + services + isReserved},
	{"one more reserved range", "range", `{"spec":{"additionalSubnets":[{"name":"more","cidr":"10.96.6.0/24"}]}}`, "10.96.6.0/24 overlaps with the reserved range " + services + isReserved},
	{"Retain", "range", `{"spec":{"deletionPolicy":"Retain"}}`, noRetain},

	{"no longer Retain", "retained", `{"spec":{"deletionPolicy":null}}`, ""},
	{"another field of an import", "import", `{"spec":{"tags":["a"]}}`, ""},
	{"an import begins to observe", "import", `{"spec":{"managementPolicy":"Observe"}}`, ""},
	{"an import is retained by default, and may say so", "import", `{"spec":{"deletionPolicy":"Retain"}}`, ""},
	{"an import that observes stops to", "observed", `{"spec":{"managementPolicy":null}}`, noManaging},
}

// newRulesEdits are the same under newRules.
var newRulesEdits = []struct{ why, name, patch, message string }{
	{"the finalizer", "admin", `{"metadata":{"finalizers":null}}`, ""},
	{"another field, without credentials", "admin", `{"spec":{"gateway":"10.1.0.9"}}`, ""},
	{"nothing of it any more", "admin", `{"spec":{"router":null,"shared":null,"external":false}}`, ""},
	{"another router that exists", "admin", `{"spec":{"router":{"existing":{"name":"other"}}}}`, noExisting},
	{"a router of its own", "admin", `{"spec":{"router":{"existing":null,"externalNetwork":{"name":"public"}}}}`, ""},
	{"another segmentation ID", "admin", `{"spec":{"provider":{"segmentationID":8}}}`, sameProvider},
	{"a router that exists", "range", `{"spec":{"router":{"existing":{"name":"main"}}}}`, noExisting},
	{"shared", "range", `{"spec":{"shared":true}}`, noShared},
	{"external", "range", `{"spec":{"external":true}}`, noExternal},

	{"another field of an import that is deleted", "deleted", `{"spec":{"tags":["a"]}}`, ""},
	{"an import that is deleted begins to observe", "deleted", `{"spec":{"managementPolicy":"Observe"}}`, ""},
	{"an import is no longer deleted", "deleted", `{"spec":{"deletionPolicy":null}}`, ""},
	{"an import is to be deleted", "import", `{"spec":{"deletionPolicy":"Delete"}}`, noDelete},

	{"another field of an import that observes", "watched", `{"spec":{"tags":["a"]}}`, ""},
	{"it begins to manage", "watched", `{"spec":{"managementPolicy":"Managed"}}`, noDelete},
	{"it begins to manage, and is retained", "watched", `{"spec":{"managementPolicy":"Managed","deletionPolicy":null}}`, noExisting},
	{"and has no router", "watched", `{"spec":{"managementPolicy":"Managed","deletionPolicy":null,"router":null}}`, noShared},
	{"and is not shared", "watched", `{"spec":{"managementPolicy":"Managed","deletionPolicy":null,"router":null,"shared":false}}`, noExternal},
	{"and is not external", "watched", `{"spec":{"managementPolicy":"Managed","deletionPolicy":null,"router":null,"shared":false,"external":false}}`, ""},
	{"it begins to manage, and has provider", "vlan", `{"spec":{"managementPolicy":null}}`, stayObserver},
}

// somePoolsEdits are the same under somePools.
var somePoolsEdits = []struct{ why, name, patch, message string }{
	{"the finalizer", "pooled", `{"metadata":{"finalizers":null}}`, ""},
	{"another field", "pooled", `{"spec":{"tags":["a"]}}`, ""},
	{"another field of the subnet", "pooled", `{"spec":{"dnsNameservers":["10.0.0.53"]}}`, ""},
	{"an allowed pool", "pooled", `{"spec":{"subnetPool":{"name":"tenants v4"}}}`, ""},
	{"no pool any more", "pooled", `{"spec":{"subnetPool":null,"cidr":"10.0.0.0/24","additionalSubnets":null}}`, ""},
	{"a reserved range in place of a pool", "pooled", `{"spec":{"subnetPool":null,"cidr":"10.96.5.0/24"}}`, "10.96.5.0/24 overlaps with the reserved range 10.96.0.0/12" + isReserved},
	{"one more subnet with a CIDR", "pooled", `{"spec":{"additionalSubnets":[{"name":"v6","subnetPool":{"name":"v6","prefixLength":64}},{"name":"more","cidr":"fd00:1::/64"}]}}`, ""},
	{"another pool", "pooled", `{"spec":{"subnetPool":{"name":"other"}}}`, fmt.Sprintf(aPool, "name other")},
	{"a larger block of the old pool", "pooled", `{"spec":{"subnetPool":{"prefixLength":20}}}`, fmt.Sprintf(aPool, "name old")},
	{"one more block of the old pool", "pooled", `{"spec":{"additionalSubnets":[{"name":"v6","subnetPool":{"name":"v6","prefixLength":64}},{"name":"more","subnetPool":{"name":"v6","prefixLength":64}}]}}`, fmt.Sprintf(aPool, "name v6")},
	{"another field of an import that observes", "watching", `{"spec":{"tags":["a"]}}`, ""},
	{"it begins to manage", "watching", `{"spec":{"managementPolicy":null}}`, fmt.Sprintf(aPool, "name old")},
	{"a pool in place of a CIDR", "range", `{"spec":{"cidr":null,"subnetPool":{"name":"old","prefixLength":24}}}`, fmt.Sprintf(aPool, "name old")},
}

func admissionPoliciesLetOldNetworksBeEdited(t *testing.T) {
	w := newWorldWithoutNeutron(t)
	for name, text := range oldNetworks {
		_, err := w.tryKubectl(spec(name, text), "create", "-f", "-")
		w.must(err)
		w.kubectl("patch", "network", name, "--type=merge", "-p", `{"metadata":{"finalizers":["samplecrd.k8s.io/neutron"]}}`)
	}
	w.installPolicies()
	w.setRules(allRules, everything)
	for _, tc := range networkEdits {
		t.Run(tc.why, func(t *testing.T) { w.at(t).edit(tc.name, tc.patch, tc.message) })
	}
	w.edit("range", `{"status":{"cidr":"10.96.5.0/24"}}`, "", "status")
	w.setRules(newRules, "the new rules")
	for _, tc := range newRulesEdits {
		t.Run("the new rules: "+tc.why, func(t *testing.T) { w.at(t).edit(tc.name, tc.patch, tc.message) })
	}
	w.edit("admin", `{"status":{"cidr":"10.1.0.0/24"}}`, "", "status")
	w.setRules(somePools, "pools")
	for _, tc := range somePoolsEdits {
		t.Run("pools: "+tc.why, func(t *testing.T) { w.at(t).edit(tc.name, tc.patch, tc.message) })
	}
	w.edit("pooled", `{"status":{"cidr":"10.96.5.0/24"}}`, "", "status")
	for _, name := range []string{"admin", "deleted", "watched", "vlan", "pooled", "watching"} {
		w.kubectl("delete", "network", name, "--wait=false")
		w.release(name)
		w.waitGone(name)
	}
	w.setRules(allRules, everything)
	w.kubectl("delete", "network", "range", "--wait=false")
	w.edit("range", `{"spec":{"deletionPolicy":"Retain"}}`, noRetain)
	w.release("range")
	w.waitGone("range")
	w.setRules(observeOnly, "observe only")
	w.edit("observed", `{"spec":{"managementPolicy":"Managed"}}`, onlyObserve)
	w.edit("import", `{"spec":{"tags":["a"]}}`, "")

	w.removeRules()
	w.edit("import", `{"metadata":{"finalizers":null}}`, "")
	w.edit("import", `{"spec":{"tags":["a"]}}`, "")
	w.kubectl("delete", "network", "retained", "--wait=false")
	w.release("retained")
	w.waitGone("retained")
	w.removePolicies()
	w.release("import")
	w.release("observed")
}

// edit sends a merge patch as a dry run, and fails unless it is refused with that message, or not
// if the message is "".
func (w *world) edit(name, patch, message string, subresources ...string) {
	w.Helper()
	err := w.dryEdit(name, patch, subresources...)
	if message != "" {
		message = deniedUpdate + message
	}
	w.forbidden(err, name, message)
}

// dryEdit sends a merge patch as a dry run.
func (w *world) dryEdit(name, patch string, subresources ...string) error {
	_, err := w.client.SamplecrdV1().Networks(w.namespace).Patch(w.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}}, subresources...)
	return err
}

// release removes the finalizer, as the controller does.
func (w *world) release(name string) {
	w.Helper()
	w.kubectl("patch", "network", name, "--type=merge", "-p", `{"metadata":{"finalizers":null}}`)
}

// removeRules deletes the ConfigMap, and waits until no Network can be created.
func (w *world) removeRules() {
	w.Helper()
	w.kubectl("delete", "configmap", "samplecrd-networks", "--namespace="+systemNamespace)
	w.eventually(func() error {
		if err := w.dryRun(manifest("probe", "10.0.0.0/24", "")); err == nil || !strings.HasSuffix(err.Error(), deniedCreate+noConfigMap) {
			return fmt.Errorf("the API server still has the ConfigMap: %v", err)
		}
		return nil
	})
}

const aRange = " must begin with an address range such as 10.96.0.0/12 or fd00:10::/32, and a blank after it"

// with returns no rules but one.
func with(key, value string) rules {
	r := maps.Clone(noRules)
	r[key] = value
	return r
}

// mistakes are rules, and what is wrong with them, "" for nothing.
var mistakes = []struct {
	why     string
	rules   rules
	message string
}{
	{"a comment only", with("reservedCIDRs", "# none yet"), ""},
	{"no data", nil, `reservedCIDRs is missing: add it, with the value "" if there is no such rule; deletionPolicyRetain is missing: add it, with the value "" if there is no such rule; imports is missing: add it, with the value "" if there is no such rule`},
	{"a key that does not exist", with("reservedCidrs", "10.0.0.0/8"), "reservedCidrs is not one of reservedCIDRs, deletionPolicyRetain, imports, deletionPolicyDeleteOfImports, cloudCredentialsRef, routerExisting, shared, sharedWith, external, provider, subnetPools"},
	{"another word", with("deletionPolicyRetain", "forbidden"), `deletionPolicyRetain must be Forbidden or empty, not "forbidden"`},
	{"another word", with("imports", "None"), `imports must be Forbidden, ObserveOnly or empty, not "None"`},
	{"another word", with("deletionPolicyDeleteOfImports", "true"), `deletionPolicyDeleteOfImports must be Forbidden or empty, not "true"`},
	{"another word", with("cloudCredentialsRef", "Forbidden"), `cloudCredentialsRef must be Required or empty, not "Forbidden"`},
	{"another word", with("routerExisting", "no"), `routerExisting must be Forbidden or empty, not "no"`},
	{"another word", with("shared", "false"), `shared must be Forbidden or empty, not "false"`},
	{"another word", with("external", "false"), `external must be Forbidden or empty, not "false"`},
	{"another word", with("provider", "Required"), `provider must be Forbidden or empty, not "Required"`},
	{"all other keys are empty", rules{"reservedCIDRs": "", "deletionPolicyRetain": "", "imports": "", "deletionPolicyDeleteOfImports": "", "cloudCredentialsRef": "", "routerExisting": "", "shared": "", "sharedWith": "", "external": "", "provider": "", "subnetPools": ""}, ""},
	{"subnet pools", with("subnetPools", "tenants v4\n# none\n3d3b7f0a-6a3c-4c2b-9d2b-2f1f3a0e9c11"), ""},
	{"no range", with("reservedCIDRs", "10.96.0.0/12\nServices 10.0.0.0/8\n"), `reservedCIDRs: the line "Services 10.0.0.0/8"` + aRange},
	{"two ranges in a line", with("reservedCIDRs", "10.96.0.0/12,10.0.0.0/16"), `reservedCIDRs: the line "10.96.0.0/12,10.0.0.0/16"` + aRange},
	{"bits after the prefix length", with("reservedCIDRs", "10.100.0.0/12 pods"), `reservedCIDRs: the line "10.100.0.0/12 pods" must begin with 10.96.0.0/12: bits after the prefix length must be 0`},
	{"two mistakes", rules{"reservedCIDRs": "all", "deletionPolicyRetain": "", "imports": "x"}, `imports must be Forbidden, ObserveOnly or empty, not "x"; reservedCIDRs: the line "all"` + aRange},
}

func admissionPoliciesFindMistakesInTheirRules(t *testing.T) {
	w := newWorldWithoutNeutron(t)
	w.apply("old", "10.0.0.0/24", "")
	w.installPolicies()
	w.setRules(allRules, "all rules")
	for _, tc := range mistakes {
		t.Run("written: "+tc.why, func(t *testing.T) {
			w := w.at(t)
			err := w.writeRules(tc.rules)
			if tc.message == "" {
				w.must(err)
				return
			}
			w.equal(fmt.Sprint(err), `The configmaps "samplecrd-networks" is invalid: : `+deniedRules+tc.message)
		})
	}
	t.Run("created", func(t *testing.T) {
		w := w.at(t)
		w.kubectl("delete", "configmap", "samplecrd-networks", "--namespace="+systemNamespace)
		w.contains(fmt.Sprint(w.writeRules(with("imports", "None"))), deniedRules+`imports must be Forbidden, ObserveOnly or empty, not "None"`)
	})

	// A ConfigMap from before the policy is not checked when it is written.
	w.kubectl("delete", "validatingadmissionpolicybinding", "samplecrd-networks-rules")
	for _, tc := range mistakes {
		if tc.message == "" {
			continue
		}
		t.Run("found: "+tc.why, func(t *testing.T) {
			w := w.at(t)
			w.eventually(func() error { return w.writeRules(tc.rules) })
			w.eventually(func() error {
				err := w.dryRun(manifest("net", "10.0.0.0/24", ""))
				if want := deniedCreate + askToCorrect + tc.message; err == nil || !strings.HasSuffix(err.Error(), want) {
					return fmt.Errorf("want %s, got %v", want, err)
				}
				return nil
			})
			w.kubectl("label", "network", "old", "a=b", "--dry-run=server")
		})
	}
	w.must(w.writeRules(noRules))
	w.typesAreRight("samplecrd-networks", "samplecrd-networks-rules")
	w.removePolicies()
}

// typesAreRight fails if the type checker of Kubernetes, which compares the expressions with the schemas, has warnings
// for a policy.
func (w *world) typesAreRight(policies ...string) {
	w.Helper()
	for _, name := range policies {
		w.eventually(func() error {
			policy, err := w.kube.AdmissionregistrationV1().ValidatingAdmissionPolicies().Get(w.Context(), name, metav1.GetOptions{})
			if err != nil || policy.Status.TypeChecking == nil {
				return errors.Join(err, fmt.Errorf("%s has not been checked", name))
			}
			for _, warning := range policy.Status.TypeChecking.ExpressionWarnings {
				w.Errorf("%s: %s: %s", name, warning.FieldRef, warning.Warning)
			}
			return nil
		})
	}
}

// A user of the annotation sees the refusal on the Deployment. When the rule goes, the Network comes.
func admissionPoliciesHoldForDeployments(t *testing.T) {
	w := newWorld(t)
	w.expected = failedToSync
	w.installPolicies()
	w.setRules(allRules, "all rules")
	w.start("-retry-base-delay=50ms", "-retry-max-delay=200ms")
	w.deploy("web", "10.96.3.0/24", "")
	event := w.waitForEvent("web", samplecrdv1.EventNetworkRefused, deniedCreate)
	w.contains(event.Message, "10.96.3.0/24 overlaps with the reserved range "+services+isReserved)
	w.setRules(noRules, "none")
	w.waitInForce("web", "10.96.3.0/24", "10.96.3.1")

	w.removeRules()
	w.deploy("api", "10.0.0.0/24", "")
	w.waitForEvent("api", samplecrdv1.EventNetworkAnnotationInvalid, deniedCreate+noConfigMap)
	w.delete("web") // Kubernetes still lets the finalizer go
	w.nothing("web")
	w.removePolicies()
}

// The kustomization of the README excludes a namespace, and warns instead of refusing.
func admissionPoliciesCanBeTriedFirst(t *testing.T) {
	w, excluded := newWorldWithoutNeutron(t), newWorldWithoutNeutron(t)
	w.installPolicies()
	w.setRules(allRules, "all rules")
	page, err := os.ReadFile(filepath.Join(w.kustomization("admission"), "README.md"))
	w.must(err)
	_, block, _ := strings.Cut(string(page), "```yaml\nresources: [path/to/artifacts/deploy/admission]\n")
	block, _, _ = strings.Cut(block, "```")
	out, err := w.clusterKubectl("", "apply", "-k", w.overlay("admission", strings.ReplaceAll(block, "team-a", excluded.namespace)))
	w.must(err)
	w.contains(out, "configmap/samplecrd-networks configured", "validatingadmissionpolicybinding.admissionregistration.k8s.io/samplecrd-networks-create configured")

	file := w.file("net.yaml", manifest("net", "10.96.3.0/24", ""))
	w.eventually(func() error {
		_, err := w.clusterKubectl("", "create", "--dry-run=server", "-n", w.namespace, "-f", file)
		return err
	})
	out, err = w.clusterKubectl("", "create", "-n", w.namespace, "-f", file)
	w.must(err)
	w.equal(out, "Warning: Validation failed for ValidatingAdmissionPolicy 'samplecrd-networks' with binding 'samplecrd-networks-create': "+
		"10.96.3.0/24 overlaps with the reserved range "+services+isReserved+"\nnetwork.samplecrd.k8s.io/net created\n")
	out, err = w.clusterKubectl("", "create", "-n", excluded.namespace, "-f", file)
	w.must(err)
	w.equal(out, "network.samplecrd.k8s.io/net created\n")

	// kubectl apply shows a mistake in the rules.
	_, err = w.clusterKubectl("", "apply", "-k", w.overlay("admission", strings.ReplaceAll(block, "10.96.0.0/12  Services of the cluster", "10.100.0.0/12 pods")))
	w.contains(fmt.Sprint(err), `The configmaps "samplecrd-networks" is invalid: : `+deniedRules+`reservedCIDRs: the line "10.100.0.0/12 pods" must begin with 10.96.0.0/12: bits after the prefix length must be 0`)
	w.applyAll(w.kustomization("admission")) // the bindings refuse again
	w.removePolicies()
}
