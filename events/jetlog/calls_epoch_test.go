package jetlog_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/toolfleet/toolfleet/events/callwire"
)

// An owner that fell silent answers when another one has the instance: its answer
// is nobody's, neither the call's that it was given nor the next one's.
func TestCallOfAFormerOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newSwitchboard(t, nil)
		const next = "tf.call.test.github.0.8"
		former := b.server.Connect("former")
		given := make(chan *nats.Msg, 1)
		if _, err := former.ChanSubscribe(callSubject, given); err != nil {
			t.Fatal(err)
		}
		heir := open(t, b.server.Connect("heir"), nil)
		go func() {
			_ = heir.ServeCalls(t.Context(), next, func(context.Context, *callwire.Request, func(callwire.FrameKind, []byte)) ([]byte, error) {
				late := callwire.Frame{Kind: callwire.Result, Data: []byte("old")}
				x := late.Encode((<-given).Reply)
				_ = former.PublishMsg(&nats.Msg{Subject: x.Subject, Header: x.Header, Data: x.Data}) // the test sees what comes
				time.Sleep(time.Second)
				return []byte("new"), nil
			})
		}()
		synctest.Wait()
		if err := heir.Conn().Flush(); err != nil {
			t.Fatal(err)
		}
		if data, err := b.call(t.Context()); outcome(err) != callwire.Unknown {
			t.Errorf("the call of the former owner: %q, %v", data, err)
		}
		data, err := b.caller.Call(t.Context(), next, &callwire.Request{Tool: "echo"}, nil)
		if string(data) != "new" || err != nil {
			t.Errorf("the call of the next owner: %q, %v", data, err)
		}
	})
}
