package session_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/session"
)

// listing stores a list and returns what an event tells of it.
func (h *host) listing(data string, count int) events.Listing {
	h.t.Helper()
	digest, err := h.log.PutBlob(h.t.Context(), []byte(data))
	if err != nil {
		h.t.Fatal(err)
	}
	return events.Listing{Digest: digest, Count: count}
}

// R35: resources, templates and prompts come over the bus, long lists too; a
// session that opens while their server is away has them, and a request for one
// is answered.
func TestResourcesAndPromptsOverTheBus(t *testing.T) {
	onHost(t, func(t *testing.T, h *host) {
		h.serve("docs", 1, `{"name":"find"}`)
		s := h.open(nil)
		defer s.Close()
		h.await(s, 1)
		drain(s)
		chain := events.InstanceChain("docs", "0")
		h.tell(chain, 1, events.PromptsListed{Listing: h.listing(`[{"name":"review","x":1.0}]`, 1)})
		<-s.Changes()
		if p := s.Prompts(); len(p) != 1 || p[0].Name != "docs__review" || p[0].State != "live" || string(p[0].Definition) != `{"name":"review","x":1.0}` {
			t.Errorf("prompts are %+v", p)
		}
		var many []string
		for n := range 400 {
			many = append(many, fmt.Sprintf(`{"uri":"file:///%03d","name":%q}`, n, strings.Repeat("x", 1<<10)))
		}
		h.tell(chain, 1, events.ResourcesListed{Listing: h.listing(
			`{"resources":[`+strings.Join(many, ",")+`],"templates":[{"uriTemplate":"file:///{n}","name":"any"}]}`, 401)})
		if err := s.Wait(t.Context(), h.last); err != nil {
			t.Fatal(err)
		}
		synctest.Wait() // the list comes from the blob store
		if r, all := s.Resources(), s.Templates(); len(r) != 400 || r[399].URI != "file:///399" || r[0].State != "live" || len(all) != 1 {
			t.Errorf("%d resources, templates %+v", len(r), all)
		}
		defer h.answer("docs", 1, "docs")()
		if got, err := s.Read(t.Context(), "docs", "file:///1000", nil); err != nil || string(got) != `{"content":[],"by":"docs"}` {
			t.Errorf("read: %s, %v", got, err)
		}

		h.tell(chain, 1, events.Failed{Failure: events.NewFailure(events.Killed, events.PhaseRun, "")}, events.RestartScheduled{})
		h.settle()
		late := h.open(&session.Options{Wait: -1})
		defer late.Close()
		synctest.Wait()
		if p, r := late.Prompts(), late.Resources(); len(p) != 1 || p[0].State != "stale" || len(r) != 400 || r[0].State != "stale" {
			t.Errorf("prompts are %+v, and %d resources", p, len(r))
		}
	})
}
