// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package docs checks the pages: their links, and the names of code and tests in them. It also checks the workflows.
package docs

import (
	"bytes"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// root is the top of the repository.
const root = "../.."

// frontPageLines is the most that README.md may have: a reader should see it as one page.
const frontPageLines = 120

// walk calls visit with the path of each file below root whose name ends in suffix, relative to root.
func walk(t *testing.T, suffix string, visit func(path, text string)) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if entry.Name() == "_output" || entry.Name() == ".git" {
				return fs.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(entry.Name(), suffix) {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, path)
		if err == nil {
			visit(filepath.ToSlash(name), string(text))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// pages returns all pages by their paths.
func pages(t *testing.T) map[string]string {
	t.Helper()
	found := map[string]string{}
	walk(t, ".md", func(path, text string) { found[path] = text })
	for _, path := range []string{"README.md", chinese, "pkg/README.md", "hack/README.md", "artifacts/argocd/README.md", "artifacts/deploy/README.md", "artifacts/deploy/procedures.md", "artifacts/deploy/rights.md", "artifacts/deploy/security.md", "artifacts/deploy/admission/README.md", "artifacts/examples/README.md", "artifacts/helm/samplecrd-controller/README.md", "artifacts/import/README.md", "artifacts/monitoring/README.md", "artifacts/walkthrough/README.md", "pkg/DECISIONS.md", ".github/CONTRIBUTING.md", ".github/SECURITY.md", "CHANGELOG.md"} {
		if found[path] == "" {
			t.Errorf("there is no %s", path)
		}
	}
	return found
}

var (
	block   = regexp.MustCompile("(?ms)^```.*?^```$")
	heading = regexp.MustCompile(`(?m)^#+ +(.+?) *$`)
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	span    = regexp.MustCompile("`([^`]+)`")
	// unlettered is what is left out of a heading's anchor.
	unlettered = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// prose returns a page without its blocks of code, in which nothing is a link or a heading.
func prose(text string) string { return block.ReplaceAllString(text, "") }

// anchors returns the anchors of a page's headings, as GitHub makes them.
func anchors(text string) []string {
	var found []string
	for _, match := range heading.FindAllStringSubmatch(prose(text), -1) {
		anchor := unlettered.ReplaceAllString(strings.ToLower(match[1]), "")
		found = append(found, strings.ReplaceAll(anchor, " ", "-"))
	}
	return found
}

// complaint returns what is wrong with a link in a file of that folder, "" if nothing is.
func complaint(folder, target string) string {
	path, anchor, hasAnchor := strings.Cut(target, "#")
	path = filepath.Join(root, folder, filepath.FromSlash(path))
	if !strings.HasPrefix(path, filepath.FromSlash(root)+string(filepath.Separator)) && path != filepath.FromSlash(root) {
		return "it leads out of the repository"
	}
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return "there is no such file"
	case !hasAnchor:
		return ""
	case info.IsDir():
		return "a folder has no headings"
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	if !slices.Contains(anchors(string(text)), anchor) {
		return "there is no such heading"
	}
	return ""
}

func TestLinksLeadSomewhere(t *testing.T) {
	for path, text := range pages(t) {
		for _, match := range link.FindAllStringSubmatch(prose(text), -1) {
			target := match[1]
			if strings.Contains(target, "://") {
				continue
			}
			folder := filepath.Dir(path)
			if strings.HasPrefix(target, "#") {
				target = filepath.Base(path) + target
			}
			if wrong := complaint(folder, target); wrong != "" {
				t.Errorf("%s: the link to %s: %s", path, match[1], wrong)
			}
		}
	}
}

// ours is how other files link to pages of this repository.
var ours = regexp.MustCompile(`https://github\.com/samplecrd/samplecrd-controller/blob/main/([^\s"')]+)`)

// Alerts lead to their runbooks by such links.
func TestLinksOfArtifactsLeadSomewhere(t *testing.T) {
	runbooks := 0
	check := func(path, text string) {
		for _, match := range ours.FindAllStringSubmatch(text, -1) {
			if path == "artifacts/monitoring/alerts.yaml" {
				runbooks++
			}
			if wrong := complaint(".", match[1]); wrong != "" {
				t.Errorf("%s: the link to %s: %s", path, match[1], wrong)
			}
		}
	}
	walk(t, ".yaml", check)
	walk(t, ".json", check)
	if runbooks == 0 {
		t.Error("no alert has a runbook")
	}
}

// tests returns the names of all tests, fuzz tests and benchmarks, and of the tests of TestWholeCluster.
func tests(t *testing.T) map[string]bool {
	t.Helper()
	function := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Benchmark)\w*)\(`)
	part := regexp.MustCompile(`\{"([A-Z]\w+)", [a-z]\w+\},`)
	found := map[string]bool{}
	walk(t, "_test.go", func(path, text string) {
		for _, match := range function.FindAllStringSubmatch(text, -1) {
			found[match[1]] = true
		}
		if strings.HasSuffix(path, "hack/e2e/whole_test.go") {
			for _, match := range part.FindAllStringSubmatch(text, -1) {
				found["TestWholeCluster/"+match[1]] = true
			}
		}
	})
	return found
}

// Every name in a code span that looks like that of a test must be one.
func TestNamedTestsExist(t *testing.T) {
	known, name := tests(t), regexp.MustCompile(`^(Test|Fuzz|Benchmark)[A-Z][\w/]*$`)
	for path, text := range pages(t) {
		for _, match := range span.FindAllStringSubmatch(prose(text), -1) {
			if name.MatchString(match[1]) && !known[match[1]] {
				t.Errorf("%s names the test %s, which does not exist", path, match[1])
			}
		}
	}
}

// row is one row of a table: its cells by the names of their columns.
type row map[string]string

// tables returns the rows of all tables with these columns.
func tables(text string, columns ...string) []row {
	var rows []row
	var header []string
	for line := range strings.Lines(prose(text)) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "|") {
			header = nil
			continue
		}
		cells := strings.Split(strings.Trim(line, "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		switch {
		case header == nil:
			header = cells
		case strings.HasPrefix(cells[0], "---"), !containsAll(header, columns):
		default:
			r := row{}
			for i := range min(len(header), len(cells)) {
				r[header[i]] = cells[i]
			}
			rows = append(rows, r)
		}
	}
	return rows
}

func containsAll(all, some []string) bool {
	return !slices.ContainsFunc(some, func(s string) bool { return !slices.Contains(all, s) })
}

// sources returns the Go code of a file, or of the files of a folder, without tests.
func sources(t *testing.T, path string) []byte {
	t.Helper()
	path = filepath.Join(root, filepath.FromSlash(path))
	files := []string{path}
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		files, _ = filepath.Glob(filepath.Join(path, "*.go"))
	}
	var all []byte
	for _, file := range files {
		if !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Error(err)
		}
		all = append(append(all, text...), '\n')
	}
	return all
}

// The names of code in the ideas table must be in the files that the row links to, and each
// idea must have a test.
func TestIdeasAreWhereTheTableSays(t *testing.T) {
	rows := tables(pages(t)["pkg/README.md"], "idea", "where", "shown by")
	if len(rows) == 0 {
		t.Fatal("pkg/README.md has no table of ideas")
	}
	identifier := regexp.MustCompile(`^[A-Za-z_]\w*$`)
	for _, r := range rows {
		if !span.MatchString(r["shown by"]) {
			t.Errorf("%s: no test shows it", r["idea"])
		}
		var code []byte
		for _, match := range link.FindAllStringSubmatch(r["where"], -1) {
			code = append(code, sources(t, path.Join("pkg", match[1]))...)
		}
		for _, match := range span.FindAllStringSubmatch(r["where"], -1) {
			if name := match[1]; identifier.MatchString(name) && !hasWord(code, name) {
				t.Errorf("%s: %s is not in the files that the row links to", r["idea"], name)
			}
		}
	}
}

func hasWord(code []byte, name string) bool {
	return bytes.Contains(code, []byte(name)) && regexp.MustCompile(`\b`+regexp.QuoteMeta(name)+`\b`).Match(code)
}

// Each row of the security table names a test.
func TestSecurityTableNamesItsTests(t *testing.T) {
	rows := tables(pages(t)["artifacts/deploy/security.md"], "what they could try", "shown by")
	if len(rows) == 0 {
		t.Fatal("there is no security table")
	}
	for _, r := range rows {
		if !span.MatchString(r["shown by"]) {
			t.Errorf("%s: no test shows what prevents it", r["what they could try"])
		}
	}
}

// matches returns what the expression's first group matches in the Go files of a folder, without tests.
func matches(t *testing.T, folder, expression string) []string {
	t.Helper()
	var found []string
	for _, match := range regexp.MustCompile(expression).FindAllSubmatch(sources(t, folder), -1) {
		found = append(found, string(match[1]))
	}
	if len(found) == 0 {
		t.Errorf("nothing in %s matches %s", folder, expression)
	}
	return found
}

func TestEveryReasonAndEventIsDescribed(t *testing.T) {
	page := pages(t)["artifacts/examples/README.md"]
	for _, name := range matches(t, "pkg/apis/samplecrd/v1", `(?m)^\t(?:Condition|Reason|Event)\w+ = "(\w+)"$`) {
		if !strings.Contains(page, "`"+name+"`") {
			t.Errorf("artifacts/examples/README.md does not describe %s", name)
		}
	}
}

func TestEveryMetricIsDescribed(t *testing.T) {
	page := pages(t)["artifacts/monitoring/README.md"]
	for _, folder := range []string{"pkg/metrics", "pkg/orphans"} {
		for _, name := range matches(t, folder, `"(samplecrd_\w+)"`) {
			if !strings.Contains(page, "`"+name+"{") {
				t.Errorf("artifacts/monitoring/README.md does not describe %s", name)
			}
		}
	}
}

// The pages about running the controller name only flags that it has.
func TestNamedFlagsExist(t *testing.T) {
	var flags []string
	for _, folder := range []string{"pkg/options", "pkg/logging", "pkg/command/export", "pkg/command/plan"} {
		flags = append(flags, matches(t, folder, `"([a-z][a-z-]*)"`)...)
	}
	flag := regexp.MustCompile("^-([a-z][a-z-]+)(=|$)")
	for path, text := range pages(t) {
		if slices.Contains([]string{"README.md", "CHANGELOG.md", "hack/README.md", "artifacts/walkthrough/README.md"}, path) {
			continue // they name flags of scripts too
		}
		for _, match := range span.FindAllStringSubmatch(prose(text), -1) {
			if f := flag.FindStringSubmatch(match[1]); f != nil && !slices.Contains(flags, f[1]) {
				t.Errorf("%s names the flag -%s, which does not exist", path, f[1])
			}
		}
	}
}

// A line of a log in a block of code begins with its message, or with file:line] and the message.
func TestQuotedLogMessagesExist(t *testing.T) {
	var code []byte
	walk(t, ".go", func(path, text string) {
		if !strings.HasSuffix(path, "_test.go") && !strings.HasPrefix(path, "hack/") {
			code = append(code, text...)
		}
	})
	message, quoted := regexp.MustCompile(`(?m)^(?:\S+\] )?("[A-Z][^"]*") \w+=`), 0
	for path, text := range pages(t) {
		for _, match := range message.FindAllStringSubmatch(text, -1) {
			quoted++
			if !bytes.Contains(code, []byte(match[1])) {
				t.Errorf("%s quotes the log message %s, which no code has", path, match[1])
			}
		}
	}
	if quoted == 0 {
		t.Error("no page quotes a line of a log")
	}
}

// kubectl explain shows the line breaks of a description.
func TestDescriptionsOfFieldsHaveOneLinePerParagraph(t *testing.T) {
	var crds [2]any
	for i, name := range []string{"clusterclouds", "networks"} {
		text, err := os.ReadFile(root + "/artifacts/crd/samplecrd.k8s.io_" + name + ".yaml")
		if err == nil {
			err = yaml.Unmarshal(text, &crds[i])
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	broken := regexp.MustCompile(`[^\n]\n[^\n \-*0-9][^\n]*`)
	count := 0
	var visit func(value any)
	visit = func(value any) {
		switch value := value.(type) {
		case []any:
			for _, element := range value {
				visit(element)
			}
		case map[string]any:
			if description, ok := value["description"].(string); ok {
				count++
				if rest := broken.FindString(description); rest != "" {
					t.Errorf("a line break within a paragraph: …%q", rest)
				}
			}
			for _, element := range value {
				visit(element)
			}
		}
	}
	visit(crds[:])
	if count < 50 {
		t.Errorf("found %d descriptions, want more", count)
	}
}

func TestFrontPageIsShort(t *testing.T) {
	if lines := strings.Count(pages(t)["README.md"], "\n"); lines > frontPageLines {
		t.Errorf("README.md has %d lines, more than %d", lines, frontPageLines)
	}
}

func TestAnchorsAreThoseOfGitHub(t *testing.T) {
	const page = "# Starting everything: local-up.sh\n```\n# no heading\n```\n## What `x` is, and why\n"
	want := []string{"starting-everything-local-upsh", "what-x-is-and-why"}
	if got := anchors(page); !slices.Equal(want, got) {
		t.Errorf("want %q, got %q", want, got)
	}
}
