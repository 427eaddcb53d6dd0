package jetlog_test

import (
	"os"
	"testing"

	"github.com/nats-io/nats-server/v2/server/ats"
)

// TestMain begins the one goroutine that nats-server keeps for the process. It
// must not begin in a bubble, which could then not end.
func TestMain(m *testing.M) {
	ats.Register()
	os.Exit(m.Run())
}
