package main_test

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/rogpeppe/go-internal/testscript"
)

// served makes the scripts' requests go to the running toolfleet up, or to a
// port: served [PORT].
func served(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) == 1 {
		ts.Setenv("HTTP", "127.0.0.1:"+args[0])
		return
	}
	data, err := os.ReadFile(filepath.Join(ts.Getenv("STATE"), "toolfleet", "default", "up.json"))
	ts.Check(err)
	var record struct {
		HTTP string `json:"http"`
	}
	ts.Check(json.Unmarshal(data, &record))
	ts.Setenv("HTTP", strings.TrimPrefix(record.HTTP, "http://"))
}

// freePort sets a variable to a port that nobody listens on: free-port NAME.
func freePort(ts *testscript.TestScript, _ bool, args []string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	ts.Check(err)
	_, port, err := net.SplitHostPort(l.Addr().String())
	ts.Check(err)
	ts.Check(l.Close())
	ts.Setenv(args[0], port)
}

// request sends a request with a token of some scope, of all or of none, prints
// what comes back, and checks its status:
//
//	request STATUS SCOPE METHOD PATH [BODY-FILE|NAME:VALUE]…
//
// A process that does not listen yet is waited for.
func request(ts *testscript.TestScript, neg bool, args []string) {
	const least = 4
	if neg || len(args) < least {
		ts.Fatalf("usage: request STATUS SCOPE METHOD PATH [BODY-FILE|NAME:VALUE]…")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	var body []byte
	header := http.Header{"Accept": {"application/json, text/event-stream"}}
	if strings.HasPrefix(args[3], "/v1/") {
		header.Set("Accept", "application/json")
	}
	for _, a := range args[least:] {
		if name, value, ok := strings.Cut(a, ":"); ok {
			header.Set(name, value)
			continue
		}
		body = []byte(ts.ReadFile(a))
		header.Set("Content-Type", "application/json")
	}
	if args[1] != "none" {
		header.Set("Authorization", "Bearer "+token(ts, args[1]))
	}
	var resp *http.Response
	eventually(ts, "an answer", func() bool {
		q, err := http.NewRequest(args[2], "http://"+ts.Getenv("HTTP")+args[3], bytes.NewReader(body))
		ts.Check(err)
		q.Header = header
		q.Host = header.Get("Host")
		resp, err = (&http.Client{Timeout: within}).Do(q) //nolint:bodyclose // below
		return err == nil
	})
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	ts.Check(err)
	_, err = ts.Stdout().Write(append(data, '\n'))
	ts.Check(err)
	if resp.StatusCode != want {
		ts.Fatalf("%s, want %d: %s", resp.Status, want, data)
	}
}

// token asks toolfleet for a token.
func token(ts *testscript.TestScript, scope string) string {
	args := []string{"token"}
	if scope != "all" {
		args = append(args, "--scope", scope)
	}
	if data := ts.Getenv("TOKENS"); data != "" {
		args = append(args, "--data", ts.MkAbs(data))
	}
	cmd := exec.Command(filepath.Join(bin, "toolfleet"), args...)
	cmd.Env = append(os.Environ(), "XDG_STATE_HOME="+ts.Getenv("STATE"))
	out, err := cmd.Output()
	ts.Check(err)
	return strings.TrimSpace(string(out))
}
