package jetlog_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/errors"
	"github.com/nats-io/nats.go"

	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/events/eventstest"
	"github.com/toolfleet/toolfleet/events/jetlog"
)

func inProcess(o *eventstest.Outage) nats.Option { return nats.InProcessServer(o) }

// blocks returns the files that hold the events in a server's store.
func blocks(t *testing.T, dir string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "jetstream", "$G", "streams", jetlog.StreamName(eventstest.Fleet, "events"), "msgs", "*.blk"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no blocks in %s, error %v", dir, err)
	}
	slices.Sort(files)
	return files
}

// damage is what happens to a block while the server is stopped.
type damage func(t *testing.T, block string)

// flip flips a bit at a fraction of the file.
func flip(part, of int64) damage {
	return func(t *testing.T, block string) {
		t.Helper()
		data, err := os.ReadFile(block)
		if err != nil {
			t.Fatal(err)
		}
		data[(int64(len(data))-1)*part/of] ^= 0x10
		if err := os.WriteFile(block, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// truncate keeps a fraction of the file.
func truncate(part, of int64) damage {
	return func(t *testing.T, block string) {
		t.Helper()
		info, err := os.Stat(block)
		if err == nil {
			err = os.Truncate(block, info.Size()*part/of)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// withoutIndex takes the index away as well, so that the blocks are read anew.
func withoutIndex(d damage) damage {
	return func(t *testing.T, block string) {
		t.Helper()
		d(t, block)
		if err := os.Remove(filepath.Join(filepath.Dir(block), "index.db")); err != nil {
			t.Fatal(err)
		}
	}
}

func TestADamagedBlockIsNoticed(t *testing.T) {
	const parts = 8
	damages := map[string]damage{"deleted": func(t *testing.T, block string) {
		t.Helper()
		if err := os.Remove(block); err != nil {
			t.Fatal(err)
		}
	}}
	for i := range int64(parts + 1) {
		damages[fmt.Sprintf("a bit flipped at %d/%d", i, parts)] = flip(i, parts)
		if i < parts {
			damages[fmt.Sprintf("truncated to %d/%d", i, parts)] = truncate(i, parts)
		}
	}
	for name, d := range damages {
		t.Run(name, func(t *testing.T) { synctest.Test(t, func(t *testing.T) { isNoticed(t, d) }) })
		t.Run(name+", without index", func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { isNoticed(t, withoutIndex(d)) })
		})
	}
}

// isNoticed damages a history that was read, and reads it again.
func isNoticed(t *testing.T, d damage) {
	t.Helper()
	s := eventstest.NewServer(t, nil)
	l := open(t, s.Connect("client"), nil)
	ctx := limit(t)
	var all []events.Record
	last := make(map[events.Chain]events.Tip)
	for i := range 200 {
		c := events.ServerChain(events.ServerID(fmt.Sprintf("s%d", i%7)))
		r := grow(ctx, t, l, c, last[c], 1)[0]
		last[c] = r.Tip()
		all = append(all, r)
	}
	before := head(ctx, t, l)
	s.Stop()
	files := blocks(t, s.Dir())
	d(t, files[len(files)-1])
	s.Start()
	time.Sleep(time.Second) // connections are made again

	whole, err := rebuild(ctx, l, before)
	t.Logf("read up to %d of %d, then: %v", len(whole), len(all), err)
	checkHonest(t, all, whole, err)

	if errors.Is(err, events.ErrHistoryRegressed) {
		// A reader that had all of it is told as well.
		follow(ctx, l, before.Seq, &jetlog.FollowOptions{Tips: last}).fails(t, events.ErrHistoryRegressed)
	}
}

// rebuild reads everything up to a head that was seen before.
func rebuild(ctx context.Context, l *jetlog.Log, before events.Head) ([]events.Record, error) {
	now, err := l.Head(ctx)
	if err != nil {
		return nil, err
	}
	if err := now.Check(events.Position{Log: before.Log, Seq: before.Seq}); err != nil {
		return nil, err
	}
	return try(l.Follow(ctx, 0, &jetlog.FollowOptions{Log: before.Log, Until: before.Seq}))
}

// checkHonest checks that what was read is true, and that it is all there or the
// reader was told.
func checkHonest(t *testing.T, all, got []events.Record, err error) {
	t.Helper()
	for i, r := range got {
		if d := eventstest.Diff(all[i:i+1], []events.Record{r}); d != "" {
			t.Errorf("an event was altered without a word (-appended +read):\n%s", d)
			return
		}
	}
	switch {
	case err == nil && len(got) < len(all):
		t.Errorf("the end came after %d of %d events without a word", len(got), len(all))
	case err != nil && !errors.Is(err, events.ErrHistoryIncomplete) && !errors.Is(err, events.ErrHistoryRegressed):
		t.Errorf("the end is %v", err)
	}
}
