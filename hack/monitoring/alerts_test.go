// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package monitoring

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
	"sigs.k8s.io/yaml"

	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
)

// programs returns the folder of prometheus and promtool. It skips the test if they are not
// available.
func programs(t *testing.T) string {
	t.Helper()
	folder, err := Fetch(t.Context())
	if errors.Is(err, ErrUnavailable) && os.Getenv("CI") != "true" {
		t.Skip(err)
	}
	noError(t, err)
	return folder
}

// promtool runs promtool, and returns its output.
func promtool(ctx context.Context, programs, stdin string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, filepath.Join(programs, "promtool"), args...)
	cmd.Stdin = strings.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func rules(t *testing.T) []Rule {
	t.Helper()
	rules, err := ReadRules(file(t, "artifacts", "monitoring", "alerts.yaml"))
	noError(t, err)
	if len(rules) == 0 {
		t.Fatal("there are no rules")
	}
	return rules
}

// runbook is the URL of the runbooks.
const runbook = "https://github.com/samplecrd/samplecrd-controller/blob/main/artifacts/monitoring/README.md#"

func TestAlertsHaveASeverityASummaryAndARunbook(t *testing.T) {
	readme := read(t, "artifacts", "monitoring", "README.md")
	seen := map[string]bool{}
	for _, rule := range rules(t) {
		t.Run(rule.Alert, func(t *testing.T) {
			if seen[rule.Alert] {
				t.Error("another alert has the same name")
			}
			seen[rule.Alert] = true
			if severity := rule.Labels["severity"]; severity != "critical" && severity != "warning" {
				t.Errorf("severity %q", severity)
			}
			if rule.Annotations["summary"] == "" || rule.Annotations["description"] == "" {
				t.Errorf("summary or description is missing: %v", rule.Annotations)
			}
			equal(t, runbook+strings.ToLower(rule.Alert), rule.Annotations["runbook_url"])
			if !regexp.MustCompile(`(?m)^#+ ` + rule.Alert + `$`).MatchString(readme) {
				t.Error("artifacts/monitoring/README.md has no such heading")
			}
		})
	}
}

// reasons are the reasons of the Ready condition.
var reasons = []string{
	samplecrdv1.ReasonPending, samplecrdv1.ReasonAvailable, samplecrdv1.ReasonInvalidSpec, samplecrdv1.ReasonForbidden,
	samplecrdv1.ReasonAuthenticationFailed, samplecrdv1.ReasonOtherCloud, samplecrdv1.ReasonOtherOwner, samplecrdv1.ReasonNoCredentials, samplecrdv1.ReasonCloudNotPermitted, samplecrdv1.ReasonPaused,
	samplecrdv1.ReasonInUse, samplecrdv1.ReasonQuotaExceeded, samplecrdv1.ReasonNoSegmentAvailable, samplecrdv1.ReasonSubnetPoolExhausted, samplecrdv1.ReasonNeutronUnavailable, samplecrdv1.ReasonReferenceNotFound, samplecrdv1.ReasonAdminStateDown,
	samplecrdv1.ReasonProgressing, samplecrdv1.ReasonObserved, samplecrdv1.ReasonDiffers, samplecrdv1.ReasonNetworkNotFound, samplecrdv1.ReasonImportRefused,
}

func TestAlertsNameExistingReasons(t *testing.T) {
	named := 0
	for _, rule := range rules(t) {
		root, err := parser.NewParser(parser.Options{}).ParseExpr(rule.Expr)
		noError(t, err)
		for _, matcher := range matchers(root, "reason") {
			for _, reason := range strings.Split(matcher.Value, "|") {
				named++
				if !slices.Contains(reasons, reason) {
					t.Errorf("%s: unknown reason %q", rule.Alert, reason)
				}
			}
		}
	}
	if named == 0 {
		t.Error("no reason was found")
	}
}

// matchers returns the expression's matchers for that label.
func matchers(root parser.Node, label string) (found []*labels.Matcher) {
	parser.Inspect(root, func(node parser.Node, _ []parser.Node) error {
		if selector, ok := node.(*parser.VectorSelector); ok {
			for _, m := range selector.LabelMatchers {
				if m.Name == label {
					found = append(found, m)
				}
			}
		}
		return nil
	})
	return found
}

func TestEveryAlertHasTestsInWhichItFiresAndDoesNotFire(t *testing.T) {
	var content struct {
		Tests []struct {
			Cases []struct {
				Alert    string `json:"alertname"`
				Expected []any  `json:"exp_alerts"`
			} `json:"alert_rule_test"`
		} `json:"tests"`
	}
	noError(t, yaml.Unmarshal([]byte(read(t, "hack", "monitoring", "testdata", "alerts_test.yaml")), &content))
	fires, quiet := map[string]bool{}, map[string]bool{}
	for _, test := range content.Tests {
		for _, c := range test.Cases {
			if len(c.Expected) > 0 {
				fires[c.Alert] = true
			} else {
				quiet[c.Alert] = true
			}
		}
	}
	for _, rule := range rules(t) {
		if !fires[rule.Alert] || !quiet[rule.Alert] {
			t.Errorf("%s: has a test in which it fires: %t, and one in which it does not fire: %t", rule.Alert, fires[rule.Alert], quiet[rule.Alert])
		}
	}
}

func TestPromtoolPassesRulesAndTheirTests(t *testing.T) {
	folder := programs(t)
	for _, args := range [][]string{
		{"check", "rules", "--lint=all", "--lint-fatal", file(t, "artifacts", "monitoring", "alerts.yaml")},
		{"test", "rules", file(t, "hack", "monitoring", "testdata", "alerts_test.yaml")},
	} {
		if said, err := promtool(t.Context(), folder, "", args...); err != nil {
			t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, said)
		}
	}
}

// scrapeConfig has the fields of scrape.yaml that the tests check.
type scrapeConfig struct {
	RuleFiles []string         `json:"rule_files"`
	Scrapes   []map[string]any `json:"scrape_configs"`
}

func TestPrometheusAcceptsTheScrapeConfig(t *testing.T) {
	folder := programs(t)
	var config scrapeConfig
	noError(t, yaml.UnmarshalStrict([]byte(read(t, "artifacts", "monitoring", "scrape.yaml")), &config))
	equal(t, 1, len(config.Scrapes))
	equal(t, any(Job), config.Scrapes[0]["job_name"])
	equal(t, []string{"alerts.yaml"}, config.RuleFiles)
	config.RuleFiles[0] = file(t, "artifacts", "monitoring", "alerts.yaml")
	// Debian's Prometheus is built without the discovery of pods.
	if config.Scrapes[0]["kubernetes_sd_configs"] == nil {
		t.Error("the configuration does not discover pods")
	}
	delete(config.Scrapes[0], "kubernetes_sd_configs")
	text, err := yaml.Marshal(config)
	noError(t, err)
	path := filepath.Join(t.TempDir(), "prometheus.yaml")
	noError(t, os.WriteFile(path, text, 0o600))
	if said, err := promtool(t.Context(), folder, "", "check", "config", path); err != nil {
		t.Errorf("%v\n%s", err, said)
	}
}

func TestScrapeConfigKeepsThePodsOfEitherPort(t *testing.T) {
	var config scrapeConfig
	noError(t, yaml.UnmarshalStrict([]byte(read(t, "artifacts", "monitoring", "scrape.yaml")), &config))
	keep := config.Scrapes[0]["relabel_configs"].([]any)[0].(map[string]any)
	equal(t, any("keep"), keep["action"])
	kept := regexp.MustCompile("^(?:" + keep["regex"].(string) + ")$") // Prometheus anchors it
	ports := regexp.MustCompile(`- name: (\S+)\n +containerPort:`)
	for _, overlay := range []string{"base/deployment.yaml", "https/deployment-patch.yaml"} {
		port := ports.FindStringSubmatch(read(t, "artifacts", "deploy", filepath.FromSlash(overlay)))
		if len(port) != 2 || !kept.MatchString("samplecrd-controller;"+port[1]) {
			t.Errorf("%s: the port %q is not scraped", overlay, port)
		}
		if kept.MatchString("another;" + port[1]) {
			t.Error("the pods of other programs are scraped too")
		}
	}
}

func TestScrapeConfigsFindWhatIsDeployed(t *testing.T) {
	deployment, service := read(t, "artifacts", "deploy", "base", "deployment.yaml"), read(t, "artifacts", "deploy", "base", "service.yaml")
	for _, text := range []string{deployment, service} {
		for _, want := range []string{"app.kubernetes.io/name: samplecrd-controller", "- name: http\n"} {
			if !strings.Contains(text, want) {
				t.Errorf("no %q in:\n%s", want, text)
			}
		}
	}
	for path, wants := range map[string][]string{
		"scrape.yaml":         {"names: [samplecrd-system]"},
		"servicemonitor.yaml": {"app.kubernetes.io/name: samplecrd-controller", "- port: http\n", "namespace: samplecrd-system"},
	} {
		text := read(t, "artifacts", "monitoring", path)
		for _, want := range wants {
			if !strings.Contains(text, want) {
				t.Errorf("no %q in %s", want, path)
			}
		}
	}
}
