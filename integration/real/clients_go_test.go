//go:build real

package real

import (
	"context"
	"net/http"
	"os/exec"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/errors"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// goClient is the official SDK's client in Go.
type goClient struct {
	session *mcp.ClientSession
	changed chan struct{}
	told    atomic.Int64 // of progress
}

func attachGo(f *fleet, d door) client {
	f.t.Helper()
	c := &goClient{changed: make(chan struct{}, 1)}
	own := mcp.NewClient(&mcp.Implementation{Name: "attached", Version: "1"}, &mcp.ClientOptions{
		ToolListChangedHandler:      func(context.Context, *mcp.ToolListChangedRequest) { signal(c.changed) },
		ProgressNotificationHandler: func(context.Context, *mcp.ProgressNotificationClientRequest) { c.told.Add(1) },
	})
	ctx, cancel := context.WithTimeout(context.Background(), hang)
	defer cancel()
	var err error
	if c.session, err = own.Connect(ctx, transport(f, d), nil); err != nil {
		f.t.Fatal(err)
	}
	f.closing(func() { _ = c.session.Close() }) // the fleet may have been the first to go
	return c
}

func transport(f *fleet, d door) mcp.Transport {
	if d.url == "" {
		cmd := exec.Command(d.command[0], d.command[1:]...)
		cmd.Env = f.env
		return &mcp.CommandTransport{Command: cmd}
	}
	return &mcp.StreamableClientTransport{Endpoint: d.url, HTTPClient: &http.Client{Transport: bearer(d.token)}}
}

// bearer adds a token to each request.
type bearer string

func (b bearer) RoundTrip(q *http.Request) (*http.Response, error) {
	q = q.Clone(q.Context())
	q.Header.Set("Authorization", "Bearer "+string(b))
	return http.DefaultTransport.RoundTrip(q)
}

// signal leaves a signal, unless there is one.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

func (c *goClient) changes() <-chan struct{} { return c.changed }

func (c *goClient) tools(ctx context.Context) (names []string, err error) {
	for t, err := range c.session.Tools(ctx, nil) {
		if err != nil {
			return nil, err
		}
		names = append(names, t.Name)
	}
	slices.Sort(names)
	return names, nil
}

func (c *goClient) call(ctx context.Context, name string, arguments map[string]any) (string, int, error) {
	p := &mcp.CallToolParams{Name: name, Arguments: arguments}
	before := c.told.Load()
	p.SetProgressToken(name)
	r, err := c.session.CallTool(ctx, p)
	if err != nil {
		return "", 0, err
	}
	if r.IsError {
		return "", 0, errors.Newf("the tool says: %+v", r.Content)
	}
	return textOf(r.Content), int(c.told.Load() - before), nil
}

func textOf(content []mcp.Content) string {
	var b strings.Builder
	for _, c := range content {
		if t, ok := c.(*mcp.TextContent); ok {
			b.WriteString(t.Text)
		}
	}
	return b.String()
}

func (c *goClient) abort(ctx context.Context, name string, arguments map[string]any, after time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, after)
	defer cancel()
	_, err := c.session.CallTool(ctx, &mcp.CallToolParams{Name: name, Arguments: arguments})
	return err
}

func (c *goClient) read(ctx context.Context, uri string) (string, error) {
	r, err := c.session.ReadResource(ctx, &mcp.ReadResourceParams{URI: uri})
	if err != nil || len(r.Contents) == 0 {
		return "", errors.CombineErrors(err, errors.New("there are no contents"))
	}
	return r.Contents[0].Text, nil
}

func (c *goClient) prompt(ctx context.Context, name string, arguments map[string]string) (string, error) {
	r, err := c.session.GetPrompt(ctx, &mcp.GetPromptParams{Name: name, Arguments: arguments})
	if err != nil {
		return "", err
	}
	var content []mcp.Content
	for _, m := range r.Messages {
		content = append(content, m.Content)
	}
	return textOf(content), nil
}
