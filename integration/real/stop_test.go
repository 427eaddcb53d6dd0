//go:build real

package real

import (
	"context"
	"net"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/cockroachdb/errors"

	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/integration/invariants"
	"github.com/toolfleet/toolfleet/projections"
	"github.com/toolfleet/toolfleet/session"
)

// checkRemoved removes a server while the session is open.
// R26, M7, case H8
func checkRemoved(f *fleet) {
	before := f.session.Status()
	others := listing(&before, except(files))
	began := time.Now()
	var removal sync.WaitGroup
	defer removal.Wait()
	removal.Go(func() {
		if _, err := f.run("rm", string(files)); err != nil {
			f.t.Errorf("toolfleet rm: %v", err)
		}
	})
	seen := f.follow("its tools are gone", func(n *session.Status) bool {
		return len(listing(n, only(files))) == 0 && serverOf(n, files) == nil
	})
	f.undisturbed(others, files, seen)
	removal.Wait()
	for invariants.NoneLeft(f.markOf(files)) != nil && time.Since(began) < 5*time.Second {
		time.Sleep(pause)
	}
	if err := invariants.NoneLeft(f.markOf(files)); err != nil {
		f.t.Errorf("5 s after it was removed: %v", err)
	}
	var rows []events.ServerID
	for _, s := range get[[]projections.Status](f, "get", "servers") {
		rows = append(rows, s.ID)
	}
	if len(rows) != len(f.servers)-1 || slices.Contains(rows, files) {
		f.t.Errorf("get servers lists %v", rows)
	}
	withdrawn := f.find(f.history("server."+string(files), before.AsOf.Seq), events.KindWithdrawn)
	f.inOrder(f.history(instanceChain(files), withdrawn.Seq), events.KindStopping, events.KindStopped, events.KindReleased)
	if _, err := f.call(f.t.Context(), files, "list_allowed_directories", `{}`, nil); !errors.Is(err, session.ErrUnknownTool) {
		f.t.Errorf("a call of its tool: %v, want %v", err, session.ErrUnknownTool)
	}
}

func checkInvariants(f *fleet) {
	ctx, cancel := context.WithTimeout(f.t.Context(), hang)
	defer cancel()
	for _, err := range []error{
		invariants.Views(ctx, f.log),
		invariants.Requests(ctx, f.log, nil),
		invariants.Sessions(ctx, f.log, map[string]*session.Session{"test": f.session}),
	} {
		if err != nil {
			f.t.Error(err)
		}
	}
}

// checkStop stops everything as a terminal does. The remote server is told that
// its session is over, and stays.
// R33, case J8
func checkStop(f *fleet, r *remote) {
	// up, its keeper, and the children that are left.
	if all := f.processes(); len(all) != 4 || r.deletes() != 0 {
		f.t.Errorf("before the stop the remote server was told of %d ends; the processes are %v", r.deletes(), all)
	}
	begun := time.Now()
	if err := f.up.Process.Signal(os.Interrupt); err != nil {
		f.t.Fatal(err)
	}
	if err := f.exited(); err != nil {
		f.t.Errorf("toolfleet up: %v", err)
	}
	if took := time.Since(begun); took > 10*time.Second {
		f.t.Errorf("the stop took %v", took)
	}
	if err := f.noneLeft(); err != nil {
		f.t.Error(err)
	}
	eventually(f.t, "the end of the remote server's session", func() bool { return r.deletes() == 1 })
	c, err := net.Dial("tcp", r.address())
	if err != nil {
		f.t.Fatalf("the remote server is not there any more: %v", err)
	}
	c.Close()
}
