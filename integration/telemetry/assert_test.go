package telemetry

import (
	"slices"
	"strings"

	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/otel"
	"github.com/toolfleet/toolfleet/otel/oteltest"
)

// same asserts attributes; "" is none.
func (r *rig) same(s *oteltest.Span, want map[string]string) {
	r.Helper()
	for name, value := range want {
		if got := s.Attributes[name]; got != value {
			r.Errorf("%s has %s = %q, want %q", s.Name, name, got, value)
		}
	}
}

func (r *rig) linked(s *oteltest.Span, want map[string]string) {
	r.Helper()
	for kind, parent := range want {
		if l := r.link(s, kind); l.TraceParent() != parent {
			r.Errorf("%s is linked to %s as its %s, want %s", s.Name, l.TraceParent(), kind, parent)
		}
	}
}

// records asserts that events come as log records under their names, in the
// spans that made them.
func (r *rig) records(all ...*events.Record) {
	r.Helper()
	for _, e := range all {
		name := "toolfleet.server." + strings.ReplaceAll(string(e.Kind()), "-", "_")
		found := r.record(name, string(e.ID))
		if "00-"+found.Trace+"-"+found.Span+"-01" != e.Trace.Parent || found.Body == "" {
			r.Errorf("the record of %s is %+v, the event has %s", name, found, e.Trace.Parent)
		}
		want := "INFO"
		if e.Kind() == events.KindFailed {
			want = "WARN"
		}
		if found.Severity != want {
			r.Errorf("the severity of %s is %s, want %s", name, found.Severity, want)
		}
	}
}

func (r *rig) record(name, id string) (found oteltest.Record) {
	r.Helper()
	is := func(x oteltest.Record) bool { return x.Event == name && x.Attributes["toolfleet.event.id"] == id }
	r.eventually("record "+name, func() bool {
		all := r.sink.Records()
		i := slices.IndexFunc(all, is)
		if i >= 0 {
			found = all[i]
		}
		return i >= 0
	})
	return found
}

// metrics asserts that what the alert rules need comes.
func (r *rig) metrics() {
	r.Helper()
	for name, want := range map[string]map[string]string{
		"toolfleet.leader":              nil,
		"toolfleet.servers":             {"toolfleet.state": "parked"},
		"toolfleet.server.status":       {"toolfleet.server.name": "weather", "toolfleet.state": "stopped"},
		"toolfleet.tools":               {"toolfleet.server.name": "weather"},
		"toolfleet.history.bytes":       nil,
		"toolfleet.history.limit":       nil,
		"toolfleet.projection.lag":      {"toolfleet.projection": "views"},
		"toolfleet.projection.lag.time": {"toolfleet.projection": "controller"},
		"toolfleet.workers":             {"toolfleet.state": "joined"},
		"toolfleet.events.published":    {"toolfleet.event.type": "tools-listed"},
		"toolfleet.restarts":            {"error.type": "exited"},
		"toolfleet.connect.duration":    {"network.transport": "pipe"},
		"toolfleet.converge.duration":   {"toolfleet.outcome": "ready"},
		"mcp.client.operation.duration": {"gen_ai.tool.name": "refuse", "error.type": "tool_error"},
		"mcp.client.session.duration":   {"error.type": "exited"},
	} {
		r.eventually("metric "+name, func() bool {
			return slices.ContainsFunc(r.sink.Points(), func(p oteltest.Point) bool {
				for key, value := range want {
					if p.Attributes[key] != value {
						return false
					}
				}
				return p.Metric == name
			})
		})
	}
}

// words asserts that there are no other attributes than those that are written
// down, and nothing that is nobody's business.
func (r *rig) words() {
	r.Helper()
	known := make(map[string]bool)
	for _, k := range otel.Attributes() {
		known[string(k)] = true
	}
	check := func(of string, attributes map[string]string) {
		for name, value := range attributes {
			if !known[name] {
				r.Errorf("%s has the attribute %s, which is not in the list", of, name)
			}
			if strings.Contains(value, "s3cret") {
				r.Errorf("%s has %s = %q", of, name, value)
			}
		}
	}
	for _, s := range r.sink.Spans() {
		if s.Service == "mcp-test-server" {
			continue
		}
		check(s.Name, s.Attributes)
		for _, l := range s.Links {
			check(s.Name, l.Attributes)
		}
		if strings.Contains(s.Name+s.Status, "s3cret") {
			r.Errorf("a span is %q, %q", s.Name, s.Status)
		}
	}
	for _, x := range r.sink.Records() {
		if x.Event != "" {
			check(x.Event, x.Attributes)
		}
		if strings.Contains(x.Body, "s3cret") {
			r.Errorf("a record says %q", x.Body)
		}
	}
	for _, p := range r.sink.Points() {
		check(p.Metric, p.Attributes)
	}
}
