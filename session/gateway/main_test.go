package gateway

import (
	"os"
	"testing"

	"github.com/toolfleet/toolfleet/worker/mcptest"
)

func TestMain(m *testing.M) {
	mcptest.Main()
	os.Exit(m.Run())
}
