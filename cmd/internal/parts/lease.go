package parts

import (
	"context"
	"time"

	"github.com/toolfleet/toolfleet/events/jetlog"
)

const (
	// leaseRetry lies between two lives of a worker.
	leaseRetry = 2 * time.Second
	// releaseWithin bounds the release of a lease; one that is not released ends
	// by itself.
	releaseWithin = time.Second
)

// release gives a lease back, also when the context has ended.
func release(ctx context.Context, x *jetlog.Lease) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseWithin)
	defer cancel()
	return x.Release(ctx)
}

// pause returns false when the context ends first.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
