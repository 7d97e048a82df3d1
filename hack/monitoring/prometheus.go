// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package monitoring runs a real Prometheus with real controllers, for the tests of
// artifacts/monitoring and for the picture of the dashboard.
package monitoring

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/prometheus/client_golang/api"
	promv1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"
	"sigs.k8s.io/yaml"

	"github.com/samplecrd/samplecrd-controller/hack/internal/stack"
)

// ErrUnavailable is returned if Prometheus' package is not available. A test that needs it
// is then skipped.
var ErrUnavailable = errors.New("Prometheus is not available")

// unavailableCode is the exit code of fetch.sh in this case.
const unavailableCode = 3

// Fetch returns the folder of Debian's prometheus and promtool. It unpacks them if
// necessary.
func Fetch(ctx context.Context) (string, error) {
	root, err := stack.Root()
	if err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, filepath.Join(root, "hack", "monitoring", "fetch.sh"))
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	said := strings.TrimSpace(stderr.String())
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) && exit.ExitCode() == unavailableCode {
		return "", fmt.Errorf("%w: %s", ErrUnavailable, said)
	}
	if err != nil {
		return "", fmt.Errorf("fetch Prometheus: %w: %s", err, said)
	}
	return strings.TrimSpace(string(out)), nil
}

// The job and the namespace labels of the scraped metrics, as in a cluster.
const (
	Job       = "samplecrd-controller"
	Namespace = "samplecrd-system"
)

// Prometheus is a running Prometheus. It ends with the process that started it.
type Prometheus struct {
	promv1.API
	process *stack.Controller
}

// PrometheusOptions are the options of StartPrometheus.
type PrometheusOptions struct {
	// Programs is the folder of its executables.
	Programs string
	// Dir holds its files.
	Dir string
	// Targets are the addresses that it scrapes.
	Targets []string
	// Rules is the path of a file of alert rules.
	Rules string
	// Every is the scrape interval.
	Every time.Duration
}

// Prometheus answers queries when it has written both of these to its log, in any order.
const (
	ready     = "Server is ready to receive web requests"
	listening = `msg="Listening on" address=`
)

var listeningOn = regexp.MustCompile(listening + `(\S+)`)

// StartPrometheus starts a Prometheus on a free port, and waits until it is ready.
func StartPrometheus(ctx context.Context, o PrometheusOptions) (*Prometheus, error) {
	config, err := o.writeConfig()
	if err != nil {
		return nil, err
	}
	process, err := stack.StartController(filepath.Join(o.Programs, "prometheus"), nil, nil,
		"--config.file="+config, "--storage.tsdb.path="+filepath.Join(o.Dir, "data"),
		"--storage.tsdb.retention.size=64MB", "--web.listen-address=127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &Prometheus{process: process}
	if err := p.connect(ctx); err != nil {
		return nil, errors.Join(err, errors.New(process.Log.String()), p.Stop())
	}
	return p, nil
}

func (o *PrometheusOptions) writeConfig() (string, error) {
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return "", err
	}
	every := model.Duration(o.Every).String()
	config, err := yaml.Marshal(map[string]any{
		"global":     map[string]any{"scrape_interval": every, "scrape_timeout": every, "evaluation_interval": every},
		"rule_files": []string{o.Rules},
		"scrape_configs": []any{map[string]any{
			"job_name": Job,
			"static_configs": []any{map[string]any{
				"targets": o.Targets, "labels": map[string]string{"namespace": Namespace},
			}},
		}},
	})
	if err != nil {
		return "", err
	}
	file := filepath.Join(o.Dir, "prometheus.yaml")
	return file, os.WriteFile(file, config, 0o600)
}

func (p *Prometheus) connect(ctx context.Context) error {
	for _, line := range []string{ready, listening} {
		if err := p.process.Log.WaitFor(ctx, line); err != nil {
			return err
		}
	}
	address := listeningOn.FindStringSubmatch(p.process.Log.String())
	if address == nil {
		return errors.New("Prometheus' log does not have its address")
	}
	client, err := api.NewClient(api.Config{Address: "http://" + address[1]})
	if err != nil {
		return err
	}
	p.API = promv1.NewAPI(client)
	return nil
}

// Value returns the one value of a query; 0 if there is none.
func (p *Prometheus) Value(ctx context.Context, query string) (float64, error) {
	result, _, err := p.Query(ctx, query, time.Now())
	if err != nil {
		return 0, fmt.Errorf("%s: %w", query, err)
	}
	vector, ok := result.(model.Vector)
	if !ok || len(vector) > 1 {
		return 0, fmt.Errorf("%s: want one value, got %s", query, result)
	}
	if len(vector) == 0 {
		return 0, nil
	}
	return float64(vector[0].Value), nil
}

// Stop stops Prometheus, and returns an error if it does not exit cleanly.
func (p *Prometheus) Stop() error { return p.process.Stop() }
