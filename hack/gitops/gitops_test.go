// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package gitops tests what Argo CD, Flux and Helm show for Networks. The Networks in testdata are
// recorded by the test TestStatusOfEachReason in hack/e2e.
package gitops

import (
	"context"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	lua "github.com/yuin/gopher-lua"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	luajson "layeh.com/gopher-json"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"

	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
)

const (
	argoCD = "../../artifacts/argocd/"
	// healthKey is where Argo CD looks for the health check.
	healthKey = "resource.customizations.health." + samplecrdv1.GroupName + "_Network"
)

// The health that Argo CD knows, and a script can return.
const (
	healthy     = "Healthy"
	progressing = "Progressing"
	degraded    = "Degraded"
	suspended   = "Suspended"
)

// health is what a health check of Argo CD returns.
type health struct {
	Status  string `json:"status"`
	Message string `json:"message"`
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.FromSlash(path))
	must(t, err)
	return string(text)
}

// network returns the recorded Network of that name, with the types that clients in Go see.
func network(t *testing.T, name string) *unstructured.Unstructured {
	t.Helper()
	text, err := yaml.YAMLToJSON([]byte(read(t, "testdata/"+name+".yaml")))
	must(t, err)
	u := &unstructured.Unstructured{}
	must(t, u.UnmarshalJSON(text))
	return u
}

// ready returns the Ready condition of the Network.
func ready(t *testing.T, u *unstructured.Unstructured) (reason, message string) {
	t.Helper()
	var n samplecrdv1.Network
	must(t, runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &n))
	for _, c := range n.Status.Conditions {
		if c.Type == samplecrdv1.ConditionReady {
			return c.Reason, c.Message
		}
	}
	t.Fatalf("%s has no Ready condition", n.Name)
	return "", ""
}

// evaluate runs the health check as Argo CD does by default: with the libraries base, package and
// table, with a part of os, within a second, and with the object in the global variable obj.
func evaluate(t *testing.T, script string, object map[string]any) health {
	t.Helper()
	l := lua.NewState(lua.Options{SkipOpenLibs: true})
	defer l.Close()
	for _, library := range []struct { // gopher-lua needs this order
		name string
		open lua.LGFunction
	}{{lua.LoadLibName, lua.OpenPackage}, {lua.BaseLibName, lua.OpenBase}, {lua.TabLibName, lua.OpenTable}} {
		must(t, l.CallByParam(lua.P{Fn: l.NewFunction(library.open), Protect: true}, lua.LString(library.name)))
	}
	l.SetGlobal(lua.OsLibName, l.SetFuncs(l.NewTable(), map[string]lua.LGFunction{
		"time": func(l *lua.LState) int { l.Push(lua.LNumber(time.Now().Unix())); return 1 },
	}))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	l.SetContext(ctx)
	l.SetGlobal("obj", value(l, object))
	must(t, l.DoString(script))
	if kind := l.Get(-1).Type(); kind != lua.LTTable {
		t.Fatalf("the script returned a %s", kind)
	}
	text, err := luajson.Encode(l.Get(-1))
	must(t, err)
	var h health
	must(t, json.Unmarshal(text, &h))
	return h
}

// value returns a value of an object for Lua. Null is the same as nothing.
func value(l *lua.LState, from any) lua.LValue {
	switch v := from.(type) {
	case bool:
		return lua.LBool(v)
	case string:
		return lua.LString(v)
	case int64:
		return lua.LNumber(v)
	case float64:
		return lua.LNumber(v)
	case []any:
		list := l.NewTable()
		for _, item := range v {
			list.Append(value(l, item))
		}
		return list
	case map[string]any:
		object := l.NewTable()
		for key, item := range v {
			object.RawSetString(key, value(l, item))
		}
		return object
	}
	return lua.LNil
}

// The states of Networks, and what the tools show for each.
var states = []struct {
	name, reason string
	argo         string
	kstatus      status.Status
	// message is what Argo CD shows, unless it is the message of the Ready condition.
	message string
}{
	{"pending", samplecrdv1.ReasonPending, progressing, status.InProgressStatus, ""},
	{"progressing", samplecrdv1.ReasonProgressing, progressing, status.InProgressStatus, ""},
	{"available", samplecrdv1.ReasonAvailable, healthy, status.CurrentStatus, ""},
	{"observed", samplecrdv1.ReasonObserved, healthy, status.CurrentStatus, ""},
	{"differs", samplecrdv1.ReasonDiffers, healthy, status.CurrentStatus, ""},
	{"paused", samplecrdv1.ReasonPaused, suspended, status.InProgressStatus, ""},
	{"in-use", samplecrdv1.ReasonInUse, progressing, status.InProgressStatus, ""},
	{"quota-exceeded", samplecrdv1.ReasonQuotaExceeded, progressing, status.InProgressStatus, ""},
	{"no-segment-available", samplecrdv1.ReasonNoSegmentAvailable, progressing, status.InProgressStatus, ""},
	{"subnet-pool-exhausted", samplecrdv1.ReasonSubnetPoolExhausted, progressing, status.InProgressStatus, ""},
	{"reference-not-found", samplecrdv1.ReasonReferenceNotFound, progressing, status.InProgressStatus, ""},
	{"no-credentials", samplecrdv1.ReasonNoCredentials, progressing, status.InProgressStatus, ""},
	{"authentication-failed", samplecrdv1.ReasonAuthenticationFailed, progressing, status.InProgressStatus, ""},
	{"neutron-unavailable", samplecrdv1.ReasonNeutronUnavailable, progressing, status.InProgressStatus, ""},
	{"cloud-not-permitted", samplecrdv1.ReasonCloudNotPermitted, degraded, status.FailedStatus, ""},
	{"invalid-spec", samplecrdv1.ReasonInvalidSpec, degraded, status.FailedStatus, ""},
	{"forbidden", samplecrdv1.ReasonForbidden, degraded, status.FailedStatus, ""},
	{"other-cloud", samplecrdv1.ReasonOtherCloud, degraded, status.FailedStatus, ""},
	{"other-owner", samplecrdv1.ReasonOtherOwner, degraded, status.FailedStatus, ""},
	{"network-not-found", samplecrdv1.ReasonNetworkNotFound, degraded, status.FailedStatus, ""},
	{"import-refused", samplecrdv1.ReasonImportRefused, degraded, status.FailedStatus, ""},
	{"admin-state-down", samplecrdv1.ReasonAdminStateDown, degraded, status.FailedStatus, ""},
	// The spec has changed, and the status is that of the old one.
	{"available-outdated", samplecrdv1.ReasonAvailable, progressing, status.InProgressStatus, "Waiting for the controller"},
	// The Network is being deleted.
	{"in-use-deletion", samplecrdv1.ReasonInUse, progressing, status.TerminatingStatus, ""},
	{"paused-deletion", samplecrdv1.ReasonPaused, progressing, status.TerminatingStatus, ""},
}

func TestArgoCDAndKstatusOfEachState(t *testing.T) {
	script, page := read(t, argoCD+"health.lua"), read(t, argoCD+"README.md")
	for _, tc := range states {
		t.Run(tc.name, func(t *testing.T) {
			u := network(t, tc.name)
			reason, message := ready(t, u)
			if reason != tc.reason {
				t.Fatalf("the recorded reason is %s", reason)
			}
			want := health{tc.argo, message}
			if tc.message != "" {
				want.Message = tc.message
			}
			if got := evaluate(t, script, u.Object); got != want {
				t.Errorf("Argo CD shows %+v, want %+v", got, want)
			}
			got, err := status.Compute(u)
			must(t, err)
			if got.Status != tc.kstatus {
				t.Errorf("kstatus computes %s (%s), want %s", got.Status, got.Message, tc.kstatus)
			}
			if row := fmt.Sprintf("| %s | %s |", tc.argo, tc.kstatus); !strings.Contains(line(page, tc.name, tc.reason), row) {
				t.Errorf("the README has no row of %s with %q", tc.reason, row)
			}
		})
	}
	files, err := filepath.Glob("testdata/*.yaml")
	must(t, err)
	if len(files) != len(states) {
		t.Errorf("there are %d recordings, and %d of them are tested", len(files), len(states))
	}
}

// line returns the row of the page's table for that state.
func line(page, name, reason string) string {
	first := "`" + reason + "`"
	switch {
	case strings.HasSuffix(name, "-deletion"):
		first = "being deleted"
	case strings.HasSuffix(name, "-outdated"):
		first = "the spec has changed"
	}
	for l := range strings.Lines(page) {
		cell, _, _ := strings.Cut(strings.TrimPrefix(l, "|"), "|")
		if strings.HasPrefix(l, "|") && strings.Contains(cell, first) {
			return l
		}
	}
	return ""
}

// A new reason needs a recording, and a row in the README.
func TestEachReasonIsRecorded(t *testing.T) {
	var tested []string
	for _, tc := range states {
		tested = append(tested, tc.reason)
	}
	file, err := parser.ParseFile(token.NewFileSet(), "../../pkg/apis/samplecrd/v1/conditions.go", nil, 0)
	must(t, err)
	found := 0
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || !strings.HasPrefix(spec.Names[0].Name, "Reason") {
			return true
		}
		found++
		reason, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
		must(t, err)
		if !slices.Contains(tested, reason) {
			t.Errorf("no state has the reason %s: record one in hack/e2e/gitops_test.go", reason)
		}
		return true
	})
	if found == 0 {
		t.Error("found no reasons")
	}
}

// Argo CD shows Unknown if a script fails. Whatever somebody writes into the status must not do that.
func TestHealthOfIncompleteStatuses(t *testing.T) {
	condition := func(kind, value string) map[string]any {
		return map[string]any{"type": kind, "status": value}
	}
	conditions := func(generation int64, list ...any) map[string]any {
		return map[string]any{"observedGeneration": generation, "conditions": list}
	}
	tests := []struct {
		what     string
		metadata map[string]any
		status   any
		want     string
	}{
		{"there is none", nil, nil, progressing},
		{"it is empty", nil, map[string]any{}, progressing},
		{"it has no conditions", nil, map[string]any{"observedGeneration": int64(2)}, progressing},
		{"it has an empty list", nil, conditions(2), progressing},
		{"another controller wrote it", nil, conditions(2, condition("Synced", "True")), progressing},
		{"it does not say of which generation it is", nil, map[string]any{"conditions": []any{condition("Ready", "True")}}, progressing},
		{"it has no messages", nil, conditions(2, condition("Ready", "True")), healthy},
		{"it is of a later generation, after a backup was restored", nil, conditions(3, condition("Ready", "True")), healthy},
		{"it is of an older generation", nil, conditions(1, condition("Ready", "False"), condition("Stalled", "True")), progressing},
		{"a condition is not in force", nil, conditions(2, condition("Ready", "True"), condition("Stalled", "False")), healthy},
		{"it is deleted at once", map[string]any{"deletionTimestamp": "2026-01-02T03:04:05Z"}, nil, progressing},
		{"it is deleted while it is ready", map[string]any{"deletionTimestamp": "2026-01-02T03:04:05Z"}, conditions(2, condition("Ready", "True")), progressing},
		{"it is deleted while it is stalled", map[string]any{"deletionTimestamp": "2026-01-02T03:04:05Z"}, conditions(2, condition("Ready", "False"), condition("Stalled", "True")), progressing},
	}
	script := read(t, argoCD+"health.lua")
	for _, tc := range tests {
		t.Run(tc.what, func(t *testing.T) {
			metadata := map[string]any{"name": "net", "generation": int64(2)}
			for key, value := range tc.metadata {
				metadata[key] = value
			}
			if got := evaluate(t, script, map[string]any{"metadata": metadata, "status": tc.status}); got.Status != tc.want {
				t.Errorf("got %+v, want %s", got, tc.want)
			}
		})
	}
}

// The patch is applied as the README says, to a ConfigMap that has other keys.
func TestConfigMapHasTheHealthCheck(t *testing.T) {
	disk := filesys.MakeFsInMemory()
	for file, text := range map[string]string{
		"argocd-cm-patch.yaml": read(t, argoCD+"argocd-cm.yaml"),
		"argocd-cm.yaml":       "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: argocd-cm, namespace: argocd}\ndata: {admin.enabled: \"false\"}\n",
		"kustomization.yaml":   "resources: [argocd-cm.yaml]\npatches: [{path: argocd-cm-patch.yaml}]\n",
	} {
		must(t, disk.WriteFile(file, []byte(text)))
	}
	made, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(disk, ".")
	must(t, err)
	if len(made.Resources()) != 1 {
		t.Fatalf("got %d objects", len(made.Resources()))
	}
	data := made.Resources()[0].GetDataMap()
	if data[healthKey] != read(t, argoCD+"health.lua") {
		t.Errorf("argocd-cm.yaml and health.lua differ: %q", data[healthKey])
	}
	if data["admin.enabled"] != "false" || len(data) != 2 {
		t.Errorf("the other keys are changed: %v", data)
	}
}
