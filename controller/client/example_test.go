package client_test

import (
	"context"
	"fmt"
	"time"

	"github.com/cockroachdb/errors"
	"github.com/nats-io/nats.go"

	"github.com/toolfleet/toolfleet/controller/client"
	"github.com/toolfleet/toolfleet/controller/request"
	"github.com/toolfleet/toolfleet/events"
)

func ExampleClient_Declare() {
	nc, err := nats.Connect(nats.DefaultURL)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer nc.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()

	c := client.New(nc, events.DefaultFleet, nil)
	answer, err := c.Declare(ctx, "clock", &events.Definition{Command: "clock-mcp"}, nil)
	var refused *request.Error
	switch {
	case errors.As(err, &refused):
		for _, p := range refused.Problems {
			fmt.Println(p.Path, p.Message)
		}
	case err != nil:
		fmt.Println(err)
		return
	case answer.Unchanged:
		fmt.Println("the fleet has it already")
	default:
		fmt.Println("declared by event", answer.Seq)
	}
}
