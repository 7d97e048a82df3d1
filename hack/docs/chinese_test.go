// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// chinese is the front page in Chinese, with a part of pkg/README.md.
const chinese = "README.zh-CN.md"

// comment matches the comment at the end of a line of code, which may be translated.
var comment = regexp.MustCompile(`(?m) {2,}# .*$`)

// firstCell matches the first cell of each row of a table.
var firstCell = regexp.MustCompile(`(?m)^\| (.+?) \| `)

// blocksIn returns the blocks of code of a page, without their comments.
func blocksIn(text string) []string {
	blocks := block.FindAllString(text, -1)
	for i := range blocks {
		blocks[i] = comment.ReplaceAllString(blocks[i], "")
	}
	return blocks
}

// spansIn returns the code spans of a page that are not names of files.
func spansIn(text string) map[string]bool {
	spans := map[string]bool{}
	for _, match := range span.FindAllStringSubmatch(prose(text), -1) {
		spans[match[1]] = true
	}
	return spans
}

// before returns the page up to a heading.
func before(text, heading string) string {
	part, _, _ := strings.Cut(text, "\n## "+heading+"\n")
	return part
}

// parity returns how the Chinese page differs from the English ones: in its commands and outputs, or in
// the names that it has in code spans. It must name the first cells of the tutorials' table.
func parity(zh, front, tutorials string) (differences []string) {
	zh, front = before(zh, "继续阅读"), before(front, "Where to read on")
	want, got := blocksIn(front), blocksIn(zh)
	for i := range max(len(want), len(got)) {
		switch {
		case i >= len(got):
			differences = append(differences, "lacks the block "+want[i])
		case i >= len(want):
			differences = append(differences, "has another block "+got[i])
		case want[i] != got[i]:
			differences = append(differences, "has the block\n"+got[i]+"\nwant\n"+want[i])
		}
	}
	english, named := spansIn(front), spansIn(zh)
	for _, name := range slices.Sorted(maps.Keys(english)) {
		if !named[name] {
			differences = append(differences, "does not name "+name)
		}
	}
	for _, match := range firstCell.FindAllStringSubmatch(tutorials, -1) {
		for _, name := range slices.Sorted(maps.Keys(spansIn(match[1]))) {
			if !named[name] {
				differences = append(differences, "has no row of "+name)
			}
		}
	}
	maps.Copy(english, spansIn(tutorials))
	for _, name := range slices.Sorted(maps.Keys(named)) {
		if !english[name] {
			differences = append(differences, "names "+name+", which the English pages do not")
		}
	}
	return differences
}

func TestTheChinesePageHasTheCommandsAndOutputsOfTheEnglishOne(t *testing.T) {
	all := pages(t)
	_, tutorials, _ := strings.Cut(all["pkg/README.md"], "\n## Coming from the tutorials\n")
	tutorials, _, _ = strings.Cut(tutorials, "\n### The oldest Kubernetes\n") // the Chinese page has only a link to it
	for _, difference := range parity(all[chinese], all["README.md"], tutorials) {
		t.Errorf("%s %s", chinese, difference)
	}
	if first, _, _ := strings.Cut(all["README.md"], "\n"); !strings.Contains(first, chinese) {
		t.Errorf("the first line of README.md does not lead to %s", chinese)
	}
}

func TestParity(t *testing.T) {
	const english = "# A\n`x`\n```\n$ a  # comment\n```\n## Where to read on\n`not compared`\n"
	for _, test := range []struct {
		name, zh string
		want     []string
	}{
		{"the same", "# A\n看 `x`\n```\n$ a  # 注释\n```\n## 继续阅读\n`else`\n", nil},
		{"another command", "# A\n`x`\n```\n$ b\n```\n", []string{"has the block\n```\n$ b\n```\nwant\n```\n$ a\n```"}},
		{"a command less", "# A\n`x`\n", []string{"lacks the block ```\n$ a\n```"}},
		{"a command more", "# A\n`x`\n```\n$ a\n```\n```\n$ b\n```\n", []string{"has another block ```\n$ b\n```"}},
		{"a name less", "# A\n```\n$ a\n```\n", []string{"does not name x"}},
		{"a name of the tutorials", "# A\n`x` `t`\n```\n$ a\n```\n", nil},
		{"a name that is not there", "# A\n`x` `y`\n```\n$ a\n```\n", []string{"names y, which the English pages do not"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := parity(test.zh, english, "`t`"); !slices.Equal(test.want, got) {
				t.Errorf("want %q, got %q", test.want, got)
			}
		})
	}
	table := "| word | here |\n|---|---|\n| `t`, `u` | `else` |\n"
	if got := parity("# A\n`x` `t`\n```\n$ a\n```\n", english, table); !slices.Equal(got, []string{"has no row of u"}) {
		t.Errorf("a row less: got %q", got)
	}
}
