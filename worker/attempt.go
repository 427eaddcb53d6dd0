package worker

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/otel"
)

// attempt is one attempt to connect and the connection that comes of it, in a
// goroutine of its own. When that has reported Ended, nothing of it is left.
type attempt struct {
	ref     Ref
	address events.Address
	command *events.Command
	host    *host
	// span is the attempt's, which somebody else ends; nil if there is none.
	span   trace.Span
	report func(Happening)
	record *recorder

	lists  chan toList
	serves chan struct{}
	asks   chan bool // whether by ping
	breaks chan events.Failure
	conn   atomic.Pointer[conn] // from Dialed on

	mu         sync.Mutex // shut and hard close under it
	shut, hard chan struct{}
}

func newAttempt(i *instance, ref Ref, c *events.Command, report func(Happening)) *attempt {
	return &attempt{
		ref: ref, address: i.address, command: c, host: i.host, span: i.story.attempt, report: report,
		// One of each is under way at most, so giving them never blocks.
		lists: make(chan toList, listKinds), serves: make(chan struct{}, 1),
		asks: make(chan bool, 1), breaks: make(chan events.Failure, 1),
		shut: make(chan struct{}), hard: make(chan struct{}),
	}
}

// close ends the attempt, in peace or by force. It does not wait.
func (a *attempt) close(now bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !closed(a.shut) {
		close(a.shut)
	}
	if now && !closed(a.hard) {
		close(a.hard)
	}
}

// run connects and attends to the connection until it is gone. Life ends when
// the instance gives up whatever is left.
func (a *attempt) run(life context.Context) {
	wanted, cancel := context.WithCancel(life) // ends when the attempt is to be closed
	defer cancel()
	go func() {
		select {
		case <-a.shut:
			cancel()
		case <-wanted.Done():
		}
	}()
	a.record = a.host.record(a.address, a.ref)
	a.record.note("attempt " + strconv.Itoa(a.ref.Attempt) + " begins")
	e := a.live(wanted, life)
	a.record.note("attempt " + strconv.Itoa(a.ref.Attempt) + " ended: " + e.Failure.Message)
	a.record.close(recordLimit)
	a.report(e)
}

func (a *attempt) live(wanted, life context.Context) Ended {
	began := time.Now()
	d := a.host.dialing(a.command.Definition, a.name())
	d.record = a.record
	bounded, cancel := withLimit(wanted, d.budget)
	defer cancel()
	ctx := bounded
	if a.span != nil {
		ctx = trace.ContextWithSpan(bounded, a.span)
	}
	c, err := d.connect(ctx, life)
	if err != nil {
		return a.end(life, d, nil, d.ending(err, time.Since(began)))
	}
	connected := c.hello.connected(c.scrub)
	connected.PID = c.pid
	if c.pid == 0 {
		connected.URL = a.command.Definition.URL
	}
	if a.span != nil {
		a.span.SetAttributes(otel.MCPProtocol.String(connected.Protocol))
	}
	d.phase = events.PhaseList
	a.conn.Store(c)
	a.report(Dialed{Connected: connected})
	return a.attend(wanted, life, ctx, d, c, began)
}

// attend serves the connection until it is over or is to be closed. First is the
// context of the first list of tools, which the connect limit covers as well.
func (a *attempt) attend(wanted, life, first context.Context, d *dialing, c *conn, began time.Time) Ended {
	listed, pingless := make(chan listResult, listKinds), make(chan struct{}, 1)
	var again [listKinds]bool
	var serving *service
	for {
		select {
		case <-c.over:
			return a.end(life, d, serving, d.ending(c.End(), time.Since(began)))
		case <-wanted.Done():
			if serving != nil {
				serving.drain(life, a.hard, c.over, a.host.options.Limits.Drain)
			}
			return a.end(life, d, serving, newEnding(events.ConnectionLost, "closed"))
		case <-c.notices.changed[Tools]:
			a.report(ListChanged{Tools})
		case <-c.notices.changed[Resources]:
			a.report(ListChanged{Resources})
		case <-c.notices.changed[Prompts]:
			a.report(ListChanged{Prompts})
		case q := <-a.lists:
			q.again = again[q.kind]
			ctx, cancel := first, context.CancelFunc(func() {})
			if d.phase == events.PhaseRun {
				ctx, cancel = withLimit(wanted, d.budget)
			}
			go func() {
				defer cancel()
				listed <- a.list(ctx, c, q)
			}()
		case r := <-listed:
			switch {
			case r.err == nil:
				d.phase, again[r.listed.Kind] = events.PhaseRun, true
				a.report(r.listed)
			case closed(c.over), wanted.Err() != nil:
				// That is why, and it is waiting above.
			default:
				d.phase, d.last = events.PhaseList, r.exchange
				return a.end(life, d, serving, d.ending(r.err, time.Since(began)))
			}
		case <-a.serves:
			serving = a.serve(life, c)
		case ping := <-a.asks:
			go a.ask(wanted, c, ping, pingless)
		case <-pingless:
			a.report(PingUnknown{})
		case f := <-a.breaks:
			c.finish(c.broken(f))
		}
	}
}

// ask asks the server for a sign of life, and says so if it knows no ping.
func (a *attempt) ask(ctx context.Context, c *conn, ping bool, pingless chan<- struct{}) {
	ctx, cancel := withLimit(ctx, a.command.Definition.HealthCheckInterval())
	defer cancel()
	if c.ask(ctx, ping) {
		select {
		case pingless <- struct{}{}:
		default: // it is known
		}
	}
}

// end closes the connection, waits until nothing is left, and says why it ended.
func (a *attempt) end(life context.Context, d *dialing, serving *service, why ending) Ended {
	if serving != nil {
		serving.quit()
	}
	e := Ended{How: "closed"}
	if d.link != nil {
		grace := brokenGrace
		if closed(a.shut) {
			grace = a.command.Definition.GracePeriod()
		}
		d.link.Shut(grace)
		a.gone(life, d.link)
		e.How = d.link.How()
		if why.stderr == "" {
			why.stderr = d.link.End().stderr
		}
	}
	if serving != nil {
		await(serving.done, life.Done(), a.host.options.Limits.Drain) // its calls have ended with the link
	}
	e.Failure = events.Failure{
		Code: why.code, Phase: d.phase, Retry: why.retry,
		Message: d.scrub.text(why.message, maxMessage),
	}
	e.Exit, e.Signal = why.exit, why.signal
	e.Stderr = d.scrub.tail(why.stderr, maxStderrTail)
	return e
}

// gone waits until nothing of the link is left.
func (a *attempt) gone(life context.Context, l *link) {
	hung, hard, done := l.hung, a.hard, life.Done()
	for {
		select {
		case <-l.gone:
			return
		case <-hung:
			a.report(StopHung{})
			hung = nil
		case <-hard:
			l.Kill()
			hard = nil
		case <-done:
			l.Kill()
			done = nil
		}
	}
}

// name names the connection among all that the worker ever has, in the form
// that package keeper describes.
func (a *attempt) name() string {
	return fmt.Sprintf("%s/%s/%s/%d.%d", a.host.options.Incarnation, a.address.Server, a.address.Instance, a.ref.Epoch, a.ref.Attempt)
}

// dialing returns how to connect to a server.
func (h *host) dialing(d *events.Definition, name string) *dialing {
	return &dialing{
		definition: d, budget: h.connectLimit(d),
		env: h.options.Env, secrets: h.parts.Secrets, spawner: h.parts.Spawner, name: name,
		dial: h.options.Dial,
		allowed: func() error {
			if h.parts.Lease.Remaining() <= 0 {
				return events.NewFailure(events.LeaseLost, events.PhaseSpawn, "the worker's lease is over")
			}
			return nil
		},
	}
}
