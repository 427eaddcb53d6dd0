//go:build bench

// Package bench measures toolfleet against the bare libraries below it. Every
// figure is a ratio of two rates of one run, taken alternately, so that a slow
// or busy machine slows both.
package bench

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/events/jetlog"
)

// verdict prints one figure with its bound, and fails the test on a miss.
func verdict(t *testing.T, ok bool, format string, args ...any) {
	t.Helper()
	word := "ok    "
	if !ok {
		word = "MISSED"
		t.Fail()
	}
	fmt.Printf("%s %s\n", word, fmt.Sprintf(format, args...))
}

// broker is an embedded server that is reached over loopback TCP, as clients on
// other hosts reach theirs.
func broker(t *testing.T) *jetlog.Embedded {
	t.Helper()
	e, err := jetlog.StartEmbedded(t.Context(), &jetlog.EmbeddedOptions{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Shutdown(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	return e
}

func connect(t *testing.T, e *jetlog.Embedded) *nats.Conn {
	t.Helper()
	nc, err := jetlog.Connect(t.Context(), &jetlog.ConnectOptions{URL: e.URL(), Name: "bench"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc
}

func open(t *testing.T, nc *nats.Conn, fleet events.FleetID) *jetlog.Log {
	t.Helper()
	l, err := jetlog.Open(t.Context(), nc, fleet, &jetlog.Options{MaxBytes: 2 << 30})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// median returns the middle of some ratios.
func median(x []float64) float64 {
	x = slices.Sorted(slices.Values(x))
	return x[len(x)/2]
}

// rate runs f and returns n divided by its seconds.
func rate(n int, f func()) float64 {
	start := time.Now()
	f()
	return float64(n) / time.Since(start).Seconds()
}

func TestMain(m *testing.M) {
	fmt.Println(strings.Repeat("-", 72))
	os.Exit(m.Run())
}
