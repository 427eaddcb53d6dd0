package kvview

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/errors"
	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/events/jetlog"
	"github.com/toolfleet/toolfleet/projections"
)

// reader opens a Reader and runs it until the returned function is called.
func (f *fleet) reader(nc *nats.Conn) (r *Reader, stop func()) {
	f.t.Helper()
	r, err := Open(f.t.Context(), nc, fleetID, nil)
	if err != nil {
		f.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(f.t.Context())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	return r, func() {
		f.t.Helper()
		cancel()
		if err := <-done; err != nil {
			f.t.Errorf("Run: %v", err)
		}
	}
}

// holds checks that a Reader has what is in the bucket.
func (f *fleet) holds(r *Reader) {
	f.t.Helper()
	got := make(map[key]string)
	add := func(k key, encode func() ([]byte, error)) {
		data, err := encode()
		if err != nil {
			f.t.Errorf("%s: %v", k, err)
		}
		got[k] = string(data)
	}
	r.mu.RLock()
	defer r.mu.RUnlock()
	for id, e := range r.copied.servers {
		add(key{kind: serverKey, id: string(id)}, e.Encode)
	}
	for id, of := range r.copied.instances {
		for n, e := range of {
			add(key{kind: statusKey, id: string(id), instance: n}, e.Encode)
		}
	}
	for kind, servers := range r.copied.lists {
		for id, of := range servers {
			for n, e := range of {
				add(key{kind: kind, id: string(id), instance: n}, e.Encode)
			}
		}
	}
	for id, e := range r.copied.workers {
		add(key{kind: workerKey, id: string(id)}, e.Encode)
	}
	if e := r.copied.fleet; e != nil {
		add(key{kind: fleetKey}, e.Encode)
	}
	v := f.read()
	if diff := cmp.Diff(v.raw, got); diff != "" {
		f.t.Errorf("the reader's copy (-bucket +reader):\n%s", diff)
	}
	if a := r.AsOf(); a.Seq != v.position.Seq || a.Log != v.position.Log {
		f.t.Errorf("as of %v, want %v", a.Position, v.position)
	}
}

func TestReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		stop := f.project(f.openLog("projector"), nil)
		f.someLife(3)
		f.await(f.history.Seq())
		r, stopReader := f.reader(f.log.Conn())
		f.holds(r)
		for n := range 5 {
			f.ready("s1", "0", toolsJSON(50, fmt.Sprintf("tool-%d", n)))
			f.declare(events.ServerID(fmt.Sprintf("new-%d", n)))
			if err := r.Wait(t.Context(), f.history.Seq()); err != nil {
				t.Fatal(err)
			}
			f.holds(r)
		}
		var ids []string
		for _, s := range r.Servers() {
			ids = append(ids, string(s.Value.ID))
		}
		if diff := cmp.Diff([]string{"new-0", "new-1", "new-2", "new-3", "new-4", "s0", "s1", "s2"}, ids); diff != "" {
			t.Errorf("servers (-want +got):\n%s", diff)
		}
		if s := r.Server("s0"); s == nil || s.Value.Definition.Command != "run-s0" {
			t.Errorf("server s0: %+v", s)
		}
		i, tools := r.Instance("s1", "0"), r.Tools("s1", "0")
		if i.Value.State != projections.Ready || tools.Value.Digest != i.Value.Tools.Digest || !strings.Contains(string(tools.Value.Tools), "tool-4") {
			t.Errorf("instance %+v, tools %+v", i, tools)
		}
		if all := r.Instances("s1"); len(all) != 1 || all[0] != i {
			t.Errorf("instances of s1: %v", all)
		}
		if w := r.Workers(); len(w) != 1 || w[0] != r.Worker("w") || !w[0].Value.Present() {
			t.Errorf("workers: %v", w)
		}
		if r.Fleet().Value.Leader.Controller != "c" {
			t.Errorf("fleet: %+v", r.Fleet())
		}
		if s, ok := r.Status("s1"); !ok || s.State != projections.Ready || s.Tools != 1 {
			t.Errorf("status of s1: %+v, %t", s, ok)
		}
		if _, ok := r.Status("x"); ok || r.Server("x") != nil || r.Instance("s1", "x") != nil || r.Tools("x", "0") != nil || r.Worker("x") != nil {
			t.Error("something is known of what is not there")
		}
		stopReader()
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

func TestReaderSignalsChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		stop := f.project(f.openLog("projector"), nil)
		f.someLife(1)
		f.await(f.history.Seq())
		r, stopReader := f.reader(f.log.Conn())
		changes := r.Changes()
		<-changes
		synctest.Wait()
		for len(changes) > 0 {
			<-changes
		}
		for range 50 {
			f.say(events.ServerChain("s0"), events.RestartRequested{})
		}
		signals := 0
		for reached := false; !reached; reached = r.Server("s0").Seq == f.history.Server("s0").Seq {
			<-changes
			signals++
		}
		if signals > 110 {
			t.Errorf("%d signals for fifty events", signals)
		}
		r.Forget(changes)
		stopReader()
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

func TestReaderTellsItsAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		empty, stopEmpty := f.reader(f.log.Conn())
		if text := empty.AsOf().Text(time.Now()); text != "nothing is known yet" {
			t.Errorf("of an empty bucket: %s", text)
		}
		stopEmpty()
		f.someLife(1)
		stop := f.project(f.openLog("projector"), nil)
		f.await(f.history.Seq())
		r, stopReader := f.reader(f.log.Conn())
		// While all is well, quiet is not age.
		for range 30 {
			time.Sleep(11 * time.Second)
			if a := r.AsOf(); a.Behind(time.Now()) || a.Age(time.Now()) > 15*time.Second {
				t.Fatalf("a quiet fleet's views are %s old", a.Age(time.Now()))
			}
		}
		if text, want := r.AsOf().Text(time.Now()), fmt.Sprintf("as of seq %d", f.history.Seq()); text != want {
			t.Errorf("%s, want %s", text, want)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
		f.declare("unseen")
		time.Sleep(5 * time.Minute)
		late, stopLate := f.reader(f.log.Conn()) // one that is opened now knows as well
		for _, r := range []*Reader{r, late} {
			a := r.AsOf()
			if age := a.Age(time.Now()); !a.Behind(time.Now()) || age < 5*time.Minute || age > 5*time.Minute+2*Heartbeat {
				t.Errorf("without a projector: %s", a.Text(time.Now()))
			}
			if !strings.HasPrefix(a.Text(time.Now()), fmt.Sprintf("as of seq %d, 3", f.history.Seq()-1)) {
				t.Errorf("without a projector: %s", a.Text(time.Now()))
			}
		}
		stopLate()
		stopReader()
	})
}

func TestReaderOutlivesOutages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		stop := f.project(f.openLog("projector"), nil)
		f.someLife(2)
		f.await(f.history.Seq())
		outage := f.server.Outage()
		r, stopReader := f.reader(f.server.Connect("session", nats.InProcessServer(outage)))
		outages := map[string]func(){"cut": outage.Cut, "freeze": outage.Freeze, "break": outage.Break}
		for _, name := range []string{"cut", "break", "freeze", "cut"} {
			outages[name]()
			f.say(events.ServerChain("s0"), events.RestartRequested{})
			f.ready("s1", "0", toolsJSON(50, "after-"+name))
			time.Sleep(2 * time.Minute)
			if r.AsOf().Seq < f.history.Seq() != (name != "break") {
				t.Errorf("%s: the reader is %s", name, r.AsOf().Text(time.Now()))
			}
			outage.Restore()
			if err := r.Wait(t.Context(), f.history.Seq()); err != nil {
				t.Fatal(err)
			}
			f.holds(r)
		}
		stopReader()
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

// A bucket that was deleted and made again is read anew.
func TestReaderOfANewBucket(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		f.someLife(3)
		f.projectAll()
		r, stopReader := f.reader(f.log.Conn())
		if err := f.js().DeleteKeyValue(t.Context(), bucketName(fleetID)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		f.newHistory() // makes the bucket too
		f.declare("other")
		f.projectAll()
		time.Sleep(2 * silenceLimit)
		f.holds(r)
		if r.Server("s0") != nil || r.Server("other") == nil {
			t.Error("the reader has the old bucket")
		}
		stopReader()
	})
}

// serverWithUsers starts a server whose users have those permissions.
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
	t.Cleanup(s.WaitForShutdown)
	if !s.ReadyForConnections(10 * time.Second) {
		t.Fatal("the server does not start")
	}
	return s
}

// A session may read the bucket and nothing else.
func TestReaderNeedsFewPermissions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serverWithUsers(t, map[string]*server.Permissions{"all": nil, "session": {
			Publish: &server.SubjectPermission{Allow: []string{
				"$JS.API.STREAM.INFO.KV_tf-f-views", "$JS.API.CONSUMER.CREATE.KV_tf-f-views.>",
				"$JS.API.CONSUMER.MSG.NEXT.KV_tf-f-views.>", "$JS.API.CONSUMER.DELETE.KV_tf-f-views.>",
			}},
			Subscribe: &server.SubjectPermission{Allow: []string{"_INBOX.>"}},
		}})
		defer s.Shutdown()
		var refused []string
		connect := func(user string) *nats.Conn {
			nc, err := nats.Connect("", nats.InProcessServer(s), nats.UserInfo(user, "invented"),
				nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { refused = append(refused, err.Error()) }))
			if err != nil {
				t.Fatal(err)
			}
			return nc
		}
		all, session := connect("all"), connect("session")
		defer all.Close()
		defer session.Close()
		l, err := jetlog.Open(t.Context(), all, fleetID, nil)
		if err != nil {
			t.Fatal(err)
		}
		f := &fleet{t: t, log: l}
		stop := f.project(l, nil)
		f.declare("a")
		f.await(1)
		r, stopReader := f.reader(session)
		f.declare("b")
		if err := r.Wait(t.Context(), 2); err != nil {
			t.Fatal(err)
		}
		f.holds(r)
		stopReader()
		synctest.Wait()
		if len(refused) > 0 {
			t.Errorf("the session was refused: %v", slices.Compact(refused))
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

func TestReaderKeepsWhatItCannotReadAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		f.someLife(1)
		f.projectAll()
		r, stopReader := f.reader(f.log.Conn())
		before := r.Server("s0")
		f.put("server.s0", "nonsense")
		f.put("server.of.a.stranger", "nonsense")
		kv, err := f.js().KeyValue(t.Context(), bucketName(fleetID))
		if err != nil {
			t.Fatal(err)
		}
		if err := kv.Delete(t.Context(), "fleet"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if r.Server("s0") != before {
			t.Errorf("a damaged entry replaced a good one: %+v", r.Server("s0"))
		}
		if r.Fleet() != nil {
			t.Error("a deleted entry is still there")
		}
		stopReader()
	})
}

func TestReaderEndsWithItsConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		nc := f.server.Connect("closing")
		r, err := Open(t.Context(), nc, fleetID, nil)
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan error, 1)
		go func() { done <- r.Run(t.Context()) }()
		synctest.Wait()
		nc.Close()
		if err := <-done; !errors.Is(err, nats.ErrConnectionClosed) {
			t.Errorf("Run: %v, want ErrConnectionClosed", err)
		}
		if _, err := Open(t.Context(), nc, "no.token", nil); !errors.Is(err, events.ErrInvalidID) {
			t.Errorf("Open: %v, want ErrInvalidID", err)
		}
	})
}
