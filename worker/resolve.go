package worker

import (
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/toolfleet/toolfleet/events"
)

// sources is where references in definitions are looked up.
type sources struct {
	env func(name string) (string, bool)
	// secret returns the value of a whole reference, "${secret:…}".
	secret func(ref string) (string, error)
}

// resolved is a definition with its references replaced. It never leaves the
// worker.
type resolved struct {
	command string
	args    []string
	env     map[string]string
	envFile string
	cwd     string
	url     string
	headers map[string]string

	// private are the values that must not show up in anything that is written.
	private []string
}

// UnresolvedError names the references of a definition that have no value.
// It never holds a value.
type UnresolvedError struct {
	// Reasons say which member refers to what, and why that has no value.
	Reasons []string
	// Retry says that one of them may have a value later.
	Retry bool
}

func (e *UnresolvedError) Error() string { return strings.Join(e.Reasons, "; ") }

// resolve replaces each reference once: what a value contains is not looked at
// again. Its error is an [*UnresolvedError].
func resolve(d *events.Definition, from sources) (*resolved, error) {
	x := resolution{from: from}
	r := &resolved{
		command: x.home("command", d.Command),
		envFile: x.home("envFile", d.EnvFile),
		cwd:     x.home("cwd", d.Cwd),
		url:     x.expand("url", d.URL),
		env:     x.all("env", d.Env),
		headers: x.all("headers", d.Headers),
	}
	for i, a := range d.Args {
		r.args = append(r.args, x.expand("args["+strconv.Itoa(i)+"]", a))
	}
	if len(x.reasons) > 0 {
		return nil, &UnresolvedError{Reasons: x.reasons, Retry: x.retry}
	}
	r.private = x.private
	return r, nil
}

// resolution is one call of resolve.
type resolution struct {
	from    sources
	private []string
	reasons []string
	retry   bool
}

func (x *resolution) all(member string, in map[string]string) map[string]string {
	out := make(map[string]string, len(in))
	for _, key := range slices.Sorted(maps.Keys(in)) {
		out[key] = x.expand(member+"."+key, in[key])
	}
	return out
}

// home expands a path, whose first element may be "~".
func (x *resolution) home(member, path string) string {
	path = x.expand(member, path)
	rest, ok := strings.CutPrefix(path, "~")
	if !ok || rest != "" && rest[0] != '/' {
		return path
	}
	if home, set := x.from.env("HOME"); set {
		return home + rest
	}
	x.fail(member, "the worker has no HOME")
	return path
}

func (x *resolution) fail(member, reason string) {
	x.reasons = append(x.reasons, member+": "+reason)
}

func (x *resolution) expand(member, text string) string {
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(text, "${")
		b.WriteString(before)
		if !found {
			return b.String()
		}
		ref, after, closed := strings.Cut(rest, "}")
		if !closed {
			x.fail(member, `"${" without "}"`)
			return b.String()
		}
		b.WriteString(x.value(member, ref))
		text = after
	}
}

var variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// value returns what "${ref}" stands for.
func (x *resolution) value(member, ref string) string {
	if strings.HasPrefix(ref, "secret:") {
		return x.secret(member, ref)
	}
	name, otherwise, hasDefault := strings.Cut(strings.TrimPrefix(ref, "env:"), ":-")
	if !variableName.MatchString(name) {
		x.fail(member, "${"+clean(ref, 80)+"} is no variable: use ${NAME}, ${NAME:-default}, ${env:NAME} or ${secret:…}")
		return ""
	}
	v, set := x.from.env(name)
	switch {
	case hasDefault && v == "":
		return otherwise
	case !set:
		x.fail(member, "variable "+name+" is not set on this worker")
	case len(v) >= shortestVariable && !slices.Contains(inherited, name):
		x.private = append(x.private, v)
	}
	return v
}

func (x *resolution) secret(member, ref string) string {
	v, err := x.from.secret("${" + ref + "}")
	if err != nil {
		x.retry = true
		x.fail(member, clean(ref, 200)+" has no value on this worker: "+clean(err.Error(), 200))
		return ""
	}
	if len(v) >= shortestSecret {
		x.private = append(x.private, v)
	}
	return v
}
