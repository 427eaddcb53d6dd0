package main_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/cockroachdb/errors"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/events/jetlog"
)

// mark remembers the last position of the history in a variable: mark NAME.
func mark(ts *testscript.TestScript, _ bool, args []string) {
	cmd := exec.Command(filepath.Join(bin, "toolfleet"), "events", "-o", "json")
	cmd.Env = append(os.Environ(), "XDG_STATE_HOME="+ts.Getenv("STATE"), "TOOLFLEET_SERVER="+ts.Getenv("TOOLFLEET_SERVER"))
	out, err := cmd.Output()
	ts.Check(err)
	lines := bytes.Split(bytes.TrimSpace(out), []byte("\n"))
	var last struct {
		Seq jsontext.Value `json:"seq"`
	}
	ts.Check(json.Unmarshal(lines[len(lines)-1], &last))
	ts.Setenv(args[0], string(last.Seq))
}

// told waits until the history has an event of a kind about something: told KIND
// CHAIN.
func told(ts *testscript.TestScript, _ bool, args []string) {
	eventually(ts, args[0]+" on "+args[1], func() bool {
		return says(ts, `"kind":"`+args[0]+`","chain":"`+args[1]+`"`, "events", "--kind", args[0], "-o", "json")
	})
}

// onBus runs something on the bus of the running toolfleet up.
func onBus(ts *testscript.TestScript, f func(context.Context, *jetlog.Log) error) {
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	data, err := os.ReadFile(filepath.Join(ts.Getenv("STATE"), "toolfleet", "default", "up.json"))
	ts.Check(err)
	var record struct {
		URL string `json:"url"`
	}
	ts.Check(json.Unmarshal(data, &record))
	nc, err := jetlog.Connect(ctx, &jetlog.ConnectOptions{URL: record.URL})
	ts.Check(err)
	defer nc.Close()
	log, err := jetlog.Open(ctx, nc, events.DefaultFleet, nil)
	ts.Check(err)
	ts.Check(f(ctx, log))
}

// purge deletes the values of a server's secrets: purge SERVER.
func purge(ts *testscript.TestScript, _ bool, args []string) {
	onBus(ts, func(ctx context.Context, log *jetlog.Log) error {
		secrets, err := log.Secrets(ctx)
		if err != nil {
			return err
		}
		all, err := secrets.Versions(ctx, events.ServerID(args[0]))
		for _, r := range all {
			if err == nil {
				err = secrets.Purge(ctx, r)
			}
		}
		return err
	})
}

// spoil puts one entry of the views in the place of another: spoil KEY WITH.
func spoil(ts *testscript.TestScript, _ bool, args []string) {
	onBus(ts, func(ctx context.Context, log *jetlog.Log) error {
		js, err := jetstream.New(log.Conn())
		if err != nil {
			return err
		}
		kv, err := js.KeyValue(ctx, jetlog.StreamName(events.DefaultFleet, "views"))
		if err != nil {
			return err
		}
		e, err := kv.Get(ctx, args[1])
		if err == nil {
			_, err = kv.Put(ctx, args[0], e.Value())
		}
		return err
	})
}

// unpack unpacks a bundle into one file, the names of its files included: unpack
// BUNDLE FILE.
func unpack(ts *testscript.TestScript, _ bool, args []string) {
	f, err := os.Open(ts.MkAbs(args[0]))
	ts.Check(err)
	defer f.Close()
	z, err := gzip.NewReader(f)
	ts.Check(err)
	var all strings.Builder
	for t := tar.NewReader(z); ; {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		ts.Check(err)
		all.WriteString("== " + h.Name + "\n")
		_, err = io.Copy(&all, io.LimitReader(t, 64<<20))
		ts.Check(err)
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), []byte(all.String()), 0o600))
}

// inflight waits until a call of a tool is at its server, and remembers its id in
// the variable CALL: inflight TOOL.
func inflight(ts *testscript.TestScript, _ bool, args []string) {
	eventually(ts, "a call of "+args[0], func() bool {
		cmd := exec.Command(filepath.Join(bin, "toolfleet"), "calls", "-o", "json")
		cmd.Env = append(os.Environ(), "XDG_STATE_HOME="+ts.Getenv("STATE"))
		out, err := cmd.Output()
		var calls []struct {
			Call, Tool string
		}
		if err != nil || json.Unmarshal(out, &calls, json.MatchCaseInsensitiveNames(true)) != nil {
			return false
		}
		for _, c := range calls {
			if c.Tool == args[0] {
				ts.Setenv("CALL", c.Call)
				return true
			}
		}
		return false
	})
}

// cause remembers the id of the last event of a kind on a chain in a variable:
// cause NAME CHAIN KIND.
func cause(ts *testscript.TestScript, _ bool, args []string) {
	cmd := exec.Command(filepath.Join(bin, "toolfleet"), "events", "--kind", args[2], "-o", "json")
	cmd.Env = append(os.Environ(), "XDG_STATE_HOME="+ts.Getenv("STATE"))
	out, err := cmd.Output()
	ts.Check(err)
	for line := range bytes.Lines(out) {
		var e struct {
			Chain string `json:"chain"`
			ID    string `json:"id"`
		}
		ts.Check(json.Unmarshal(line, &e))
		if e.Chain == args[1] {
			ts.Setenv(args[0], e.ID)
		}
	}
}
