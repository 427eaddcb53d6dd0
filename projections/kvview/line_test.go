package kvview

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/errors"
	"github.com/nats-io/nats.go"

	"github.com/toolfleet/toolfleet/events/eventstest"
)

// What nobody took during an outage is not told of the writes after it.
func TestLineAfterAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nc := eventstest.NewServer(t, nil).Connect("line")
		l, err := openLine(nc)
		if err != nil {
			t.Fatal(err)
		}
		defer l.close()
		send := func() {
			if err := l.send(pending{key: key{kind: positionKey}}, "views.a", []byte("x"), 0); err != nil {
				t.Fatal(err)
			}
		}
		for range 3 {
			send()
		}
		if w, _, refused, err := l.next(t.Context()); w.key.kind != positionKey || refused == nil || err != nil {
			t.Errorf("a write that nobody took: %v, %v, %v", w.key, refused, err)
		}
		if left := l.giveUp(); len(left) != 2 {
			t.Errorf("%d writes are left, want 2", len(left))
		}
		if _, err := nc.Subscribe("views.a", func(m *nats.Msg) { _ = m.Respond([]byte(`{"seq":7}`)) }); err != nil {
			t.Fatal(err)
		}
		send()
		if _, revision, refused, err := l.next(t.Context()); revision != 7 || refused != nil || err != nil {
			t.Errorf("the write after them: %d, %v, %v", revision, refused, err)
		}
	})
}

// No answer is waited for on a connection that is closed.
func TestLineOfAClosedConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := eventstest.NewServer(t, nil)
		nc := server.Connect("line")
		l, err := openLine(nc)
		if err != nil {
			t.Fatal(err)
		}
		defer l.close()
		nc.Close()
		began := time.Now()
		_, _, _, err = l.next(t.Context())
		if waited := time.Since(began); !errors.Is(err, nats.ErrConnectionClosed) || waited > 0 {
			t.Errorf("after %v: %v", waited, err)
		}
	})
}
