package jetlog_test

import (
	"bytes"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/errors"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/events/eventstest"
	"github.com/toolfleet/toolfleet/events/jetlog"
)

// encoded returns a whole event as a message.
func encoded(t *testing.T, e events.Event, tip events.Tip) events.Message {
	t.Helper()
	e.ID, e.Source, e.Time, e.Prev = newID(), "a stranger", time.Now(), tip.Link
	m, err := events.Encode(eventstest.Fleet, &e)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// TestEventsThatNobodyCouldHaveAppendedAreSteppedOver has an operator allow
// large messages, and somebody write some.
func TestEventsThatNobodyCouldHaveAppendedAreSteppedOver(t *testing.T) {
	const large = 2 << 20
	for name, change := range map[string]func(m *events.Message){
		"2 MB of JSON": func(m *events.Message) {
			m.Data = bytes.Replace(m.Data, []byte("w1"), bytes.Repeat([]byte("w"), large), 1)
		},
		"2 MB of nothing":        func(m *events.Message) { m.Data = make([]byte, large) },
		"2 MB of open brackets":  func(m *events.Message) { m.Data = bytes.Repeat([]byte("["), large) },
		"60 KB in a header":      func(m *events.Message) { m.Header["tf-reason"] = []string{strings.Repeat("x", 60<<10)} },
		"a thousand headers":     func(m *events.Message) { m.Header["tf-more"] = make([]string, 1000) },
		"an id as long as a day": func(m *events.Message) { m.Header["ce-id"] = []string{strings.Repeat("1", 10_000)} },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := eventstest.NewServer(t, &eventstest.ServerOptions{MaxPayload: 4 << 20})
				l := open(t, s.Connect("client"), nil)
				edit(t.Context(), t, l, func(c *jetstream.StreamConfig) { c.MaxMsgSize = 4 << 20 })
				f := follow(t.Context(), l, 0, nil)
				first := grow(t.Context(), t, l, github, events.Tip{}, 1)[0]
				m := encoded(t, move(github, 1), first.Tip())
				change(&m)
				seq := eventstest.Inject(t, l.Conn(), m)

				second := read(t, l.ReadChain(t.Context(), github, first.Tip()))[0]
				if second.Seq != seq || len(second.Data) != len(m.Data) {
					t.Errorf("it is read at %d with %d bytes, not at %d with %d", second.Seq, len(second.Data), seq, len(m.Data))
				}
				third := grow(t.Context(), t, l, github, second.Tip(), 1)[0]
				for _, want := range []events.Record{first, second, third} {
					if d := eventstest.Diff([]events.Record{want}, []events.Record{<-f.came}); d != "" {
						t.Errorf("the history (-stored +followed):\n%s", d)
					}
				}
			})
		})
	}
}

func TestAStreamAsItIsCreatedRefusesLargeMessages(t *testing.T) {
	oneServer(t, func(t *testing.T, _ *eventstest.Server, l *jetlog.Log) {
		js, err := jetstream.New(l.Conn())
		if err != nil {
			t.Fatal(err)
		}
		_, err = js.PublishMsg(t.Context(), &nats.Msg{Subject: github.Subject(l.Fleet()), Data: make([]byte, 600<<10)})
		var refused *jetstream.APIError
		if !errors.As(err, &refused) {
			t.Errorf("error %v is no refusal", err)
		}
	})
}

func TestUndecodableEventsAreCounted(t *testing.T) {
	oneServer(t, func(t *testing.T, _ *eventstest.Server, l *jetlog.Log) {
		for range 3 {
			eventstest.Inject(t, l.Conn(), events.Message{Subject: github.Subject(l.Fleet()), Data: []byte("?")})
		}
		read(t, l.Follow(t.Context(), 0, &jetlog.FollowOptions{Until: 3}))
		if n := l.Skipped(); n != 3 {
			t.Errorf("%d are counted, not 3", n)
		}
	})
}
