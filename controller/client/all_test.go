package client_test

import (
	"bytes"
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/errors"
	"github.com/nats-io/nats.go"

	"github.com/toolfleet/toolfleet/controller/client"
	"github.com/toolfleet/toolfleet/controller/request"
	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/events/eventstest"
)

// M6: every server has an outcome of its own, and all can be asked again.
func TestAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := eventstest.NewServer(t, nil)
		control(t, s, "one")
		c := client.New(s.Connect("client"), fleet, nil)
		ctx := within(t, time.Minute)
		for _, id := range []events.ServerID{"a", "b", "d"} {
			if _, err := c.Declare(ctx, id, &events.Definition{Command: "x", Disabled: id == "b"}, nil); err != nil {
				t.Fatal(err)
			}
		}
		servers := []events.ServerID{"d", "c", "b", "a"}
		o := &client.RequestOptions{ID: "r"}
		first := c.All(ctx, request.Restart, servers, o)
		again := c.All(ctx, request.Restart, servers, o)
		for i, want := range []error{nil, request.ErrUnknownServer, request.ErrServerDisabled, nil} {
			x, y := first[i], again[i]
			if x.Server != servers[i] || !errors.Is(x.Err, want) || (want == nil) != (x.Answer.Seq > 0) || want == nil && x.Err != nil {
				t.Errorf("outcome %d is %+v, want error %v", i, x, want)
			}
			if y.Answer.Seq != x.Answer.Seq || y.Answer.Repeated != (want == nil) {
				t.Errorf("outcome %d of the repeat is %+v", i, y)
			}
		}
		if all := c.All(ctx, request.Declare, servers[:1], nil); !errors.Is(all[0].Err, request.ErrInvalidRequest) {
			t.Errorf("without a definition: %v", all[0].Err)
		}
		if all := c.All(ctx, request.Stop, nil, nil); len(all) != 0 {
			t.Errorf("for no server: %v", all)
		}
	})
}

// M6: one that gets no answer holds up no other.
func TestAllGoesOnBesideOneThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := eventstest.NewServer(t, nil)
		nc := s.Connect("controller")
		_, err := nc.Subscribe(request.Subject(fleet, request.Stop), func(m *nats.Msg) {
			if !bytes.Contains(m.Data, []byte(`"s0"`)) {
				_ = m.Respond([]byte(`{"seq": 7}`))
			}
		})
		if err != nil || nc.Flush() != nil {
			t.Fatal(err)
		}
		var servers []events.ServerID
		for i := range 100 {
			servers = append(servers, events.ServerID(fmt.Sprintf("s%d", i)))
		}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		for i, x := range client.New(s.Connect("client"), fleet, nil).All(ctx, request.Stop, servers, nil) {
			switch {
			case i == 0 && !errors.Is(x.Err, events.ErrUncertain):
				t.Errorf("the one that hangs: %+v", x)
			case i > 0 && (x.Err != nil || x.Answer.Seq != 7):
				t.Errorf("another: %+v", x)
			}
		}
	})
}
