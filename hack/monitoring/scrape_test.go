// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package monitoring

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	promv1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"
)

// window is the interval of the rates, several times the scrape interval.
const window = "5s"

// played is a scene in which all acts have happened.
type played struct {
	*Scene
	*testing.T
	programs string
	began    time.Time
}

func TestRealScrape(t *testing.T) {
	p := &played{T: t, programs: programs(t)}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Minute)
	t.Cleanup(cancel)
	var err error
	p.Scene, err = StartScene(ctx, SceneOptions{
		Programs: p.programs,
		Dir:      file(t, "hack", "_output", "monitoring"),
		Every:    time.Second,
		Flags:    []string{"-v=2", "-resync=2s", "-neutron-timeout=2s", "-retry-base-delay=100ms", "-retry-max-delay=1s"},
	})
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(p.Logs())
		}
		noError(t, p.Stop())
	})
	noError(t, err)
	p.began = time.Now()
	noError(t, p.Play(ctx, 3*time.Second, func(name string) { t.Log(time.Since(p.began).Round(time.Second), name) }))
	t.Run("promlint reports nothing", p.testLint)
	t.Run("all used metrics and labels exist", p.testUsed)
	t.Run("every panel of the dashboard shows data", p.testPanels)
	t.Run("every alert is evaluated", p.testAlerts)
}

// testLint runs promlint on all metrics, including those of libraries.
func (p *played) testLint(t *testing.T) {
	for _, address := range p.Addresses {
		if said, err := promtool(t.Context(), p.programs, p.scrape(t, address), "check", "metrics"); err != nil || said != "" {
			t.Errorf("%v\n%s", err, said)
		}
	}
}

// scrape returns a replica's metrics.
func (p *played) scrape(t *testing.T, address string) string {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address+"/metrics", nil)
	noError(t, err)
	response, err := http.DefaultClient.Do(request)
	noError(t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	noError(t, err)
	return string(text)
}

// scraped returns all scraped metrics, and none that Prometheus adds itself.
func (p *played) scraped(t *testing.T) Scraped {
	t.Helper()
	series, _, err := p.Prometheus.Series(t.Context(), []string{fmt.Sprintf("{job=%q}", Job)}, p.began, time.Now())
	noError(t, err)
	scraped := Scraped{"ALERTS": {"alertname": true, "alertstate": true, "severity": true, "namespace": true}}
	for _, labels := range series {
		name := string(labels[model.MetricNameLabel])
		if scraped[name] == nil {
			scraped[name] = map[string]bool{}
		}
		for label := range labels {
			scraped[name][string(label)] = true
		}
	}
	return scraped
}

func (p *played) testUsed(t *testing.T) {
	scraped := p.scraped(t)
	check := func(user, expression string) {
		missing, err := scraped.Missing(expression)
		if err != nil || len(missing) > 0 {
			t.Errorf("%s: not in any scrape: %q, %v", user, missing, err)
		}
	}
	for _, rule := range rules(t) {
		check(rule.Alert, rule.Expr)
	}
	for _, panel := range dashboard(t).Panels {
		for _, target := range panel.Targets {
			check(panel.Title, target.Query(window))
		}
	}
}

func (p *played) testPanels(t *testing.T) {
	span := promv1.Range{Start: p.began, End: time.Now(), Step: time.Second}
	for _, panel := range dashboard(t).Panels {
		for _, target := range panel.Targets {
			result, warnings, err := p.Prometheus.QueryRange(t.Context(), target.Query(window), span)
			if err != nil || len(warnings) > 0 {
				t.Errorf("%s: %v, %q", panel.Title, err, warnings)
				continue
			}
			if matrix, ok := result.(model.Matrix); !ok || len(matrix) == 0 {
				t.Errorf("%s: no data for %s", panel.Title, target.Expr)
			}
		}
	}
}

func (p *played) testAlerts(t *testing.T) {
	result, err := p.Prometheus.Rules(t.Context(), nil)
	noError(t, err)
	evaluated := map[string]promv1.AlertingRule{}
	for _, group := range result.Groups {
		for _, rule := range group.Rules {
			if alert, ok := rule.(promv1.AlertingRule); ok {
				evaluated[alert.Name] = alert
			}
		}
	}
	for _, rule := range rules(t) {
		if alert := evaluated[rule.Alert]; alert.Health != promv1.RuleHealthGood || alert.LastError != "" {
			t.Errorf("%s: %q %s", rule.Alert, alert.Health, alert.LastError)
		}
	}
}
