package keeper

import (
	"context"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/cockroachdb/errors"
)

// ErrLapsed says that nothing was started because the lease is over.
var ErrLapsed = errors.New("the lease is over")

// ErrGone says that nothing was started because the helper died or is not
// there. Trying again can help.
var ErrGone = errors.New("the keeper is gone")

const (
	// restartPause lies between the death of a helper and the next one, so that
	// one that dies at once does not keep the host busy.
	restartPause = 100 * time.Millisecond
	// failedPause lies before the next try when one did not even start.
	failedPause = time.Second
	// closeLimit bounds the peaceful end of a helper, which first kills all that
	// there is.
	closeLimit = 10 * time.Second
)

// Options of [New].
type Options struct {
	// Folder is the id of the worker's state folder, in every [Marker].
	Folder string
	// Lock, if set, is the folder's open lock, which the helper shares.
	Lock *os.File
	// Logger for what happens to helpers. Default none.
	Logger *slog.Logger
}

// Keeper starts children through a helper process: see the package. Run has to
// be running for the others to do anything.
type Keeper struct {
	o       Options
	renewed chan struct{} // holds one signal that the lease's end changed

	mu      sync.Mutex // guards all that follows
	end     time.Duration
	current *link
	over    bool          // Run has returned
	changed chan struct{} // closed and made anew when current or over change
}

// New returns a Keeper without a lease.
func New(o *Options) *Keeper {
	k := &Keeper{o: *o, renewed: make(chan struct{}, 1), changed: make(chan struct{})}
	if k.o.Logger == nil {
		k.o.Logger = slog.New(slog.DiscardHandler)
	}
	return k
}

// Renewed tells a new end of the lease, on the clock that counts suspend
// (CLOCK_BOOTTIME, or mach_continuous_time). It does not block.
func (k *Keeper) Renewed(end time.Duration) {
	k.mu.Lock()
	k.end = end
	k.mu.Unlock()
	wake(k.renewed)
}

func (k *Keeper) lease() time.Duration {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.end
}

// Run keeps a helper running until the context ends. Then every descendant is
// killed; nothing of it is left when it returns. It returns an error when the
// first helper does not come to life, or something could not be killed.
func (k *Keeper) Run(ctx context.Context) error {
	defer k.set(nil, true)
	if err := becomeSubreaper(); err != nil {
		return err
	}
	for worked := false; ; {
		lived, err := k.life(ctx)
		worked = worked || lived
		switch {
		case ctx.Err() != nil, !worked:
			return err
		case lived:
			k.o.Logger.Error("the keeper died, and all children with it", "err", err)
		default:
			k.o.Logger.Error("the keeper did not come to life again", "err", err)
		}
		pause := restartPause
		if !lived {
			pause = failedPause
		}
		t := time.NewTimer(pause)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return nil
		}
	}
}

// life is that of one helper. It returns whether that ever answered, and why it
// ended or what is left of it.
func (k *Keeper) life(ctx context.Context) (lived bool, err error) {
	l, err := startHelper(k.o.Lock, k.o.Folder)
	if err != nil {
		return false, err
	}
	k.set(l, false)
	why := l.serve(ctx, k)
	k.set(nil, false)
	left := l.bury(k.o.Folder)
	return l.heard.Load() > 0, errors.CombineErrors(errors.Wrap(why, l.cmd.ProcessState.String()), left)
}

func (k *Keeper) set(l *link, over bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.current, k.over = l, over
	close(k.changed)
	k.changed = make(chan struct{})
}

// Spawn starts a program; it waits for a helper until the context ends. Errors
// are marked [ErrLapsed] or [ErrGone], or are the system's.
func (k *Keeper) Spawn(ctx context.Context, p *Program) (*Child, error) {
	l, err := k.helper(ctx)
	if err != nil {
		return nil, err
	}
	m := &message{
		kind: askSpawn, value: int64(k.lease()), mark: k.o.Folder + "/" + p.Name,
		path: p.Path, dir: p.Dir, args: p.Args, env: p.Env,
	}
	return l.spawn(ctx, m, p)
}

// helper waits for one.
func (k *Keeper) helper(ctx context.Context) (*link, error) {
	for {
		k.mu.Lock()
		l, over, changed := k.current, k.over, k.changed
		k.mu.Unlock()
		switch {
		case l != nil:
			return l, nil
		case over:
			return nil, errors.WithStack(ErrGone)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, errors.Mark(errors.Wrap(ctx.Err(), "wait for the keeper"), ErrGone)
		}
	}
}
