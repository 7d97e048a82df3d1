// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"go/ast"
	"go/token"
	"slices"
	"strconv"
	"strings"
)

// walk adds the mutants of a node and of all below it.
func (f *finder) walk(n ast.Node) {
	ast.Inspect(n, func(n ast.Node) bool {
		switch n := n.(type) {
		case ast.Stmt:
			if isLog(n) {
				return false
			}
			f.statement(n)
		case *ast.FuncLit:
			f.body(n.Type, n.Body)
			return false
		case *ast.CallExpr:
			return !isNoise(n)
		case *ast.BinaryExpr:
			return f.binary(n)
		case *ast.UnaryExpr:
			if n.Op == token.NOT {
				f.replace("negation", n, f.textOf(n.X))
			}
		case *ast.BasicLit:
			f.constant(n)
		case *ast.CompositeLit:
			f.elements(n)
		}
		return true
	})
}

// body adds the mutants of a function.
func (f *finder) body(signature *ast.FuncType, body *ast.BlockStmt) {
	before := f.results
	f.results = signature.Results
	if n := len(body.List); n > 0 && f.results != nil {
		f.kept[body.List[n-1]] = true
	}
	f.walk(body)
	f.results = before
}

// isLog reports whether a statement has to do with logs or metrics only.
func isLog(s ast.Stmt) bool {
	var calls []ast.Expr
	switch s := s.(type) {
	case *ast.ExprStmt:
		calls = []ast.Expr{s.X}
	case *ast.AssignStmt:
		calls = s.Rhs
	case *ast.DeferStmt:
		calls = []ast.Expr{s.Call}
	case *ast.IfStmt:
		if s.Else == nil && len(s.Body.List) > 0 && !slices.ContainsFunc(s.Body.List, func(s ast.Stmt) bool { return !isLog(s) }) {
			return true
		}
		calls = []ast.Expr{s.Cond}
	}
	return slices.ContainsFunc(calls, func(e ast.Expr) bool {
		return slices.ContainsFunc(chain(e), func(name string) bool { return slices.Contains([]string{"klog", "logger", "metrics"}, name) })
	})
}

// chain returns the names in a chain of calls and selectors, like a.b(c).d.
func chain(e ast.Expr) []string {
	switch e := e.(type) {
	case *ast.Ident:
		return []string{e.Name}
	case *ast.SelectorExpr:
		return append(chain(e.X), e.Sel.Name)
	case *ast.CallExpr:
		return chain(e.Fun)
	}
	return nil
}

// isNoise reports whether what changes in a call's arguments is not worth a test: capacities, bases of numbers.
func isNoise(call *ast.CallExpr) bool {
	names := chain(call.Fun)
	return len(names) > 0 && (names[0] == "make" || names[0] == "strconv")
}

// notRemoved are calls without which a test hangs, or without which only a leak is different.
var notRemoved = []string{"Lock", "Unlock", "RLock", "RUnlock", "Close", "Done", "cancel", "panic", "close"}

func (f *finder) statement(s ast.Stmt) {
	switch s := s.(type) {
	case *ast.ExprStmt:
		if names := chain(s.X); len(names) > 0 && !slices.Contains(notRemoved, names[len(names)-1]) {
			f.replace("remove", s, "")
		}
	case *ast.AssignStmt:
		if s.Tok != token.DEFINE {
			f.replace("remove", s, "")
		}
	case *ast.ForStmt:
		f.kept[s.Post] = true
	case *ast.IncDecStmt:
		if !f.kept[s] {
			f.replace("remove", s, "")
		}
	case *ast.BranchStmt:
		if s.Tok == token.CONTINUE {
			f.replace("remove", s, "")
		}
	case *ast.ReturnStmt:
		f.returned(s)
	case *ast.CaseClause:
		header := f.text[f.offset(s.Pos()) : f.offset(s.Colon)+1]
		f.add("remove", s.Pos(), s.End(), header, "")
	}
}

// returned removes an early return, and changes its booleans and errors.
func (f *finder) returned(s *ast.ReturnStmt) {
	if !f.kept[s] {
		f.replace("remove", s, "")
	}
	var types []ast.Expr
	if f.results != nil {
		for _, field := range f.results.List {
			types = append(types, slices.Repeat([]ast.Expr{field.Type}, max(1, len(field.Names)))...)
		}
	}
	if len(types) != len(s.Results) {
		return
	}
	isFailure := len(types) > 1 && f.textOf(types[len(types)-1]) == "error" && f.textOf(s.Results[len(types)-1]) != "nil"
	for i, e := range s.Results {
		if isFailure && i < len(types)-1 { // callers look at the error only
			continue
		}
		switch text := f.textOf(e); strings.TrimPrefix(f.textOf(types[i]), "*") {
		case "bool":
			if _, isBinary := e.(*ast.BinaryExpr); text == "true" || text == "false" {
				f.replace("return", e, strconv.FormatBool(text == "false"))
			} else if !isBinary {
				f.replace("return", e, "!("+text+")")
			}
		case "error", "Error":
			if text != "nil" {
				f.replace("return", e, "nil")
			}
		}
	}
}

// opposites has the comparisons that take the place of a comparison.
var opposites = map[token.Token][]token.Token{
	token.EQL: {token.NEQ}, token.NEQ: {token.EQL},
	token.LSS: {token.LEQ, token.GEQ}, token.LEQ: {token.LSS, token.GTR},
	token.GTR: {token.GEQ, token.LEQ}, token.GEQ: {token.GTR, token.LSS},
}

// binary changes comparisons and conditions. It returns whether to look below.
func (f *finder) binary(b *ast.BinaryExpr) bool {
	x, y := f.textOf(b.X), f.textOf(b.Y)
	switch {
	case b.Op == token.LAND || b.Op == token.LOR:
		f.replace("operand", b, x)
		f.replace("operand", b, y)
	case b.Op == token.NEQ && y == "nil" && strings.HasSuffix(strings.ToLower(x), "err"):
		f.replace("compare", b, "false && "+x+" != nil")
	case b.Op == token.MUL && strings.HasPrefix(y, "time."):
		f.replace("constant", b, "100 * "+x+" * "+y)
		return false
	}
	for _, other := range opposites[b.Op] {
		if y != "nil" || other != token.EQL || !strings.HasSuffix(strings.ToLower(x), "err") {
			f.replace("compare", b, x+" "+other.String()+" "+y)
		}
	}
	return true
}

// constant changes small numbers.
func (f *finder) constant(literal *ast.BasicLit) {
	n, err := strconv.Atoi(literal.Value)
	if literal.Kind != token.INT || err != nil || n > 100 || strconv.Itoa(n) != literal.Value {
		return
	}
	if n == 1 {
		n = -1
	}
	f.replace("constant", literal, strconv.Itoa(n+1))
}

// elements removes rows of tables, and fields of structs.
func (f *finder) elements(literal *ast.CompositeLit) {
	n := len(literal.Elts)
	for i, e := range literal.Elts {
		_, isKeyed := e.(*ast.KeyValueExpr)
		switch {
		case !isKeyed && n < 2:
		case i < n-1:
			f.add("element", e.Pos(), literal.Elts[i+1].Pos(), f.textOf(e), "")
		case i > 0:
			f.add("element", literal.Elts[i-1].End(), e.End(), f.textOf(e), "")
		default:
			f.add("element", e.Pos(), literal.Rbrace, f.textOf(e), "")
		}
	}
}
