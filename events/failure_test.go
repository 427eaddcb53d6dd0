package events_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/toolfleet/toolfleet/events"
)

// constants returns the values of the package's constants of a type, by name.
func constants(t *testing.T, typ string) map[string]string {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	found := make(map[string]string)
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok {
				return true
			}
			if id, ok := spec.Type.(*ast.Ident); ok && id.Name == typ {
				for i, name := range spec.Names {
					if found[name.Name], err = strconv.Unquote(spec.Values[i].(*ast.BasicLit).Value); err != nil {
						t.Fatal(err)
					}
				}
			}
			return true
		})
	}
	return found
}

func TestEveryCodeIsExplainedOnce(t *testing.T) {
	codes := constants(t, "Code")
	if len(codes) < 20 {
		t.Fatalf("only %d codes found in the source", len(codes))
	}
	explained := make(map[string]int)
	for _, e := range events.Codes() {
		explained[string(e.Code)]++
		if e.Meaning == "" || e.WayOut == "" {
			t.Errorf("%s is not explained", e.Code)
		}
		for _, text := range []string{e.Meaning, e.WayOut} {
			if !strings.HasSuffix(text, ".") || strings.TrimSpace(text) != text {
				t.Errorf("%s: %q is no sentence", e.Code, text)
			}
		}
	}
	for name, code := range codes {
		if explained[code] != 1 {
			t.Errorf("%s (%s) is explained %d times", name, code, explained[code])
		}
		e, ok := events.Explain(events.Code(code))
		if !ok || string(e.Code) != code {
			t.Errorf("%s is explained as %s, %v", code, e.Code, ok)
		}
		f := events.NewFailure(events.Code(code), events.PhaseRun, "words")
		diff(t, "failure", events.Failure{Code: events.Code(code), Phase: events.PhaseRun, Message: "words", Retry: e.Retry}, f)
		delete(explained, code)
	}
	delete(explained, "http_<status>")
	if len(explained) > 0 {
		t.Errorf("explained, but no constant: %v", explained)
	}
}

func TestEveryKindIsInTheCatalogue(t *testing.T) {
	known := make(map[string]bool)
	for _, k := range events.Kinds() {
		known[string(k)] = true
	}
	kinds := constants(t, "Kind")
	for name, kind := range kinds {
		if !known[kind] {
			t.Errorf("%s (%s) is not in the catalogue", name, kind)
		}
	}
	diff(t, "number of kinds", len(kinds), len(known))
}

func TestHTTPStatus(t *testing.T) {
	for status, retry := range map[int]bool{
		100: false, 400: false, 401: false, 404: false, 408: true, 425: true, 429: true, 499: false, 500: true, 502: true, 599: true,
	} {
		code := events.HTTPStatus(status)
		e, ok := events.Explain(code)
		if !ok || e.Code != code || e.Retry != retry || e.Meaning == "" {
			t.Errorf("%s: %+v, %v", code, e, ok)
		}
	}
	diff(t, "code", events.Code("http_502"), events.HTTPStatus(502))
}

func TestUnknownCodes(t *testing.T) {
	for _, code := range []events.Code{
		"", "nonsense", "Exited", "http_", "http_<status>", "http_99", "http_600", "http_0404", "http_+04", "http_4o4", "http_-04",
	} {
		if e, ok := events.Explain(code); ok {
			t.Errorf("%q is explained: %+v", code, e)
		}
	}
	diff(t, "failure", events.Failure{Code: "nonsense"}, events.NewFailure("nonsense", "", ""))
}

// The list is the package's: a caller cannot change it.
func TestCodesAreCopies(t *testing.T) {
	events.Codes()[0].Meaning = "changed"
	if events.Codes()[0].Meaning == "changed" {
		t.Error("a caller changed the explanations")
	}
}

func TestFailureInWords(t *testing.T) {
	for want, f := range map[string]events.Failure{
		"exited":                      {Code: events.Exited},
		"exited (run)":                {Code: events.Exited, Phase: events.PhaseRun},
		"exited: status 1":            {Code: events.Exited, Message: "status 1"},
		"exited (handshake): no idea": {Code: events.Exited, Phase: events.PhaseHandshake, Message: "no idea"},
	} {
		diff(t, "words", want, f.Error())
	}
}
