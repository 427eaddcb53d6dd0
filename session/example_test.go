package session_test

import (
	"context"
	"fmt"
	"time"

	"github.com/cockroachdb/errors"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/toolfleet/toolfleet/events"
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
		r, err := s.Call(ctx, "example__text_stats", []byte(`{"text": "two words"}`), nil)
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

// An agent reads what servers have to be read, and takes prompts from them.
func ExampleSession_Read() {
	look := func(ctx context.Context, s *session.Session) error {
		for _, r := range s.Resources() {
			contents, err := s.Read(ctx, r.Server, r.URI, nil)
			if err != nil {
				return err
			}
			fmt.Println(r.Server, r.URI, string(contents))
		}
		messages, err := s.Prompt(ctx, "example__review_text", []byte(`{"text": "two words"}`), nil)
		if errors.Is(err, session.ErrInvalidArguments) {
			return err // it says which one is missing
		}
		fmt.Println(string(messages))
		return err
	}
	_ = look
}

// shelf is a host's own registry of tools.
type shelf map[events.ServerID][]session.Tool

func (r *shelf) Replace(server events.ServerID, tools []session.Tool) error {
	(*r)[server] = tools
	return nil
}

// A host that keeps tools in a registry of its own brings it up to date between
// two steps of its agent.
func ExampleSession_Sync() {
	steps := func(ctx context.Context, s *session.Session, step func(*shelf) (more bool)) {
		r := &shelf{}
		for more := true; more; more = step(r) {
			if err := s.Sync(ctx, r); err != nil {
				// The registry refused something, and is as it was before.
				fmt.Println("the agent goes on with the tools it had:", err)
			}
		}
	}
	_ = steps
}

// A caller that starts a server waits until it can be used, and shows how a call
// gets on.
func ExampleSession_WaitReady() {
	use := func(ctx context.Context, s *session.Session, caused events.Seq) error {
		if err := s.Wait(ctx, caused); err != nil { // the position in the answer of a request
			return err
		}
		err := s.WaitReady(ctx, "example")
		var e *session.ServerError
		if errors.As(err, &e) {
			fmt.Println(e.Server, "is", e.State)
		}
		if err != nil {
			return err
		}
		_, err = s.Call(ctx, "example__slow", nil, &session.CallOptions{
			Progress: func(params jsontext.Value) { fmt.Println(params) },
		})
		return err
	}
	_ = use
}

// Several things that belong together come from one status.
func ExampleSession_Status() {
	show := func(s *session.Session) {
		n := s.Status()
		fmt.Println(len(n.Tools), "tools", n.AsOf.Text(time.Now()))
		for _, server := range n.Servers {
			fmt.Println(server.ID, server.State, server.Status, server.Restarts)
			if server.Failure != nil {
				fmt.Println(server.Failure.Code, server.Failure.Message)
			}
		}
	}
	_ = show
}
