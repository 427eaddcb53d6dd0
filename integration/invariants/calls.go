package invariants

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/cockroachdb/errors"

	"github.com/toolfleet/toolfleet/session"
)

// Calls are the calls that were made and what became of them. The zero Calls is
// empty; it may be used by many goroutines.
type Calls struct {
	mu   sync.Mutex // guards made
	made map[string]*made
}

// made is a call with its outcomes.
type made struct {
	outcomes []error
}

// Begin notes that a call is made, under an id that the tool is told. The
// function that it returns notes the call's outcome: its error, or nil.
func (c *Calls) Begin(id string) (end func(error)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.made == nil {
		c.made = make(map[string]*made)
	}
	m := &made{}
	c.made[id] = m
	return func(err error) {
		c.mu.Lock()
		defer c.mu.Unlock()
		m.outcomes = append(m.outcomes, err)
	}
}

// Count returns how many calls ended with a result, and how many otherwise.
func (c *Calls) Count() (ok, otherwise int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, m := range c.made {
		for _, err := range m.outcomes {
			if err == nil {
				ok++
			} else {
				otherwise++
			}
		}
	}
	return ok, otherwise
}

// outcomes are those that a call without a result may have, and how often the
// tool may have been executed then.
var outcomes = []struct {
	err  error
	most int
}{
	{session.ErrUnknownTool, 0},
	{session.ErrInvalidArguments, 0},
	{session.ErrNotExecuted, 0},
	{session.ErrUnknownOutcome, 1},
	{session.ErrFailed, 1},
	{session.ErrCancelled, 1},
}

// Check is invariant 9: each call has exactly one outcome. With a result it was
// executed exactly once; otherwise as its outcome says, and never twice: it is
// about tools that are not to be called again. Executed has an entry for each time
// that a tool was executed, as the servers themselves noted it.
func (c *Calls) Check(executed []string) error {
	times := make(map[string]int)
	for _, id := range executed {
		times[id]++
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	var wrong []string
	for id, m := range c.made {
		if w := m.check(times[id]); w != "" {
			wrong = append(wrong, "call "+id+" "+w)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(times)) {
		if c.made[id] == nil {
			wrong = append(wrong, "call "+id+" was executed and never made")
		}
	}
	return complain("9, a call has one outcome, and ok means executed once", wrong)
}

// check returns what is wrong with a call that was executed so often.
func (m *made) check(times int) string {
	if len(m.outcomes) != 1 {
		return fmt.Sprintf("has %d outcomes", len(m.outcomes))
	}
	err := m.outcomes[0]
	if err == nil {
		if times != 1 {
			return fmt.Sprintf("has a result, and was executed %d times", times)
		}
		return ""
	}
	var is []string
	most := 0
	for _, o := range outcomes {
		if errors.Is(err, o.err) {
			is = append(is, o.err.Error())
			most = o.most
		}
	}
	switch {
	case len(is) != 1:
		return fmt.Sprintf("has the outcomes %q: %v", is, err)
	case times > most:
		return fmt.Sprintf("is %q, and was executed %d times", is[0], times)
	default:
		return ""
	}
}

// Noted returns what tools noted in a record of package mcptest: the ids of the
// calls that were executed, in order.
func Noted(path string) ([]string, error) {
	data, err := os.ReadFile(path)
	if err != nil && !os.IsNotExist(err) {
		return nil, err
	}
	var ids []string
	for line := range strings.Lines(string(data)) {
		if id, ok := strings.CutPrefix(strings.TrimSpace(line), "note "); ok {
			ids = append(ids, id)
		}
	}
	return ids, nil
}
