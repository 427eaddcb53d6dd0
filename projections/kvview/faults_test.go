package kvview

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/errors"
	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/events/jetlog"
	"github.com/toolfleet/toolfleet/projections"
)

// js returns JetStream of the fleet's connection.
func (f *fleet) js() jetstream.JetStream {
	f.t.Helper()
	js, err := jetstream.New(f.log.Conn())
	if err != nil {
		f.t.Fatal(err)
	}
	return js
}

// put puts something under a key, whatever is there.
func (f *fleet) put(key, value string) {
	f.t.Helper()
	if _, err := f.js().Publish(f.t.Context(), subjectPrefix(fleetID)+key, []byte(value)); err != nil {
		f.t.Fatal(err)
	}
}

// Entries that were damaged or deleted by somebody are made again.
func TestDamagedViews(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		f.someLife(3)
		f.projectAll()
		good := f.verify()
		f.put("server.s1", "nonsense")
		f.put("status.s2.0", strings.Replace(good.raw[key{kind: statusKey, id: "s2", instance: "0"}], "ready", "parked", 1))
		f.put("tools.s2.0", `{"log":"x"}`)
		f.projectAll()
		healed := f.verify()
		if diff := cmp.Diff(good.raw, healed.raw); diff != "" {
			t.Errorf("healed (-before +after):\n%s", diff)
		}
		want := []string{"server.s1", "status.s2.0", "tools.s2.0"}
		if diff := cmp.Diff(want, healed.changedSince(good)); diff != "" {
			t.Errorf("written (-want +got):\n%s", diff)
		}

		kv, err := f.js().KeyValue(t.Context(), bucketName(fleetID))
		if err != nil {
			t.Fatal(err)
		}
		if err := kv.Delete(t.Context(), "server.s0"); err != nil {
			t.Fatal(err)
		}
		f.put("position", "nonsense")
		f.projectAll()
		if diff := cmp.Diff(good.raw, f.verify().raw); diff != "" {
			t.Errorf("healed (-before +after):\n%s", diff)
		}
		if err := kv.Delete(t.Context(), "server.s0"); err != nil {
			t.Fatal(err)
		}
		f.say(events.ServerChain("s0"), events.Disabled{}) // gives it away
		f.projectAll()
		f.verify()
	})
}

// Strangers' keys and messages, and events that cannot be decoded, are stepped
// over.
func TestStrangeThings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		for _, k := range []string{"a", "server", "server.a.b", "status.a", "tools.a.b.c", "position.x", "fleet.x"} {
			f.put(k, "theirs")
		}
		f.declare("a")
		for subject, data := range map[string]string{
			"server.a": "no event", "nowhere.at.all": "{}", "fleet": "{",
		} {
			if _, err := f.js().Publish(t.Context(), events.EventPrefix(fleetID)+subject, []byte(data)); err != nil {
				t.Fatal(err)
			}
		}
		stop := f.project(f.log, nil)
		f.await(4)
		if err := stop(); err != nil {
			t.Error(err)
		}
		for _, k := range []string{"server.a", "fleet"} {
			m, err := f.stream().GetLastMsgForSubject(t.Context(), subjectPrefix(fleetID)+k)
			if err != nil || !strings.Contains(string(m.Data), `"undecodable":1`) {
				t.Errorf("%s: %s, %v", k, m.Data, err)
			}
		}
	})
}

// R17 of the views: an older version of the folds is replaced, a newer one left
// alone.
func TestVersionsOfTheFolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		f.someLife(2)
		f.projectAll()
		good := f.verify()
		for k, raw := range good.raw {
			f.put(k.String(), strings.Replace(raw, `"fold":1`, `"fold":0`, 1))
		}
		position := `{"log":"` + string(good.position.Log) + `","fold":FOLD,"seq":` + good.position.Seq.String() + `}`
		f.put("position", strings.Replace(position, "FOLD", "0", 1))
		f.projectAll()
		if diff := cmp.Diff(good.raw, f.verify().raw); diff != "" {
			t.Errorf("an older fold's views were not replaced (-before +after):\n%s", diff)
		}

		f.put("position", strings.Replace(position, "FOLD", "99", 1))
		before := f.read()
		f.say(events.ServerChain("s0"), events.Disabled{})
		stop := f.project(f.log, nil)
		time.Sleep(5 * Heartbeat)
		after := f.read()
		if diff := cmp.Diff(before, after, cmp.AllowUnexported(views{}, key{})); diff != "" {
			t.Errorf("a newer fold's views were touched:\n%s", diff)
		}
		f.put("position", strings.Replace(position, "FOLD", "1", 1)) // it is gone
		f.await(f.history.Seq())
		f.verify()
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

func TestMissingBlob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		c := events.InstanceChain("a", "0")
		f.say(c, events.Assigned{Worker: "w", Incarnation: "i", Epoch: 1})
		f.say(c, events.Connecting{Attempt: 1, Definition: "d1"})
		f.say(c, events.Connected{Protocol: "2025-11-25", Era: "handshake"})
		missing, broken := events.DigestOf([]byte("nobody has it")), f.putBlob([]byte(`[{"name":"a","name":"b"}]`))
		f.say(c, events.ToolsListed{Listing: events.Listing{Digest: missing, Count: 1}})
		f.projectAll()
		f.say(c, events.ToolsListed{Listing: events.Listing{Digest: broken, Count: 1}})
		f.projectAll()
		e, err := projections.DecodeEntry[List]([]byte(f.read().raw[key{kind: toolsKey, id: "a", instance: "0"}]))
		if err != nil || e.Value.Digest != broken || e.Value.Tools != nil {
			t.Errorf("tools %+v, %v", e, err)
		}
	})
}

func TestPositionIsRenewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		f.someLife(1)
		stops := []func() error{
			f.project(f.openLog("leader"), nil),
			f.project(f.openLog("standby"), &Options{Leads: func() bool { return false }}),
		}
		f.await(f.history.Seq())
		info := func() uint64 {
			i, err := f.stream().Info(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			return i.State.LastSeq
		}
		before := info()
		time.Sleep(10 * Heartbeat)
		if n := info() - before; n < 8 || n > 12 {
			t.Errorf("in ten heartbeats, the position was written %d times", n)
		}
		for _, stop := range stops {
			if err := stop(); err != nil {
				t.Error(err)
			}
		}
		before = info()
		time.Sleep(10 * Heartbeat)
		if n := info() - before; n != 0 {
			t.Errorf("something writes on: %d", n)
		}
	})
}

// Outages are waited out, and lost answers are found again.
func TestOutages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		f.someLife(3)
		outage := f.server.Outage()
		l := f.openLog("projector", nats.InProcessServer(outage))
		stop := f.project(l, nil)
		f.await(f.history.Seq())

		outage.Cut()
		f.declare("during")
		f.ready("s0", "0", toolsJSON(50, "a"))
		time.Sleep(time.Minute)
		outage.Restore()
		f.await(f.history.Seq())
		f.verify()

		lost := outage.LoseAck(subjectPrefix(fleetID) + "server.s1")
		f.say(events.ServerChain("s1"), events.Disabled{})
		<-lost
		f.await(f.history.Seq())
		f.verify()

		lost = outage.LosePublish(subjectPrefix(fleetID) + "position")
		f.say(events.ServerChain("s2"), events.Disabled{})
		<-lost
		f.await(f.history.Seq())
		f.verify()

		outage.Freeze()
		f.say(events.ServerChain("s2"), events.Enabled{})
		time.Sleep(3 * time.Minute)
		outage.Restore()
		f.await(f.history.Seq())
		f.verify()
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

func TestProjectFaults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		f.someLife(1)
		deleted := f.openLog("deleted")
		running := make(chan error, 1)
		go func() { running <- Project(t.Context(), deleted, nil) }()
		f.await(f.history.Seq())
		if err := f.js().DeleteStream(t.Context(), jetlog.StreamName(fleetID, "events")); err != nil {
			t.Fatal(err)
		}
		if err := <-running; !errors.Is(err, events.ErrHistoryRegressed) {
			t.Errorf("the history was deleted: %v", err)
		}
		l := f.openLog("no views")
		if err := f.js().DeleteKeyValue(t.Context(), bucketName(fleetID)); err != nil {
			t.Fatal(err)
		}
		if err := Project(t.Context(), l, nil); !errors.Is(err, ErrNoViews) {
			t.Errorf("Project without a bucket: %v, want ErrNoViews", err)
		}
		if _, err := Open(t.Context(), l.Conn(), fleetID, nil); !errors.Is(err, ErrNoViews) {
			t.Errorf("Open without a bucket: %v, want ErrNoViews", err)
		}
	})
}

func TestKeys(t *testing.T) {
	keys := []string{"server.a", "status.a.0", "tools.a.worker-1", "worker.w", "fleet", "position"}
	for _, s := range keys {
		if k, ok := parseKey(s); !ok || k.String() != s {
			t.Errorf("%s is read as %v, %t", s, k, ok)
		}
	}
	for _, s := range []string{"", "server", "server.", "server.a.b", "status.a", "status.a.", "status..0", "tools.a.0.x", "fleet.a", "position.a", "other.a", "worker.a b"} {
		if k, ok := parseKey(s); ok {
			t.Errorf("%q is taken for %v", s, k)
		}
	}
	chains := []events.Chain{events.ServerChain("a"), events.InstanceChain("a", "0"), events.WorkerChain("w"), events.FleetChain()}
	if i := slices.IndexFunc(chains, func(c events.Chain) bool { return keyOf(c).chain() != c }); i >= 0 {
		t.Errorf("%s has the key of %s", chains[i], keyOf(chains[i]).chain())
	}
}
