// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package monitoring

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"

	"github.com/prometheus/common/model"
)

// Dashboard has the fields of a Grafana dashboard's JSON that are used here.
type Dashboard struct {
	UID           string `json:"uid"`
	Title         string `json:"title"`
	SchemaVersion int    `json:"schemaVersion"`
	Templating    struct {
		List []Variable `json:"list"`
	} `json:"templating"`
	Panels []Panel `json:"panels"`
}

// Variable is a value that the reader of the dashboard chooses.
type Variable struct {
	Name string `json:"name"`
	Type string `json:"type"`
	// Definition is the text of the variable's query.
	Definition string `json:"definition"`
}

// Panel is one chart, one value or a heading.
type Panel struct {
	ID          int         `json:"id"`
	Type        string      `json:"type"`
	Title       string      `json:"title"`
	Description string      `json:"description"`
	Datasource  *Datasource `json:"datasource"`
	Place       Place       `json:"gridPos"`
	FieldConfig struct {
		Defaults  Defaults   `json:"defaults"`
		Overrides []Override `json:"overrides"`
	} `json:"fieldConfig"`
	Targets []Target `json:"targets"`
	Options struct {
		// Content is the text of a heading.
		Content string `json:"content"`
	} `json:"options"`
}

// The types of the dashboard's panels.
const (
	TypeText       = "text"
	TypeStat       = "stat"
	TypeTimeSeries = "timeseries"
	TypeTable      = "table"
)

// Datasource is the source of a panel's data.
type Datasource struct {
	Type string `json:"type"`
	UID  string `json:"uid"`
}

// Place is the position of a panel. The dashboard is 24 wide.
type Place struct {
	X, Y, W, H int
}

// Defaults are how a panel shows its series.
type Defaults struct {
	Unit       string   `json:"unit"`
	NoValue    string   `json:"noValue"`
	Min        *float64 `json:"min"`
	Max        *float64 `json:"max"`
	Thresholds struct {
		Steps []Step `json:"steps"`
	} `json:"thresholds"`
	Custom struct {
		Stacking struct {
			Mode string `json:"mode"`
		} `json:"stacking"`
		Scale struct {
			Type string `json:"type"`
		} `json:"scaleDistribution"`
	} `json:"custom"`
}

// Step is the color from this value on. A nil value means from the smallest value on.
type Step struct {
	Color string   `json:"color"`
	Value *float64 `json:"value"`
}

// Override is what differs for one series.
type Override struct {
	Matcher struct {
		Options string `json:"options"`
	} `json:"matcher"`
	Properties []struct {
		ID    string `json:"id"`
		Value struct {
			FixedColor string `json:"fixedColor"`
		} `json:"value"`
	} `json:"properties"`
}

// Target is one query of a panel.
type Target struct {
	RefID        string      `json:"refId"`
	Expr         string      `json:"expr"`
	LegendFormat string      `json:"legendFormat"`
	Datasource   *Datasource `json:"datasource"`
}

// Query returns the target's PromQL with the reader's choices filled in. window is the
// interval of the rates.
func (t *Target) Query(window string) string {
	return strings.NewReplacer("$__rate_interval", window, "$job", Job, "$namespace", ".*").Replace(t.Expr)
}

// legendLabel matches a label in a legend.
var legendLabel = regexp.MustCompile(`{{\s*(\w+)\s*}}`)

// Legend returns the name of the target's series with those labels.
func (t *Target) Legend(metric model.Metric) string {
	return legendLabel.ReplaceAllStringFunc(t.LegendFormat, func(reference string) string {
		return string(metric[model.LabelName(legendLabel.FindStringSubmatch(reference)[1])])
	})
}

// ReadDashboard reads a dashboard from a file.
func ReadDashboard(file string) (*Dashboard, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	d := &Dashboard{}
	return d, json.Unmarshal(text, d)
}
