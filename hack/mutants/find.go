// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"hash/fnv"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// mutant is one change of one file.
type mutant struct {
	// id names the mutant by its function and its source text.
	id string
	// file is the path from the top of the repository.
	file         string
	line, column int
	operator     string
	// source is the line that is changed.
	source string
	// text is what stands in the file instead.
	text string
	// run matches the names of the tests of the package tests that are known to kill it; "" if none are.
	tests, run string

	function string
}

func (m mutant) position() string { return fmt.Sprintf("%s:%d:%d", m.file, m.line, m.column) }

// folder returns the package of the mutant as an argument of the go command.
func (m mutant) folder() string { return folderOf(m.file) }

func folderOf(file string) string {
	if dir := filepath.ToSlash(filepath.Dir(file)); dir != "." {
		return "./" + dir
	}
	return "."
}

// scope matches the files that have mutants.
var scope = []string{
	"controller.go", "pkg/neutron/*.go", "pkg/live/*.go", "pkg/status/*.go", "pkg/clouds/*.go", "pkg/orphans/*.go", "pkg/fair/*.go",
}

// candidates returns all mutants of the files in scope, in the order in which they are run: each beginning of the list
// has about the same share of each function.
func candidates(root, seed string) ([]mutant, error) {
	var all []mutant
	for _, pattern := range scope {
		paths, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(pattern)))
		if err != nil {
			return nil, err
		}
		for _, path := range paths {
			if strings.HasSuffix(path, "_test.go") || strings.HasPrefix(filepath.Base(path), "zz_generated") {
				continue
			}
			text, err := os.ReadFile(path)
			if err != nil {
				return nil, err
			}
			name, err := filepath.Rel(root, path)
			if err != nil {
				return nil, err
			}
			found, err := mutate(filepath.ToSlash(name), string(text))
			if err != nil {
				return nil, err
			}
			all = append(all, found...)
		}
	}
	return inOrder(all, seed), nil
}

// inOrder sorts mutants by their places in their functions, from 0 to 1, after it has shuffled each function's.
func inOrder(all []mutant, seed string) []mutant {
	byFunction := map[string][]mutant{}
	for _, m := range all {
		byFunction[m.function] = append(byFunction[m.function], m)
	}
	places := map[string]float64{}
	for function, own := range byFunction {
		slices.SortFunc(own, func(a, b mutant) int { return cmp.Compare(hash(seed, a.id), hash(seed, b.id)) })
		for i, m := range own {
			places[m.id] = (float64(i) + hash(seed, function)) / float64(len(own))
		}
	}
	slices.SortFunc(all, func(a, b mutant) int { return cmp.Or(cmp.Compare(places[a.id], places[b.id]), cmp.Compare(a.id, b.id)) })
	return all
}

// hash returns a number from 0 to 1.
func hash(seed, text string) float64 {
	h := fnv.New64a()
	fmt.Fprint(h, text, "\x00", seed)
	// The last characters of a text change only the low bits of FNV.
	x := h.Sum64()
	x = (x ^ x>>33) * 0xff51afd7ed558ccd
	x = (x ^ x>>33) * 0xc4ceb9fe1a85ec53
	return float64((x^x>>33)>>11) / (1 << 53)
}

// mutate returns the mutants of one file.
func mutate(file, text string) ([]mutant, error) {
	files := token.NewFileSet()
	tree, err := parser.ParseFile(files, file, text, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	f := &finder{files: files, file: file, text: text, ids: map[string]int{}, kept: map[ast.Stmt]bool{}}
	for _, d := range tree.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Body != nil && d.Name.Name != "String" {
				f.function = nameOf(d)
				f.body(d.Type, d.Body)
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				if v, ok := spec.(*ast.ValueSpec); ok {
					f.function = v.Names[0].Name
					f.walk(v)
				}
			}
		}
	}
	return f.found, nil
}

// nameOf returns "Function" or "Type.Method".
func nameOf(d *ast.FuncDecl) string {
	if d.Recv == nil {
		return d.Name.Name
	}
	receiver := d.Recv.List[0].Type
	for {
		switch r := receiver.(type) {
		case *ast.StarExpr:
			receiver = r.X
		case *ast.IndexExpr:
			receiver = r.X
		case *ast.IndexListExpr:
			receiver = r.X
		case *ast.Ident:
			return r.Name + "." + d.Name.Name
		default:
			return d.Name.Name
		}
	}
}

// finder collects the mutants of one file.
type finder struct {
	files      *token.FileSet
	file, text string
	found      []mutant
	ids        map[string]int

	function string
	results  *ast.FieldList
	// kept is not removed: without the last part of a for statement, the loop does not end, and without the last
	// return, a function does not compile.
	kept map[ast.Stmt]bool
}

func (f *finder) offset(pos token.Pos) int { return f.files.Position(pos).Offset }

func (f *finder) textOf(n ast.Node) string { return f.text[f.offset(n.Pos()):f.offset(n.End())] }

// replace adds the mutant in which that text stands in place of a node.
func (f *finder) replace(operator string, n ast.Node, text string) {
	f.add(operator, n.Pos(), n.End(), f.textOf(n), text)
}

// add adds the mutant in which that text stands from one position to another; old is what its ID says of what was there.
func (f *finder) add(operator string, from, to token.Pos, old, text string) {
	position := f.files.Position(from)
	end := f.offset(to)
	function := strings.TrimPrefix(folderOf(f.file), "./") + " " + f.function
	id := function + ": " + operator + " " + short(old)
	if text != "" {
		id += " => " + short(text)
	}
	if f.ids[id]++; f.ids[id] > 1 {
		id += fmt.Sprintf(" #%d", f.ids[id])
	}
	source := f.text[position.Offset-position.Column+1:]
	source, _, _ = strings.Cut(source, "\n")
	f.found = append(f.found, mutant{
		id: id, file: f.file, line: position.Line, column: position.Column, operator: operator, function: function,
		source: strings.TrimSpace(source), text: f.text[:position.Offset] + text + f.text[end:],
	})
}

// short returns a text on one line, and the beginning of a long one.
func short(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	if runes := []rune(text); len(runes) > 100 {
		text = string(runes[:100]) + "…"
	}
	return text
}
