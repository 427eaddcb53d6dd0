package main_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/rogpeppe/go-internal/testscript"
)

// bin holds the programs that the scripts run: real ones, because toolfleet
// starts itself again as a child.
var bin string

func TestMain(m *testing.M) { os.Exit(buildAndRun(m)) }

func buildAndRun(m *testing.M) int {
	dir, err := os.MkdirTemp("", "toolfleet")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	bin = dir
	build := exec.Command("go", "build", "-o", dir+string(filepath.Separator), ".", "../controller", "../worker")
	if out, err := build.CombinedOutput(); err != nil {
		panic("build the programs: " + string(out))
	}
	return m.Run()
}

func TestScripts(t *testing.T) {
	page, err := filepath.Abs(filepath.Join("..", "..", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(e *testscript.Env) error {
			state := filepath.Join(e.WorkDir, "state")
			e.Setenv("PATH", bin+string(os.PathListSeparator)+e.Getenv("PATH"))
			e.Setenv("STATE", state)
			e.Setenv("TOOLFLEET_HTTP", "off") // they run side by side
			e.Setenv("README", page)
			e.Setenv("XDG_STATE_HOME", state)
			e.Setenv("XDG_CONFIG_HOME", filepath.Join(e.WorkDir, "config"))
			e.Setenv("HOME", e.WorkDir)
			e.Defer(func() { stopWhatRuns(state) })
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"status":     status,
			"attachable": attachable,
			"listed":     listed,
			"settled":    settled,
			"joined":     joined,
			"written":    written,
			"attach":     attach,
			"plain-nats": plainNATS,
			"readme":     readme,
			"served":     served,
			"free-port":  freePort,
			"request":    request,
			"mark":       mark,
			"cause":      cause,
			"told":       told,
			"purge":      purge,
			"spoil":      spoil,
			"unpack":     unpack,
			"inflight":   inflight,
		},
	})
}

// stopWhatRuns ends what a script left behind in the background.
func stopWhatRuns(state string) {
	records, _ := filepath.Glob(filepath.Join(state, "toolfleet", "*", "up.json"))
	for _, record := range records {
		cmd := exec.Command(filepath.Join(bin, "toolfleet"), "down", "--fleet", filepath.Base(filepath.Dir(record)))
		cmd.Env = append(os.Environ(), "XDG_STATE_HOME="+state)
		_ = cmd.Run() // of the scripts that failed there may be nothing left
	}
}

// plainNATS starts a NATS server without JetStream for the rest of the script.
func plainNATS(ts *testscript.TestScript, _ bool, _ []string) {
	ns, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, NoLog: true, NoSigs: true})
	ts.Check(err)
	ns.Start()
	ts.Defer(ns.Shutdown)
	if !ns.ReadyForConnections(within) {
		ts.Fatalf("NATS does not start")
	}
	ts.Setenv("PLAIN", ns.ClientURL())
}

// status runs a command and checks its exit status: status 2 toolfleet fly.
func status(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: status CODE COMMAND [ARGUMENT…]")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	err = ts.Exec(args[1], args[2:]...)
	got := 0
	if err != nil {
		e, ok := err.(*exec.ExitError) //nolint:errorlint // testscript returns it as it is
		if !ok {
			ts.Fatalf("%v", err)
		}
		got = e.ExitCode()
	}
	if got != want {
		ts.Fatalf("exit status %d, want %d", got, want)
	}
}

// within bounds what the scripts wait for on a busy machine.
const within = 60 * time.Second

// attachable waits until a toolfleet up has recorded where it is.
func attachable(ts *testscript.TestScript, _ bool, _ []string) {
	record := filepath.Join(ts.Getenv("STATE"), "toolfleet", "default", "up.json")
	eventually(ts, "a running fleet", func() bool {
		_, err := os.Stat(record)
		return err == nil
	})
}

// attach makes the scripts' commands use the NATS server of the running
// toolfleet up.
func attach(ts *testscript.TestScript, _ bool, _ []string) {
	data, err := os.ReadFile(filepath.Join(ts.Getenv("STATE"), "toolfleet", "default", "up.json"))
	ts.Check(err)
	var record struct {
		URL string `json:"url"`
	}
	ts.Check(json.Unmarshal(data, &record))
	ts.Setenv("TOOLFLEET_SERVER", record.URL)
	ts.Setenv("LISTEN", record.URL[strings.LastIndex(record.URL, "@")+1:])
}

// listed waits until a tool is in the list: listed NAME.
func listed(ts *testscript.TestScript, _ bool, args []string) {
	eventually(ts, args[0], func() bool { return says(ts, args[0], "tools") })
}

// settled waits until a server's update is settled: settled SERVER.
func settled(ts *testscript.TestScript, _ bool, args []string) {
	eventually(ts, args[0], func() bool {
		return says(ts, `"kind":"update-settled","chain":"server.`+args[0]+`"`, "events", "-o", "json")
	})
}

// joined waits until a worker is in a fleet's history: joined FLEET WORKER.
func joined(ts *testscript.TestScript, _ bool, args []string) {
	eventually(ts, args[1], func() bool { return says(ts, "worker."+args[1]+" ", "events", "--fleet", args[0]) })
}

// written waits until a file has a line that the pattern matches: written FILE
// PATTERN.
func written(ts *testscript.TestScript, _ bool, args []string) {
	pattern := regexp.MustCompile("(?m)" + args[1])
	eventually(ts, args[1]+" in "+args[0], func() bool {
		data, err := os.ReadFile(ts.MkAbs(args[0]))
		return err == nil && pattern.Match(data)
	})
}

// says runs toolfleet and looks for some text in what it writes.
func says(ts *testscript.TestScript, text string, args ...string) bool {
	cmd := exec.Command(filepath.Join(bin, "toolfleet"), args...)
	cmd.Env = append(os.Environ(), "XDG_STATE_HOME="+ts.Getenv("STATE"), "TOOLFLEET_SERVER="+ts.Getenv("TOOLFLEET_SERVER"))
	out, err := cmd.Output()
	return err == nil && bytes.Contains(out, []byte(text))
}

// eventually asks until the answer is yes; other processes give no other sign.
func eventually(ts *testscript.TestScript, what string, ask func() bool) {
	for limit := time.Now().Add(within); !ask(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(limit) {
			ts.Fatalf("%s: not within %v", what, within)
		}
	}
}
