package worker

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/cockroachdb/errors"
	"github.com/go-json-experiment/json/jsontext"
	jsonv1 "github.com/go-json-experiment/json/v1"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"

	"github.com/toolfleet/toolfleet/events"
)

// httpWire is a connection over streamable HTTP: the MCP library's transport
// behind our own client. A server that cannot be dialled any more, or has
// forgotten the session, is lost.
type httpWire struct {
	*lifeline
	*transport.StreamableHTTP

	trip   *trip
	roots  []string
	notify func(method string, params jsontext.Value)
}

var (
	_ transport.BidirectionalInterface = (*httpWire)(nil)
	_ transport.HTTPConnection         = (*httpWire)(nil)
)

// newHTTP returns a connection that has not been dialled. Only revisions with a
// handshake have a stream that can be listened to without a request.
func newHTTP(dial dialFunc, url string, headers map[string]string, listen bool, roots []string, notify func(string, jsontext.Value)) (*httpWire, error) {
	t := &httpWire{lifeline: newLifeline(), roots: roots, notify: notify}
	t.trip = newTrip(dial, headers, func(what signOfLife, err error) {
		switch what {
		case streamOpened:
			// What was announced before is lost, as with a subscription.
			notify(mcp.MethodNotificationSubscriptionsAcknowledged, nil)
		case dialFailed:
			t.finish(httpEnding(err))
		case heardFrom:
			t.beat()
		}
	})
	options := []transport.StreamableHTTPCOption{
		transport.WithHTTPBasicClient(&http.Client{Transport: t.trip, CheckRedirect: sameHost}),
		transport.WithHTTPLogger(slog.New(slog.DiscardHandler)), // it would log URLs, which may hold secrets
	}
	if listen {
		//nolint:staticcheck // Deprecated with the handshake, which most servers still have.
		options = append(options, transport.WithContinuousListening())
	}
	var err error
	if t.StreamableHTTP, err = transport.NewStreamableHTTP(url, options...); err != nil {
		return nil, events.NewFailure(events.InvalidDefinition, events.PhaseConnect, "url is no URL once its variables are resolved")
	}
	go t.supervise()
	return t, nil
}

// supervise closes the connection when it is over, or is to be.
func (t *httpWire) supervise() {
	select {
	case <-t.over:
	case <-t.shut:
		t.finish(newEnding(events.ConnectionLost, "closed"))
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = t.StreamableHTTP.Close() // it logs, and returns nil
	}()
	await(ended, t.hard, deleteLimit+time.Second)
	t.trip.close()
	<-ended // the client's requests have ended with the trip
	t.left("closed")
}

// Close begins to close in peace.
func (t *httpWire) Close() error {
	t.Shut(events.DefaultGracePeriod)
	return nil
}

// SendRequest sends a request and records what was on the wire.
func (t *httpWire) SendRequest(ctx context.Context, r transport.JSONRPCRequest) (*transport.JSONRPCResponse, error) {
	x := exchangeOf(ctx)
	if closed(t.over) {
		return nil, errors.Mark(errors.WithStack(t.End()), errNotWritten)
	}
	if err := x.allowed(); err != nil {
		return nil, err
	}
	if x.params != nil {
		params, err := x.parameters(r.Params)
		if err != nil {
			return nil, errors.Mark(errors.Wrapf(err, "encode %s", r.Method), errNotWritten)
		}
		r.Params = params
	}
	rec := &receipt{}
	resp, err := t.StreamableHTTP.SendRequest(withReceipt(ctx, rec), r)
	rec.give(x)
	switch {
	case err != nil:
		if ctx.Err() != nil && x.written.Load() && !t.stateless() {
			t.cancel(ctx, r)
		}
		return nil, t.failed(ctx, x, err)
	case resp == nil:
		return nil, errors.New("the answer ended before the response")
	case resp.ID.String() != r.ID.String():
		return nil, errors.Newf("the answer is one to request %s, not %s", clean(resp.ID.String(), 40), r.ID.String())
	case resp.Error != nil:
		e := &rpcError{Code: resp.Error.Code, Message: resp.Error.Message}
		if resp.Error.Data != nil {
			if data, err := jsonv1.Marshal(resp.Error.Data); err == nil {
				e.Data = data
			}
		}
		x.answered(nil, e)
		return resp, nil
	}
	x.answered(jsontext.Value(resp.Result), nil)
	// The stateless revision mirrors annotated parameters into headers, and the
	// library takes the annotations from its own copy of the tools.
	if !t.stateless() || r.Method != string(mcp.MethodToolsList) {
		resp.Result = []byte(digestible(r.Method, x.result))
	}
	return resp, nil
}

// cancel tells the server, without waiting, that an answer is no longer needed.
// The stateless revision takes the end of the request for that.
func (t *httpWire) cancel(ctx context.Context, r transport.JSONRPCRequest) {
	if r.Method == string(mcp.MethodInitialize) {
		return
	}
	n := mcp.JSONRPCNotification{JSONRPC: mcp.JSONRPC_VERSION}
	n.Method = methodCancelled
	n.Params.AdditionalFields = map[string]any{"requestId": r.ID, "reason": ctx.Err().Error()}
	ctx = withReceipt(context.WithoutCancel(ctx), &receipt{})
	go func() {
		ctx, cancel := context.WithTimeout(ctx, deleteLimit)
		defer cancel()
		_ = t.SendNotification(ctx, n) // a courtesy
	}()
}

// stateless says whether the revision in use has no handshake.
func (t *httpWire) stateless() bool { return !t.RequiresLegacyProtocol() }

// failed looks at a request's error for signs that the connection is lost. A
// request that was cancelled by nobody else was cancelled with its connection,
// and the end of that is the error.
func (t *httpWire) failed(ctx context.Context, x *exchange, err error) error {
	err = withoutURL(err)
	switch {
	case errors.Is(err, transport.ErrSessionTerminated):
		t.finish(newEnding(events.ConnectionLost, "the server has forgotten the session"))
	case errors.Is(err, context.Canceled) && ctx.Err() == nil && await(t.over, ctx.Done(), exitNotice):
		err = errors.WithStack(t.End())
	}
	if !x.written.Load() {
		err = errors.Mark(err, errNotWritten)
	}
	return err
}

// SetNotificationHandler has notifications go to notify.
func (t *httpWire) SetNotificationHandler(func(mcp.JSONRPCNotification)) {
	t.StreamableHTTP.SetNotificationHandler(func(n mcp.JSONRPCNotification) {
		params, err := jsonv1.Marshal(n.Params)
		if err == nil {
			t.notify(n.Method, params)
		}
	})
}

// SetRequestHandler answers the server's requests as stdio does; the library's
// own handler answers unknown methods with the wrong error.
func (t *httpWire) SetRequestHandler(transport.RequestHandler) {
	t.StreamableHTTP.SetRequestHandler(func(_ context.Context, r transport.JSONRPCRequest) (*transport.JSONRPCResponse, error) {
		f := answer(nil, r.Method, t.roots)
		resp := &transport.JSONRPCResponse{JSONRPC: mcp.JSONRPC_VERSION, ID: r.ID, Result: []byte(f.Result)}
		if f.Error != nil {
			e := f.failure()
			resp.Error = &mcp.JSONRPCErrorDetails{Code: e.Code, Message: e.Message}
		}
		return resp, nil
	})
}
