package client

import (
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/cockroachdb/errors"

	"github.com/toolfleet/toolfleet/events"
)

// replace returns what stands for a literal secret.
type replace func(key, value string) (string, error)

// rewrite returns a copy of the definition in which each literal secret is
// replaced. Keys are visited in a fixed order.
func rewrite(d *events.Definition, r replace) (*events.Definition, error) {
	w := &rewriter{allowed: d.AllowLiteral, replace: r}
	c := *d
	c.Env = w.values("env", d.Env)
	c.Headers = w.values("header", d.Headers)
	c.URL = w.url(d.URL)
	c.Args = w.args(d.Args)
	c.Unknown, w.err = withoutSecrets(d.Unknown, w.err)
	w.refuse("command", d.Command)
	w.refuse("cwd", d.Cwd)
	if w.err != nil {
		return nil, w.err
	}
	return &c, nil
}

type rewriter struct {
	allowed []string
	replace replace
	err     error
}

func (w *rewriter) move(key, value string) string {
	if w.err != nil {
		return ""
	}
	var ref string
	ref, w.err = w.replace(key, value)
	return ref
}

func (w *rewriter) mixed(key string) {
	if w.err == nil {
		w.err = errors.Mark(errors.Newf("%s holds a literal secret beside a reference: make it one reference as a whole", key), ErrMixedSecret)
	}
}

// refuse fails when a member that cannot be moved holds a secret.
func (w *rewriter) refuse(member, value string) {
	if w.err == nil && hasToken(value) {
		w.err = errors.Mark(errors.Newf("%s holds a literal secret, which is not moved from there: put it into env or args, "+
			"or refer to a variable of the worker, ${NAME}", member), ErrMisplacedSecret)
	}
}

func (w *rewriter) values(kind string, m map[string]string) map[string]string {
	if m == nil {
		return nil
	}
	c := maps.Clone(m)
	for _, name := range slices.Sorted(maps.Keys(m)) {
		c[name] = w.value(kind, name, kind+"."+name, m[name])
	}
	return c
}

// value rewrites a value that is a secret unless there is a reason why not.
func (w *rewriter) value(kind, name, key, value string) string {
	same := func(allowed string) bool {
		return allowed == name || kind == "header" && strings.EqualFold(allowed, name)
	}
	switch {
	case slices.ContainsFunc(w.allowed, same):
		return value
	case hasReference(value):
		if mixesSecret(name, value) {
			w.mixed(key)
		}
		return value
	case isHarmless(kind, name, value):
		return value
	}
	return w.move(key, value)
}

// args rewrites the arguments that look like a secret: as a whole, or the value
// of "--name=value", "NAME=value", "Name: value" and "--flag=Name:value". JSON
// that holds a secret moves as a whole.
func (w *rewriter) args(args []string) []string {
	c := slices.Clone(args)
	for i, a := range args {
		key := "arg." + strconv.Itoa(i+1)
		name, value := "", a
		if i > 0 && isSecretFlag(args[i-1]) && !strings.HasPrefix(a, "-") {
			name = args[i-1]
		} else {
			name, value = splitArgument(a)
		}
		switch {
		case !isLiteralSecret(name, value):
		case hasReference(value):
			w.mixed(key)
		default:
			c[i] = a[:len(a)-len(value)] + w.move(key, value)
		}
	}
	return c
}

// hasURLSecret says whether a value is a URL with a secret in it.
func hasURLSecret(value string) bool {
	if !strings.Contains(value, "://") {
		return false
	}
	found := false
	w := &rewriter{replace: func(string, string) (string, error) {
		found = true
		return "", nil
	}}
	w.url(value)
	return found || w.err != nil
}

// maxNames is how many names, one in the value of the other, are looked for in
// an argument.
const maxNames = 8

// splitArgument splits an argument into what names its value, with the
// separator, and the value. An argument that is nothing but a value, or nothing
// but a flag, has no name. A name inside the value counts when the value alone is
// no secret, and is one by that name: "--header=X-Api-Key: value".
func splitArgument(a string) (head, value string) {
	head, value = cutName(a)
	if hasToken(head) {
		return "", a
	}
	name, rest := head, value
	for range maxNames {
		if name == "" || isLiteralSecret(name, rest) {
			break
		}
		name, rest = cutName(rest)
	}
	if name == "" {
		return head, value
	}
	return a[:len(a)-len(rest)], rest
}

// cutName cuts the first name, with its separator, off a value. A colon alone
// separates only the names of secrets: others are hosts, schemes and drives.
func cutName(a string) (name, value string) {
	for _, separator := range []string{"=", ": ", ":"} {
		name, rest, ok := cutMasked(a, separator)
		if !ok || name == "" || strings.ContainsAny(mask(name), " /:?&{") {
			continue
		}
		if separator == ":" && (!IsSecretName(name) || strings.Contains(name, ".") && port.MatchString(rest)) {
			continue
		}
		return a[:len(a)-len(rest)], rest
	}
	return "", a
}

// port matches what follows the name of a host: "8080" and "8080/path".
var port = regexp.MustCompile(`^[0-9]{1,5}(/|$)`)
