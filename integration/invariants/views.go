package invariants

import (
	"context"
	"fmt"
	"sync"

	"github.com/cockroachdb/errors"
	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/toolfleet/toolfleet/events/jetlog"
	"github.com/toolfleet/toolfleet/projections"
	"github.com/toolfleet/toolfleet/projections/kvview"
)

// Views is invariant 3: every entry of the views is the fold of its events, and
// the views have come to the end of the history. A context with a limit bounds
// the wait for that.
func Views(ctx context.Context, log *jetlog.Log) error {
	head, err := log.Head(ctx)
	if err != nil {
		return err
	}
	r, err := kvview.Open(ctx, log.Conn(), log.Fleet(), nil)
	if err != nil {
		return err
	}
	following, stop := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- r.Run(following) }()
	err = r.Wait(ctx, head.Seq)
	stop()
	if err = errors.CombineErrors(err, <-done); err != nil {
		return errors.Wrapf(err, "views of event %d; they are at %d", head.Seq, r.AsOf().Seq)
	}
	differences, err := kvview.Verify(ctx, log, nil)
	if err != nil {
		return err
	}
	var wrong []string
	for _, d := range differences {
		wrong = append(wrong, fmt.Sprintf("%s: stored %+v, folded %+v", d.Key, d.Stored, d.Folded))
	}
	return complain("3, views are folds", wrong)
}

// Watch is invariant 8: it watches the views from now on. The function that it
// returns ends the watch and says what went back.
func Watch(ctx context.Context, log *jetlog.Log) (end func() error, err error) {
	js, err := jetstream.New(log.Conn())
	if err != nil {
		return nil, err
	}
	kv, err := js.KeyValue(ctx, jetlog.StreamName(log.Fleet(), "views"))
	if err != nil {
		return nil, errors.Wrap(err, "find the views")
	}
	w, err := kv.WatchAll(ctx)
	if err != nil {
		return nil, errors.Wrap(err, "watch the views")
	}
	var o orders
	var done sync.WaitGroup
	done.Go(func() {
		for e := range w.Updates() {
			if e != nil { // nil ends what was there at first
				o.see(e.Key(), e.Operation() == jetstream.KeyValuePut, e.Value())
			}
		}
	})
	return func() error {
		err := w.Stop()
		done.Wait()
		if err == nil && o.seen == 0 {
			err = errors.New("the watch saw nothing")
		}
		return errors.CombineErrors(err, complain("8, a view never goes back", o.wrong))
	}, nil
}

// orders are what a watcher saw last of each key.
type orders struct {
	last  map[string]projections.Order
	pass  int
	seen  int
	wrong []string
}

func (o *orders) see(key string, put bool, value []byte) {
	o.seen++
	if o.last == nil {
		o.last = make(map[string]projections.Order)
	}
	order, err := o.order(key, value)
	switch {
	case !put && o.pass == 0:
		o.wrong = append(o.wrong, key+" was deleted")
	case !put:
		delete(o.last, key)
	case err != nil:
		o.wrong = append(o.wrong, fmt.Sprintf("%s: %v", key, err))
	case order.Compare(o.last[key]) < 0:
		o.wrong = append(o.wrong, fmt.Sprintf("%s went back from %+v to %+v", key, o.last[key], order))
	default:
		o.last[key] = order
	}
}

func (o *orders) order(key string, value []byte) (projections.Order, error) {
	if key != "position" {
		e, err := projections.DecodeRaw(value)
		if err != nil {
			return projections.Order{}, err
		}
		return e.Order(), nil
	}
	var p kvview.Position
	if err := json.Unmarshal(value, &p); err != nil {
		return projections.Order{}, err
	}
	if p.Pass > o.pass { // a rebuild may go back
		o.pass = p.Pass
		clear(o.last)
	}
	return p.Order(), nil
}
