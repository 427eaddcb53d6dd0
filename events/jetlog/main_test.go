package jetlog_test

import (
	"flag"
	"os"
	"testing"

	"github.com/nats-io/nats-server/v2/server/ats"
)

// parallel is how many parallel tests run at once, where the flag does not say
// it. They are those on clusters and processes, which wait more than they work.
const parallel = "8"

// TestMain begins the one goroutine that nats-server keeps for the process. It
// must not begin in a bubble, which could then not end.
func TestMain(m *testing.M) {
	ats.Register()
	if err := flag.Set("test.parallel", parallel); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}
