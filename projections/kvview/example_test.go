package kvview_test

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/toolfleet/toolfleet/projections/kvview"
)

// A program that shows the status of a fleet's servers whenever it changes.
func ExampleOpen() {
	watch := func(ctx context.Context, nc *nats.Conn) error {
		r, err := kvview.Open(ctx, nc, "default", nil)
		if err != nil {
			return err
		}
		done := make(chan error, 1)
		go func() { done <- r.Run(ctx) }()
		changes := r.Changes()
		defer r.Forget(changes)
		for {
			select {
			case <-changes:
				for _, s := range r.Servers() {
					if status, ok := r.Status(s.Value.ID); ok {
						fmt.Println(status.ID, status.State, r.AsOf().Text(time.Now()))
					}
				}
			case err := <-done:
				return err
			}
		}
	}
	_ = watch
}
