package controller

import (
	"context"
	"sync"
	"time"

	"github.com/cockroachdb/errors"
	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/toolfleet/toolfleet/controller/request"
	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/otel"
)

const (
	// answerWithin bounds a request. Its caller repeats it.
	answerWithin = 10 * time.Second
	// dropWithin is how long a connection takes to drop subscriptions that are
	// drained: it looks every 100 ms, in a goroutine of its own, and does not tell.
	dropWithin = 150 * time.Millisecond
	// maxHandling bounds the requests of one API that are handled at a time.
	maxHandling = 256
)

// ServiceName is the controllers' name among NATS micro services.
const ServiceName = "toolfleet-controller"

// serviceVersion is that of the API.
const serviceVersion = "1.0.0"

// NATS offers the API of a fleet as a NATS micro service: tf.api.<fleet>.<verb>,
// as package request describes it. All controllers of a fleet share the
// requests.
func NATS(nc *nats.Conn, fleet events.FleetID) API {
	return func(ctx context.Context, h Handler) error {
		a := &natsAPI{handler: h, slots: make(chan struct{}, maxHandling)}
		err := a.offer(ctx, nc, fleet)
		a.end()
		return errors.Wrapf(err, "offer the API of fleet %s", fleet)
	}
}

type natsAPI struct {
	handler Handler
	slots   chan struct{}

	mu    sync.Mutex // guards ended, and wg against a request after the end
	ended bool
	wg    sync.WaitGroup
}

// end waits for the requests that are being answered; later ones are refused.
func (a *natsAPI) end() {
	a.mu.Lock()
	a.ended = true
	a.mu.Unlock()
	a.wg.Wait()
}

// run runs f in a goroutine of its own, unless this is the end.
func (a *natsAPI) run(f func()) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.ended {
		a.wg.Go(f)
	}
	return !a.ended
}

// offer serves until the context ends, or the service is stopped from outside.
func (a *natsAPI) offer(ctx context.Context, nc *nats.Conn, fleet events.FleetID) error {
	ended := make(chan struct{})
	var once sync.Once
	s, err := micro.AddService(nc, micro.Config{
		Name:        ServiceName,
		Version:     serviceVersion,
		Description: "Declares, starts and stops the MCP servers of fleet " + string(fleet),
		Metadata:    map[string]string{"fleet": string(fleet)},
		DoneHandler: func(micro.Service) { once.Do(func() { close(ended) }) },
	})
	if err != nil {
		return err
	}
	group := s.AddGroup(request.Prefix(fleet))
	for _, verb := range request.Verbs() {
		f := micro.HandlerFunc(func(r micro.Request) { a.receive(ctx, verb, r) })
		if err := group.AddEndpoint(string(verb), f); err != nil {
			return errors.CombineErrors(err, s.Stop())
		}
	}
	select {
	case <-ctx.Done():
		err := s.Stop()
		if nc.IsClosed() {
			return nil
		}
		<-time.After(dropWithin) // the context has ended
		return errors.Wrap(err, "withdraw it")
	case <-ended:
		if ctx.Err() != nil || nc.IsClosed() {
			return nil
		}
		return errors.New("the service was stopped: may this user subscribe to its subjects?")
	}
}

// receive takes a request from a subscription, which it must not hold up.
func (a *natsAPI) receive(ctx context.Context, verb request.Verb, r micro.Request) {
	select {
	case a.slots <- struct{}{}:
	default:
		respond(r, nil, request.Errorf(request.Unavailable, "%d requests are being answered: try again", maxHandling))
		return
	}
	running := a.run(func() {
		defer func() { <-a.slots }()
		ctx, cancel := context.WithTimeout(otel.ExtractHeader(ctx, otel.Header(r.Headers())), answerWithin)
		defer cancel()
		var q request.Request
		if err := json.Unmarshal(r.Data(), &q); err != nil {
			// The error's text may quote the request.
			respond(r, nil, request.Errorf(request.InvalidRequest, "the body is not the JSON of a request"))
			return
		}
		q.Verb = verb
		answer, err := a.handler(ctx, &q)
		respond(r, answer, err)
	})
	if !running {
		respond(r, nil, request.Errorf(request.Unavailable, "the controller is going"))
	}
}

// respond answers; a caller that has gone is none to tell.
func respond(r micro.Request, answer any, err error) {
	if err == nil {
		if data, err := json.Marshal(answer); err == nil {
			_ = r.Respond(data)
			return
		}
	}
	var e *request.Error
	if !errors.As(err, &e) {
		// unreachable unless a handler breaks its contract.
		e = request.Errorf(request.Unavailable, "%v", err)
	}
	data, err := json.Marshal(e)
	if err != nil {
		data = nil // unreachable unless a problem's text is no valid UTF-8
	}
	// Not with r.Error, which keeps the error for the statistics that the service
	// reads when the handler has returned, as it has.
	_ = r.Respond(data, micro.WithHeaders(micro.Headers{
		micro.ErrorCodeHeader: {string(e.Code)}, micro.ErrorHeader: {headline(e.Message)},
	}))
}

// headline makes a message fit for a header.
func headline(s string) string {
	b := []byte(cut(s, maxHeadline))
	for i, c := range b {
		if c < ' ' {
			b[i] = ' '
		}
	}
	return string(b)
}

const maxHeadline = 400
