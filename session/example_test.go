package session_test

import (
	"context"
	"fmt"

	"github.com/cockroachdb/errors"

	"github.com/toolfleet/toolfleet/events/jetlog"
	"github.com/toolfleet/toolfleet/session"
)

// An agent opens a session, offers the tools to its model and calls those that
// the model chooses.
func ExampleOpen() {
	agent := func(ctx context.Context) error {
		nc, err := jetlog.Connect(ctx, &jetlog.ConnectOptions{Name: "my-agent"})
		if err != nil {
			return err
		}
		defer nc.Close()
		s, err := session.Open(ctx, nc, &session.Options{Project: "shop@build-7"})
		if err != nil {
			return err
		}
		defer s.Close()

		tools, _ := s.Tools()
		for _, t := range tools {
			fmt.Println(t.Name, t.State, t.Description)
		}
		r, err := s.Call(ctx, "example__text_stats", []byte(`{"text": "two words"}`))
		if errors.Is(err, session.ErrUnknownOutcome) {
			return err // it may have been executed: do not simply try again
		}
		if answer, ok := session.AsResult(err); ok {
			r = answer // for the model to read
		} else if err != nil {
			return err
		}
		fmt.Println(string(r.JSON))

		select {
		case <-s.Changes(): // between two steps: offer the new list
			tools, _ = s.Tools()
		default:
		}
		fmt.Println(len(tools))
		return nil
	}
	_ = agent
}
