package session

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/cockroachdb/errors"
	"github.com/google/go-cmp/cmp"

	"github.com/toolfleet/toolfleet/events"
)

// shelf is a registry that tells what it was given.
type shelf struct {
	has map[events.ServerID][]Tool
	log []string
	// refuse says which calls fail, if set.
	refuse func(events.ServerID) error
	// block is received from before each call, if set.
	block chan struct{}
}

func (r *shelf) Replace(server events.ServerID, tools []Tool) error {
	if r.block != nil {
		<-r.block
	}
	var names []string
	for _, t := range tools {
		names = append(names, t.Name)
	}
	r.log = append(r.log, fmt.Sprintf("%s: %s", server, strings.Join(names, " ")))
	if r.refuse != nil {
		if err := r.refuse(server); err != nil {
			return err
		}
	}
	if r.has == nil {
		r.has = make(map[events.ServerID][]Tool)
	}
	r.has[server] = tools
	if len(tools) == 0 {
		delete(r.has, server)
	}
	return nil
}

// holds checks what the registry has and was given since it was last checked.
func (r *shelf) holds(t *testing.T, what string, names []string, given ...string) {
	t.Helper()
	var has []string
	for _, id := range slices.Sorted(maps.Keys(r.has)) {
		for _, tool := range r.has[id] {
			has = append(has, tool.Name)
		}
	}
	if diff := cmp.Diff(names, has); diff != "" {
		t.Errorf("%s: the registry has (-want +got):\n%s", what, diff)
	}
	if diff := cmp.Diff(given, r.log); diff != "" {
		t.Errorf("%s: the registry was given (-want +got):\n%s", what, diff)
	}
	r.log = nil
}

// withRegistry runs a test with two servers that are ready, git and db.
func withRegistry(t *testing.T, test func(t *testing.T, f *scene, s *Session, r *shelf, sync func())) {
	t.Helper()
	bubble(t, func(t *testing.T, f *scene, _ *owners, s *Session) {
		f.declare("db")
		f.ready("git", "0", "w", "log", "diff")
		f.ready("db", "0", "w", "query")
		r := &shelf{}
		test(t, f, s, r, func() {
			t.Helper()
			if err := s.Sync(t.Context(), r); err != nil {
				t.Error(err)
			}
		})
	})
}

// R16, R22
func TestSync(t *testing.T) {
	withRegistry(t, func(t *testing.T, f *scene, s *Session, r *shelf, sync func()) {
		sync()
		r.holds(t, "first", []string{"db__query", "git__diff", "git__log"}, "db: db__query", "git: git__diff git__log")
		sync()
		r.holds(t, "nothing changed", []string{"db__query", "git__diff", "git__log"})
		f.tell(events.WorkerChain("w"), events.Joined{})
		sync()
		r.holds(t, "no tool changed", []string{"db__query", "git__diff", "git__log"})
		f.list("git", "0", "log")
		sync()
		r.holds(t, "one server changed", []string{"db__query", "git__log"}, "git: git__log")
		f.declare("ask")
		f.ready("ask", "0", "w", "why")
		f.tell(events.ServerChain("git"), events.Withdrawn{})
		sync()
		r.holds(t, "one gone, one new", []string{"ask__why", "db__query"}, "git: ", "ask: ask__why")
		other := &shelf{}
		if err := s.Sync(t.Context(), other); err != nil {
			t.Error(err)
		}
		other.holds(t, "another registry", []string{"ask__why", "db__query"}, "ask: ask__why", "db: db__query")
	})
}

// R22
func TestSyncIsRolledBack(t *testing.T) {
	withRegistry(t, func(t *testing.T, f *scene, s *Session, r *shelf, sync func()) {
		sync()
		r.log = nil
		full := errors.New("the registry is full")
		f.list("db", "0", "query", "explain")
		f.list("git", "0", "blame")
		r.refuse = func(id events.ServerID) error {
			if id == "git" {
				return full
			}
			return nil
		}
		before := []string{"db__query", "git__diff", "git__log"}
		if err := s.Sync(t.Context(), r); !errors.Is(err, full) || !strings.Contains(err.Error(), "server git") {
			t.Errorf("got %v", err)
		}
		r.holds(t, "refused", before, "db: db__explain db__query", "git: git__blame", "db: db__query")
		r.refuse = nil
		sync()
		r.holds(t, "tried again", []string{"db__explain", "db__query", "git__blame"}, "db: db__explain db__query", "git: git__blame")
	})
}

// R22: what the registry has of a server is not known when it did not take its
// tools back.
func TestSyncAfterAFailedRollBack(t *testing.T) {
	withRegistry(t, func(t *testing.T, f *scene, s *Session, r *shelf, sync func()) {
		sync()
		r.log = nil
		f.list("db", "0", "query", "explain")
		f.list("git", "0", "blame")
		calls := 0
		r.refuse = func(events.ServerID) error {
			if calls++; calls > 1 {
				return fmt.Errorf("refusal %d", calls)
			}
			return nil
		}
		err := s.Sync(t.Context(), r)
		if err == nil || !strings.Contains(fmt.Sprintf("%+v", err), "refusal 2") || !strings.Contains(fmt.Sprintf("%+v", err), "refusal 3") {
			t.Errorf("got %+v", err)
		}
		r.refuse, r.log = nil, nil
		f.list("db", "0", "query") // as it was: but that is not what the registry has
		f.list("git", "0", "diff", "log")
		sync()
		r.holds(t, "given anew", []string{"db__query", "git__diff", "git__log"}, "db: db__query")
	})
}

// R22, T6: syncs wait for each other and for nothing else, each has the tools
// that there were when it was called, and the registry never goes back.
func TestSyncsAreSerialised(t *testing.T) {
	withRegistry(t, func(t *testing.T, f *scene, s *Session, r *shelf, _ func()) {
		r.block = make(chan struct{})
		done := make(chan error)
		sync := func() {
			go func() { done <- s.Sync(t.Context(), r) }()
			synctest.Wait()
		}
		sync() // has begun
		f.list("git", "0", "log")
		sync() // waits with one tool
		f.list("git", "0", "blame")
		if tools, _ := s.Tools(); len(tools) != 2 || tools[1].Name != "git__blame" {
			t.Errorf("the session stands still: %v", tools)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := s.Sync(ctx, r); !errors.Is(err, context.Canceled) {
			t.Errorf("a sync that need not wait any more: %v", err)
		}
		close(r.block)
		for range 2 {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		r.holds(t, "both", []string{"db__query", "git__log"}, "db: db__query", "git: git__diff git__log", "git: git__log")
		// One that is late does not undo what a newer one did.
		late, _ := s.load()
		f.list("git", "0", "show")
		if err := s.Sync(t.Context(), r); err != nil {
			t.Error(err)
		}
		if err := s.mirrors[r].apply(r, late); err != nil {
			t.Error(err)
		}
		r.holds(t, "late", []string{"db__query", "git__show"}, "git: git__show")
	})
}

// R22: nothing is synced after the session was closed, nor what waited for it.
func TestSyncAfterClose(t *testing.T) {
	withRegistry(t, func(t *testing.T, f *scene, s *Session, r *shelf, sync func()) {
		r.block = make(chan struct{}, 2)
		waiting := make(chan error)
		go func() { waiting <- s.Sync(t.Context(), r) }()
		synctest.Wait()
		f.list("git", "0", "log")
		go func() { waiting <- s.Sync(t.Context(), r) }()
		synctest.Wait()
		s.Close()
		close(r.block)
		for range 2 {
			if err := <-waiting; err != nil {
				t.Error(err)
			}
		}
		sync()
		r.holds(t, "closed", []string{"db__query", "git__diff", "git__log"}, "db: db__query", "git: git__diff git__log")
	})
}
