package integration_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const modulePath = "github.com/toolfleet/toolfleet"

// file is one production file, by its path in the module.
type file struct {
	path   string
	syntax *ast.File
}

func (f file) pkg() string { return path.Dir(f.path) }

// rules are the tables of arch_test.go.
type rules struct {
	packages  []row
	pureFiles []string
	modules   []module
}

// check returns what in the files is against the rules, and what in the rules has
// nothing behind it.
func (r rules) check(files []file) []string {
	var complaints []string
	complain := func(format string, args ...any) { complaints = append(complaints, fmt.Sprintf(format, args...)) }
	seen := make(map[string]bool) // files, and patterns of packages and modules
	for _, f := range files {
		seen[f.path] = true
		from, ok := r.row(f.pkg())
		if !ok {
			if !seen[f.pkg()] { // once
				complain("package %s is not in the table of packages", f.pkg())
			}
			seen[f.pkg()] = true
			continue
		}
		seen[from.pkg] = true
		for _, spec := range f.syntax.Imports {
			imported := importPath(spec)
			seen[r.module(imported).prefix] = true
			if c := r.refuse(f.pkg(), from, imported); c != "" {
				complain("%s: %s", f.path, c)
			}
		}
		if from.kind == pure || slices.Contains(r.pureFiles, f.path) {
			for _, c := range r.impurities(f) {
				complain("%s is pure, but %s", f.path, c)
			}
		}
	}
	for _, p := range r.packages {
		if !seen[p.pkg] {
			complain("there is no package %s: take it out of the table", p.pkg)
		}
	}
	for _, m := range r.modules {
		if !seen[m.prefix] {
			complain("nobody imports %s: take it out of the table", m.prefix)
		}
	}
	for _, name := range r.pureFiles {
		if !seen[name] {
			complain("there is no file %s: take it out of the table", name)
		}
	}
	return complaints
}

// refuse returns why production code of a package must not import another, or "".
func (r rules) refuse(pkg string, from row, imported string) string {
	first, _, _ := strings.Cut(imported, "/")
	to, ours := strings.CutPrefix(imported, modulePath+"/")
	switch m := r.module(imported); {
	case ours && !r.mayImport(from, to):
		return fmt.Sprintf("%s must not import %s", pkg, to)
	case ours, !strings.Contains(first, "."): // the standard library has no dot
		return ""
	case from.kind == forTests:
		return ""
	case m.prefix == "":
		return fmt.Sprintf("the module of %s is not in the table of modules", imported)
	case !slices.ContainsFunc(m.in, func(in string) bool { return matches(in, pkg) }):
		return fmt.Sprintf("%s must not import %s: %s", pkg, imported, m.why)
	default:
		return ""
	}
}

// module returns the entry for a foreign package, or none.
func (r rules) module(imported string) module {
	i := slices.IndexFunc(r.modules, func(m module) bool { return matches(m.prefix+"/...", imported) })
	if i < 0 {
		return module{}
	}
	return r.modules[i]
}

func (r rules) row(pkg string) (row, bool) {
	i := slices.IndexFunc(r.packages, func(p row) bool { return matches(p.pkg, pkg) })
	if i < 0 {
		return row{}, false
	}
	return r.packages[i], true
}

// mayImport reports whether production code of a package may import another
// package of the module.
func (r rules) mayImport(from row, to string) bool {
	target, known := r.row(to)
	if !known {
		return false
	}
	if _, ok := from.may[to]; ok {
		return true
	}
	return from.kind == wiring && target.kind != forTests
}

// matches reports whether a path is the pattern's, or in its tree if that ends
// in "...".
func matches(pattern, p string) bool {
	tree, ok := strings.CutSuffix(pattern, "...")
	return p == pattern || ok && (strings.HasPrefix(p, tree) || p == strings.TrimSuffix(tree, "/"))
}

// impure are packages of the standard library that pure code does without, with
// all below them except what follows.
var (
	impure       = []string{"crypto/rand", "log", "math/rand", "net", "os", "runtime", "syscall", "testing"}
	pureAfterAll = []string{"math/rand/v2", "net/url", "net/netip"}
)

// impureNames are what pure code does not use of packages that it may import.
var impureNames = map[string][]string{
	"context": {"Background", "TODO", "WithTimeout", "WithTimeoutCause", "WithDeadline", "WithDeadlineCause"},
	"time":    {"After", "AfterFunc", "LoadLocation", "Local", "NewTicker", "NewTimer", "Now", "Since", "Sleep", "Tick", "Until"},
}

// seeded are the only functions and types of math/rand/v2 that do not draw from
// the global source.
var seeded = []string{"ChaCha8", "New", "NewChaCha8", "NewPCG", "NewZipf", "PCG", "Rand", "Source", "Zipf"}

// impurities returns what of the world a file touches.
func (r rules) impurities(f file) []string {
	var found []string
	local := make(map[string]string) // name in the file → import path
	for _, spec := range f.syntax.Imports {
		imported := importPath(spec)
		switch {
		case r.isImpure(imported):
			found = append(found, "imports "+imported)
		case spec.Name != nil && spec.Name.Name == ".":
			found = append(found, "imports "+imported+" into its own scope")
		case spec.Name != nil:
			local[spec.Name.Name] = imported
		default:
			local[path.Base(strings.TrimSuffix(imported, "/v2"))] = imported
		}
	}
	ast.Inspect(f.syntax, func(n ast.Node) bool {
		s, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		x, ok := s.X.(*ast.Ident)
		if !ok {
			return true
		}
		imported := local[x.Name]
		if slices.Contains(impureNames[imported], s.Sel.Name) ||
			imported == "math/rand/v2" && !slices.Contains(seeded, s.Sel.Name) {
			found = append(found, "uses "+imported+"."+s.Sel.Name)
		}
		return true
	})
	return found
}

// isImpure reports whether pure code must not import a package: part of the
// standard library, a package of ours that is not pure, or a module that is not
// for everyone.
func (r rules) isImpure(imported string) bool {
	if ours, ok := strings.CutPrefix(imported, modulePath+"/"); ok {
		to, _ := r.row(ours)
		return to.kind != pure
	}
	under := func(p string) bool { return matches(p+"/...", imported) }
	if m := r.module(imported); m.prefix != "" {
		return !slices.Contains(m.in, "...")
	}
	return slices.ContainsFunc(impure, under) && !slices.ContainsFunc(pureAfterAll, under)
}

func importPath(s *ast.ImportSpec) string {
	p, err := strconv.Unquote(s.Path.Value)
	if err != nil { // unreachable: the parser accepted it
		panic(err)
	}
	return p
}

// parseTree parses every production file under root, whatever its build tags. It
// goes where the go command goes.
func parseTree(root string) ([]file, error) {
	var files []file
	tree := os.DirFS(root)
	err := fs.WalkDir(tree, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && ignored(d.Name()):
			return fs.SkipDir
		case d.IsDir(), path.Ext(name) != ".go", strings.HasSuffix(name, "_test.go"):
			return nil
		}
		source, err := fs.ReadFile(tree, name)
		if err != nil {
			return err
		}
		f, err := parse(name, string(source))
		files = append(files, f)
		return err
	})
	return files, err
}

// ignored reports whether a folder of that name holds no packages.
func ignored(name string) bool {
	return name == "testdata" || name == "node_modules" || name != "." && strings.ContainsAny(name[:1], "._")
}

// parseSources parses the sources with one of them replaced or, if that is "",
// taken away.
func parseSources(t *testing.T, sources map[string]string, name, source string) []file {
	t.Helper()
	all := maps.Clone(sources)
	all[name] = source
	var files []file
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if all[name] == "" || strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parse(name, all[name])
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	return files
}

func parse(name, source string) (file, error) {
	syntax, err := parser.ParseFile(token.NewFileSet(), name, source, parser.SkipObjectResolution)
	return file{name, syntax}, err
}

func anyContains(lines []string, part string) bool {
	return slices.ContainsFunc(lines, func(s string) bool { return strings.Contains(s, part) })
}
