package gateway_test

import (
	"context"
	"net/http"
	"os"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/toolfleet/toolfleet/session"
	"github.com/toolfleet/toolfleet/session/gateway"
)

// A gateway on one URL, for whoever has the token.
func ExampleGateway() {
	serve := func(ctx context.Context, nc *nats.Conn) error {
		s, err := session.Open(ctx, nc, nil)
		if err != nil {
			return err
		}
		defer s.Close()
		g := gateway.New(s, &gateway.Options{Tokens: map[string]string{"agents": os.Getenv("GATEWAY_TOKEN")}})
		go func() { _ = g.Run(ctx) }() // returns nil

		mux := http.NewServeMux()
		mux.Handle("/mcp", g)
		server := &http.Server{Addr: "127.0.0.1:8080", Handler: mux, ReadHeaderTimeout: 5 * time.Second, IdleTimeout: time.Minute}
		return server.ListenAndServe()
	}
	_ = serve
}
