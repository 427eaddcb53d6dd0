package attach_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/cockroachdb/errors"
	"github.com/google/go-cmp/cmp"

	"github.com/toolfleet/toolfleet/cmd/internal/attach"
)

func TestFind(t *testing.T) {
	for _, tt := range []struct {
		name    string
		flags   attach.Flags
		env     map[string]string
		running string
		want    attach.Place
	}{
		{
			"the flag before all",
			attach.Flags{Server: "nats://a", Creds: "c"},
			map[string]string{"TOOLFLEET_SERVER": "nats://b", "NATS_URL": "nats://c"},
			"nats://d",
			attach.Place{URL: "nats://a", Creds: "c", From: "--server"},
		},
		{
			"a context before the environment",
			attach.Flags{Context: "prod"},
			map[string]string{"TOOLFLEET_SERVER": "nats://b"},
			"",
			attach.Place{Context: "prod", From: "--context"},
		},
		{
			"ours before that of NATS",
			attach.Flags{},
			map[string]string{"TOOLFLEET_SERVER": "nats://b", "NATS_URL": "nats://c"},
			"nats://d",
			attach.Place{URL: "nats://b", From: "TOOLFLEET_SERVER"},
		},
		{
			"that of NATS before a running fleet",
			attach.Flags{},
			map[string]string{"NATS_URL": "nats://c"},
			"nats://d",
			attach.Place{URL: "nats://c", From: "NATS_URL"},
		},
		{
			"a context of ours before all of NATS",
			attach.Flags{},
			map[string]string{"TOOLFLEET_CONTEXT": "prod", "NATS_URL": "nats://c", "selected": "dev"},
			"nats://d",
			attach.Place{Context: "prod", From: "TOOLFLEET_CONTEXT"},
		},
		{
			"a context of NATS before the selected one",
			attach.Flags{},
			map[string]string{"NATS_CONTEXT": "prod", "selected": "dev"},
			"nats://d",
			attach.Place{Context: "prod", From: "NATS_CONTEXT"},
		},
		{
			"the selected context before a running fleet",
			attach.Flags{},
			map[string]string{"selected": "dev"},
			"nats://d",
			attach.Place{Context: "dev", From: "the selected NATS context"},
		},
		{"a running fleet", attach.Flags{}, nil, "nats://d", attach.Place{URL: "nats://d", From: "the running toolfleet up"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			home(t, tt.env)
			tt.flags.Fleet = "f"
			if tt.running != "" {
				record(t, tt.running)
			}
			got, err := tt.flags.Find()
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestFindNothing(t *testing.T) {
	home(t, nil)
	f := attach.Flags{Fleet: "f"}
	if _, err := f.Find(); !errors.Is(err, attach.ErrNowhere) || len(errors.GetAllHints(err)) == 0 {
		t.Errorf("got %v, want ErrNowhere with a way out", err)
	}
	f = attach.Flags{Fleet: "f", Server: "nats://a", Context: "b"}
	if _, err := f.Find(); err == nil {
		t.Error("two places were accepted")
	}
	f = attach.Flags{Fleet: "no good"}
	if _, err := f.Find(); err == nil {
		t.Error("a fleet that is no id was accepted")
	}
}

func TestRecordIsForgotten(t *testing.T) {
	home(t, nil)
	folder := record(t, "nats://127.0.0.1:1")
	if err := folder.Forget(); err != nil {
		t.Fatal(err)
	}
	if _, err := folder.Running(); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v, want no record", err)
	}
	if err := folder.Forget(); err != nil {
		t.Errorf("forgetting nothing: %v", err)
	}
	left, err := os.ReadDir(string(folder))
	if err != nil || len(left) != 0 {
		t.Errorf("left %v, %v", left, err)
	}
}

func TestStateFolder(t *testing.T) {
	base := home(t, nil)
	got, err := attach.StateFolder("f")
	if want := attach.Folder(filepath.Join(base, "state", "toolfleet", "f")); err != nil || got != want {
		t.Errorf("got %s, %v; want %s", got, err, want)
	}
	t.Setenv("XDG_STATE_HOME", "relative")
	got, err = attach.StateFolder("f")
	if want := attach.Folder(filepath.Join(base, ".local", "state", "toolfleet", "f")); err != nil || got != want {
		t.Errorf("got %s, %v; want %s", got, err, want)
	}
}

// home gives the test a user of its own.
func home(t *testing.T, env map[string]string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	t.Setenv("HOME", dir)
	t.Setenv("XDG_STATE_HOME", filepath.Join(dir, "state"))
	t.Setenv("XDG_CONFIG_HOME", filepath.Join(dir, "config"))
	for _, name := range []string{"TOOLFLEET_SERVER", "TOOLFLEET_CONTEXT", "NATS_URL", "NATS_CONTEXT"} {
		t.Setenv(name, env[name])
	}
	if env["selected"] != "" {
		nats := filepath.Join(dir, "config", "nats")
		if err := errors.Join(os.MkdirAll(nats, 0o700), os.WriteFile(filepath.Join(nats, "context.txt"), []byte(env["selected"]+"\n"), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func record(t *testing.T, url string) attach.Folder {
	t.Helper()
	folder, err := attach.StateFolder("f")
	if err != nil {
		t.Fatal(err)
	}
	r := attach.Running{URL: url, Addresses: []string{url}, TokenFile: "t", PID: 1, Since: time.Unix(1, 0).UTC()}
	if err := errors.Join(os.MkdirAll(string(folder), 0o700), folder.Record(r)); err != nil {
		t.Fatal(err)
	}
	got, err := folder.Running()
	if diff := cmp.Diff(r, got); err != nil || diff != "" {
		t.Fatalf("read %v (-want +got):\n%s", err, diff)
	}
	return folder
}

// A record of a process that is gone does not name whoever has its id now.
func TestRecordNamesOneProcess(t *testing.T) {
	r := attach.Running{PID: os.Getpid(), Started: attach.StartOf(os.Getpid())}
	p, err := r.Process()
	if err != nil || p.Pid != os.Getpid() {
		t.Errorf("its own: %v, %v", p, err)
	}
	if r.Started == "" {
		return // the system does not tell
	}
	r.Started = "1"
	if _, err := r.Process(); !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("another's: %v", err)
	}
}
