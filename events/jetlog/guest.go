package jetlog

import (
	"context"

	"github.com/cockroachdb/errors"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/events/callwire"
)

// Guest is a fleet's bus for those who use it without the history: it calls
// tools and reads blobs. It looks at no stream before it is needed. From its
// first call on it keeps one subscription, as long as its connection.
//
// Permissions: a Guest subscribes to its inbox and publishes to
//
//	tf.call.<fleet>.>
//	tf.logs.<fleet>.>                          to read logs
//	tf.calls.<fleet>.>                         to list calls in flight, or cancel one
//	$JS.API.STREAM.INFO.OBJ_tf-<fleet>-blobs   to read blobs
//	$JS.API.DIRECT.GET.OBJ_tf-<fleet>-blobs    likewise
//	$JS.API.DIRECT.GET.OBJ_tf-<fleet>-blobs.>  likewise
type Guest struct{ log *Log } // without its streams

// Visit returns the bus of a fleet. It sends nothing.
func Visit(nc *nats.Conn, fleet events.FleetID) (*Guest, error) {
	if _, err := events.ParseFleetID(string(fleet)); err != nil {
		return nil, err
	}
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, errors.Wrapf(err, "visit fleet %s", fleet)
	}
	var none *Options
	l := &Log{nc: nc, js: js, fleet: fleet, o: none.withDefaults()}
	l.denials.last = nc.LastError()
	return &Guest{l}, nil
}

// Call is [Log.Call].
func (g *Guest) Call(ctx context.Context, subject string, r *callwire.Request, progress func(*callwire.Frame)) ([]byte, error) {
	return g.log.Call(ctx, subject, r, progress)
}

// GetBlob is [Log.GetBlob].
func (g *Guest) GetBlob(ctx context.Context, digest events.Digest) ([]byte, error) {
	return g.log.GetBlob(ctx, digest)
}
