package session

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/cockroachdb/errors"
	"github.com/google/go-cmp/cmp"

	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/events/callwire"
)

// docs has a session see a server with a resource, a template and prompts.
func docs(t *testing.T, test func(t *testing.T, f *scene, o *owners, s *Session)) {
	t.Helper()
	bubble(t, func(t *testing.T, f *scene, o *owners, s *Session) {
		f.connecting("git", "0", "w")
		f.connected("git", "0", `{"resources":{},"prompts":{},"completions":{}}`)
		f.offer("git", "0", someResources, somePrompts)
		test(t, f, o, s)
	})
}

// R35, M11: a resource is read by server and URI, listed or not; a prompt is got
// by its name in the session; what the server answers is passed on as it is.
func TestReadAndPromptAndComplete(t *testing.T) {
	docs(t, func(t *testing.T, _ *scene, o *owners, s *Session) {
		const answer = `{"contents":[{"uri":"x","text":"t","size":1.0}],"_meta":{}}`
		o.set(epoch1, says(answer))
		ctx, askMe := t.Context(), s.Prompts()[0].Name
		for what, ask := range map[string]func() ([]byte, error){
			"read":                    func() ([]byte, error) { return s.Read(ctx, "git", "file:///b", nil) },
			"read what is not listed": func() ([]byte, error) { return s.Read(ctx, "git", "file:///<&>", nil) },
			"prompt":                  func() ([]byte, error) { return s.Prompt(ctx, "git__review", []byte(`{"text":"a<b"}`), nil) },
			"prompt without any":      func() ([]byte, error) { return s.Prompt(ctx, askMe, nil, nil) },
			"complete": func() ([]byte, error) {
				return s.Complete(ctx, "git", []byte(`{"ref":{"type":"ref/prompt","name":"review"},"argument":{"name":"tone","value":"k"}}`))
			},
		} {
			if got, err := ask(); err != nil || string(got) != answer {
				t.Errorf("%s: %s, %v", what, got, err)
			}
		}
		want := map[string]bool{
			epoch1 + ` resources/read file:///b {"uri":"file:///b"}`:                                                                    true,
			epoch1 + ` resources/read file:///<&> {"uri":"file:///<&>"}`:                                                                true,
			epoch1 + ` prompts/get review {"name":"review","arguments":{"text":"a<b"}}`:                                                 true,
			epoch1 + ` prompts/get ask me {"name":"ask me"}`:                                                                            true,
			epoch1 + ` completion/complete review {"ref":{"type":"ref/prompt","name":"review"},"argument":{"name":"tone","value":"k"}}`: true,
		}
		got := make(map[string]bool)
		for _, c := range o.calls() {
			got[c] = true
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("sent (-want +got):\n%s", diff)
		}
	})
}

// M11: what cannot be asked for is said before anything is sent, and by name.
func TestNothingIsAsked(t *testing.T) {
	docs(t, func(t *testing.T, f *scene, o *owners, s *Session) {
		ctx := t.Context()
		read := func(id events.ServerID, uri string) error {
			_, err := s.Read(ctx, id, uri, nil)
			return err
		}
		prompt := func(name, arguments string) error {
			_, err := s.Prompt(ctx, name, []byte(arguments), nil)
			return err
		}
		complete := func(id events.ServerID, params string) error {
			_, err := s.Complete(ctx, id, []byte(params))
			return err
		}
		for _, tt := range []struct {
			err  error
			mark error
			text string
		}{
			{read("gti", "file:///a"), ErrUnknownServer, "the session sees no server gti as of event "},
			{read("git", ""), ErrInvalidArguments, "the URI is empty"},
			{read("git", "a\xff"), ErrInvalidArguments, "read a resource of server git: "},
			{complete("gti", `{}`), ErrUnknownServer, "no server gti"},
			{complete("git", `[]`), ErrInvalidArguments, "the parameters are not a JSON object"},
			{prompt("git__reviews", ""), ErrUnknownPrompt, `unknown prompt "git__reviews" as of event `},
			{prompt("review", ""), ErrUnknownPrompt, `unknown prompt "review"`},
			{prompt("git__review", ""), ErrInvalidArguments, "get prompt git__review: argument text is missing"},
			{prompt("git__review", `{"tone":"kind"}`), ErrInvalidArguments, "argument text is missing"},
			{prompt("git__review", `{"text":7}`), ErrInvalidArguments, "argument text is not a string"},
			{prompt("git__review", `{"text":null}`), ErrInvalidArguments, "argument text is not a string"},
			{prompt("git__review", `["text"]`), ErrInvalidArguments, "not a JSON object"},
			{prompt("git__review", `{"text":"a","text":"b"}`), ErrInvalidArguments, "not a JSON object"},
		} {
			if !errors.Is(tt.err, tt.mark) || !strings.Contains(tt.err.Error(), tt.text) {
				t.Errorf("got %v, want %v: %s", tt.err, tt.mark, tt.text)
			}
		}
		f.offer("git", "0", "", `[{"name":"two","arguments":[{"name":"a","required":true},{"name":"b","required":true}]}]`)
		if err := prompt("git__two", `{}`); err == nil || !strings.HasSuffix(err.Error(), "arguments a, b are missing") {
			t.Errorf("got %v", err)
		}
		if len(o.calls()) != 0 {
			t.Errorf("sent %v", o.calls())
		}
	})
}

// R21: what changes nothing is asked for again, once, when its outcome is unknown.
func TestReadingIsRepeated(t *testing.T) {
	docs(t, func(t *testing.T, _ *scene, o *owners, s *Session) {
		unknown := callwire.Error{Outcome: callwire.Unknown, Failure: events.NewFailure(events.ConnectionLost, events.PhaseRun, "lost")}
		for what, ask := range map[string]func() error{
			"read file:///a":    func() error { _, err := s.Read(t.Context(), "git", "file:///a", nil); return err },
			"get prompt review": func() error { _, err := s.Prompt(t.Context(), "git__review", []byte(`{"text":"x"}`), nil); return err },
			"complete x":        func() error { _, err := s.Complete(t.Context(), "git", []byte(`{"ref":{"uri":"x"}}`)); return err },
		} {
			before := len(o.calls())
			o.set(epoch1, ends(unknown))
			err := ask()
			var e *CallError
			if !errors.Is(err, ErrUnknownOutcome) || !errors.As(err, &e) || !strings.HasPrefix(err.Error(), what+" of server git: outcome unknown: ") {
				t.Errorf("%s: %v", what, err)
			}
			if n := len(o.calls()) - before; n != 2 {
				t.Errorf("%s: asked %d times", what, n)
			}
			o.set(epoch1, ends(callwire.Error{Outcome: callwire.Failed, RPCCode: -32602, Failure: events.NewFailure(events.OtherFailure, events.PhaseRun, "no such thing")}))
			if err := ask(); !errors.Is(err, ErrFailed) || !errors.As(err, &e) || e.RPCCode != -32602 {
				t.Errorf("%s: %v", what, err)
			}
			if n := len(o.calls()) - before; n != 3 {
				t.Errorf("%s: asked again after an answer", what)
			}
		}
	})
}

// What is asked waits for a server that starts, and not for one that does not.
func TestAskingWaits(t *testing.T) {
	docs(t, func(t *testing.T, f *scene, o *owners, s *Session) {
		f.connecting("git", "0", "w2")
		o.set(epoch2, says(`{}`))
		done := make(chan error, 2)
		go func() {
			_, err := s.Read(t.Context(), "git", "file:///a", nil)
			done <- err
		}()
		go func() {
			_, err := s.Prompt(t.Context(), "git__review", []byte(`{"text":"x"}`), nil)
			done <- err
		}()
		synctest.Wait()
		if len(o.calls()) != 0 {
			t.Fatalf("sent before the server was ready: %v", o.calls())
		}
		f.connected("git", "0", `{"resources":{},"prompts":{}}`)
		for range 2 {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		f.tell(events.ServerChain("git"), events.Disabled{})
		f.tell(events.InstanceChain("git", "0"), events.HasStopped{})
		if _, err := s.Read(t.Context(), "git", "file:///a", nil); !errors.Is(err, ErrNotExecuted) || !strings.Contains(err.Error(), "disabled") {
			t.Errorf("read of a server that is disabled: %v", err)
		}
		if _, err := s.Prompt(t.Context(), "git__review", []byte(`{"text":"x"}`), nil); !errors.Is(err, ErrNotExecuted) {
			t.Errorf("prompt of a server that is disabled: %v", err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		f.tell(events.ServerChain("git"), events.Enabled{})
		if _, err := s.Complete(ctx, "git", []byte(`{}`)); !errors.Is(err, ErrCancelled) {
			t.Errorf("an aborted one: %v", err)
		}
	})
}
