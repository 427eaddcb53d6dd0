package gateway

import (
	"os"
	"testing"

	"github.com/nats-io/nats-server/v2/server/ats"

	"github.com/toolfleet/toolfleet/worker/mcptest"
)

// TestMain begins the one goroutine that nats-server keeps for the process,
// outside every bubble.
func TestMain(m *testing.M) {
	mcptest.Main()
	ats.Register()
	os.Exit(m.Run())
}
