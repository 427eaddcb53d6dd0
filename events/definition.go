package events

import (
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// Transport is how an MCP server is reached.
type Transport string

// The transports of MCP.
const (
	// Stdio is a child process that speaks over its standard streams.
	Stdio Transport = "stdio"
	// HTTP is the streamable HTTP transport.
	HTTP Transport = "http"
	// SSE is the HTTP transport that streamable HTTP replaced.
	SSE Transport = "sse"
)

// Definition says how to start or reach an MCP server and how to look after
// it. Its JSON names are those of the common mcpServers shape where that has a
// name for the thing; times are in milliseconds.
//
// A definition is always unresolved: variables ("${NAME}") and secrets
// ("${secret:server/key#1}") are references, which the worker resolves at each
// connect. Literal secrets are moved out before a definition is appended.
type Definition struct {
	// Scope is who sees the server. Default [FleetScope].
	Scope Scope `json:"scope,omitzero"`
	// Source is where the definition was found, if it was found anywhere.
	Source *Source `json:"source,omitzero"`
	// Labels are the operator's own words about the server. An imported name
	// that is not a legal id is kept under "name".
	Labels map[string]string `json:"labels,omitempty"`

	// Type is the transport. Default: see [Definition.Transport].
	Type Transport `json:"type,omitzero"`

	// A stdio server's process: Command is a path, or a name that is looked up in
	// the child's PATH.
	// Args and Env are passed as they are: no shell. Env is set on top of EnvFile,
	// a file of NAME=value lines on the worker. Cwd is the working directory;
	// default the worker's.
	Command string            `json:"command,omitzero"`
	Args    []string          `json:"args,omitempty"`
	Env     map[string]string `json:"env,omitempty"`
	EnvFile string            `json:"envFile,omitzero"`
	Cwd     string            `json:"cwd,omitzero"`

	// An http or sse server's endpoint, an absolute http or https URL, and the
	// headers that every request to it has.
	URL     string            `json:"url,omitzero"`
	Headers map[string]string `json:"headers,omitempty"`
	OAuth   *OAuth            `json:"oauth,omitzero"`

	// Protocol pins the MCP revision: "auto" (default), "legacy" for revisions
	// with a handshake, or one such as "2025-11-25".
	Protocol string `json:"protocol,omitzero"`
	// Roots are the file URIs answered to roots/list.
	Roots []string `json:"roots,omitempty"`

	// Disabled means that the server must not run, whatever Want is.
	Disabled bool `json:"disabled,omitzero"`
	// Want is the state an enabled server should be in: [Running] (default) or
	// [Stopped].
	Want Want `json:"want,omitzero"`

	// EnabledTools, if any, are the only tools offered; DisabledTools never are.
	EnabledTools  []string `json:"enabledTools,omitempty"`
	DisabledTools []string `json:"disabledTools,omitempty"`
	// AutoApprove is kept for other programs. It grants nothing here.
	AutoApprove []string `json:"autoApprove,omitempty"`
	// AllowLiteral names keys of Env, Headers or the URL's query whose literal
	// values are not to be treated as secrets.
	AllowLiteral []string `json:"allowLiteral,omitempty"`

	// Time limits, in milliseconds; nil means the default. 0 means none, and no
	// waiting where it is a grace period.
	ConnectTimeoutMs      *int64 `json:"connectTimeoutMs,omitzero"`      // default 30 000
	CallTimeoutMs         *int64 `json:"callTimeoutMs,omitzero"`         // default 30 000
	HealthCheckIntervalMs *int64 `json:"healthCheckIntervalMs,omitzero"` // default 30 000
	GracePeriodMs         *int64 `json:"gracePeriodMs,omitzero"`         // default 5 000

	// RestartPolicy, if present, governs restarts alone.
	RestartPolicy *RestartPolicy `json:"restartPolicy,omitzero"`
	// Update says how a running server is replaced: "replace" (default: stop,
	// then start) or "overlap" (start, then stop).
	Update string `json:"update,omitzero"`
	// Stateful says whether calls depend on earlier ones. Nil means true for
	// stdio, false otherwise.
	Stateful *bool `json:"stateful,omitzero"`
	// ReplayCalls allows a call with an uncertain end to be sent again.
	ReplayCalls bool `json:"replayCalls,omitzero"`
	// Placement says where the instances run. Nil: one, on any worker.
	Placement *Placement `json:"placement,omitzero"`

	// Unknown is an object with the members that this build does not know, or
	// nil. They are written again beside the known ones.
	Unknown jsontext.Value `json:",embed"`
}

// Source is where a definition was found. It is known before the connection
// is, and has no part in the definition's digest.
type Source struct {
	// Provider is the dialect, such as "file" or "claude-code".
	Provider string `json:"provider"`
	// Name is the provider's name for people.
	Name string `json:"name,omitzero"`
	// Path is the file it was read from, if any.
	Path string `json:"path,omitzero"`
	// Level is "project" or "user", or "" where the provider has no levels.
	Level string `json:"level,omitzero"`
	// Line is the line in Path, from 1; 0 is unknown.
	Line int `json:"line,omitzero"`
}

// OAuth configures how a worker obtains tokens for a remote server. Tokens are
// never part of a definition.
type OAuth struct {
	ClientID string   `json:"clientId,omitzero"`
	Scopes   []string `json:"scopes,omitempty"`
}

// Placement says where the instances of a server run.
type Placement struct {
	// Labels that a worker must have, each with that value.
	Labels map[string]string `json:"labels,omitempty"`
	// Worker, if set, is the only worker considered.
	Worker WorkerID `json:"worker,omitzero"`
	// Replicas is the number of instances (default 1) or "each" for one on
	// every eligible worker.
	Replicas Replicas `json:"replicas,omitzero"`
}

// RestartPolicy says when a server that died is started again: after
// InitialDelay × Multiplier^n plus 0 to 20 % jitter, where n is how many restarts
// there were in a row so far, but after no more than MaxDelay; at most
// MaxRestartAttempts times in a row.
//
// A server without one is started again at once, then after 0.5, 1, 2 and 4 s;
// 30 s of being ready begin that anew. After that it is parked, and a remote
// server that once worked is tried quietly, from every 15 s to every 5 min.
type RestartPolicy struct {
	InitialDelayMs     *int64   `json:"initialDelayMs,omitzero"`     // default 1 000
	MaxDelayMs         *int64   `json:"maxDelayMs,omitzero"`         // default 30 000
	BackoffMultiplier  *float64 `json:"backoffMultiplier,omitzero"`  // default 2.0
	MaxRestartAttempts *int     `json:"maxRestartAttempts,omitzero"` // default 10; 0 means never
	// StablePeriodMs is how long a server must have been ready for its attempts
	// to be forgotten.
	StablePeriodMs *int64 `json:"stablePeriodMs,omitzero"` // default 300 000
}

// WithDefaults returns the policy with every field set.
func (p RestartPolicy) WithDefaults() RestartPolicy {
	p.InitialDelayMs = or(p.InitialDelayMs, 1000)
	p.MaxDelayMs = or(p.MaxDelayMs, 30_000)
	p.BackoffMultiplier = or(p.BackoffMultiplier, 2)
	p.MaxRestartAttempts = or(p.MaxRestartAttempts, 10)
	p.StablePeriodMs = or(p.StablePeriodMs, 300_000)
	return p
}

func or[T any](p *T, otherwise T) *T {
	if p == nil {
		return &otherwise
	}
	return p
}

// The default time limits of a server.
const (
	DefaultConnectTimeout      = 30 * time.Second
	DefaultCallTimeout         = 30 * time.Second
	DefaultHealthCheckInterval = 30 * time.Second
	DefaultGracePeriod         = 5 * time.Second
)

// ConnectTimeout returns the limit for connecting and listing; 0 means none.
func (d *Definition) ConnectTimeout() time.Duration {
	return millis(d.ConnectTimeoutMs, DefaultConnectTimeout)
}

// CallTimeout returns the limit for one call; 0 means none.
func (d *Definition) CallTimeout() time.Duration {
	return millis(d.CallTimeoutMs, DefaultCallTimeout)
}

// HealthCheckInterval returns the time between two health checks; 0 means none.
func (d *Definition) HealthCheckInterval() time.Duration {
	return millis(d.HealthCheckIntervalMs, DefaultHealthCheckInterval)
}

// GracePeriod returns how long a stopping server has before it is killed; 0
// means that it is killed at once.
func (d *Definition) GracePeriod() time.Duration {
	return millis(d.GracePeriodMs, DefaultGracePeriod)
}

func millis(ms *int64, otherwise time.Duration) time.Duration {
	if ms == nil {
		return otherwise
	}
	return time.Duration(*ms) * time.Millisecond
}

// Wanted returns the state that the definition asks for: [Stopped] if it is
// disabled, else Want.
func (d *Definition) Wanted() Want {
	if d.Disabled || d.Want == Stopped {
		return Stopped
	}
	return Running
}

// IsStateful says whether calls depend on earlier ones, so that another instance
// does not do in the place of this one: what Stateful says, or else whether the
// transport is [Stdio].
func (d *Definition) IsStateful() bool {
	if d.Stateful != nil {
		return *d.Stateful
	}
	return d.Transport() == Stdio
}

// Transport returns the transport, which Type may leave to be derived: a
// command means stdio, a url means http.
func (d *Definition) Transport() Transport {
	switch {
	case d.Type != "":
		return d.Type
	case d.Command == "" && d.URL != "":
		return HTTP
	default:
		return Stdio
	}
}
