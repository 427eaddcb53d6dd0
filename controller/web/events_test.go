package web_test

import (
	"bufio"
	"context"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/toolfleet/toolfleet/controller/web"
	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/guard"
	"github.com/toolfleet/toolfleet/projections/shape"
)

// writes writes n events of the server "t", and returns the last.
func (r *rig) writes(n int) (tip events.Tip) {
	for range n {
		tip = r.write(tip)
	}
	r.await(tip.Seq)
	return tip
}

func seqs(all []shape.Event) (list []events.Seq) {
	for i := range all {
		list = append(list, all[i].Seq)
	}
	return list
}

// count returns the sequences from one to another.
func count(from, to events.Seq) (list []events.Seq) {
	for s := from; s <= to; s++ {
		list = append(list, s)
	}
	return list
}

// Pages lead from the first event to the last, each of which is there once.
func TestPagesOfEvents(t *testing.T) {
	bubble(t, nil, func(t *testing.T, r *rig) {
		last := r.writes(5).Seq
		next, got := "/v1/events?limit=3", []events.Seq(nil)
		for pages := 0; next != ""; pages++ {
			a := r.get(next)
			got = append(got, seqs(decode[[]shape.Event](r, a))...)
			if far := a.header.Get("Toolfleet-Seq"); far != strconv.FormatUint(uint64(got[len(got)-1]), 10) {
				t.Errorf("as of %s", far)
			}
			link, found := strings.CutSuffix(a.header.Get("Link"), `>; rel="next"`)
			if next = strings.TrimPrefix(link, "<"); !found {
				next = ""
			}
			if pages > 5 {
				t.Fatal("there is no end")
			}
		}
		if !slices.Equal(got, count(1, last)) {
			t.Errorf("events %d", got)
		}
	})
}

func TestFilters(t *testing.T) {
	bubble(t, nil, func(t *testing.T, r *rig) {
		last := r.writes(5).Seq
		for _, tt := range []struct {
			query string
			want  []events.Seq
		}{
			{"", count(1, last)},
			{"?id=t", count(last-4, last)},
			{"?id=s&kind=declared", []events.Seq{1}},
			{"?id=s&id=t&kind=declared&kind=rejected", append([]events.Seq{1}, count(last-4, last)...)},
			{"?kind=undecodable", nil},
			{"?since=0", count(1, last)}, // before the first event is at the first
			{"?since=1", count(1, last)},
			{"?since=" + strconv.Itoa(int(last)), []events.Seq{last}},
			{"?since=" + strconv.Itoa(int(last)+1), nil}, // what comes next
			{"?since=now", nil},
			{"?id=t&limit=2", count(last-4, last-3)},
		} {
			a := r.get("/v1/events" + tt.query)
			if got := seqs(decode[[]shape.Event](r, a)); !slices.Equal(got, tt.want) {
				t.Errorf("%q: events %d, want %d", tt.query, got, tt.want)
			}
		}
	})
}

// A position that is none, or that lies ahead, is an error that names the last
// event.
func TestPositions(t *testing.T) {
	bubble(t, nil, func(t *testing.T, r *rig) {
		last := strconv.Itoa(int(r.writes(3).Seq))
		ahead := strconv.Itoa(1000)
		for _, accept := range []string{"application/json", "text/event-stream"} {
			for query, code := range map[string]web.Code{
				"?since=" + ahead: web.CodeFuture, "?since=tomorrow": web.CodeFuture, "?since=18446744073709551615": web.CodeFuture,
				"?since=-1": web.CodePosition, "?since=yesterday": web.CodePosition, "?since=18446744073709551616": web.CodePosition,
				"?kind=fail": web.CodeParameter, "?limit=0": web.CodeParameter, "?limit=1001": web.CodeParameter, "?limit=x": web.CodeParameter,
			} {
				a := r.get("/v1/events"+query, "Accept", accept)
				r.expect(a, http.StatusBadRequest, code)
				if code != web.CodeParameter && !strings.Contains(a.body, "the last event is "+last) {
					t.Errorf("%s: %s", query, a.body)
				}
				if a.problem.Hint == "" {
					t.Errorf("%s: no way out: %s", query, a.body)
				}
			}
			for id, code := range map[string]web.Code{
				ahead: web.CodeFuture, "-1": web.CodePosition, "x": web.CodePosition, "1.5": web.CodePosition,
			} {
				r.expect(r.get("/v1/events", "Accept", accept, "Last-Event-ID", id), http.StatusBadRequest, code, last)
			}
		}
	})
}

// A stream goes on exactly after the last event that the client has, with what is
// stored and then with what comes.
func TestStream(t *testing.T) {
	bubble(t, nil, func(t *testing.T, r *rig) {
		tip := r.writes(3)
		f := r.stream("/v1/events?since=1", "Last-Event-ID", strconv.Itoa(int(tip.Seq)-2))
		f.expect(t, tip.Seq-1)
		f.expect(t, tip.Seq)
		for range 3 {
			tip = r.write(tip)
			f.expect(t, tip.Seq)
		}
		f.close()
		again := r.stream("/v1/events", "Last-Event-ID", strconv.Itoa(int(tip.Seq)))
		tip = r.write(tip)
		again.expect(t, tip.Seq)
	})
}

// expect reads the next event, which has to be this one.
func (f *flow) expect(t *testing.T, seq events.Seq) {
	t.Helper()
	id := strconv.FormatUint(uint64(seq), 10)
	if got := f.next(); !strings.HasPrefix(got, "id: "+id+"\ndata: {\"seq\":"+id+",") || strings.Count(got, "\n") != 1 {
		t.Errorf("got %q, want event %s", got, id)
	}
}

// A stream lives while nothing happens, and says how far it is while nothing
// that is wanted does.
func TestQuietStream(t *testing.T) {
	bubble(t, nil, func(t *testing.T, r *rig) {
		f := r.stream("/v1/events?id=s&since=now")
		begun := time.Now()
		if got := f.next(); got != ":" || time.Since(begun) != 15*time.Second {
			t.Errorf("after %v: %q", time.Since(begun), got)
		}
		tip := r.writes(3)
		if got := f.next(); got != "id: "+tipText(tip) {
			t.Errorf("got %q", got)
		}
		if got := f.next(); got != ":" || time.Since(begun) != 45*time.Second {
			t.Errorf("after %v: %q", time.Since(begun), got)
		}
	})
}

// A client that never reads is dropped; it holds up nobody and nothing.
func TestAClientThatNeverReads(t *testing.T) {
	bubble(t, nil, func(t *testing.T, r *rig) {
		tip := r.writes(3)
		near := r.dial()
		w := bufio.NewWriter(near)
		_, _ = w.WriteString("GET /v1/events HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer " + all + "\r\nAccept: text/event-stream\r\n\r\n")
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		for range 5 {
			tip = r.write(tip)
		}
		if a := r.get("/v1/servers"); a.status != http.StatusOK || time.Since(begun) > time.Second {
			t.Errorf("others: %d after %v", a.status, time.Since(begun))
		}
		time.Sleep(11 * time.Second)
		if _, err := near.Write([]byte("x")); err == nil {
			t.Error("its connection is still there")
		}
		if n := r.handler.Streams(); n != 0 {
			t.Errorf("%d streams are left", n)
		}
	})
}

// There are only so many streams, and one principal takes few of them; the place of
// one that ends is free.
func TestStreamsAreBounded(t *testing.T) {
	anyone := func(r *rig) {
		r.o.Guard = guard.New(&guard.Options{Holder: func(token string) (guard.Principal, bool) {
			return guard.Principal{Name: token, Scopes: guard.Scopes()}, true
		}})
	}
	bubble(t, anyone, func(t *testing.T, r *rig) {
		var open []*flow
		for range 16 {
			open = append(open, r.stream("/v1/events?since=now"))
		}
		a := r.get("/v1/events?since=now", "Accept", "text/event-stream")
		r.expect(a, http.StatusServiceUnavailable, web.CodeStreams, "16 streams")
		for i := range 48 {
			r.stream("/v1/events?since=now", "Authorization", "Bearer "+strconv.Itoa(i/16))
		}
		a = r.get("/v1/events?since=now", "Accept", "text/event-stream", "Authorization", "Bearer 4")
		r.expect(a, http.StatusServiceUnavailable, web.CodeStreams, "64 of all")
		if a.header.Get("Retry-After") == "" {
			t.Error("it does not say when to try again")
		}
		if a := r.get("/v1/events"); a.status != http.StatusOK {
			t.Errorf("a page: %d", a.status)
		}
		open[0].close()
		time.Sleep(time.Second)
		r.stream("/v1/events?since=now")
	})
}

// A token that is taken back, or given to another, loses its streams, however much
// is sent there.
func TestStreamOfARevokedToken(t *testing.T) {
	var name atomic.Value
	prepare := func(r *rig) {
		r.o.Guard = guard.New(&guard.Options{Holder: func(string) (guard.Principal, bool) {
			p := guard.Principal{Name: name.Load().(string), Scopes: guard.Scopes()}
			return p, p.Name != ""
		}})
	}
	for _, now := range []string{"", "you"} {
		name.Store("me")
		bubble(t, prepare, func(t *testing.T, r *rig) {
			f := r.stream("/v1/events?since=now")
			tip := r.writes(1)
			f.expect(t, tip.Seq)
			for range 12 {
				time.Sleep(5 * time.Second)
				tip = r.write(tip)
				f.expect(t, tip.Seq)
			}
			name.Store(now)
			go func() {
				for f.next() != "" { // to the end
				}
			}()
			for range 3 {
				time.Sleep(5 * time.Second)
				tip = r.write(tip)
			}
			time.Sleep(time.Second)
			if n := r.handler.Streams(); n != 0 {
				t.Errorf("%d streams are left", n)
			}
		})
	}
}

// A stream whose history is gone says so and ends.
func TestTheEndOfAHistory(t *testing.T) {
	bubble(t, nil, func(t *testing.T, r *rig) {
		f := r.stream("/v1/events?since=now")
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		r.deleteHistory(ctx)
		for got := f.next(); ; got = f.next() {
			if strings.HasPrefix(got, "event: problem\n") {
				break
			}
			if got == "" {
				t.Fatal("it ended without a word")
			}
		}
		if got := f.next(); got != "" {
			t.Errorf("then came %q", got)
		}
		r.expect(r.get("/v1/events"), http.StatusServiceUnavailable, web.CodeHistory)
	})
}
