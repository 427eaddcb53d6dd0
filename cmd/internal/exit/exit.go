// Package exit turns errors into the exit status of a command and into the
// words that it prints.
package exit

import (
	"context"
	"fmt"
	"io"

	"github.com/cockroachdb/errors"
)

// Status is the exit status of a command.
type Status int

// The statuses.
const (
	Done      Status = 0
	Failed    Status = 1
	Usage     Status = 2
	NotFound  Status = 3
	TimedOut  Status = 4
	ToolError Status = 5 // the tool itself reported an error, which was printed
)

type statusError struct {
	error
	status Status
}

func (e *statusError) Unwrap() error { return e.error }

// With gives an error a status; nil stays nil.
func With(status Status, err error) error {
	if err == nil {
		return nil
	}
	return &statusError{err, status}
}

// Usagef returns an error of how a command was written.
func Usagef(format string, args ...any) error {
	return With(Usage, errors.Newf(format, args...))
}

// Told returns an error with a status that was told to people already: it is not
// printed again.
func Told(status Status) error {
	return &statusError{errors.Mark(errors.Newf("exit status %d", status), errTold), status}
}

var errTold = errors.New("told already")

// Of returns the status of an error: its own, [TimedOut] if a time limit ended
// it, or [Failed].
func Of(err error) Status {
	var s *statusError
	switch {
	case err == nil:
		return Done
	case errors.As(err, &s):
		return s.status
	case errors.Is(err, context.DeadlineExceeded):
		return TimedOut
	default:
		return Failed
	}
}

// Print writes an error for people: what went wrong, then each way out that is
// known, one a line. An error with the status [ToolError], or one of [Told], is
// not written.
func Print(w io.Writer, program string, err error) {
	if err == nil || Of(err) == ToolError || errors.Is(err, errTold) {
		return
	}
	fmt.Fprintf(w, "%s: %v\n", program, err)
	for _, hint := range errors.GetAllHints(err) {
		fmt.Fprintf(w, "  %s\n", hint)
	}
}
