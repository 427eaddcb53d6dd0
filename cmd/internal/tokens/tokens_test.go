package tokens_test

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/errors"

	"github.com/toolfleet/toolfleet/cmd/internal/tokens"
	"github.com/toolfleet/toolfleet/guard"
)

func open(t *testing.T, path string) (*tokens.File, *bytes.Buffer) {
	t.Helper()
	var log bytes.Buffer
	f, err := tokens.Open(path, slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	return f, &log
}

func token(t *testing.T, path string, scopes ...guard.Scope) string {
	t.Helper()
	s, err := tokens.Token(path, scopes...)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestTokens(t *testing.T) {
	path := filepath.Join(t.TempDir(), "data", tokens.Name)
	f, _ := open(t, path)
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("the file is %v, %v", info.Mode(), err)
	}
	left, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(left) != 1 {
		t.Errorf("in the folder are %v, %v", left, err)
	}
	all := token(t, path)
	if p, ok := f.Holder(all); !ok || p.Name != tokens.Default || !slices.Equal(p.Scopes, guard.Scopes()) {
		t.Errorf("the first token is of %v, %v", p, ok)
	}
	if again := token(t, path, guard.Change, guard.Read, guard.Call); again != all {
		t.Error("all scopes are another token")
	}
	// One that is made while the file is in use is known at once.
	few := token(t, path, guard.Call, guard.Read)
	if p, ok := f.Holder(few); !ok || p.Name != "read-call" || p.May(guard.Change) || !p.May(guard.Read) {
		t.Errorf("the second token is of %v, %v", p, ok)
	}
	if again := token(t, path, guard.Read, guard.Call, guard.Read); again != few {
		t.Error("the same scopes are another token")
	}
	if len(all) < 26 || all == few {
		t.Errorf("tokens are %d characters long", len(all))
	}
	for _, wrong := range []string{"", "default", all[:len(all)-1], all + "x"} {
		if p, ok := f.Holder(wrong); ok {
			t.Errorf("%q is of %v", wrong, p)
		}
	}
}

// A line that is removed takes its token back.
func TestTakenBack(t *testing.T) {
	path := filepath.Join(t.TempDir(), tokens.Name)
	f, _ := open(t, path)
	all, read := token(t, path), token(t, path, guard.Read)
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lines := slices.DeleteFunc(strings.SplitAfter(string(data), "\n"), func(l string) bool { return strings.HasPrefix(l, "read ") })
	if err := os.WriteFile(path, []byte(strings.Join(lines, "")), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, ok := f.Holder(read); ok {
		t.Error("a token that was taken back counts")
	}
	if _, ok := f.Holder(all); !ok {
		t.Error("the other one does not count")
	}
	if again := token(t, path, guard.Read); again == read {
		t.Error("it came back")
	}
}

// twice are two tokens of one name: the second would have the first one's sessions.
const twice = "me read SECRETSECRETSECRET\n# x\nyou read SECRETSECRETSECRE2\nme call SECRETSECRETSECRE3\n"

// A file that others may read, or that is not understood, lets nobody in, and says
// what helps without its contents.
func TestRefused(t *testing.T) {
	for name, spoil := range map[string]func(path string) error{
		"others may read it":  func(path string) error { return os.Chmod(path, 0o640) },
		"a line of two words": func(path string) error { return os.WriteFile(path, []byte("# x\n\nme SECRETSECRETSECRET\n"), 0o600) },
		"an unknown scope":    func(path string) error { return os.WriteFile(path, []byte("me root SECRETSECRETSECRET\n"), 0o600) },
		"a name twice":        func(path string) error { return os.WriteFile(path, []byte(twice), 0o600) },
		"a short token":       func(path string) error { return os.WriteFile(path, []byte("me read SECRET\n"), 0o600) },
		"gone":                os.Remove,
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), tokens.Name)
			f, log := open(t, path)
			all := token(t, path)
			if err := spoil(path); err != nil {
				t.Fatal(err)
			}
			if _, ok := f.Holder(all); ok {
				t.Error("a token counts")
			}
			if _, ok := f.Holder(all); ok || strings.Count(log.String(), "\n") != 1 || strings.Contains(log.String(), "SECRET") {
				t.Errorf("it said %s", log)
			}
			if name == "gone" {
				return // the next one makes it anew
			}
			_, e1 := tokens.Open(path, slog.New(slog.DiscardHandler))
			_, e2 := tokens.Token(path)
			for _, err := range []error{e1, e2} {
				if name == "a name twice" && (err == nil || !strings.Contains(err.Error(), "line 4 ") || !strings.HasSuffix(err.Error(), " line 1")) {
					t.Errorf("error %v", err)
				}
				if err == nil || len(errors.GetAllHints(err)) == 0 || strings.Contains(err.Error(), "SECRET") {
					t.Errorf("error %v, hints %q", err, errors.GetAllHints(err))
				}
			}
			if errors.Is(e1, tokens.ErrMode) != (name == "others may read it") {
				t.Errorf("error %v", e1)
			}
		})
	}
}

// A token is added below a last line that an editor left without an end, and under
// a name that no other has.
func TestAdded(t *testing.T) {
	path := filepath.Join(t.TempDir(), tokens.Name)
	if err := os.WriteFile(path, []byte("read call THE-FIRST-OF-TOKENS"), 0o600); err != nil {
		t.Fatal(err)
	}
	f, log := open(t, path)
	read, both := token(t, path, guard.Read), token(t, path, guard.Read, guard.Call)
	for secret, name := range map[string]string{"THE-FIRST-OF-TOKENS": "read", read: "read-2", both: "read-call"} {
		if p, ok := f.Holder(secret); !ok || p.Name != name {
			t.Errorf("the token of %s is of %v, %v: %s", name, p, ok, log)
		}
	}
	data, err := os.ReadFile(path)
	if err != nil || strings.Count(string(data), "\n") != 3 {
		t.Errorf("%d lines, %v", strings.Count(string(data), "\n"), err)
	}
}

// Whoever is first makes the file; all others use that. So it is with a line.
func TestTogether(t *testing.T) {
	for range 20 { // they have to meet
		path := filepath.Join(t.TempDir(), tokens.Name)
		for _, scopes := range [][]guard.Scope{nil, {guard.Read}} {
			got := make([]string, 20)
			var all sync.WaitGroup
			for i := range got {
				all.Go(func() {
					got[i], _ = tokens.Token(path, scopes...) // an empty one is another one
				})
			}
			all.Wait()
			if len(slices.Compact(got)) != 1 || got[0] == "" {
				t.Error("there were several")
			}
		}
	}
}

// A file of the same size and time as before is another one if its name was given
// to another file.
func TestReplaced(t *testing.T) {
	dir := t.TempDir()
	path, other := filepath.Join(dir, tokens.Name), filepath.Join(dir, "other")
	f, _ := open(t, path)
	before, after := token(t, path), token(t, other)
	at := time.Now()
	if err := errors.Join(os.Chtimes(path, at, at), os.Chtimes(other, at, at)); err != nil {
		t.Fatal(err)
	}
	if _, ok := f.Holder(before); !ok {
		t.Fatal("the token does not count")
	}
	if err := os.Rename(other, path); err != nil {
		t.Fatal(err)
	}
	if _, ok := f.Holder(after); !ok {
		t.Error("the new one does not count")
	}
}
