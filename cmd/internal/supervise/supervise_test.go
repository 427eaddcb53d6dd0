package supervise_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/errors"

	"github.com/toolfleet/toolfleet/cmd/internal/supervise"
)

// stops returns a part that needs some time to stop and then says so.
func stops(name string, takes time.Duration, said *[]string) supervise.Part {
	return supervise.Part{Name: name, Run: func(ctx context.Context) error {
		<-ctx.Done()
		time.Sleep(takes)
		*said = append(*said, name)
		return nil
	}}
}

func TestStopsInReverseOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		var said []string
		err := supervise.Run(ctx, 0,
			stops("server", 0, &said), stops("projector", time.Millisecond, &said), stops("worker", time.Second, &said))
		if err != nil {
			t.Fatal(err)
		}
		if want := []string{"worker", "projector", "server"}; !slices.Equal(said, want) {
			t.Errorf("stopped %v, want %v", said, want)
		}
	})
}

func TestThePartsOwnContextIsNoFault(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		err := supervise.Run(ctx, 0, supervise.Part{Name: "worker", Run: func(ctx context.Context) error {
			<-ctx.Done()
			return errors.Wrap(ctx.Err(), "wait")
		}})
		if err != nil {
			t.Error(err)
		}
	})
}

func TestAFaultStopsTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := errors.New("no more disk")
		var said []string
		err := supervise.Run(t.Context(), 0, stops("server", 0, &said),
			supervise.Part{Name: "controller", Run: func(context.Context) error { return broken }},
			stops("worker", 0, &said))
		if !errors.Is(err, broken) || !strings.Contains(err.Error(), "controller") {
			t.Errorf("got %v, want the controller's fault", err)
		}
		if want := []string{"worker", "server"}; !slices.Equal(said, want) {
			t.Errorf("stopped %v, want %v", said, want)
		}
	})
}

func TestAPartThatEndsUnaskedIsAFault(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		err := supervise.Run(t.Context(), 0,
			supervise.Part{Name: "projector", Run: func(context.Context) error { return nil }})
		if err == nil || !strings.Contains(err.Error(), "projector ended unasked") {
			t.Errorf("got %v", err)
		}
	})
}

func TestAPartThatHangsIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		release := make(chan struct{})
		var said []string
		hangs := supervise.Part{Name: "worker", StopWithin: 5 * time.Second, Run: func(context.Context) error {
			<-release
			return nil
		}}
		begun := time.Now()
		err := supervise.Run(ctx, 0, stops("server", 0, &said), hangs)
		if !errors.Is(err, supervise.ErrOverrun) || !strings.Contains(err.Error(), "worker did not stop within 5s") {
			t.Errorf("got %v, want an overrun of the worker", err)
		}
		if d := time.Since(begun); d != 5*time.Second {
			t.Errorf("gave up after %v, want 5s", d)
		}
		if !slices.Equal(said, []string{"server"}) {
			t.Errorf("stopped %v, want the server", said)
		}
		close(release)
	})
}

func TestTheLimitIsForAllTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		release := make(chan struct{})
		hangs := supervise.Part{StopWithin: time.Minute, Run: func(context.Context) error {
			<-release
			return nil
		}}
		begun := time.Now()
		err := supervise.Run(ctx, 3*time.Second, hangs, hangs, hangs)
		if !errors.Is(err, supervise.ErrOverrun) {
			t.Errorf("got %v, want overruns", err)
		}
		if d := time.Since(begun); d > 4*time.Second {
			t.Errorf("three hanging parts took %v", d)
		}
		close(release)
	})
}
