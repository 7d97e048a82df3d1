// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/samplecrd/samplecrd-controller/pkg/options"
)

func TestMistypedValuesAreRefused(t *testing.T) {
	for values, want := range map[string]string{
		"imgae: {tag: v1}":                                   "at '': additional properties 'imgae' not allowed",
		"image: {tag: 1.0}":                                  "at '/image/tag': got number, want string",
		"image: {repository: ''}":                            "at '/image/repository': minLength: got 0, want 1",
		"image: {pullPolicy: always}":                        "at '/image/pullPolicy': value must be one of '', 'Always', 'IfNotPresent', 'Never'",
		"replicas: two":                                      "at '/replicas': got string, want integer",
		"resources: {limits: {memory: 1GB}}":                 "'1GB' does not match pattern '^[0-9]+(\\\\.[0-9]+)?(k|M|G|T|Ki|Mi|Gi|Ti)?$'",
		"credentials: {secretName: My_Secret}":               "at '/credentials/secretName': 'My_Secret' does not match pattern",
		"environment: {my-variable: a}":                      "'my-variable' does not match pattern",
		"clusterID: a b":                                     "at '/clusterID': 'a b' does not match pattern",
		"flags: {wrokers: 4}":                                "at '/flags': additional properties 'wrokers' not allowed",
		"flags: {workers: 2000}":                             "at '/flags/workers': maximum: got 2,000, want 1,000",
		"flags: {resync: 30 minutes}":                        "at '/flags/resync': '30 minutes' does not match pattern",
		"flags: {delete-orphans: some}":                      "at '/flags/delete-orphans': value must be one of true, false, 'all'",
		"flags: {allowed-auth-urls: ''}":                     "at '/flags/allowed-auth-urls': minLength: got 0, want 1",
		"flags: null":                                        "at '': missing property 'flags'",
		"crds: {install: maybe}":                             "at '/crds/install': value must be one of 'auto', true, false",
		"monitoring: {rules: {exclude: [NoLeader]}}":         "at '/monitoring/rules/exclude/0': value must be one of 'SamplecrdNoLeader', ",
		"podDisruptionBudget: {maxUnavailable: half}":        "'half' does not match pattern '^[0-9]+%$'",
		"networkPolicy: {egress: {dns: {ports: []}}}":        "at '/networkPolicy/egress/dns/ports': minItems: got 0, want 1",
		"podLabels: {app.kubernetes.io/name: mine}":          "podLabels cannot have app.kubernetes.io/name: the Deployment finds its pods by this label",
		"environment: {OS_CLOUD: a}":                         "environment.OS_CLOUD cannot be set: set credentials.cloud",
		"environment: {CLUSTER_ID: a}":                       "environment.CLUSTER_ID cannot be set: set clusterID",
		"environment: {GOMEMLIMIT: 1GiB}":                    "environment.GOMEMLIMIT cannot be set: it follows from resources.limits.memory",
		"environment: {NAMESPACE: a}":                        "environment.NAMESPACE cannot be set: set namespaced.enabled",
		"environment: {OS_PASSWORD: a}":                      "environment.OS_PASSWORD cannot be set: it would be in a ConfigMap: put it into clouds.yaml",
		"environment: {OS_APPLICATION_CREDENTIAL_SECRET: a}": "environment.OS_APPLICATION_CREDENTIAL_SECRET cannot be set",
		"namespaced: {enabled: true}":                        "namespaced.enabled needs clusterID",
		"{namespaced: {enabled: true}, clusterID: a, credentials: {namespaces: [b]}}":            "credentials.namespaces cannot be set with namespaced.enabled",
		"{namespaced: {enabled: true}, clusterID: a, flags: {cluster-resource-namespace: b}}":    "flags.cluster-resource-namespace cannot be set with namespaced.enabled",
		"{namespaced: {enabled: true}, clusterID: a, flags: {cloud-namespace-selector: team=a}}": "flags.cloud-namespace-selector cannot be set with namespaced.enabled",
		"flags: {serve-authorized: true}":   "flags.serve-authorized cannot be true without https.enabled",
		"flags: {serve-authorized: 'true'}": "flags.serve-authorized cannot be true without https.enabled",
	} {
		t.Run(values, func(t *testing.T) {
			if _, err := render(t, program, systemNamespace, values); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("got %v, want %s", err, want)
			}
		})
	}
}

func TestAParentChartMayHaveGlobalValues(t *testing.T) {
	_, err := render(t, program, systemNamespace, "global: {imageRegistry: example.com}")
	must(t, err)
}

// schemaAt returns the part of values.schema.json below that path.
func schemaAt(t *testing.T, path ...string) map[string]any {
	t.Helper()
	all := map[string]any{}
	must(t, json.Unmarshal(read(t, chart+"/values.schema.json"), &all))
	part, ok, err := unstructured.NestedMap(all, path...)
	if err != nil || !ok {
		t.Fatalf("the schema has no %v: %v", path, err)
	}
	return part
}

// Each level of the values that the chart has names for refuses others, and each value has a type.
func TestSchemaIsStrictAtEveryLevel(t *testing.T) {
	var check func(path string, s map[string]any)
	check = func(path string, s map[string]any) {
		isFree := path == "" || path == "reserved"
		if !isFree && s["type"] == nil && s["enum"] == nil && s["$ref"] == nil && s["anyOf"] == nil {
			t.Errorf("%s has no type", path)
		}
		properties, _ := s["properties"].(map[string]any)
		if properties != nil && path != ".resources.limits" && s["additionalProperties"] != false {
			t.Errorf("%s accepts other values", path)
		}
		for name, property := range properties {
			check(path+"."+name, property.(map[string]any))
		}
	}
	check("", schemaAt(t))
	for name, definition := range schemaAt(t, "definitions") {
		check(name, definition.(map[string]any))
	}
}

func TestSchemaNamesTheFlagsOfTheController(t *testing.T) {
	var want, got []string
	_, flags := options.New()
	flags.VisitAll(func(f *flag.Flag) { want = append(want, f.Name) })
	for name := range schemaAt(t, "properties", "flags", "properties") {
		got = append(got, name)
	}
	slices.Sort(got)
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Errorf("(-controller +schema):\n%s", diff)
	}
}

func TestSchemaNamesTheAlerts(t *testing.T) {
	var want, got []string
	for line := range strings.Lines(string(read(t, artifacts+"/monitoring/alerts.yaml"))) {
		if _, name, ok := strings.Cut(strings.TrimSpace(line), "- alert: "); ok {
			want = append(want, name)
		}
	}
	items := schemaAt(t, "properties", "monitoring", "properties", "rules", "properties", "exclude", "items")
	for _, name := range items["enum"].([]any) {
		got = append(got, name.(string))
	}
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Errorf("(-alerts.yaml +schema):\n%s", diff)
	}
}

// reserved returns the names of the flags that the chart or another value sets.
func reserved(t *testing.T) (names []string) {
	t.Helper()
	for name, property := range schemaAt(t, "properties", "flags", "properties") {
		if property.(map[string]any)["$ref"] == "#/definitions/reserved" {
			names = append(names, name)
		}
	}
	return names
}

func TestFlagsThatOtherValuesSetAreRefused(t *testing.T) {
	names := reserved(t)
	if len(names) == 0 {
		t.Fatal("there are none")
	}
	for _, name := range names {
		want := fmt.Sprintf("flags.%s cannot be set: ", name)
		if _, err := render(t, program, systemNamespace, fmt.Sprintf("flags: {%s: x}", name)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	// What the chart itself sets must be among them.
	for _, values := range []string{"https: {enabled: true}", "namespaced: {enabled: true}\nclusterID: a\n"} {
		for _, arg := range args(t, values) {
			if name, _, _ := strings.Cut(arg[1:], "="); !slices.Contains(names, name) {
				t.Errorf("flags.%s is accepted, but the chart sets it", name)
			}
		}
	}
}

// args returns the arguments of the controller.
func args(t *testing.T, values string) []string {
	t.Helper()
	deployment := rendered(t, systemNamespace, values)["Deployment "+program]
	containers, _, err := unstructured.NestedSlice(deployment.Object, "spec", "template", "spec", "containers")
	must(t, err)
	args, _, err := unstructured.NestedStringSlice(containers[0].(map[string]any), "args")
	must(t, err)
	return args
}

// The controller accepts what the schema accepts: all flags with their defaults.
func TestTheControllerAcceptsTheFlags(t *testing.T) {
	properties, names := schemaAt(t, "properties", "flags", "properties"), reserved(t)
	values := map[string]any{}
	want := map[string]string{}
	_, flags := options.New()
	flags.VisitAll(func(f *flag.Flag) {
		// -allowed-auth-urls refuses its own default: it is for a flag that is not there.
		if slices.Contains(names, f.Name) || f.Value.Set(f.DefValue) != nil {
			return
		}
		values[f.Name], want[f.Name] = typed(t, properties[f.Name].(map[string]any), f.DefValue), f.DefValue
	})
	text, err := yaml.Marshal(map[string]any{"flags": values})
	must(t, err)
	arguments := args(t, string(text))
	if _, _, err := options.Parse(arguments, io.Discard); err != nil {
		t.Fatalf("%v: %v", arguments, err)
	}
	_, flags = options.New()
	must(t, flags.Parse(arguments))
	flags.VisitAll(func(f *flag.Flag) {
		if v, ok := want[f.Name]; ok && f.Value.String() != v {
			t.Errorf("-%s is %s, want %s", f.Name, f.Value, v)
		}
	})
}

// typed returns the value of a flag as the schema wants it.
func typed(t *testing.T, schema map[string]any, text string) (value any) {
	t.Helper()
	if schema["type"] == "string" || schema["$ref"] == "#/definitions/duration" {
		return text
	}
	must(t, yaml.Unmarshal([]byte(text), &value))
	return value
}
