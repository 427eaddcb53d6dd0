package attach_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/cockroachdb/errors"
	"github.com/google/go-cmp/cmp"

	"github.com/toolfleet/toolfleet/cmd/internal/attach"
)

// What another program is given leads to the same fleet without this environment.
func TestArguments(t *testing.T) {
	for _, tt := range []struct {
		name  string
		flags attach.Flags
		env   map[string]string
		want  string
		state bool
	}{
		{"a running one, or none", attach.Flags{Fleet: "default"}, nil, "", true},
		{"another fleet", attach.Flags{Fleet: "b"}, nil, "--fleet b", true},
		{"a server", attach.Flags{Fleet: "b", Server: "nats://a:1,tls://b:2"}, nil, "--server nats://a:1,tls://b:2 --fleet b", false},
		{"one of the environment", attach.Flags{Fleet: "default"}, map[string]string{"NATS_URL": "a.example.org"}, "--server a.example.org", false},
		{"a context", attach.Flags{Fleet: "default"}, map[string]string{"selected": "prod"}, "--context prod", false},
		{"credentials", attach.Flags{Fleet: "default", Context: "prod", Creds: "/c"}, nil, "--context prod --creds /c", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			base := home(t, tt.env)
			args, env, err := tt.flags.Arguments(false)
			if got := strings.Join(args, " "); err != nil || got != tt.want {
				t.Errorf("got %q, %v; want %q", got, err, tt.want)
			}
			var state map[string]string
			if tt.state {
				state = map[string]string{"XDG_STATE_HOME": filepath.Join(base, "state")}
			}
			if diff := cmp.Diff(state, env); diff != "" {
				t.Errorf("environment (-want +got):\n%s", diff)
			}
		})
	}
}

// A password gets into no file of another program unless that is asked for.
func TestArgumentsWithoutPasswords(t *testing.T) {
	home(t, nil)
	for _, url := range []string{"nats://secret@a", "nats://me:secret@a:4222", "nats://b,nats://secret@a", "secret@a:4222", "me:secret@a"} {
		f := attach.Flags{Fleet: "default", Server: url}
		args, _, err := f.Arguments(false)
		if !errors.Is(err, attach.ErrPassword) || args != nil || strings.Contains(err.Error(), "secret") || len(errors.GetAllHints(err)) == 0 {
			t.Errorf("%s: %q, %v", url, args, err)
		}
		if args, _, err = f.Arguments(true); err != nil || len(args) != 2 || args[1] != url {
			t.Errorf("%s: %q, %v", url, args, err)
		}
	}
	f := attach.Flags{Fleet: "no good", Server: "a", Context: "b"}
	if _, _, err := f.Arguments(false); err == nil {
		t.Error("two places were accepted")
	}
}

// Whoever serves HTTP on a port is found by its record, as long as it lives.
func TestWhoServes(t *testing.T) {
	home(t, nil)
	folder := record(t, "nats://a")
	r, err := folder.Running()
	if err != nil {
		t.Fatal(err)
	}
	r.HTTP, r.PID = "http://127.0.0.1:8377", 1
	if err := folder.Record(r); err != nil {
		t.Fatal(err)
	}
	if fleet, found, ok := attach.WhoServes("127.0.0.1:8377"); !ok || fleet != "f" || found.PID != 1 {
		t.Errorf("got %s, %v, %v", fleet, found, ok)
	}
	if _, _, ok := attach.WhoServes("127.0.0.1:8378"); ok {
		t.Error("it serves another port, too")
	}
	r.Started = "long ago"
	if err := folder.Record(r); err != nil {
		t.Fatal(err)
	}
	if _, _, ok := attach.WhoServes("127.0.0.1:8377"); ok {
		t.Error("one that is gone serves it")
	}
}
