package web_test

import (
	"bytes"
	"context"
	"iter"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/errors"
	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/toolfleet/toolfleet/controller/request"
	"github.com/toolfleet/toolfleet/controller/web"
	"github.com/toolfleet/toolfleet/events"
)

// trial sends requests of all kinds, and compares what comes back with the
// document.
type trial struct {
	*rig
	document *document
	schemas  *jsonschema.Compiler
	// got are the statuses that came back, by operation.
	got map[string][]string
	// outcome of what is asked for.
	outcome error
	// lost says that the history cannot be read.
	lost bool
}

// Each operation answers with the statuses that the document has for it, and with
// no others; each body is as the document says.
func TestDocumentedAnswers(t *testing.T) {
	try := &trial{document: readDocument(t), schemas: jsonschema.NewCompiler(), got: make(map[string][]string)}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(web.Document))
	if err == nil {
		err = try.schemas.AddResource("openapi.json", doc)
	}
	if err != nil {
		t.Fatal(err)
	}
	bubble(t, try.prepare, func(_ *testing.T, r *rig) { try.everything(r) })
	bubble(t, try.starts, func(_ *testing.T, r *rig) {
		try.rig = r
		for _, o := range web.Operations() {
			if o.Path != "/mcp" {
				try.send(o, o.Path, "")
			}
		}
	})
	want := make(map[string][]string)
	for path, operations := range try.document.Paths {
		for method, o := range operations {
			for status := range o.Responses {
				if name := strings.ToUpper(method) + " " + path; path != "/mcp" {
					want[name] = append(want[name], status)
				}
			}
		}
	}
	for _, all := range []map[string][]string{want, try.got} {
		for name := range all {
			slices.Sort(all[name])
			all[name] = slices.Compact(all[name])
		}
	}
	if diff := cmp.Diff(want, try.got); diff != "" {
		t.Errorf("(-documented +got):\n%s", diff)
	}
}

// prepare makes requests and the history fail when the trial says so.
func (y *trial) prepare(r *rig) {
	r.o.AllowDeclare = true
	r.parts.Requests = requests(func(context.Context, *request.Request) (request.Answer, error) {
		return request.Answer{Seq: 7}, y.outcome
	})
	r.parts.History = failing{history{r.log}, y}
	r.parts.Checks = []web.Check{{Name: "history", Ask: func(context.Context) error {
		if y.lost {
			return errors.New("it is lost")
		}
		return nil
	}}}
	r.parts.Metrics = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		_, _ = w.Write([]byte("up 1\n"))
	})
}

func (*trial) starts(r *rig) {
	r.parts, r.o.Starting = web.Parts{Checks: []web.Check{{Name: "start", Ask: func(context.Context) error { return errors.New("not yet") }}}}, true
}

// failing is a history that cannot be read when the trial says so.
type failing struct {
	history
	y *trial
}

func (f failing) Head(ctx context.Context) (events.Head, error) {
	if f.y.lost {
		return events.Head{}, errors.New("it is lost")
	}
	return f.history.Head(ctx)
}

func (f failing) Follow(ctx context.Context, after, until events.Seq) iter.Seq2[events.Record, error] {
	return f.history.Follow(ctx, after, until)
}

// everything sends what each operation may be sent.
func (y *trial) everything(r *rig) {
	y.rig = r
	for _, o := range web.Operations() {
		if o.Path == "/mcp" {
			continue
		}
		y.refusals(o)
		if o.Access == "change" {
			y.outcomes(o)
			continue
		}
		y.send(o, o.Path, "")
		if o.Path == "/v1/tools" {
			y.send(o, "/v1/tools?server=nobody", "")
		}
		if o.Path == "/v1/events" {
			y.send(o, "/v1/events?id=nobody", "")
		}
		y.lost = true
		y.send(o, o.Path, "")
		y.lost = false
	}
}

// refusals sends what is not looked at any further.
func (y *trial) refusals(o web.Operation) {
	y.send(o, o.Path+"?nonsense=1", "")
	y.send(o, o.Path, "", "Authorization", "")
	y.send(o, o.Path, "", "Authorization", "Bearer "+map[string]string{"read": changer, "change": reader}[o.Access])
	y.send(o, o.Path, "", "Host", "evil.example.org")
	if strings.Contains(o.Path, "{id}") && o.Access == "read" {
		y.send(o, strings.Replace(o.Path, "{id}", "nobody", 1), "")
	}
}

// outcomes sends changes with every end that they may have.
func (y *trial) outcomes(o web.Operation) {
	failures := []error{
		request.Errorf(request.HistoryFull, "full"), request.Errorf(request.RequestReused, "used"),
		request.Errorf(request.Unavailable, "busy"), errors.Mark(errors.New("late"), events.ErrUncertain), errors.New("nobody"),
	}
	if o.Method == http.MethodPut {
		failures = append(failures, request.Errorf(request.InvalidDefinition, "bad"))
		y.send(o, o.Path, `{`)
		y.send(o, o.Path, `{}`, "Content-Type", "text/plain")
	} else {
		failures = append(failures, request.Errorf(request.UnknownServer, "nobody"))
	}
	for _, err := range failures {
		y.outcome = err
		y.send(o, o.Path, `{}`)
	}
	y.send(o, o.Path, strings.Repeat(" ", 2<<20))
	y.outcome = nil
	y.send(o, o.Path, `{}`)
}

// send sends a request and compares the answer with the document.
func (y *trial) send(o web.Operation, target, body string, headers ...string) {
	y.t.Helper()
	headers = append([]string{"Content-Type", "application/json"}, headers...)
	a := y.ask(o.Method, strings.Replace(target, "{id}", "s", 1), body, headers...)
	name, status := o.Method+" "+o.Path, strconv.Itoa(a.status)
	y.got[name] = append(y.got[name], status)
	where := []string{"paths", o.Path, strings.ToLower(o.Method), "responses", status}
	d, ok := y.document.Paths[o.Path][strings.ToLower(o.Method)].Responses[status]
	if ref, found := strings.CutPrefix(d.Ref, "#/components/responses/"); found {
		where = []string{"components", "responses", ref}
		d = y.document.Components.Responses[ref]
	}
	kind, _, _ := strings.Cut(a.header.Get("Content-Type"), ";")
	if _, has := d.Content[kind]; !ok || !has {
		y.t.Errorf("%s: the document has no %s of %s: %s", name, status, kind, a.body)
		return
	}
	if strings.HasSuffix(kind, "json") {
		y.valid(append(where, "content", kind, "schema"), a.body)
	}
}

// valid fails the test unless a body is as the schema at a place of the document
// says.
func (y *trial) valid(where []string, body string) {
	y.t.Helper()
	pointer := ""
	for _, w := range where {
		pointer += "/" + strings.NewReplacer("~", "~0", "/", "~1", "{", "%7B", "}", "%7D").Replace(w)
	}
	s, err := y.schemas.Compile("openapi.json#" + pointer)
	if err != nil {
		y.t.Fatal(err)
	}
	v, err := jsonschema.UnmarshalJSON(strings.NewReader(body))
	if err == nil {
		err = s.Validate(v)
	}
	if err != nil {
		y.t.Errorf("%s: %v", body, err)
	}
}
