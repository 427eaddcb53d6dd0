package jetlog

import (
	"bytes"
	"context"
	"testing"
	"testing/synctest"

	"github.com/cockroachdb/errors"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/events/callwire"
)

func TestGuestNeedsFewPermissions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startBroker(t, func(o *server.Options) {
			o.Users = []*server.User{{Username: "all", Password: "invented"}, {
				Username: "guest", Password: "invented",
				Permissions: &server.Permissions{
					Publish: &server.SubjectPermission{Allow: []string{
						"tf.call.f1.>", "$JS.API.STREAM.INFO.OBJ_tf-f1-blobs",
						"$JS.API.DIRECT.GET.OBJ_tf-f1-blobs", "$JS.API.DIRECT.GET.OBJ_tf-f1-blobs.>",
					}},
					Subscribe: &server.SubjectPermission{Allow: []string{"_INBOX.>"}},
				},
			}}
		})
		l, err := Open(t.Context(), dial(t, s, nats.UserInfo("all", "invented")), "f1", nil)
		if err != nil {
			t.Fatal(err)
		}
		blob := bytes.Repeat([]byte("x"), 3*blobChunk/2)
		digest, err := l.PutBlob(t.Context(), blob)
		if err != nil {
			t.Fatal(err)
		}
		subject := events.CallSubject("f1", "git", "0", 1)
		ctx, stop := context.WithCancel(t.Context())
		served := make(chan error, 1)
		go func() {
			served <- l.ServeCalls(ctx, subject, func(_ context.Context, r *callwire.Request, send func(callwire.FrameKind, []byte)) ([]byte, error) {
				send(callwire.Progress, []byte("{}"))
				return []byte(`"` + r.Tool + `"`), nil
			})
		}()
		synctest.Wait()

		nc := dial(t, s, nats.UserInfo("guest", "invented"), nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			t.Errorf("refused: %v", err)
		}))
		g, err := Visit(nc, "f1")
		if err != nil {
			t.Fatal(err)
		}
		if got, err := g.GetBlob(t.Context(), digest); err != nil || !bytes.Equal(got, blob) {
			t.Errorf("%d bytes, %v", len(got), err)
		}
		progress := 0
		got, err := g.Call(t.Context(), subject, &callwire.Request{Tool: "log"}, func(f *callwire.Frame) { progress++ })
		if err != nil || string(got) != `"log"` || progress != 1 {
			t.Errorf("got %s after %d, %v", got, progress, err)
		}
		stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
		_, err = g.Call(t.Context(), subject, &callwire.Request{Tool: "log"}, nil)
		var e *callwire.Error
		if !errors.As(err, &e) || e.Outcome != callwire.NotExecuted {
			t.Errorf("nobody there: %v", err)
		}
		synctest.Wait() // whatever else is refused
	})
}

func TestVisitRefusesFleetsThatAreNoToken(t *testing.T) {
	if _, err := Visit(&nats.Conn{}, "a.b"); !errors.Is(err, events.ErrInvalidID) {
		t.Errorf("got %v, want ErrInvalidID", err)
	}
}
