// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package monitoring

import (
	"fmt"
	"html"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/samplecrd/samplecrd-controller/hack/internal/stack"
)

func noError(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func equal(t *testing.T, want, got any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// file returns the path of a file of the repository.
func file(t *testing.T, path ...string) string {
	t.Helper()
	root, err := stack.Root()
	noError(t, err)
	return filepath.Join(append([]string{root}, path...)...)
}

func read(t *testing.T, path ...string) string {
	t.Helper()
	text, err := os.ReadFile(file(t, path...))
	noError(t, err)
	return string(text)
}

func dashboard(t *testing.T) *Dashboard {
	t.Helper()
	d, err := ReadDashboard(file(t, "artifacts", "monitoring", "dashboard.json"))
	noError(t, err)
	return d
}

func TestDashboardHasTheFieldsThatGrafanaNeeds(t *testing.T) {
	d := dashboard(t)
	equal(t, "samplecrd-controller", d.UID)
	if d.Title == "" || d.SchemaVersion < 36 {
		t.Errorf("title %q, schema version %d", d.Title, d.SchemaVersion)
	}
	var variables []string
	for _, v := range d.Templating.List {
		variables = append(variables, v.Type+" "+v.Name)
	}
	equal(t, []string{"datasource datasource", "query job", "query namespace"}, variables)
	seen := map[int]bool{}
	for _, p := range d.Panels {
		if seen[p.ID] {
			t.Errorf("two panels have the ID %d", p.ID)
		}
		seen[p.ID] = true
	}
}

func TestDashboardPanelsHaveTitlesDescriptionsUnitsAndQueries(t *testing.T) {
	source := &Datasource{Type: "prometheus", UID: "${datasource}"}
	for _, p := range dashboard(t).Panels {
		if p.Type == TypeText {
			continue
		}
		t.Run(p.Title, func(t *testing.T) {
			if p.Title == "" || len(p.Description) < 30 || p.FieldConfig.Defaults.Unit == "" || len(p.Targets) == 0 {
				t.Errorf("title, description, unit or query is missing: %+v", p)
			}
			equal(t, source, p.Datasource)
			var ids []string
			for _, target := range p.Targets {
				ids = append(ids, target.RefID)
				equal(t, source, target.Datasource)
				if target.Expr == "" || p.Type == TypeTimeSeries && target.LegendFormat == "" {
					t.Errorf("query or legend is missing: %+v", target)
				}
				if !strings.Contains(target.Expr, `job="$job", namespace=~"$namespace"`) && !strings.Contains(target.Expr, "ALERTS{") {
					t.Errorf("it ignores the reader's choice: %s", target.Expr)
				}
			}
			equal(t, len(ids), len(slices.Compact(slices.Sorted(slices.Values(ids)))))
		})
	}
}

func TestDashboardAnswersFourQuestionsFromLeftToRight(t *testing.T) {
	const width = 24
	questions := map[int]string{}
	columns := map[int]int{}
	taken := map[string]string{}
	for _, p := range dashboard(t).Panels {
		if p.Type == TypeText {
			questions[p.Place.X] = strings.TrimPrefix(p.Options.Content, "## ")
		} else {
			columns[p.Place.X*4/width]++
		}
		for x := p.Place.X; x < p.Place.X+p.Place.W; x++ {
			for y := p.Place.Y; y < p.Place.Y+p.Place.H; y++ {
				spot := fmt.Sprint(x, ",", y)
				if taken[spot] != "" || x >= width {
					t.Errorf("%q overlaps %q at %s, or is outside the dashboard", p.Title, taken[spot], spot)
				}
				taken[spot] = p.Title + p.Options.Content
			}
		}
	}
	equal(t, map[int]string{0: "Is it well?", 6: "Is it keeping up?", 12: "Is Neutron well?", 18: "What is failing?"}, questions)
	for column := range 4 {
		if columns[column] < 4 {
			t.Errorf("column %d has only %d panels", column, columns[column])
		}
	}
}

func TestPictureIsOfThisDashboard(t *testing.T) {
	picture := read(t, "artifacts", "monitoring", "dashboard.svg")
	for _, p := range dashboard(t).Panels {
		title := html.EscapeString(p.Title)
		if p.Type == TypeText {
			title = strings.TrimPrefix(p.Options.Content, "## ")
		}
		if !strings.Contains(picture, ">"+title+"</text>") {
			t.Errorf("the picture has no panel %q: make it again with go run ./monitoring/picture", p.Title)
		}
	}
	if size := len(picture); size > 300_000 {
		t.Errorf("the picture has %d bytes", size)
	}
}
