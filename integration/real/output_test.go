//go:build real

package real

import (
	"bytes"
	"strings"
	"sync"
)

// output is what a process writes.
type output struct {
	mu sync.Mutex // guards b
	b  bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

// count says how often the process wrote that.
func (o *output) count(text string) int { return strings.Count(o.String(), text) }
