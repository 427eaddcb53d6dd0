package session_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/errors"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/events/jetlog"
	"github.com/toolfleet/toolfleet/projections/kvview"
	"github.com/toolfleet/toolfleet/session"
)

// connecting tells of an instance 0 that has an owner and no connection yet.
func (h *host) connecting(id events.ServerID, epoch events.Epoch) {
	h.t.Helper()
	definition := events.Definition{Command: "serve"}
	if epoch == 1 {
		h.tell(events.ServerChain(id), 0, events.Declared{Definition: definition})
	}
	h.tell(events.InstanceChain(id, "0"), epoch, events.Assigned{Worker: "w", Epoch: epoch},
		events.Connecting{Attempt: 1, Definition: definition.Digest()})
}

func (h *host) list(id events.ServerID, epoch events.Epoch, tools ...string) {
	h.t.Helper()
	data := []byte("[" + strings.Join(tools, ",") + "]")
	digest, err := h.log.PutBlob(h.t.Context(), data)
	if err != nil {
		h.t.Fatal(err)
	}
	h.tell(events.InstanceChain(id, "0"), epoch, events.Connected{},
		events.ToolsListed{Listing: events.Listing{Digest: digest, Count: len(tools)}})
}

func (h *host) fail(id events.ServerID, epoch events.Epoch) {
	h.t.Helper()
	failure := events.NewFailure(events.CommandNotFound, events.PhaseSpawn, string(id)+" is not on the PATH")
	h.tell(events.InstanceChain(id, "0"), epoch, events.Failed{Failure: failure}, events.Parked{Failure: failure})
}

// R14, R9: a fleet of which one server is ready, one failed, one is known from
// before and one nobody knows yet.
func TestOpenWhileServersStart(t *testing.T) {
	onHost(t, func(t *testing.T, h *host) {
		h.serve("ready", 1, `{"name":"a"}`)
		h.connecting("failed", 1)
		h.fail("failed", 1)
		h.serve("known", 1, `{"name":"b"}`)
		h.connecting("known", 2)
		h.connecting("unknown", 1)
		h.settle()
		var log strings.Builder
		begun := time.Now()
		s := h.open(&session.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		defer s.Close()
		if d := time.Since(begun); d != session.DefaultWait {
			t.Errorf("it waited %v for the whole batch", d)
		}
		tools, _ := s.Tools()
		if got := names(tools); got != "known__b(deferred) ready__a(live)" {
			t.Errorf("got %s", got)
		}
		if got := s.Pending(); len(got) != 1 || got[0] != "unknown" {
			t.Errorf("pending: %v", got)
		}
		for _, n := range s.Status().Servers {
			if failed := n.Failure != nil; failed != (n.ID == "failed") {
				t.Errorf("server %s: failure %v", n.ID, n.Failure)
			}
		}
		select {
		case <-s.Changes():
			t.Error("the caller was told of what it was given")
		default:
		}
		h.list("unknown", 1, `{"name":"c"}`)
		<-s.Changes()
		if got := names(h.await(s, 3)); got != "known__b(deferred) ready__a(live) unknown__c(live)" {
			t.Errorf("got %s", got)
		}
		if log.Len() > 0 {
			t.Errorf("logged: %s", &log)
		}
	})
}

// R14, R24
func TestOpenAndWait(t *testing.T) {
	onHost(t, func(t *testing.T, h *host) {
		h.connecting("a", 1)
		h.connecting("b", 1)
		h.settle()
		told := make(chan struct{})
		go func() {
			defer close(told)
			time.Sleep(5 * time.Second)
			h.list("a", 1, `{"name":"x"}`)
			time.Sleep(time.Minute)
			h.list("b", 1, `{"name":"y"}`)
		}()
		begun := time.Now()
		s := h.open(&session.Options{Wait: -1})
		defer s.Close()
		if d := time.Since(begun); d != 0 {
			t.Errorf("it waited %v, though it should not", d)
		}
		if err := s.WaitReady(t.Context(), "a"); err != nil {
			t.Error(err)
		}
		if d := time.Since(begun).Round(time.Second); d != 5*time.Second {
			t.Errorf("it waited %v for a", d)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		if err := s.WaitReady(ctx); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "server b, which is connecting") {
			t.Errorf("all, with a deadline: %v", err)
		}
		if err := s.WaitReady(t.Context()); err != nil {
			t.Error(err)
		}
		<-told
		h.await(s, 2)
	})
}

// settle waits until the views have all that was told.
func (h *host) settle() {
	h.t.Helper()
	r, err := kvview.Open(h.t.Context(), h.nc, events.DefaultFleet, nil)
	if err != nil {
		h.t.Fatal(err)
	}
	ctx, stop := context.WithCancel(h.t.Context())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	if err := r.Wait(ctx, h.last); err != nil {
		h.t.Error(err)
	}
	stop()
	if err := <-done; err != nil {
		h.t.Error(err)
	}
}

// A session may read the bucket of views and long lists, and call. It looks at
// no other stream, and creates none.
func TestASessionNeedsFewPermissions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ns := serverWithUsers(t, map[string]*server.Permissions{"all": nil, "session": {
			Publish: &server.SubjectPermission{Allow: []string{
				"$JS.API.STREAM.INFO.KV_tf-default-views", "$JS.API.CONSUMER.CREATE.KV_tf-default-views.>",
				"$JS.API.CONSUMER.MSG.NEXT.KV_tf-default-views.>", "$JS.API.CONSUMER.DELETE.KV_tf-default-views.>",
				"$JS.API.STREAM.INFO.OBJ_tf-default-blobs",
				"$JS.API.DIRECT.GET.OBJ_tf-default-blobs", "$JS.API.DIRECT.GET.OBJ_tf-default-blobs.>",
				"tf.call.default.>",
			}},
			Subscribe: &server.SubjectPermission{Allow: []string{"_INBOX.>"}},
		}})
		connect := func(user string) *nats.Conn {
			nc, err := nats.Connect("", nats.InProcessServer(ns), nats.UserInfo(user, "invented"),
				nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { t.Errorf("%s was refused: %v", user, err) }))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(nc.Close)
			return nc
		}
		all, nc := connect("all"), connect("session")
		if _, err := session.Open(t.Context(), nc, nil); !errors.Is(err, kvview.ErrNoViews) {
			t.Errorf("a fleet that is not there: %v", err)
		}
		log, err := jetlog.Open(t.Context(), all, events.DefaultFleet, nil)
		if err != nil {
			t.Fatal(err)
		}
		withProjector(t, log, func() {
			h := &host{t: t, nc: nc, log: log, tips: make(map[events.Chain]events.Tip)}
			h.serve("big", 1, `{"name":"x","description":"`+strings.Repeat("x", 300<<10)+`"}`)
			s := h.open(nil)
			defer s.Close()
			h.await(s, 1)
			defer h.answer("big", 1, "one")()
			h.call(s, "big__x")
			synctest.Wait() // whatever else is refused
		})
	})
}

func serverWithUsers(t *testing.T, users map[string]*server.Permissions) *server.Server {
	t.Helper()
	o := &server.Options{DontListen: true, NoSigs: true, NoLog: true, JetStream: true, StoreDir: t.TempDir()}
	for name, p := range users {
		o.Users = append(o.Users, &server.User{Username: name, Password: "invented", Permissions: p})
	}
	s, err := server.NewServer(o)
	if err != nil {
		t.Fatal(err)
	}
	go s.Start()
	t.Cleanup(func() {
		s.Shutdown()
		s.WaitForShutdown()
	})
	if !s.ReadyForConnections(10 * time.Second) {
		t.Fatal("the server does not start")
	}
	return s
}

// A long list takes the place of the one before it: what nobody needs any more is
// not kept.
func TestLongListsAreNotKept(t *testing.T) {
	onHost(t, func(t *testing.T, h *host) {
		h.connecting("big", 1)
		s := h.open(nil)
		defer s.Close()
		for n := range 10 {
			h.list("big", 1, fmt.Sprintf(`{"name":"a%d","description":%q}`, n, strings.Repeat("x", 400<<10)))
			if err := s.Wait(t.Context(), h.last); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			if got, want := names(h.await(s, 1)), fmt.Sprintf("big__a%d(live)", n); got != want {
				t.Fatalf("tools are %s, want %s", got, want)
			}
		}
		if n := session.LongLists(); n != 1 {
			t.Errorf("%d lists are kept", n)
		}
	})
}
