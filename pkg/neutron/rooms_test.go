// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package neutron

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// rooms are the rooms of doc.go, in order. What a file in them must not import are packages, with those below them, and what it
// must not use are types of this package.
var rooms = []struct{ name, mustNotImport, mustNotUse string }{
	{"API", customResources, ""},
	{"Plan", "context time sync os net/http net/url golang.org/x/time golang.org/x/sync k8s.io/klog k8s.io/client-go k8s.io/apimachinery/pkg/util/wait github.com/gophercloud", "Client"},
	{"Observer", customResources + " net/http github.com/gophercloud", "Client Identity Desired View"},
	{"Cloud", "net/http github.com/gophercloud", ""},
}

const customResources = "github.com/samplecrd/samplecrd-controller/pkg/apis"

// TestTheRoomsUseOnlyThoseBeforeThem goes through all declarations of the package. Each file is in one room, a method is in the
// room of its type, and nothing is used that is in a later room.
func TestTheRoomsUseOnlyThoseBeforeThem(t *testing.T) {
	fset, files := token.NewFileSet(), []*ast.File{}
	paths, err := filepath.Glob("*.go")
	noError(t, err)
	for _, path := range paths {
		if !strings.HasSuffix(path, "_test.go") {
			file, err := parser.ParseFile(fset, path, nil, parser.ParseComments)
			noError(t, err)
			files = append(files, file)
		}
	}
	roomOf := roomsIn(t, files)
	for path := range roomOf {
		if !slices.Contains(paths, path) {
			t.Errorf("doc.go: there is no %s", path)
		}
	}
	room := func(pos token.Pos) int { return roomOf[fset.Position(pos).Filename] }
	for _, file := range files {
		checkImports(t, fset.Position(file.Pos()).Filename, roomOf, file)
	}
	info := types.Info{Uses: map[*ast.Ident]types.Object{}, Defs: map[*ast.Ident]types.Object{}}
	// What is imported is not read, so the names in it are errors, which do not matter here.
	config := types.Config{Importer: noImports{}, Error: func(error) {}}
	pkg, _ := config.Check("neutron", fset, files, &info)
	uses := 0
	for used, object := range info.Uses {
		if object.Pkg() != pkg || !object.Pos().IsValid() {
			continue
		}
		uses++
		from, to := room(used.Pos()), room(object.Pos())
		if from < to {
			t.Errorf("%s: %s is in a later room: %s uses only the rooms before it", fset.Position(used.Pos()), object.Name(), rooms[from].name)
		}
		if _, isType := object.(*types.TypeName); isType && slices.Contains(strings.Fields(rooms[from].mustNotUse), object.Name()) {
			t.Errorf("%s: %s must not know %s", fset.Position(used.Pos()), rooms[from].name, object.Name())
		}
	}
	for name, object := range info.Defs {
		if method, isFunc := object.(*types.Func); isFunc && method.Signature().Recv() != nil {
			if of := receiver(method); of != nil && room(of.Obj().Pos()) != room(name.Pos()) {
				t.Errorf("%s: the method %s is in another room than its type", fset.Position(name.Pos()), name.Name)
			}
		}
	}
	if uses < 1000 {
		t.Errorf("only %d uses were found", uses)
	}
}

// receiver returns the type that has the method.
func receiver(method *types.Func) *types.Named {
	of := method.Signature().Recv().Type()
	if p, isPointer := of.(*types.Pointer); isPointer {
		of = p.Elem()
	}
	named, _ := of.(*types.Named)
	return named
}

// noImports is an importer of packages without content.
type noImports struct{}

func (noImports) Import(path string) (*types.Package, error) {
	pkg := types.NewPackage(path, path[strings.LastIndexByte(path, '/')+1:])
	pkg.MarkComplete()
	return pkg, nil
}

// roomsIn returns the number of the room of each file, from the documentation of the package.
func roomsIn(t *testing.T, files []*ast.File) map[string]int {
	fileName := regexp.MustCompile(`^[a-z0-9_]+\.go$`)
	roomOf, last := map[string]int{}, -1
	at := slices.IndexFunc(files, func(f *ast.File) bool { return f.Doc != nil && strings.HasPrefix(f.Doc.Text(), "Package ") })
	for line := range strings.Lines(files[at].Doc.Text()) {
		if name, isHeading := strings.CutPrefix(strings.TrimSpace(line), "# "); isHeading && last+1 < len(rooms) {
			last++
			equal(t, rooms[last].name, name)
			continue
		}
		for _, word := range strings.Fields(line) {
			if last < 0 || !fileName.MatchString(word) {
				continue
			}
			if _, isTwice := roomOf[word]; isTwice {
				t.Errorf("doc.go: %s is in two rooms", word)
			}
			roomOf[word] = last
		}
	}
	equal(t, len(rooms), last+1)
	return roomOf
}

// checkImports checks that the file is in a room, and imports nothing that the room must not know.
func checkImports(t *testing.T, path string, roomOf map[string]int, file *ast.File) {
	number, isKnown := roomOf[path]
	if !isKnown {
		if path != "doc.go" {
			t.Errorf("%s is in no room: add it to one in doc.go", path)
		}
		return
	}
	for _, spec := range file.Imports {
		imported, _ := strconv.Unquote(spec.Path.Value)
		for _, forbidden := range strings.Fields(rooms[number].mustNotImport) {
			if imported == forbidden || strings.HasPrefix(imported, forbidden+"/") {
				t.Errorf("%s imports %s: %s must not know it", path, imported, rooms[number].name)
			}
		}
	}
}
