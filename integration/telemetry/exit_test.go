package telemetry

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/toolfleet/toolfleet/events"
)

// TestDeadCollector has a collector that takes requests and never answers:
// everything works as ever, the loss is told, and the end is held up for no longer
// than the flush may take.
func TestDeadCollector(t *testing.T) {
	r := newRig(t)
	dead := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // until it is read, the end of the client is not seen
		<-r.Context().Done()
	}))
	defer dead.Close()
	defer dead.CloseClientConnections()
	r.env = append(r.env, "OTEL_EXPORTER_OTLP_ENDPOINT="+dead.URL)
	c := r.controller(t.TempDir())
	w := r.worker(t.TempDir())
	r.apply(wish, "weather", "0s")
	r.event("weather", events.KindToolsListed, 0)
	// Two seconds are the flush's; the rest is what stopping takes by itself.
	const limit = 2*time.Second + 8*time.Second
	for _, p := range []*program{w, c} {
		if took := p.stop(r, syscall.SIGTERM); took > limit {
			t.Errorf("%s ended after %v", p.Path, took)
		}
		if !strings.Contains(p.output.String(), "telemetry was not sent") {
			t.Errorf("%s said nothing of what was lost", p.Path)
		}
	}
}

// TestDisabled has everything named and turned off: nothing is sent.
func TestDisabled(t *testing.T) {
	r := newRig(t)
	r.env = append(r.env, "OTEL_SDK_DISABLED=true")
	c := r.controller(t.TempDir())
	w := r.worker(t.TempDir())
	r.toolfleet(wish, "status")
	w.stop(r, syscall.SIGTERM)
	c.stop(r, syscall.SIGTERM)
	if n := r.sink.Requests(); n != 0 {
		t.Errorf("%d requests came", n)
	}
	for e, err := range r.log.Follow(t.Context(), 0, nil) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Trace.Parent != "" {
			t.Errorf("%s has a trace", e.Kind())
		}
		if e.Kind() == events.KindLeft {
			break
		}
	}
}
