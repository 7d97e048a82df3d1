// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"bytes"
	"cmp"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"helm.sh/helm/v4/pkg/action"
	"helm.sh/helm/v4/pkg/chart/v2/lint/support"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kyaml "sigs.k8s.io/kustomize/kyaml/yaml"
	"sigs.k8s.io/yaml"
)

func TestLint(t *testing.T) {
	lint := action.NewLint()
	lint.Strict, lint.Namespace = true, systemNamespace
	result := lint.Run([]string{chart}, nil)
	if result.TotalChartsLinted != 1 || len(result.Errors) > 0 {
		t.Errorf("%+v", result)
	}
	for _, message := range result.Messages {
		if message.Severity >= support.WarningSev {
			t.Error(message)
		}
	}
}

// hack/update-codegen.sh copies them.
func TestCopiesAreUpToDate(t *testing.T) {
	files, err := os.ReadDir(chart + "/files")
	must(t, err)
	originals := map[string]string{"alerts.yaml": "monitoring", "dashboard.json": "monitoring", "deletion-policy.yaml": "deploy/admission",
		"samplecrd.k8s.io_clusterclouds.yaml": "crd", "samplecrd.k8s.io_networks.yaml": "crd"}
	if len(files) != len(originals) {
		t.Errorf("there are %d files, want %d", len(files), len(originals))
	}
	for _, file := range files {
		if !bytes.Equal(read(t, chart+"/files/"+file.Name()), read(t, artifacts+"/"+originals[file.Name()]+"/"+file.Name())) {
			t.Errorf("%s is out of date: run hack/update-codegen.sh", file.Name())
		}
	}
}

// wholes are values that are maps, but are described as one value. The table in the README does not
// repeat their defaults.
var wholes = []string{"resources", "affinity", "monitoring.dashboard.labels"}

// defaults returns the default of each value by its path, as JSON, or without quotes if it is a word.
func defaults(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]any{}
	must(t, yaml.UnmarshalStrict(read(t, chart+"/values.yaml"), &all))
	found := map[string]string{}
	var collect func(prefix string, values map[string]any)
	collect = func(prefix string, values map[string]any) {
		for name, value := range values {
			path := prefix + name
			if children, ok := value.(map[string]any); ok && len(children) > 0 && !slices.Contains(wholes, path) {
				collect(path+".", children)
				continue
			}
			text, err := json.Marshal(value)
			must(t, err)
			found[path] = "`" + cmp.Or(strings.Trim(string(text), `"`), `""`) + "`"
		}
	}
	collect("", all)
	for _, path := range wholes {
		found[path] = "see values.yaml"
	}
	return found
}

func TestReadmeNamesAllValues(t *testing.T) {
	row := regexp.MustCompile("(?m)^\\| `([\\w.]+)` \\| ([^|]+) \\| [^|]+ \\|$")
	got := map[string]string{}
	for _, match := range row.FindAllStringSubmatch(string(read(t, chart+"/README.md")), -1) {
		got[match[1]] = match[2]
	}
	if diff := gocmp.Diff(defaults(t), got); diff != "" {
		t.Errorf("(-values.yaml +README.md):\n%s", diff)
	}
}

// The chart is packaged without the rest of the repository, so its README has links to GitHub.
func TestLinksLeadIntoTheRepository(t *testing.T) {
	const repository = "https://github.com/samplecrd/samplecrd-controller/blob/main/"
	links := regexp.MustCompile(regexp.QuoteMeta(repository)+`([^)\s#]+)`).FindAllStringSubmatch(string(read(t, chart+"/README.md")), -1)
	if len(links) == 0 {
		t.Error("there are none")
	}
	for _, link := range links {
		if _, err := os.Stat(filepath.Join("../..", filepath.FromSlash(link[1]))); err != nil {
			t.Error(err)
		}
	}
}

func TestEachValueHasAComment(t *testing.T) {
	node, err := kyaml.Parse(string(read(t, chart+"/values.yaml")))
	must(t, err)
	paths := slices.Collect(maps.Keys(defaults(t)))
	var check func(prefix string, node *kyaml.Node)
	check = func(prefix string, node *kyaml.Node) {
		for i := 0; i < len(node.Content); i += 2 {
			key, value := node.Content[i], node.Content[i+1]
			path := prefix + key.Value
			if slices.Contains(paths, path) {
				if key.HeadComment == "" {
					t.Errorf("%s has no comment", path)
				}
			} else if value.Kind == kyaml.MappingNode {
				check(path+".", value)
			}
		}
	}
	check("", node.YNode())
}

// block returns the block of YAML in a README that has that text.
func block(t *testing.T, path, text string) string {
	t.Helper()
	for part := range strings.SplitSeq(string(read(t, path)), "```yaml\n") {
		if part, _, _ := strings.Cut(part, "```"); strings.Contains(part, text) {
			return part
		}
	}
	t.Fatalf("%s has no block with %s", path, text)
	return ""
}

// Both READMEs narrow the NetworkPolicy to the same.
func TestReadmesNarrowTheNetworkPolicy(t *testing.T) {
	narrow := rendered(t, systemNamespace, block(t, chart+"/README.md", "networkPolicy:"))
	compare(t, kustomized(t, ".", block(t, artifacts+"/deploy/README.md", "kind: NetworkPolicy"), ""), narrow)
	rules, _, err := unstructured.NestedSlice(narrow["NetworkPolicy "+program].Object, "spec", "egress")
	must(t, err)
	for _, rule := range rules[1:] { // after DNS
		if rule.(map[string]any)["to"] == nil {
			t.Errorf("it is not narrow: %v", rule)
		}
	}
}

func TestNotesSayWhatToDoNext(t *testing.T) {
	for _, row := range []struct {
		values      string
		has, hasNot []string
	}{
		{"credentials: {secretName: ours, cloud: production}", []string{
			"kubectl -n samplecrd-system create secret generic ours --from-file=clouds.yaml",
			"an entry production.",
			"kubectl -n samplecrd-system rollout status deployment/samplecrd-controller",
			"kubectl apply -f - <<END", "helm uninstall keeps it",
			"kubectl label namespace samplecrd-system pod-security.kubernetes.io/enforce=restricted",
			"set networkPolicy.ingress.from.",
		}, []string{"create secret tls", "DELETES", "--take-ownership", "{{", "<no value>"}},
		{"https: {enabled: true, secretName: our-tls}", []string{"kubectl -n samplecrd-system create secret tls our-tls --cert=tls.crt --key=tls.key"}, nil},
		{"networkPolicy: {ingress: {from: [{podSelector: {}}]}}", nil, []string{"networkPolicy"}},
		{"networkPolicy: {enabled: false}", nil, []string{"networkPolicy"}},
		{"crds: {keep: false}", []string{"helm uninstall DELETES it"}, []string{"keeps it"}},
		{"crds: {install: false}", []string{"--set crds.install=true --take-ownership --force-conflicts"}, []string{"The CRD belongs"}},
		{"{namespaced: {enabled: true}, clusterID: a}", []string{
			"for the Networks of this namespace.", "kubectl -n samplecrd-system apply -f - <<END",
			"helm template CHART --show-only templates/crd.yaml | kubectl apply -f -",
		}, []string{"kubectl label namespace", "--take-ownership"}},
	} {
		r, err := render(t, program, systemNamespace, row.values)
		must(t, err)
		for _, part := range row.has {
			if !strings.Contains(r.Info.Notes, part) {
				t.Errorf("%s: %q is not in\n%s", row.values, part, r.Info.Notes)
			}
		}
		for _, part := range row.hasNot {
			if strings.Contains(r.Info.Notes, part) {
				t.Errorf("%s: %q is in\n%s", row.values, part, r.Info.Notes)
			}
		}
	}
}

// The first Network of the notes is the one of artifacts/examples.
func TestNotesHaveTheExample(t *testing.T) {
	r, err := render(t, program, systemNamespace, "")
	must(t, err)
	_, text, _ := strings.Cut(r.Info.Notes, "<<END\n")
	text, _, _ = strings.Cut(text, "   END\n")
	got, want := map[string]any{}, map[string]any{}
	must(t, yaml.UnmarshalStrict([]byte(text), &got))
	must(t, yaml.UnmarshalStrict(read(t, artifacts+"/examples/example-network.yaml"), &want))
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Errorf("(-example-network.yaml +notes):\n%s", diff)
	}
}
