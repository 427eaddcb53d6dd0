package gateway

import (
	"context"

	"github.com/cockroachdb/errors"
	"github.com/go-json-experiment/json/jsontext"
)

// wanted says of which lists a listener wants to hear.
type wanted struct {
	Tools     bool `json:"toolsListChanged,omitzero"`
	Resources bool `json:"resourcesListChanged,omitzero"`
	Prompts   bool `json:"promptsListChanged,omitzero"`
}

func (w *wanted) wants(k kind) bool {
	return [...]bool{tools: w.Tools, resources: w.Resources, prompts: w.Prompts}[k]
}

// listener is a request that hears of changes.
type listener struct {
	wanted
	// params names the request in what it is told.
	params jsontext.Value
	notify func([]byte)
}

// listen answers subscriptions/listen at the end of what it begins. What is not
// served, such as changes of one resource, is left out of what it acknowledges.
func (a *asker) listen(ctx context.Context) (jsontext.Value, error) {
	var p struct {
		Wanted wanted `json:"notifications"`
	}
	if err := read(a.message.Params, &p); err != nil {
		return nil, err
	}
	about := mustMarshal(struct {
		ID jsontext.Value `json:"io.modelcontextprotocol/subscriptionId"`
	}{a.message.ID})
	a.notify(notification("notifications/subscriptions/acknowledged", mustMarshal(struct {
		Meta   jsontext.Value `json:"_meta"`
		Wanted wanted         `json:"notifications"`
	}{about, p.Wanted})))
	if p.Wanted != (wanted{}) {
		l := &listener{wanted: p.Wanted, params: append(append([]byte(`{"_meta":`), about...), '}'), notify: a.notify}
		if !a.gateway.attend(l) {
			return nil, errEnded
		}
		<-ctx.Done()
		a.gateway.miss(l)
		if err := context.Cause(ctx); !errors.Is(err, errEnded) {
			return nil, err // nobody waits for an answer
		}
	}
	return mustMarshal(struct {
		Type string         `json:"resultType"`
		Meta jsontext.Value `json:"_meta"`
	}{"complete", about}), nil
}

// attend has a listener hear of changes; false after the end.
func (g *Gateway) attend(l *listener) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return false
	}
	g.listeners[l] = struct{}{}
	return true
}

func (g *Gateway) miss(l *listener) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.listeners, l)
}
