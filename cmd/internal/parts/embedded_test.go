package parts

import (
	"slices"
	"testing"
)

// An address is one that a client can use, not what the socket calls itself.
func TestAddresses(t *testing.T) {
	for _, tt := range []struct {
		listen, url, host string
		want              []string
	}{
		{"", "nats://127.0.0.1:4000", "box", []string{"nats://127.0.0.1:4000"}},
		{"0.0.0.0:0", "nats://[::]:4000", "box", []string{"nats://127.0.0.1:4000", "nats://box:4000"}},
		{"[::]:4000", "nats://[::]:4000", "box", []string{"nats://127.0.0.1:4000", "nats://box:4000"}},
		{":4000", "nats://[::]:4000", "", []string{"nats://127.0.0.1:4000"}},
		{"localhost:0", "nats://127.0.0.1:4000", "box", []string{"nats://localhost:4000"}},
		{"[::1]:4000", "nats://[::1]:4000", "box", []string{"nats://[::1]:4000"}},
	} {
		if got := addresses(tt.listen, tt.url, tt.host); !slices.Equal(got, tt.want) {
			t.Errorf("%q: got %v, want %v", tt.listen, got, tt.want)
		}
	}
}
