package jetlog_test

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/errors"

	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/events/jetlog"
)

func startEmbedded(t *testing.T, o *jetlog.EmbeddedOptions) *jetlog.Embedded {
	t.Helper()
	e, err := jetlog.StartEmbedded(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { shutdown(t, e) })
	return e
}

func shutdown(t *testing.T, e *jetlog.Embedded) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
	defer cancel()
	if err := e.Shutdown(ctx); err != nil {
		t.Error(err)
	}
}

// through opens a log within the process, appends an event if asked to, and
// returns the end of the history.
func through(t *testing.T, e *jetlog.Embedded, write bool) events.Seq {
	t.Helper()
	nc, err := e.Connect("test")
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	l := open(t, nc, &jetlog.Options{MaxBytes: 10 << 20})
	if write {
		if _, err := l.Append(t.Context(), events.Event{Chain: events.FleetChain(), Body: events.Frozen{}}, events.Tip{}); err != nil {
			t.Fatal(err)
		}
	}
	head, err := l.Head(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return head.Seq
}

func TestEmbeddedKeepsItsStore(t *testing.T) {
	for _, d := range []jetlog.Durability{jetlog.Interval, jetlog.Always} {
		t.Run(d.String(), func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "nats")
			e := startEmbedded(t, &jetlog.EmbeddedOptions{Dir: dir, Durability: d})
			if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
				t.Errorf("the store's mode is %v, %v", info.Mode(), err)
			}
			if !strings.HasPrefix(e.URL(), "nats://127.0.0.1:") {
				t.Errorf("it listens at %s", e.URL())
			}
			if seq := through(t, e, true); seq != 1 {
				t.Errorf("the history ends at %d", seq)
			}
			shutdown(t, e)
			shutdown(t, e) // again does no harm
			if conn, err := net.Dial("tcp", strings.TrimPrefix(e.URL(), "nats://")); err == nil {
				conn.Close()
				t.Error("it listens after its shutdown")
			}
			e = startEmbedded(t, &jetlog.EmbeddedOptions{Dir: dir, Durability: d})
			if seq := through(t, e, false); seq != 1 {
				t.Errorf("after a restart the history ends at %d", seq)
			}
		})
	}
}

func TestEmbeddedInABubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := startEmbedded(t, &jetlog.EmbeddedOptions{Dir: t.TempDir(), InProcess: true})
		if e.URL() != "" {
			t.Errorf("it listens at %s", e.URL())
		}
		if seq := through(t, e, true); seq != 1 {
			t.Errorf("the history ends at %d", seq)
		}
	})
}

func TestEmbeddedOnATakenPort(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	o := &jetlog.EmbeddedOptions{Dir: t.TempDir(), Addr: addr}
	_, err = jetlog.StartEmbedded(t.Context(), o)
	if !errors.Is(err, syscall.EADDRINUSE) || !strings.Contains(err.Error(), addr) || !strings.Contains(err.Error(), "--listen") {
		t.Fatalf("on a taken port: %v", err)
	}
	l.Close()
	// Nothing was left behind.
	if e := startEmbedded(t, o); e.URL() != "nats://"+addr {
		t.Errorf("it listens at %s, not %s", e.URL(), addr)
	}
}

func TestEmbeddedHasItsStoreForItself(t *testing.T) {
	dir := t.TempDir()
	e := startEmbedded(t, &jetlog.EmbeddedOptions{Dir: dir})
	_, err := jetlog.StartEmbedded(t.Context(), &jetlog.EmbeddedOptions{Dir: dir})
	if !errors.Is(err, jetlog.ErrFolderLocked) || !strings.Contains(err.Error(), dir) {
		t.Errorf("a second server on the store: %v", err)
	}
	// A state folder is something else, and may be the same folder.
	f, err := jetlog.LockFolder(dir)
	if err != nil {
		t.Fatal(err)
	}
	closeFolder(t, f)
	shutdown(t, e)
	startEmbedded(t, &jetlog.EmbeddedOptions{Dir: dir})
}

func TestEmbeddedToken(t *testing.T) {
	e := startEmbedded(t, &jetlog.EmbeddedOptions{Dir: t.TempDir(), Token: canary})
	if strings.Contains(e.URL(), canary) {
		t.Errorf("the URL is %s", e.URL())
	}
	if _, err := jetlog.Connect(t.Context(), &jetlog.ConnectOptions{URL: e.URL()}); err == nil {
		t.Error("connected without the token")
	}
	nc, err := jetlog.Connect(t.Context(), &jetlog.ConnectOptions{URL: strings.Replace(e.URL(), "//", "//"+canary+"@", 1)})
	if err != nil {
		t.Fatal(err)
	}
	nc.Close()
	through(t, e, true)
}

func TestEmbeddedOptionsAreChecked(t *testing.T) {
	dir := t.TempDir()
	for _, o := range []*jetlog.EmbeddedOptions{
		nil,
		{},
		{Dir: dir, Addr: "4222"},
		{Dir: dir, Addr: "127.0.0.1:http"},
		{Dir: dir, Addr: "127.0.0.1:65536"},
		{Dir: dir, Addr: ":4222"},
		{Dir: dir, Addr: "0.0.0.0:4222"},
		{Dir: dir, Addr: "[::]:4222"},
		{Dir: dir, Addr: "example.com:4222"},
	} {
		if e, err := jetlog.StartEmbedded(t.Context(), o); err == nil {
			shutdown(t, e)
			t.Errorf("%+v was accepted", o)
		}
	}
}

func TestEmbeddedHeedsContexts(t *testing.T) {
	o := &jetlog.EmbeddedOptions{Dir: t.TempDir()}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := jetlog.StartEmbedded(ended, o); !errors.Is(err, context.Canceled) {
		t.Errorf("start with an ended context: %v", err)
	}
	e := startEmbedded(t, o)
	if err := e.Shutdown(ended); err != nil && !errors.Is(err, context.Canceled) {
		t.Errorf("shutdown with an ended context: %v", err)
	}
	shutdown(t, e) // it goes on behind it
}

func TestEmbeddedLogs(t *testing.T) {
	var b bytes.Buffer
	e := startEmbedded(t, &jetlog.EmbeddedOptions{
		Dir: t.TempDir(), Token: canary,
		Logger: slog.New(slog.NewTextHandler(&b, &slog.HandlerOptions{Level: slog.LevelDebug})),
	})
	shutdown(t, e)
	if s := b.String(); !strings.Contains(s, "level=DEBUG msg=\"nats-server: Starting nats-server\"") || strings.Contains(s, canary) {
		t.Errorf("the log is:\n%s", s)
	}
}

func TestDurability(t *testing.T) {
	for text, want := range map[string]jetlog.Durability{"interval": jetlog.Interval, "always": jetlog.Always} {
		var d jetlog.Durability
		if err := d.UnmarshalText([]byte(text)); err != nil || d != want {
			t.Errorf("%q is %v, %v", text, d, err)
		}
		if again, err := d.MarshalText(); string(again) != text {
			t.Errorf("%q became %q, %v", text, again, err)
		}
	}
	var d jetlog.Durability
	if err := d.UnmarshalText([]byte("never")); err == nil {
		t.Errorf("%q is %v", "never", d)
	}
	if s := jetlog.Durability(7).String(); s != "unknown" {
		t.Errorf("durability 7 is %q", s)
	}
}
