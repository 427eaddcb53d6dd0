package worker

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/worker/keeper"
	"github.com/toolfleet/toolfleet/worker/mcptest"
)

// case I6, I9: the cause is in the error.
func TestStdioStartupCrash(t *testing.T) {
	record := mcptest.NewRecord(t)
	d := dialTo(t, mcptest.Script{
		Exit: new(7), Stderr: "Traceback\nModuleNotFoundError: x\n", Record: record.Path(),
	}.Definition(t), hangLimit)
	end := d.ending(d.err, 0)
	if end.code != events.StartupCrash || end.exit == nil || *end.exit != 7 || !strings.Contains(end.stderr, "ModuleNotFoundError") {
		t.Errorf("ended with %+v", end)
	}
	if !strings.Contains(end.message, "status 7 before the handshake") {
		t.Errorf("message %q", end.message)
	}
}

func TestStdioConnectTimeout(t *testing.T) {
	t.Parallel()
	record := mcptest.NewRecord(t)
	d := dialTo(t, mcptest.Script{Mute: true, Noise: []string{"press enter"}, Record: record.Path()}.Definition(t), 2*time.Second)
	end := d.ending(d.err, 2*time.Second)
	if end.code != events.ConnectTimeout || !strings.Contains(end.message, "press enter") || d.phase != events.PhaseHandshake {
		t.Errorf("ended with %+v in %s", end, d.phase)
	}
}

// Nothing of the worker's environment reaches a child but what it needs.
func TestStdioEnvironment(t *testing.T) {
	t.Setenv("NATS_PASSWORD", "x")
	t.Setenv("OTEL_TRACES_EXPORTER", "otlp")
	t.Setenv("LANG", "C.UTF-8")
	def := mcptest.Script{Tools: mcptest.Special}.Definition(t)
	def.Env["MINE"] = "1"
	def.EnvFile = filepath.Join(t.TempDir(), ".env")
	if err := os.WriteFile(def.EnvFile, []byte("FROM_FILE=1\nMINE=2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	x, err := mustDial(t, def).tool(t.Context(), "env", "{}")
	if err != nil {
		t.Fatal(err)
	}
	names := strings.Fields(text(t, x))
	for _, want := range []string{"FROM_FILE", "MINE", "LANG", "PATH", "TOOLFLEET_MCPTEST"} {
		if !slices.Contains(names, want) {
			t.Errorf("%s is missing in %v", want, names)
		}
	}
	for _, name := range names {
		if !slices.Contains(inherited, name) && !slices.Contains([]string{"FROM_FILE", "MINE", "TOOLFLEET_MCPTEST"}, name) {
			t.Errorf("%s reached the child", name)
		}
	}
}

// case C1, C2, C3, C6: what is missing is named.
func TestSpawnFailures(t *testing.T) {
	dir := t.TempDir()
	script := filepath.Join(dir, "not executable")
	if err := os.WriteFile(script, []byte("#!/bin/sh\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	garbage := filepath.Join(dir, "garbage")
	if err := os.WriteFile(garbage, []byte{0x7f, 'E', 'L', 'F', 0}, 0o700); err != nil {
		t.Fatal(err)
	}
	path := map[string]string{"PATH": "/nowhere:relative"}
	for name, tc := range map[string]struct {
		def     events.Definition
		code    events.Code
		message string
	}{
		"nowhere":        {events.Definition{Command: "no-such-command", Env: path}, events.CommandNotFound, "no-such-command is no executable file on the definition's PATH (looked in 2 folders)"},
		"worker's PATH":  {events.Definition{Command: "no-such-command"}, events.CommandNotFound, "on the worker's PATH"},
		"own PATH":       {events.Definition{Command: "sh", Env: path}, events.CommandNotFound, "sh is no executable file"},
		"absolute":       {events.Definition{Command: "/no/such/file"}, events.CommandNotFound, "/no/such/file"},
		"not executable": {events.Definition{Command: script}, events.CommandNotFound, "executable"},
		"a folder":       {events.Definition{Command: dir}, events.CommandNotFound, "executable"},
		"with arguments": {events.Definition{Command: "npx -y server", Env: path}, events.CommandNotFound, "arguments belong into args"},
		"cwd":            {events.Definition{Command: "/bin/sh", Cwd: "/does/not/exist"}, events.CwdNotFound, "/does/not/exist"},
		"cwd is a file":  {events.Definition{Command: "/bin/sh", Cwd: script}, events.CwdNotFound, "no directory"},
		"relative":       {events.Definition{Command: "./garbage-not-here", Cwd: dir}, events.CommandNotFound, "garbage-not-here"},
		"no program":     {events.Definition{Command: "./garbage", Cwd: dir}, events.SpawnFailed, "exec format error"},
		"no envFile":     {events.Definition{Command: "sh", EnvFile: dir + "/none"}, events.UnresolvedVariable, "/none"},
		"bad envFile":    {events.Definition{Command: "sh", EnvFile: script}, events.UnresolvedVariable, ""},
	} {
		t.Run(name, func(t *testing.T) {
			if name == "bad envFile" {
				if err := os.WriteFile(script, []byte("A=1\n=broken\n"), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			d := dialTo(t, tc.def, hangLimit)
			end := d.ending(d.err, 0)
			if end.code != tc.code || !strings.Contains(end.message, tc.message) || strings.Contains(end.message, "/nowhere") {
				t.Errorf("%+v, want %s with %q", end, tc.code, tc.message)
			}
			if end.retry != (tc.code == events.SpawnFailed) {
				t.Errorf("retry is %v", end.retry)
			}
		})
	}
}

// The lease is asked right before a process is spawned or a server dialled.
func TestNothingIsSpawnedUnlessAllowed(t *testing.T) {
	record := mcptest.NewRecord(t)
	def := mcptest.Script{Record: record.Path()}.Definition(t)
	for _, def := range []events.Definition{def, {URL: "http://127.0.0.1:1/"}} {
		d := &dialing{definition: &def, env: os.LookupEnv, spawner: keeper.Direct{}, allowed: func() error {
			return events.NewFailure(events.LeaseLost, events.PhaseSpawn, "")
		}}
		_, err := d.connect(t.Context(), t.Context())
		if end := d.ending(err, 0); end.code != events.LeaseLost || d.link != nil || len(record.Started()) != 0 {
			t.Errorf("%v; started %v", err, record.Started())
		}
	}
}
