package events

import (
	"github.com/cockroachdb/errors"
	"github.com/go-json-experiment/json"
)

// Want is a state to reach.
type Want string

// The states that can be wanted.
const (
	Running Want = "running" // connected, and kept so
	Stopped Want = "stopped" // nothing runs
)

// Command is the desired state of one instance on one worker. Only the last
// command of an [Address] counts, and acting on it twice does no harm.
type Command struct {
	Want Want `json:"want"`
	// Definition to run, unresolved, with its digest; absent when Want is
	// Stopped.
	Definition *Definition `json:"definition,omitzero"`
	Digest     Digest      `json:"digest,omitzero"`
	// Generation is the last event of the definition's chain that was decided
	// on.
	Generation Seq `json:"generation,omitzero"`
	// Restart is the sequence of the definition chain's last restart-requested:
	// an instance connected under a lower one reconnects once.
	Restart Seq `json:"restart,omitzero"`
	// Incarnation of the worker that is meant; another one ignores the command.
	Incarnation Incarnation `json:"incarnation"`
	// Epoch under which the instance was assigned.
	Epoch Epoch `json:"epoch"`
	// Frozen says that the instance is not to be started again by itself.
	Frozen bool `json:"frozen,omitzero"`
	// Cause is the id of the event that led to the command.
	Cause string `json:"cause,omitzero"`

	// Trace is the context of the command's creation; it travels in headers.
	Trace Trace `json:"-"`
}

// Older says whether c is superseded by other: commands never go back in
// (epoch, generation).
func (c *Command) Older(other *Command) bool {
	if c.Epoch != other.Epoch {
		return c.Epoch < other.Epoch
	}
	return c.Generation < other.Generation
}

// EncodeCommand returns the command as JSON, without its trace. What
// [DecodeCommand] would refuse is an error.
func EncodeCommand(c *Command) ([]byte, error) {
	err := c.check()
	if err != nil {
		return nil, errors.Wrap(err, "encode command")
	}
	data, err := json.Marshal(c, json.Deterministic(true))
	return data, errors.Wrap(err, "encode command")
}

// DecodeCommand is the inverse of [EncodeCommand]; it is as strict as the
// decoding of events. A Want that is none, and [Running] without a definition,
// are errors too.
func DecodeCommand(data []byte) (*Command, error) {
	var c Command
	if err := json.Unmarshal(data, &c); err != nil {
		return nil, errors.Wrap(err, "decode command")
	}
	if err := c.check(); err != nil {
		return nil, errors.Wrap(err, "decode command")
	}
	return &c, nil
}

func (c *Command) check() error {
	switch {
	case c.Want != Running && c.Want != Stopped:
		return errors.Newf("want %s is neither running nor stopped", quote(string(c.Want)))
	case c.Want == Running && c.Definition == nil:
		return errors.New("running wants a definition")
	}
	return nil
}
