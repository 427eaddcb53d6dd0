package events

import (
	"maps"
	"math"
	"net/url"
	"slices"
	"strings"

	"github.com/cockroachdb/errors"
)

// Problem is one reason why a definition cannot be accepted.
type Problem struct {
	// Code is a [Code] such as invalid_definition.
	Code Code `json:"code"`
	// Path is the JSON pointer of the offending member, or "".
	Path string `json:"path,omitzero"`
	// Message says what is wrong and what to do, without any value that might
	// be a secret.
	Message string `json:"message"`
}

// InvalidDefinitionError lists everything that is wrong with a definition.
type InvalidDefinitionError struct {
	Server   string
	Problems []Problem
}

func (e *InvalidDefinitionError) Error() string {
	words := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		words[i] = p.Message
	}
	return "server " + quote(e.Server) + ": " + strings.Join(words, "; ")
}

// Validate returns nil, or an [*InvalidDefinitionError] with every reason why
// the definition cannot be accepted under that id.
func (d *Definition) Validate(id ServerID) error {
	var v validation
	if _, err := ParseServerID(string(id)); err != nil {
		v.add(InvalidID, "", err.Error())
	}
	if _, err := ParseScope(string(d.Scope)); err != nil {
		v.add(InvalidDefinition, "/scope", err.Error())
	}
	v.transport(d)
	v.environment(d)
	v.limits(d)
	v.oneOf("/update", d.Update, "", "replace", "overlap")
	v.oneOf("/want", string(d.Want), "", string(Running), string(Stopped))
	if p := d.Placement; p != nil && p.Worker != "" {
		if _, err := ParseWorkerID(string(p.Worker)); err != nil {
			v.add(InvalidDefinition, "/placement/worker", err.Error())
		}
	}
	if len(v) == 0 {
		return nil
	}
	return errors.WithStack(&InvalidDefinitionError{Server: string(id), Problems: v})
}

type validation []Problem

func (v *validation) add(code Code, path, message string) {
	*v = append(*v, Problem{Code: code, Path: path, Message: message})
}

func (v *validation) oneOf(path, value string, allowed ...string) {
	if !slices.Contains(allowed, value) {
		v.add(InvalidDefinition, path, strings.TrimPrefix(path, "/")+" "+quote(value)+": use "+
			strings.Join(allowed[1:], " or "))
	}
}

func (v *validation) transport(d *Definition) {
	switch t := d.Transport(); t {
	case Stdio:
		if d.Command == "" {
			v.add(InvalidDefinition, "/command", "a stdio server needs a command")
		}
	case HTTP, SSE:
		if d.URL == "" {
			v.add(InvalidDefinition, "/url", "an "+string(t)+" server needs a url")
		}
	default:
		v.add(InvalidDefinition, "/type", "unknown type "+quote(string(t))+": use stdio, http or sse")
	}
	if d.Command != "" && d.URL != "" {
		v.add(InvalidDefinition, "/url", "command and url are both set: keep one")
	}
	if d.URL != "" && !strings.HasPrefix(d.URL, "${") {
		// The error of url.Parse repeats the URL, which may hold a secret.
		u, err := url.Parse(d.URL)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			v.add(InvalidDefinition, "/url", "url must be an absolute http or https URL")
		}
	}
}

func (v *validation) environment(d *Definition) {
	for _, name := range slices.Sorted(maps.Keys(d.Env)) {
		value := d.Env[name]
		if name == "" || strings.ContainsAny(name, "=\x00") {
			v.add(InvalidDefinition, "/env", "env name "+quote(name)+" is empty or contains '=' or NUL")
		}
		if strings.ContainsRune(value, 0) {
			v.add(InvalidDefinition, "/env", "the value of env "+quote(name)+" contains NUL")
		}
	}
	for i, a := range d.Args {
		if strings.ContainsRune(a, 0) {
			v.add(InvalidDefinition, "/args", "argument "+itoa(i+1)+" contains NUL")
		}
	}
}

func (v *validation) limits(d *Definition) {
	v.duration("/connectTimeoutMs", d.ConnectTimeoutMs)
	v.duration("/callTimeoutMs", d.CallTimeoutMs)
	v.duration("/healthCheckIntervalMs", d.HealthCheckIntervalMs)
	v.duration("/gracePeriodMs", d.GracePeriodMs)
	p := d.RestartPolicy
	if p == nil {
		return
	}
	v.duration("/restartPolicy/initialDelayMs", p.InitialDelayMs)
	v.duration("/restartPolicy/maxDelayMs", p.MaxDelayMs)
	v.duration("/restartPolicy/stablePeriodMs", p.StablePeriodMs)
	initial, longest, factor, attempts := p.values()
	if longest < initial {
		v.add(InvalidDefinition, "/restartPolicy/maxDelayMs", "restartPolicy: maxDelayMs is below initialDelayMs")
	}
	if factor < 1 || math.IsNaN(factor) || math.IsInf(factor, 0) {
		v.add(InvalidDefinition, "/restartPolicy/backoffMultiplier", "restartPolicy: backoffMultiplier must be at least 1")
	}
	if attempts < 0 {
		v.add(InvalidDefinition, "/restartPolicy/maxRestartAttempts", "restartPolicy: maxRestartAttempts is negative")
	}
}

// maxMillis is the longest duration, in milliseconds, that time.Duration holds.
const maxMillis = math.MaxInt64 / 1_000_000

func (v *validation) duration(path string, ms *int64) {
	if ms != nil && (*ms < 0 || *ms > maxMillis) {
		v.add(InvalidDefinition, path, strings.TrimPrefix(path, "/")+" is out of range")
	}
}

// values returns the policy with its defaults; delays in milliseconds.
func (p *RestartPolicy) values() (initial, longest int64, factor float64, attempts int) {
	return or(p.InitialDelayMs, 1000), or(p.MaxDelayMs, 30_000), or(p.BackoffMultiplier, 2), or(p.MaxRestartAttempts, 10)
}

func or[T any](p *T, otherwise T) T {
	if p == nil {
		return otherwise
	}
	return *p
}
