package events

import (
	"fmt"
	"maps"
	"math"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cockroachdb/errors"
	"github.com/go-json-experiment/json"
)

// MaxDefinitionSize bounds the JSON text of a definition, in bytes: an
// [Updated] holds two of them.
const MaxDefinitionSize = 240 << 10

// MaxProblems is how many problems of one definition are listed: they are stored
// in a [Rejected] event.
const MaxProblems = 50

// Validate returns nil, or an [*InvalidDefinitionError] with every reason, up to
// [MaxProblems], why the definition cannot be accepted under that id. Its size is
// only looked at when nothing else is wrong.
func (d *Definition) Validate(id ServerID) error {
	var v validation
	if _, err := ParseServerID(string(id)); err != nil {
		v.add(InvalidID, "", err.Error())
	}
	if _, err := ParseScope(string(d.Scope)); err != nil {
		v.add(InvalidDefinition, "/scope", err.Error())
	}
	v.transport(d)
	v.process(d)
	v.headers(d)
	v.protocol(d.Protocol)
	v.roots(d.Roots)
	v.limits(d)
	v.restarts(d.RestartPolicy)
	v.oneOf("/update", d.Update, "", "replace", "overlap")
	v.oneOf("/want", string(d.Want), "", string(Running), string(Stopped))
	v.placement(d.Placement)
	if len(v) == 0 {
		v.size(d)
	}
	if len(v) == 0 {
		return nil
	}
	if more := len(v) - MaxProblems; more > 0 {
		v = v[:MaxProblems]
		v.add(InvalidDefinition, "", fmt.Sprintf("and %d more", more))
	}
	return errors.WithStack(&InvalidDefinitionError{Server: string(id), Problems: v})
}

type validation []Problem

func (v *validation) add(code Code, path, message string) {
	*v = append(*v, Problem{Code: code, Path: path, Message: message})
}

// invalid adds a problem whose message begins with the member's name.
func (v *validation) invalid(path, message string) {
	v.add(InvalidDefinition, path, dotted(path, "")+" "+message)
}

func (v *validation) oneOf(path, value string, allowed ...string) {
	if !slices.Contains(allowed, value) {
		v.invalid(path, quote(value)+": use "+strings.Join(allowed[1:], " or "))
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
	if d.URL != "" && !isEndpoint(d.URL) {
		v.invalid("/url", "must be an absolute http or https URL")
	}
}

// variable is a reference that a worker resolves, such as "${HOST}".
var variable = regexp.MustCompile(`\$\{[^{}]*\}`)

// isEndpoint says whether text can be an endpoint's URL once its variables are
// resolved.
func isEndpoint(text string) bool {
	if strings.HasPrefix(text, "${") {
		return true // the scheme is not known yet
	}
	// 1 is legal wherever a variable may stand: in host, port, path and query.
	u, err := url.Parse(variable.ReplaceAllLiteralString(text, "1"))
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != ""
}

func (v *validation) process(d *Definition) {
	texts := []struct{ path, text string }{
		{"/command", d.Command}, {"/cwd", d.Cwd}, {"/envFile", d.EnvFile},
	}
	for i, a := range d.Args {
		texts = append(texts, struct{ path, text string }{"/args/" + strconv.Itoa(i), a})
	}
	for _, name := range slices.Sorted(maps.Keys(d.Env)) {
		path := pathTo("env", name)
		if name == "" || strings.ContainsAny(name, "=\x00") {
			v.add(InvalidDefinition, path, "env name "+quote(name)+" is empty or contains '=' or NUL")
			continue
		}
		texts = append(texts, struct{ path, text string }{path, d.Env[name]})
	}
	for _, t := range texts {
		if strings.ContainsRune(t.text, 0) {
			v.invalid(t.path, "contains NUL")
		}
	}
}

// headers checks names and values as RFC 9110 (section 5) has them.
func (v *validation) headers(d *Definition) {
	seen := make(map[string]bool, len(d.Headers))
	for _, name := range slices.Sorted(maps.Keys(d.Headers)) {
		path := pathTo("headers", name)
		switch folded := strings.ToLower(name); {
		case !isHeaderName(name):
			v.add(InvalidDefinition, path, "header name "+quote(name)+" is no HTTP header name")
		case seen[folded]:
			v.invalid(path, "is there twice: case does not matter in header names")
		case strings.ContainsFunc(d.Headers[name], isControl):
			v.invalid(path, "contains a line break or another control character")
		default:
			seen[folded] = true
		}
	}
}

func isHeaderName(s string) bool {
	for i := range len(s) {
		if !isToken(s[i:i+1]) && !strings.Contains("!#$%&'*+.^`|~", s[i:i+1]) {
			return false
		}
	}
	return s != ""
}

func isControl(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }

func (v *validation) protocol(p string) {
	switch p {
	case "", "auto", "legacy":
		return
	}
	if _, err := time.Parse(time.DateOnly, p); err != nil {
		v.invalid("/protocol", quote(p)+": use auto, legacy or a revision such as 2025-11-25")
	}
}

func (v *validation) roots(roots []string) {
	for i, root := range roots {
		if !strings.HasPrefix(root, "file://") && !strings.HasPrefix(root, "${") {
			v.invalid("/roots/"+strconv.Itoa(i), "must be a file URI, such as file:///srv/project")
		}
	}
}

func (v *validation) limits(d *Definition) {
	v.duration("/connectTimeoutMs", d.ConnectTimeoutMs)
	v.duration("/callTimeoutMs", d.CallTimeoutMs)
	v.duration("/healthCheckIntervalMs", d.HealthCheckIntervalMs)
	v.duration("/gracePeriodMs", d.GracePeriodMs)
}

func (v *validation) restarts(p *RestartPolicy) {
	if p == nil {
		return
	}
	v.duration("/restartPolicy/initialDelayMs", p.InitialDelayMs)
	v.duration("/restartPolicy/maxDelayMs", p.MaxDelayMs)
	v.duration("/restartPolicy/stablePeriodMs", p.StablePeriodMs)
	q := p.WithDefaults()
	if *q.MaxDelayMs < *q.InitialDelayMs {
		v.invalid("/restartPolicy/maxDelayMs", "is below initialDelayMs")
	}
	if f := *q.BackoffMultiplier; math.IsNaN(f) || math.IsInf(f, 0) || f < 1 {
		v.invalid("/restartPolicy/backoffMultiplier", "must be at least 1")
	}
	if *q.MaxRestartAttempts < 0 {
		v.invalid("/restartPolicy/maxRestartAttempts", "is negative")
	}
}

// maxMillis is the longest duration, in milliseconds, that time.Duration holds.
const maxMillis = math.MaxInt64 / 1_000_000

func (v *validation) duration(path string, ms *int64) {
	switch {
	case ms == nil:
	case *ms < 0:
		v.invalid(path, "must be 0 or more milliseconds")
	case *ms > maxMillis:
		v.invalid(path, "is too long")
	}
}

func (v *validation) placement(p *Placement) {
	if p == nil {
		return
	}
	if _, err := ParseWorkerID(string(p.Worker)); err != nil && p.Worker != "" {
		v.invalid("/placement/worker", err.Error())
	}
	if p.Replicas < EachWorker || p.Replicas > MaxReplicas {
		v.invalid("/placement/replicas", "must be "+replicasForm)
	}
	for _, name := range slices.Sorted(maps.Keys(p.Labels)) {
		if err := CheckLabel(name, p.Labels[name]); err != nil { // no worker has it
			v.add(InvalidDefinition, pathTo("placement/labels", name), err.Error())
		}
	}
}

// size checks what no single member shows.
func (v *validation) size(d *Definition) {
	data, err := json.Marshal(d)
	switch {
	case err != nil:
		path, _ := explainJSON(err)
		v.add(InvalidDefinition, path, dotted(path, "the definition")+" holds text that is not valid Unicode")
	case len(data) > MaxDefinitionSize:
		v.add(InvalidDefinition, "", fmt.Sprintf("the definition has %d bytes as JSON, at most %d are allowed",
			len(data), MaxDefinitionSize))
	}
}
