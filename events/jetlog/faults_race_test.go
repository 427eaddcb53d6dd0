package jetlog_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/cockroachdb/errors"
	"github.com/nats-io/nats.go"

	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/events/eventstest"
	"github.com/toolfleet/toolfleet/events/jetlog"
)

// The model of the log is a register for each chain, which holds the sequence
// of its last event: an append is a compare-and-set, a read of the chain reads
// it.
type (
	asked struct {
		chain    events.Chain
		read     bool
		expected events.Seq
		id       events.EventID
	}
	answered struct {
		// conflict says that the append was refused.
		conflict bool
		seq      events.Seq
	}
)

var registers = porcupine.Model{
	Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
		of := make(map[events.Chain][]porcupine.Operation)
		for _, op := range history {
			c := op.Input.(asked).chain
			of[c] = append(of[c], op)
		}
		var all [][]porcupine.Operation
		for _, ops := range of {
			all = append(all, ops)
		}
		return all
	},
	Init: func() any { return events.Seq(0) },
	Step: func(state, input, output any) (bool, any) {
		last, in, out := state.(events.Seq), input.(asked), output.(answered)
		switch {
		case in.read:
			return out.seq == last, last
		case out.conflict:
			return last > in.expected, last
		default:
			return last == in.expected && out.seq > last, out.seq
		}
	},
	DescribeOperation: func(input, output any) string {
		return fmt.Sprintf("%+v -> %+v", input, output)
	},
}

// recorder collects operations. Its clock is a counter, since time stands still
// in a bubble: an operation that ended before another began has lower numbers.
type recorder struct {
	clock atomic.Int64

	mu  sync.Mutex // guards what follows
	ops []porcupine.Operation
	// marks are closed when there are so many operations.
	marks map[int]chan struct{}
}

// after returns a channel that is closed when n operations have ended.
func (r *recorder) after(n int) <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	mark := make(chan struct{})
	if len(r.ops) >= n {
		close(mark)
		return mark
	}
	if r.marks == nil {
		r.marks = make(map[int]chan struct{})
	}
	r.marks[n] = mark
	return mark
}

func (r *recorder) add(client int, in asked, called int64, out answered, returned int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ops = append(r.ops, porcupine.Operation{ClientId: client, Input: in, Call: called, Output: out, Return: returned})
	if mark := r.marks[len(r.ops)]; mark != nil {
		close(mark)
	}
}

// append appends an event and records it. It returns the tip to go on from. An
// append without an outcome is recorded as one that may end at any later time.
func (r *recorder) append(ctx context.Context, t *testing.T, l eventstest.Log, client int, c events.Chain, tip events.Tip) (events.Tip, bool) {
	e := move(c, client)
	e.ID = newID()
	in := asked{chain: c, expected: tip.Seq, id: e.ID}
	called := r.clock.Add(1)
	got, err := l.Append(ctx, e, tip)
	returned := r.clock.Add(1)
	var conflict *events.ConflictError
	switch {
	case err == nil:
		r.add(client, in, called, answered{seq: got.Seq}, returned)
		return got.Tip(), true
	case errors.As(err, &conflict):
		r.add(client, in, called, answered{conflict: true}, returned)
		return conflict.Found.Tip(), false
	case errors.Is(err, events.ErrUncertain):
		r.add(client, in, called, answered{}, math.MaxInt64)
	default:
		t.Errorf("append to %s after %d: %v", c, tip.Seq, err)
	}
	return tip, false
}

// read reads a chain and records what its end is.
func (r *recorder) read(ctx context.Context, t *testing.T, l eventstest.Log, client int, c events.Chain, tip events.Tip) events.Tip {
	called := r.clock.Add(1)
	all, err := try(l.ReadChain(ctx, c, tip))
	returned := r.clock.Add(1)
	if err != nil {
		t.Errorf("read %s after %d: %v", c, tip.Seq, err)
		return tip
	}
	if len(all) > 0 {
		tip = all[len(all)-1].Tip()
	}
	r.add(client, asked{chain: c, read: true}, called, answered{seq: tip.Seq}, returned)
	return tip
}

// check checks what was recorded against what is stored.
func (r *recorder) check(t *testing.T, stored []events.Record) {
	t.Helper()
	places := make(map[events.EventID]events.Seq, len(stored))
	for _, e := range stored {
		if places[e.ID] != 0 {
			t.Errorf("event %s is stored at %d and at %d", e.ID, places[e.ID], e.Seq)
		}
		places[e.ID] = e.Seq
	}
	var history []porcupine.Operation
	acknowledged := 0
	for _, op := range r.ops {
		in, out := op.Input.(asked), op.Output.(answered)
		seq := places[in.id]
		switch {
		case in.read:
		case out.conflict:
			if seq != 0 {
				t.Errorf("event %s conflicted, and is stored at %d", in.id, seq)
			}
		case out.seq != 0:
			acknowledged++
			if seq != out.seq {
				t.Errorf("event %s was acknowledged at %d, and is stored at %d", in.id, out.seq, seq)
			}
		case seq == 0:
			continue // uncertain, and never stored
		default:
			op.Output = answered{seq: seq}
		}
		history = append(history, op)
	}
	result, info := porcupine.CheckOperationsVerbose(registers, history, eventstest.HangLimit)
	if result != porcupine.Ok {
		page := filepath.Join(t.ArtifactDir(), "operations.html")
		t.Errorf("%d operations on the chains are not those of registers: %s; see %s, error %v",
			len(history), result, page, porcupine.VisualizePath(registers, info, page))
	}
	t.Logf("%d operations, %d appends acknowledged, %d events stored", len(history), acknowledged, len(stored))
}

// race lets writers append to chains in rounds, each from what it knows of the
// chain, and reads now and then.
func race(ctx context.Context, t *testing.T, logs []eventstest.Log, chains []events.Chain, rounds int) {
	t.Helper()
	raceWhile(ctx, t, logs, chains, rounds, func(*recorder) {})
}

// raceWhile is race while something else happens.
func raceWhile(ctx context.Context, t *testing.T, logs []eventstest.Log, chains []events.Chain, rounds int, meanwhile func(r *recorder)) {
	t.Helper()
	before, err := logs[0].Head(ctx)
	if err != nil {
		t.Fatal(err)
	}
	var r recorder
	var wg sync.WaitGroup
	for i, l := range logs {
		wg.Go(func() {
			random := rand.New(rand.NewPCG(1, uint64(i)))
			known := make(map[events.Chain]events.Tip)
			for range rounds / len(logs) {
				if ctx.Err() != nil {
					return // one error says it
				}
				c := chains[random.IntN(len(chains))]
				if random.IntN(4) == 0 {
					known[c] = r.read(ctx, t, l, i, c, known[c])
				}
				known[c], _ = r.append(ctx, t, l, i, c, known[c])
			}
		})
	}
	meanwhile(&r) // in this goroutine, since it may end the test
	wg.Wait()
	after, err := logs[0].Head(ctx)
	if err != nil {
		t.Fatal(err)
	}
	r.check(t, read(t, logs[0].Follow(ctx, before.Seq, &jetlog.FollowOptions{Until: after.Seq})))
}

// raced counts the chains of races: each begins empty.
var raced atomic.Int64

func chains(n int) []events.Chain {
	all := make([]events.Chain, n)
	for i := range all {
		all[i] = events.ServerChain(events.ServerID(fmt.Sprintf("raced-%d", raced.Add(1))))
	}
	return all
}

// rounds of a race.
const rounds = 1000

func TestTheModelOfRacesCanFail(t *testing.T) {
	c := chains(1)[0]
	append1 := asked{chain: c, id: "1"}
	append2 := asked{chain: c, id: "2"}
	for name, ops := range map[string][]porcupine.Operation{
		"two appends after one tip": {
			{Input: append1, Call: 1, Output: answered{seq: 1}, Return: 2},
			{Input: append2, Call: 1, Output: answered{seq: 2}, Return: 2},
		},
		"a conflict with nothing": {
			{Input: append1, Call: 1, Output: answered{conflict: true}, Return: 2},
		},
		"a read of the past": {
			{Input: append1, Call: 1, Output: answered{seq: 1}, Return: 2},
			{Input: asked{chain: c, read: true}, Call: 3, Output: answered{}, Return: 4},
		},
	} {
		if porcupine.CheckOperations(registers, ops) {
			t.Errorf("%s passes", name)
		}
	}
}

func TestRacesInMemory(t *testing.T) {
	m := eventstest.NewMemory(eventstest.Fleet)
	race(t.Context(), t, []eventstest.Log{m.Open("1"), m.Open("2"), m.Open("3")}, chains(4), rounds)
}

func TestRacesOnOneServer(t *testing.T) {
	for name, c := range map[string]struct{ writers, chains int }{
		"two writers, one chain":   {2, 1},
		"two writers, many chains": {2, 16},
		"many writers, few chains": {8, 3},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := eventstest.NewServer(t, nil)
				var logs []eventstest.Log
				for i := range c.writers {
					logs = append(logs, open(t, s.Connect(fmt.Sprint(i)), nil))
				}
				race(t.Context(), t, logs, chains(c.chains), rounds)
			})
		})
	}
}

func TestRacesOnOneServerWithLostAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := eventstest.NewServer(t, nil)
		logs := []eventstest.Log{open(t, s.Connect("near"), nil)}
		ctx, stop := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for i := range 2 {
			o := s.Outage()
			logs = append(logs, open(t, s.Connect(fmt.Sprint(i), nats.InProcessServer(o)), nil))
			wg.Go(func() { trouble(ctx, o, uint64(i)) })
		}
		race(t.Context(), t, logs, chains(2), rounds)
		stop()
		wg.Wait()
	})
}

// trouble is a line that loses publishes and answers, breaks and freezes until
// the context ends.
func trouble(ctx context.Context, o *eventstest.Outage, seed uint64) {
	random := rand.New(rand.NewPCG(2, seed))
	for ctx.Err() == nil {
		switch random.IntN(5) {
		case 0:
			o.LosePublish(eventSubjects)
		case 1, 2:
			o.LoseAck(eventSubjects)
		case 3:
			o.Break()
		case 4:
			o.Freeze()
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Duration(random.IntN(int(20 * time.Second)))):
		}
		o.Restore()
	}
}

func racesOnACluster(t *testing.T, c *fleetOnACluster) {
	var logs []eventstest.Log
	for i := range 4 {
		logs = append(logs, c.open(t, c.ConnectTo(i%eventstest.Nodes, fmt.Sprint(i)), nil))
	}
	for name, n := range map[string]int{"one chain": 1, "many chains": 16} {
		t.Run(name, func(t *testing.T) { race(limit(t), t, logs, chains(n), rounds) })
	}
}
