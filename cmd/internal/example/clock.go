package example

import (
	"context"
	"time"
	_ "time/tzdata" // so that zones are known on hosts without them

	"github.com/cockroachdb/errors"
	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

type zoneArgs struct {
	Zone string `json:"zone"`
	At   string `json:"at"`
}

type zoned struct {
	Time    string `json:"time" jsonschema:"RFC 3339 with the zone's offset"`
	Zone    string `json:"zone"`
	Abbrev  string `json:"abbreviation"`
	Weekday string `json:"weekday"`
	DST     bool   `json:"daylightSaving"`
}

func timeInZone() server.ServerTool {
	return reads("time_in_zone", "Time in a zone",
		"Returns the current time, or a given one, as clocks in a time zone show it.",
		func(_ context.Context, a zoneArgs) (zoned, error) { return inZone(a, time.Now()) },
		mcp.WithString("zone", mcp.Required(), mcp.Description(`An IANA zone, such as "Europe/Berlin" or "UTC".`)),
		mcp.WithString("at", mcp.Description(`A time in RFC 3339, such as "2026-07-01T12:00:00Z"; now if absent.`)))
}

func inZone(a zoneArgs, now time.Time) (zoned, error) {
	zone, err := time.LoadLocation(a.Zone)
	if err != nil || a.Zone == "" || a.Zone == "Local" {
		return zoned{}, errors.Newf("unknown time zone %q: use an IANA name such as Europe/Berlin", a.Zone)
	}
	if a.At != "" {
		if now, err = time.Parse(time.RFC3339, a.At); err != nil {
			return zoned{}, errors.Newf("%q is not a time in RFC 3339, such as 2026-07-01T12:00:00Z", a.At)
		}
	}
	t := now.In(zone)
	abbrev, _ := t.Zone()
	return zoned{t.Format(time.RFC3339), a.Zone, abbrev, t.Weekday().String(), t.IsDST()}, nil
}

type countArgs struct {
	Steps   int `json:"steps"`
	DelayMs int `json:"delayMs"`
}

type counted struct {
	Steps int `json:"steps"`
}

func countSlowly(s *server.MCPServer) server.ServerTool {
	tool := reads("count_slowly", "Count slowly",
		"Counts to a number with a pause before each step and reports progress. Stops when it is cancelled.",
		func(ctx context.Context, a countArgs) (counted, error) {
			return counted{a.Steps}, count(ctx, a, func(step int) { reportProgress(ctx, s, step, a.Steps) })
		},
		mcp.WithInteger("steps", mcp.Required(), mcp.Description("How far to count."), mcp.Min(1), mcp.Max(most)),
		mcp.WithInteger("delayMs", mcp.Description("Pause before each step, in milliseconds."),
			mcp.DefaultNumber(100), mcp.Min(0), mcp.Max(60_000)))
	return server.ServerTool{Tool: tool.Tool, Handler: withToken(tool.Handler)}
}

func count(ctx context.Context, a countArgs, each func(step int)) error {
	pause := time.Duration(a.DelayMs) * time.Millisecond
	for step := 1; step <= a.Steps; step++ {
		select {
		case <-ctx.Done():
			return errors.Newf("cancelled after %d of %d steps", step-1, a.Steps)
		case <-time.After(pause):
			each(step)
		}
	}
	return nil
}

// tokenKey finds the caller's progress token in a call's context.
type tokenKey struct{}

func withToken(next server.ToolHandlerFunc) server.ToolHandlerFunc {
	return func(ctx context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		if m := r.Params.Meta; m != nil && m.ProgressToken != nil {
			ctx = context.WithValue(ctx, tokenKey{}, m.ProgressToken)
		}
		return next(ctx, r)
	}
}

// reportProgress tells a caller that asked for it; one that cannot be told goes
// without.
func reportProgress(ctx context.Context, s *server.MCPServer, step, steps int) {
	if token := ctx.Value(tokenKey{}); token != nil {
		_ = s.SendNotificationToClient(ctx, string(mcp.MethodNotificationProgress),
			map[string]any{"progressToken": token, "progress": step, "total": steps})
	}
}
