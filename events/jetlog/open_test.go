package jetlog

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/errors"
	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/toolfleet/toolfleet/events"
)

// startBroker starts a server inside the current bubble; change, if not nil,
// edits its options.
func startBroker(t *testing.T, change func(*server.Options)) *server.Server {
	t.Helper()
	o := &server.Options{
		DontListen: true, NoSigs: true, NoLog: true,
		JetStream: true, StoreDir: t.TempDir(),
	}
	if change != nil {
		change(o)
	}
	s, err := server.NewServer(o)
	if err != nil {
		t.Fatal(err)
	}
	go s.Start()
	if !s.ReadyForConnections(10 * time.Second) {
		t.Fatal("the server does not accept connections")
	}
	t.Cleanup(func() {
		s.Shutdown()
		s.WaitForShutdown()
	})
	return s
}

func dial(t *testing.T, s *server.Server, o ...nats.Option) *nats.Conn {
	t.Helper()
	nc, err := nats.Connect("", append(o, nats.InProcessServer(s))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc
}

func TestOpenCreatesWhatIsAbsent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nc := dial(t, startBroker(t, nil))
		l, err := Open(t.Context(), nc, "f1", nil)
		if err != nil {
			t.Fatal(err)
		}
		if d := l.Deviations(); len(d) != 0 {
			t.Errorf("new streams deviate: %v", d)
		}
		var names []string
		for name := range l.js.StreamNames(t.Context()).Name() {
			names = append(names, name)
		}
		want := []string{
			"KV_tf-f1-presence", "KV_tf-f1-secrets", "KV_tf-f1-sessions", "KV_tf-f1-views",
			"OBJ_tf-f1-blobs", "tf-f1-commands", "tf-f1-events",
		}
		if diff := cmp.Diff(want, names); diff != "" {
			t.Errorf("streams (-want +got):\n%s", diff)
		}
		if _, err := Open(t.Context(), nc, "f1", nil); err != nil {
			t.Errorf("open again: %v", err)
		}
	})
}

func TestOpenRefusesWhatIsUnfit(t *testing.T) {
	tests := map[string]struct {
		setting string
		change  func(*jetstream.StreamConfig)
	}{
		"events that expire":          {"max age", func(c *jetstream.StreamConfig) { c.MaxAge = time.Hour }},
		"events that make room":       {"discard", func(c *jetstream.StreamConfig) { c.Discard = jetstream.DiscardOld }},
		"a limited count":             {"max messages", func(c *jetstream.StreamConfig) { c.MaxMsgs = 10 }},
		"a limited chain":             {"max messages per subject", func(c *jetstream.StreamConfig) { c.MaxMsgsPerSubject = 1 }},
		"reads from any replica":      {"allow direct", func(c *jetstream.StreamConfig) { c.AllowDirect = true }},
		"roll-up headers":             {"allow rollup", func(c *jetstream.StreamConfig) { c.AllowRollup, c.DenyPurge = true, false }},
		"messages that can be purged": {"deny purge", func(c *jetstream.StreamConfig) { c.DenyPurge = false }},
		"messages that can go":        {"deny delete", func(c *jetstream.StreamConfig) { c.DenyDelete = false }},
		"work-queue retention":        {"retention", func(c *jetstream.StreamConfig) { c.Retention = jetstream.WorkQueuePolicy }},
		"memory storage":              {"storage", func(c *jetstream.StreamConfig) { c.Storage = jetstream.MemoryStorage; c.Compression = 0 }},
		"no acknowledgement":          {"no ack", func(c *jetstream.StreamConfig) { c.NoAck = true }},
		"other subjects":              {"subjects", func(c *jetstream.StreamConfig) { c.Subjects = []string{"tf.evt.f1.server.>"} }},
		"a short duplicate window":    {"duplicate window", func(c *jetstream.StreamConfig) { c.Duplicates = time.Minute }},
		"small messages":              {"max message size", func(c *jetstream.StreamConfig) { c.MaxMsgSize = 1000 }},
		"expiry by header":            {"allow message TTL", func(c *jetstream.StreamConfig) { c.AllowMsgTTL = true }},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				nc := dial(t, startBroker(t, nil))
				js, err := jetstream.New(nc)
				if err != nil {
					t.Fatal(err)
				}
				o := (*Options)(nil).withDefaults()
				cfg := eventsConfig("f1", &o)
				tt.change(&cfg)
				made, err := js.CreateStream(t.Context(), cfg)
				if err != nil {
					t.Fatal(err)
				}
				_, err = Open(t.Context(), nc, "f1", nil)
				var unfit *UnfitError
				if !errors.Is(err, ErrUnfit) || !errors.As(err, &unfit) {
					t.Fatalf("Open: %v, want an UnfitError", err)
				}
				if unfit.Stream != "tf-f1-events" || unfit.Setting != tt.setting {
					t.Errorf("refused %s of %s, want %s", unfit.Setting, unfit.Stream, tt.setting)
				}
				info, err := made.Info(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(made.CachedInfo().Config, info.Config); diff != "" {
					t.Errorf("the stream was changed:\n%s", diff)
				}
			})
		})
	}
}

func TestOpenReportsTheOperatorsChoices(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nc := dial(t, startBroker(t, nil))
		js, err := jetstream.New(nc)
		if err != nil {
			t.Fatal(err)
		}
		o := (*Options)(nil).withDefaults()
		cfg := eventsConfig("f1", &o)
		cfg.MaxBytes, cfg.Compression, cfg.Description = 1<<20, jetstream.NoCompression, "ours"
		if _, err := js.CreateStream(t.Context(), cfg); err != nil {
			t.Fatal(err)
		}
		l, err := Open(t.Context(), nc, "f1", nil)
		if err != nil {
			t.Fatal(err)
		}
		want := []Deviation{
			{"tf-f1-events", "max bytes", "1048576", "8589934592"},
			{"tf-f1-events", "compression", "None", "S2"},
		}
		if diff := cmp.Diff(want, l.Deviations()); diff != "" {
			t.Errorf("deviations (-want +got):\n%s", diff)
		}
		head, err := l.Head(t.Context())
		if err != nil || head.MaxBytes != 1<<20 {
			t.Errorf("Head: %+v, %v; the operator's limit was not kept", head, err)
		}
	})
}

// A stream reserves its limit: a second fleet on a small store still has room.
func TestOpenHalvesALimitThatTheStoreHasNoRoomFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nc := dial(t, startBroker(t, func(o *server.Options) { o.JetStreamMaxStore = 1 << 30 }))
		for _, tt := range []struct {
			fleet events.FleetID
			want  uint64
		}{{"f1", 600 << 20}, {"f2", 300 << 20}, {"f3", 75 << 20}} {
			l, err := Open(t.Context(), nc, tt.fleet, &Options{MaxBytes: 600 << 20})
			if err != nil {
				t.Fatal(err)
			}
			if head, err := l.Head(t.Context()); err != nil || head.MaxBytes != tt.want {
				t.Errorf("fleet %s has %d bytes, %v; want %d", tt.fleet, head.MaxBytes, err, tt.want)
			}
		}
		if _, err := Open(t.Context(), nc, "f4", nil); !errors.Is(err, events.ErrHistoryFull) {
			t.Errorf("a fleet too many: %v", err)
		}
	})
}

func TestOpenNeedsJetStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nc := dial(t, startBroker(t, func(o *server.Options) { o.JetStream = false }))
		_, err := Open(t.Context(), nc, "f1", nil)
		if !errors.Is(err, ErrNoJetStream) {
			t.Errorf("Open: %v, want ErrNoJetStream", err)
		}
	})
}

func TestOpenNamesTheMissingPermission(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startBroker(t, func(o *server.Options) {
			o.Users = []*server.User{{
				Username: "reader", Password: "invented",
				Permissions: &server.Permissions{
					Publish:   &server.SubjectPermission{Allow: []string{"$JS.API.INFO", "$JS.API.STREAM.INFO.>"}},
					Subscribe: &server.SubjectPermission{Allow: []string{"_INBOX.>"}},
				},
			}}
		})
		nc := dial(t, s, nats.UserInfo("reader", "invented"), nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
		_, err := Open(t.Context(), nc, "f1", nil)
		if !errors.Is(err, ErrNotPermitted) {
			t.Fatalf("Open: %v, want ErrNotPermitted", err)
		}
	})
}

func TestOpenRefusesFleetsThatAreNoToken(t *testing.T) {
	for _, fleet := range []events.FleetID{"", "a.b", "*", "a b", ">"} {
		if _, err := Open(t.Context(), &nats.Conn{}, fleet, nil); !errors.Is(err, events.ErrInvalidID) {
			t.Errorf("Open(%q): %v, want ErrInvalidID", fleet, err)
		}
	}
}
