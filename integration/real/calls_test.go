//go:build real

package real

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/cockroachdb/errors"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/session"
)

// bothWays are the same program, as a child and over HTTP.
var bothWays = []events.ServerID{everything, overHTTP}

// answer is what the tests look at in a CallToolResult.
type answer struct {
	Content []struct {
		Text string `json:"text"`
	} `json:"content"`
	Structured jsontext.Value `json:"structuredContent"`
}

// call calls a tool in the session.
func (f *fleet) call(ctx context.Context, id events.ServerID, tool, arguments string, progress func(jsontext.Value)) (a answer, err error) {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(ctx, hang)
	defer cancel()
	r, err := f.session.Call(ctx, string(id)+"__"+tool, []byte(arguments), &session.CallOptions{Progress: progress})
	if err != nil {
		return a, err
	}
	if r.IsError {
		return a, errors.Newf("the tool says: %s", r.JSON)
	}
	return a, errors.Wrapf(json.Unmarshal(r.JSON, &a), "%s", r.JSON)
}

// answers checks that a server answers calls.
func (f *fleet) answers(id events.ServerID, tool, arguments, want string) {
	f.t.Helper()
	a, err := f.call(f.t.Context(), id, tool, arguments, nil)
	if err != nil || len(a.Content) == 0 || !strings.Contains(a.Content[0].Text, want) {
		f.t.Errorf("%s of %s answered %+v, %v; want %q in it", tool, id, a, err, want)
	}
}

// checkStructured has a call return data beside its text.
func checkStructured(f *fleet) {
	const want = `{"conditions":"Cloudy","humidity":82,"temperature":33}`
	for _, id := range bothWays {
		a, err := f.call(f.t.Context(), id, "get-structured-content", `{"location":"New York"}`, nil)
		if err != nil {
			f.t.Errorf("%s: %v", id, err)
			continue
		}
		if got := canonical(f.t, a.Structured); got != want || len(a.Content) != 1 || canonical(f.t, jsontext.Value(a.Content[0].Text)) != want {
			f.t.Errorf("%s answered %s beside %+v, want %s in both", id, got, a.Content, want)
		}
	}
}

const longOperation = "trigger-long-running-operation"

// checkProgress has a call tell how far it is. What came after the result would be
// missing: the list is read as soon as that is there.
func checkProgress(f *fleet) {
	const steps = 5
	var want []string
	for i := range steps {
		want = append(want, fmt.Sprintf("%d of %d", i+1, steps))
	}
	for _, id := range bothWays {
		var told []string
		a, err := f.call(f.t.Context(), id, longOperation, fmt.Sprintf(`{"duration":0.3,"steps":%d}`, steps), func(params jsontext.Value) {
			var p struct {
				Progress int `json:"progress"`
				Total    int `json:"total"`
			}
			if err := json.Unmarshal(params, &p); err != nil {
				f.t.Errorf("%s told of %s: %v", id, params, err)
			}
			told = append(told, fmt.Sprintf("%d of %d", p.Progress, p.Total))
		})
		if !slices.Equal(told, want) {
			f.t.Errorf("%s told of %v, want %v", id, told, want)
		}
		if err != nil || len(a.Content) != 1 || !strings.Contains(a.Content[0].Text, "completed") {
			f.t.Errorf("%s answered %+v, %v", id, a, err)
		}
	}
}

// checkAbort ends a call in its middle: it stays an abort, does not wait for the
// server, which is told, and leaves that as it was. The program itself goes on to
// the end of its operation.
// R20
func checkAbort(f *fleet, p *published) {
	for _, id := range bothWays {
		ctx, cancel := context.WithCancel(f.t.Context())
		began := time.Now()
		_, err := f.call(ctx, id, longOperation, `{"duration":20,"steps":100}`, func(jsontext.Value) { cancel() })
		cancel()
		if took := time.Since(began); !errors.Is(err, session.ErrCancelled) || took > 10*time.Second {
			f.t.Errorf("the aborted call of %s ended after %v as %v", id, took, err)
		}
		f.eventually("the cancellation at "+string(id), func() bool {
			told, err := os.ReadFile(p.cancellations(id))
			return err == nil && string(told) == "cancelled\n"
		})
		f.answers(id, "echo", `{"message":"still here"}`, "still here")
	}
}
