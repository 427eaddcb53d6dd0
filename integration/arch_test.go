package integration_test

import (
	"testing"
)

// The tables of this file are the whole of what may import what in production
// code; tests may import anything. A package, an arrow or a module that is not
// here fails TestArrows, and so does an entry that nothing stands behind.

// kind of a package.
type kind int

const (
	// io packages touch the world.
	io kind = iota
	// pure packages do not: no clock, no environment, no file, no network, no
	// randomness of their own.
	pure
	// packages for tests are imported by tests only and, like tests, import any
	// foreign module.
	forTests
	// wiring packages put the others together and may import every one.
	wiring
)

// row is one package, or with "/..." a tree of them, by its path in the module.
type row struct {
	pkg  string
	kind kind
	// may says which packages of the module it may import, and why.
	may map[string]string
}

var packages = []row{
	{"events", pure, nil},
	{"events/callwire", pure, map[string]string{
		"events": "a call is sent to an instance and ends in a failure",
	}},
	{"events/jetlog", io, map[string]string{
		"events":          "it stores and reads these words",
		"events/callwire": "it carries calls in these frames",
		"otel":            "the context of an event's creation is taken from ctx",
	}},
	{"events/jetlog/example", wiring, nil},
	{"events/eventstest", forTests, map[string]string{
		"events":        "its log in memory holds these words",
		"events/jetlog": "its conformance tests are about this log, and its servers carry it",
		"otel":          "its log in memory takes the context from ctx, too",
	}},

	{"projections", pure, map[string]string{
		"events": "it folds these words",
	}},
	{"projections/audit", pure, map[string]string{
		"events": "it checks how they follow each other",
	}},
	{"projections/story", pure, map[string]string{
		"events":      "it tells what they say",
		"projections": "it tells what became of these folds",
	}},
	{"projections/shape", pure, map[string]string{
		"events":      "an event has a shape",
		"projections": "so has what is folded from events",
	}},
	{"projections/kvview", io, map[string]string{
		"events":        "it follows these words",
		"events/jetlog": "buckets and history are the log's",
		"otel":          "a rebuild is one span",
		"projections":   "it stores these folds",
	}},

	{"session", io, map[string]string{
		"events":             "it names servers, instances and failures",
		"events/callwire":    "a call's outcome is one of these",
		"events/jetlog":      "calls go over the log's connection",
		"otel":               "a call is a span",
		"projections":        "a fleet's tools are these folds",
		"projections/kvview": "it reads and watches the views",
	}},
	{"session/gateway", io, map[string]string{
		"events":      "it names the servers that a list lacks",
		"guard":       "it serves whom that admits",
		"projections": "it says what state those are in",
		"session":     "its clients see a session's tools, and call through it",
		"otel":        "a client's context is that of its calls",
	}},

	// Worker and controller do not know each other, nor which log there is: they
	// are given small interfaces.
	{"worker", io, map[string]string{
		"events":          "it follows commands and writes events",
		"events/callwire": "it answers calls in these frames",
		"otel":            "connects and calls are spans",
		"worker/keeper":   "its children are started and ended there",
	}},
	{"worker/keeper", io, nil}, // it also runs alone, as a process that is nothing else
	{"worker/mcptest", forTests, map[string]string{
		"events": "its servers are started from definitions",
	}},
	{"controller", io, map[string]string{
		"controller/request": "it answers these requests",
		"events":             "it writes events and commands",
		"otel":               "requests are spans",
		"projections":        "it decides on these folds",
	}},
	{"controller/request", pure, map[string]string{
		"events": "a request is about a server and its definition",
	}},
	{"controller/client", io, map[string]string{
		"controller/request": "it asks with these requests",
		"events":             "it sends definitions",
		"otel":               "a request carries the caller's context",
	}},
	{"controller/web", io, map[string]string{
		"controller/request": "what is changed over HTTP is asked for with these",
		"events":             "it serves the history, and takes definitions",
		"guard":              "it serves whom that admits",
		"projections/shape":  "what is read has these shapes",
	}},
	{"controller/discovery", io, map[string]string{
		"events": "it reads files into definitions",
	}},

	{"guard", io, nil}, // of use to all that serve HTTP, so it knows no one
	{"otel", io, nil},  // of use to everyone, so it knows no one
	{"otel/oteltest", forTests, nil},
	{"cmd/...", wiring, nil},
	{"integration/invariants", forTests, map[string]string{
		"controller/request": "what was granted has to be done",
		"events":             "a history is these words",
		"events/jetlog":      "it reads whole histories",
		"projections":        "it folds them again",
		"projections/kvview": "views are compared with the folds",
		"session":            "so are the tools of sessions",
	}},
	{"integration/...", wiring, nil},
}

// pureFiles are files of other packages that hold to the rules of pure ones:
// what decides, apart from what acts.
var pureFiles = []string{
	"controller/client/literal_json.go",
	"controller/client/literal_unknown.go",
	"controller/client/literal_url.go",
	"controller/client/literals.go",
	"controller/client/looks.go",
	"controller/convergence.go",
	"controller/decide.go",
	"controller/discovery/names.go",
	"controller/hosts.go",
	"controller/order.go",
	"controller/place.go",
	"controller/plan.go",
	"controller/surge.go",
	"controller/view.go",
	"controller/vigil.go",
	"projections/kvview/entries.go",
	"session/catalogue.go",
	"session/choice.go",
	"worker/backoff.go",
	"worker/catalogue.go",
	"worker/environ.go",
	"worker/fold.go",
	"worker/health.go",
	"worker/item.go",
	"worker/keeper/message.go",
	"worker/keeper/tree.go",
	"worker/keeper/ward.go",
	"worker/machine.go",
	"worker/resolve.go",
	"worker/restart.go",
	"worker/scrub.go",
	"worker/state.go",
}

// module is a foreign module, or part of one, and who may import it.
type module struct {
	prefix string
	// in are packages of this module; "cmd/..." is a tree, "..." everyone.
	in  []string
	why string
}

// modules are looked up in this order: the first prefix that fits counts.
var modules = []module{
	{"github.com/cockroachdb/errors", []string{"..."}, "the errors package everywhere"},
	{"github.com/go-json-experiment/json", []string{"..."}, "strict JSON, and its canonical form"},
	{
		"github.com/google/uuid",
		[]string{"events/jetlog", "otel", "session", "worker", "controller/client", "cmd/..."},
		"ids are made by those who act: pure code is given them",
	},

	{
		"github.com/nats-io/nats.go/micro",
		[]string{"controller", "controller/client", "cmd/..."},
		"the two ends of the controllers' service, and who counts the controllers",
	},
	{
		"github.com/nats-io/nats.go",
		[]string{"events/jetlog", "projections/kvview", "session", "controller", "controller/client", "cmd/..."},
		"a worker, and every decision, declares what it needs of the log and is given it",
	},
	{
		"github.com/nats-io/nats-server/v2",
		[]string{"events/jetlog", "integration/topology/natsd"},
		"the embedded server is the log's; a cluster is tested as processes",
	},
	{"github.com/synadia-io/orbit.go/natscontext", []string{"events/jetlog"}, "contexts of the nats tool name servers"},
	{"filippo.io/age", []string{"events/jetlog"}, "secrets are encrypted where they are stored"},
	{
		"golang.org/x/sys",
		[]string{"events/jetlog", "worker", "worker/keeper", "cmd/..."},
		"file locks, a clock that counts suspend, and process groups",
	},

	{
		"github.com/mark3labs/mcp-go",
		[]string{"worker", "cmd/internal/example", "integration/bench/server"},
		"only the owner of a connection speaks MCP; sessions and controllers see tools as data",
	},
	{"github.com/tailscale/hujson", []string{"controller/discovery"}, "configuration files have comments"},
	{"github.com/spf13", []string{"cmd/..."}, "a command line"},
	{"go.yaml.in/yaml/v3", []string{"cmd/..."}, "output in YAML"},
	{"github.com/santhosh-tekuri/jsonschema/v6", []string{"cmd/..."}, "arguments are checked where people write them"},

	{
		"go.opentelemetry.io/otel/attribute",
		[]string{"otel", "events/jetlog", "projections/kvview", "session", "worker", "controller"},
		"words of spans, where spans are made",
	},
	{
		"go.opentelemetry.io/otel/codes",
		[]string{"events/jetlog", "projections/kvview", "session", "worker", "controller"},
		"words of spans, where spans are made",
	},
	{
		"go.opentelemetry.io/otel/trace",
		[]string{"otel", "events/jetlog", "projections/kvview", "session", "worker", "controller"},
		"types of spans, where spans are made",
	},
	{
		"go.opentelemetry.io/otel/metric",
		[]string{"otel", "projections/kvview", "controller"},
		"gauges are read where their values are",
	},
	{"github.com/prometheus/client_golang", []string{"otel"}, "what answers a scrape"},
	{"go.opentelemetry.io", []string{"otel"}, "set-up, exporters and carriers are in one place"},
}

func TestArrows(t *testing.T) {
	files, err := parseTree("..")
	if err != nil {
		t.Fatal(err)
	}
	rules := rules{packages, pureFiles, modules}
	for _, complaint := range rules.check(files) {
		t.Error(complaint)
	}
}

// TestArrowsAreHeld proves that each rule can fail: on small trees that break
// one, and on one that breaks none.
func TestArrowsAreHeld(t *testing.T) {
	table := rules{
		[]row{
			{"words", pure, nil},
			{"bus", io, map[string]string{"words": "for the test"}},
			{"fakes", forTests, map[string]string{"words": "for the test"}},
			{"cmd/...", wiring, nil},
		},
		[]string{"bus/decide.go"},
		[]module{
			{"example.org/errors", []string{"..."}, "for the test"},
			{"example.org/broker", []string{"bus", "cmd/..."}, "for the test"},
		},
	}
	whole := map[string]string{
		"words/words.go":      `package words; import ("example.org/errors"; "net/url"; "time"); var _, _ = errors.New, url.Parse; func f(t time.Time) { t.Sub(t) }`,
		"words/words_test.go": `package words; import ("os"; "example.org/compare"; "` + modulePath + `/fakes")`,
		"bus/bus.go":          `package bus; import ("example.org/broker/stream"; "os"; "` + modulePath + `/words")`,
		"bus/decide.go":       `package bus; import ("math/rand/v2"; "` + modulePath + `/words"); var _ = rand.New(rand.NewPCG(1, 2)).IntN`,
		"fakes/fakes.go":      `package fakes; import ("testing"; "example.org/compare"; "` + modulePath + `/words")`,
		"cmd/a/main.go":       `package main; import ("example.org/broker"; "` + modulePath + `/bus"; "` + modulePath + `/words")`,
	}
	for _, tt := range []struct{ name, file, source, want string }{
		{"nothing", "words/more.go", `package words`, ""},
		{"a package that is not in the table", "new/new.go", `package x`, "package new is not in the table"},
		{"an arrow against the table", "words/more.go", `package words; import "` + modulePath + `/bus"`, "words must not import bus"},
		{"a fake in production", "bus/more.go", `package bus; import "` + modulePath + `/fakes"`, "bus must not import fakes"},
		{"a fake in a command", "cmd/a/more.go", `package main; import "` + modulePath + `/fakes"`, "cmd/a must not import fakes"},
		{"a module that is not in the table", "bus/more.go", `package bus; import "example.org/new"`, "module of example.org/new is not in the table"},
		{"a prefix that is no path", "bus/more.go", `package bus; import "example.org/brokers"`, "module of example.org/brokers is not in the table"},
		{"a module in the wrong place", "words/more.go", `package words; import "example.org/broker"`, "words must not import example.org/broker"},
		{"a pure package with files", "words/more.go", `package words; import "os"`, "words/more.go is pure, but imports os"},
		{"a pure package with a network", "words/more.go", `package words; import "net/http"`, "is pure, but imports net/http"},
		{"a pure package with a clock", "words/more.go", `package words; import "time"; var _ = time.Now`, "is pure, but uses time.Now"},
		{"the same by another name", "words/more.go", `package words; import now "time"; var _ = now.Since`, "is pure, but uses time.Since"},
		{"the same without a name", "words/more.go", `package words; import . "time"`, "is pure, but imports time into its own scope"},
		{"a pure package with dice", "words/more.go", `package words; import "math/rand/v2"; var _ = rand.IntN(6)`, "is pure, but uses math/rand/v2.IntN"},
		{"a pure file with a broker", "bus/decide.go", `package bus; import "example.org/broker"`, "bus/decide.go is pure, but imports example.org/broker"},
		{"a pure file with a clock", "bus/decide.go", `package bus; import "time"; var _ = time.Now()`, "bus/decide.go is pure, but uses time.Now"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			files := parseSources(t, whole, tt.file, tt.source)
			got := table.check(files)
			if tt.want == "" && len(got) > 0 || tt.want != "" && !anyContains(got, tt.want) {
				t.Errorf("complaints %q, want %q", got, tt.want)
			}
		})
	}
	for _, tt := range []struct{ without, want string }{
		{"fakes/fakes.go", "there is no package fakes"},
		{"words/words.go", "nobody imports example.org/errors"},
		{"bus/decide.go", "there is no file bus/decide.go"},
	} {
		t.Run("without "+tt.without, func(t *testing.T) {
			files := parseSources(t, whole, tt.without, "")
			if got := table.check(files); !anyContains(got, tt.want) {
				t.Errorf("complaints %q, want %q", got, tt.want)
			}
		})
	}
}
