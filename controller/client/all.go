package client

import (
	"context"
	"sync"

	"github.com/google/uuid"

	"github.com/toolfleet/toolfleet/controller/request"
	"github.com/toolfleet/toolfleet/events"
)

// maxAtOnce bounds the requests of [Client.All] that are under way at a time:
// few enough for one controller, which answers 256.
const maxAtOnce = 32

// Outcome is what became of the request about one server.
type Outcome struct {
	Server events.ServerID
	Answer request.Answer
	// Err is one of [Client.Do], or nil.
	Err error
}

// All makes a request about each of several servers, side by side, and returns
// an outcome for each, in the order of the servers: that one fails, or is not
// answered in time, changes nothing for the others. The verb is any that needs
// no definition.
//
// The requests have the same id, which the options may give. Since a server's
// requests are remembered by that server, all of them can be repeated with it.
func (c *Client) All(ctx context.Context, v request.Verb, servers []events.ServerID, o *RequestOptions) []Outcome {
	var same RequestOptions
	if o != nil {
		same = *o
	}
	if same.ID == "" {
		same.ID = newRequestID()
	}
	outcomes := make([]Outcome, len(servers))
	slots := make(chan struct{}, maxAtOnce)
	var all sync.WaitGroup
	for i, id := range servers {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			answer, err := c.ask(ctx, v, id, nil, &same)
			outcomes[i] = Outcome{id, answer, err}
		})
	}
	all.Wait()
	return outcomes
}

func newRequestID() events.RequestID {
	return events.RequestID(uuid.Must(uuid.NewV7()).String())
}
