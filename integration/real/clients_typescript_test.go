//go:build real

package real

import (
	"bufio"
	"context"
	"io"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/cockroachdb/errors"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// typescript is the official SDK's client for node: testdata/client.mjs, which does
// what it is told.
type typescript struct {
	changed chan struct{}

	mu      sync.Mutex // guards what follows, and the input
	input   io.Writer
	last    int
	answers map[int]chan said
	over    bool
}

// said is a line of the client.
type said struct {
	ID      int            `json:"id"`
	Result  jsontext.Value `json:"result"`
	Error   string         `json:"error"`
	Changed []string       `json:"changed"`
	Broken  string         `json:"broken"`
}

func attachTypeScript(f *fleet, d door, era string) client {
	f.t.Helper()
	args := append([]string{"testdata/client.mjs", era, "stdio"}, d.command...)
	if d.url != "" {
		args = []string{"testdata/client.mjs", era, "http", d.url, d.token}
	}
	cmd := exec.Command(f.node22(), args...)
	cmd.Env, cmd.Stderr = f.env, f.said
	input, err := cmd.StdinPipe()
	if err != nil {
		f.t.Fatal(err)
	}
	output, err := cmd.StdoutPipe()
	if err != nil {
		f.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		f.t.Fatal(err)
	}
	c := &typescript{changed: make(chan struct{}, 1), input: input, answers: make(map[int]chan said)}
	heard := make(chan struct{})
	go func() {
		defer close(heard)
		c.listen(output)
	}()
	f.closing(func() {
		_ = input.Close()
		select {
		case <-heard:
		case <-time.After(hang):
			_ = cmd.Process.Kill()
		}
		_ = cmd.Wait() // it may have been killed
	})
	ctx, cancel := context.WithTimeout(context.Background(), hang)
	defer cancel()
	var got string
	if err := c.ask(ctx, map[string]any{"op": "era"}, &got); err != nil {
		f.t.Fatal(err)
	}
	if want := map[string]string{"legacy": "legacy", "auto": "modern"}[era]; got != want {
		f.t.Errorf("the client speaks the %s era, want %s", got, want)
	}
	return c
}

// listen hands out what the client says until it ends.
func (c *typescript) listen(output io.Reader) {
	lines := bufio.NewScanner(output)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var s said
		if json.Unmarshal(lines.Bytes(), &s) != nil {
			continue
		}
		if s.Changed != nil || s.Broken != "" {
			signal(c.changed)
			continue
		}
		c.mu.Lock()
		if to := c.answers[s.ID]; to != nil {
			to <- s
		}
		delete(c.answers, s.ID)
		c.mu.Unlock()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.over = true
	for _, to := range c.answers {
		to <- said{Error: "the client has ended"}
	}
	clear(c.answers)
}

// ask has the client do something, and decodes what came of it.
func (c *typescript) ask(ctx context.Context, what map[string]any, result any) error {
	to := make(chan said, 1)
	c.mu.Lock()
	if c.over {
		c.mu.Unlock()
		return errors.New("the client has ended")
	}
	c.last++
	what["id"] = c.last
	c.answers[c.last] = to
	line, err := json.Marshal(what)
	if err == nil {
		_, err = c.input.Write(append(line, '\n'))
	}
	c.mu.Unlock()
	if err != nil {
		return err
	}
	select {
	case s := <-to:
		if s.Error != "" {
			return errors.New(s.Error)
		}
		return errors.Wrapf(json.Unmarshal(s.Result, result), "%s", s.Result)
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (c *typescript) changes() <-chan struct{} { return c.changed }

func (c *typescript) tools(ctx context.Context) (names []string, err error) {
	err = c.ask(ctx, map[string]any{"op": "tools"}, &names)
	return names, err
}

type typescriptContent struct {
	Text string `json:"text"`
}

func (c *typescript) call(ctx context.Context, name string, arguments map[string]any) (string, int, error) {
	var r struct {
		Result struct {
			Content []typescriptContent `json:"content"`
			IsError bool                `json:"isError"`
		} `json:"result"`
		Progress []float64 `json:"progress"`
	}
	err := c.ask(ctx, map[string]any{"op": "call", "name": name, "args": arguments}, &r)
	var b strings.Builder
	for _, x := range r.Result.Content {
		b.WriteString(x.Text)
	}
	if err == nil && r.Result.IsError {
		err = errors.Newf("the tool says: %s", b.String())
	}
	return b.String(), len(r.Progress), err
}

func (c *typescript) abort(ctx context.Context, name string, arguments map[string]any, after time.Duration) error {
	var r jsontext.Value
	return c.ask(ctx, map[string]any{"op": "call", "name": name, "args": arguments, "abortAfter": after.Milliseconds()}, &r)
}

func (c *typescript) read(ctx context.Context, uri string) (string, error) {
	var r struct {
		Contents []typescriptContent `json:"contents"`
	}
	if err := c.ask(ctx, map[string]any{"op": "read", "uri": uri}, &r); err != nil || len(r.Contents) == 0 {
		return "", errors.CombineErrors(err, errors.New("there are no contents"))
	}
	return r.Contents[0].Text, nil
}

func (c *typescript) prompt(ctx context.Context, name string, arguments map[string]string) (string, error) {
	var r struct {
		Messages []struct {
			Content typescriptContent `json:"content"`
		} `json:"messages"`
	}
	err := c.ask(ctx, map[string]any{"op": "prompt", "name": name, "args": arguments}, &r)
	var b strings.Builder
	for _, m := range r.Messages {
		b.WriteString(m.Content.Text)
	}
	return b.String(), err
}
