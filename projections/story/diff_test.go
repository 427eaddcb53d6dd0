package story

import (
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	"github.com/toolfleet/toolfleet/events"
)

// before and after are what the story of TestCompare has at its two moments.
var before = []string{
	`worker.a joined {"host":"a","incarnation":"i1","labels":{"zone":"eu"}}`,
	`worker.gone joined {"host":"b","incarnation":"i2"}`,
	`server.same declared {"definition":{"command":"same"}}`,
	`server.changed declared {"definition":{"command":"old","args":["-x"]}}`,
	`server.removed declared {"definition":{"command":"removed"}}`,
	`instance.changed.0 assigned {"worker":"a","incarnation":"i1","epoch":1}`,
	`instance.changed.0 connecting {"attempt":1,"generation":4,"definition":"d"}`,
	`instance.changed.0 connected {"protocol":"2025-11-25","era":"handshake"}`,
	`instance.changed.0 tools-listed {"digest":"l1","count":3}`,
	`instance.removed.0 assigned {"worker":"a","incarnation":"i1","epoch":1}`,
	`instance.removed.0 connecting {"attempt":1,"generation":5,"definition":"d"}`,
	`instance.removed.0 connected {"protocol":"2025-11-25","era":"handshake"}`,
	`instance.removed.0 tools-listed {"digest":"l3","count":1}`,
}

var after = []string{
	`server.added declared {"definition":{"url":"http://x/mcp"}}`,
	`server.removed withdrawn {}`,
	`server.changed updated {"from":{"command":"old","args":["-x"]},"to":{"command":"new","labels":{"team":"a"}}}`,
	`instance.changed.0 failed {"failure":{"code":"exited"},"attempt":1}`,
	`instance.changed.0 connecting {"attempt":2,"generation":4,"definition":"d"}`,
	`instance.changed.0 connected {"protocol":"2025-11-25","era":"handshake"}`,
	`instance.changed.0 tools-listed {"digest":"l2","count":3,"from":"l1"}`,
	`instance.changed.0 restarted {"attempt":2,"downtimeMs":1}`,
	`server.changed disabled {}`,
	`worker.gone lost {"worker":"gone"}`,
	`worker.a joined {"host":"a","incarnation":"i3","labels":{"zone":"eu"}}`,
	`worker.a cordoned {}`,
}

var lists = map[events.Digest]map[string]events.Digest{
	"l1": {"keep": "1", "change": "1", "drop": "1"},
	"l2": {"keep": "1", "change": "2", "new": "1"},
	"l3": {"only": "1"},
}

func moment(t *testing.T, stories ...[]string) *Moment {
	t.Helper()
	s := &stage{epochs: make(map[events.Chain]events.Epoch)}
	for _, story := range stories {
		for _, line := range story {
			s.tell(t, line)
		}
	}
	return &Moment{Time: dawn, History: &s.history, Tools: func(d events.Digest) (map[string]events.Digest, bool) {
		l, ok := lists[d]
		return l, ok
	}}
}

func TestCompare(t *testing.T) {
	got := Compare(moment(t, before), moment(t, before, after))
	raw := func(s string) jsontext.Value { return jsontext.Value(s) }
	want := &Difference{
		From: Point{13, dawn}, To: Point{25, dawn},
		Servers: []ServerChange{
			{ID: "added", Change: Added, Fields: []FieldChange{
				{"enabled", raw(`null`), raw(`true`)},
				{"state", raw(`null`), raw(`"deferred"`)},
				{"url", raw(`null`), raw(`"http://x/mcp"`)},
				{"want", raw(`null`), raw(`"running"`)},
				{"worker", raw(`null`), raw(`""`)},
			}},
			{ID: "changed", Change: Changed, Restarts: 1, Fields: []FieldChange{
				{"args", raw(`["-x"]`), raw(`null`)},
				{"command", raw(`"old"`), raw(`"new"`)},
				{"enabled", raw(`true`), raw(`false`)},
				{"labels", raw(`null`), raw(`{"team":"a"}`)},
				{"want", raw(`"running"`), raw(`"stopped"`)},
			}},
			{ID: "removed", Change: Removed, Fields: []FieldChange{
				{"command", raw(`"removed"`), raw(`null`)},
				{"enabled", raw(`true`), raw(`null`)},
				{"state", raw(`"ready"`), raw(`null`)},
				{"want", raw(`"running"`), raw(`null`)},
				{"worker", raw(`"a"`), raw(`null`)},
			}},
		},
		Tools: []ToolChange{
			{"changed", "changed__change", "change", Changed},
			{"changed", "changed__drop", "drop", Removed},
			{"changed", "changed__new", "new", Added},
			{"removed", "removed__only", "only", Removed},
		},
		Workers: []WorkerChange{
			{ID: "a", Change: Changed, Joins: 1, Fields: []FieldChange{{"cordoned", raw(`false`), raw(`true`)}}},
			{ID: "gone", Change: Changed, Fields: []FieldChange{{"state", raw(`"joined"`), raw(`"lost"`)}}},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("difference (-want +got):\n%s", diff)
	}
}

// A moment does not differ from itself, and its JSON has every member.
func TestCompareOfTheSame(t *testing.T) {
	got, err := json.Marshal(Compare(moment(t, before), moment(t, before)))
	want := `{"from":{"seq":13,"time":"2026-01-02T03:04:05Z"},"to":{"seq":13,"time":"2026-01-02T03:04:05Z"},"servers":[],"tools":[],"workers":[]}`
	if err != nil || string(got) != want {
		t.Errorf("got %s, %v", got, err)
	}
}

func TestCompareWithoutLists(t *testing.T) {
	a, b := moment(t, before), moment(t, before, after)
	b.Tools = nil
	want := []ToolChange{{Server: "changed", Change: Unreadable}, {"removed", "removed__only", "only", Removed}}
	if diff := cmp.Diff(want, Compare(a, b).Tools); diff != "" {
		t.Errorf("tools (-want +got):\n%s", diff)
	}
}
