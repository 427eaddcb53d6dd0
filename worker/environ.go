package worker

import (
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/cockroachdb/errors"
)

// inherited are the variables of the worker that its children see. Everything
// else is the worker's own business, credentials first of all.
var inherited = append([]string{
	"PATH", "HOME", "TZ", "TMPDIR", "USER", "LOGNAME", "SHELL",
	// How text is written.
	"LANG", "LC_ALL", "LC_COLLATE", "LC_CTYPE", "LC_MESSAGES", "LC_MONETARY", "LC_NUMERIC", "LC_TIME",
	// Whom a network's own certificates are trusted by.
	"SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS",
	// Where programs keep what is theirs.
	"XDG_CACHE_HOME", "XDG_CONFIG_DIRS", "XDG_CONFIG_HOME", "XDG_DATA_DIRS", "XDG_DATA_HOME", "XDG_RUNTIME_DIR", "XDG_STATE_HOME",
}, proxies...)

// proxies say how the network is reached; programs differ in which case they
// read. Their values may hold a password.
var proxies = []string{
	"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "all_proxy", "no_proxy",
}

// proxySecrets returns what of the inherited proxies is a secret: the passwords,
// and the URLs with them.
func proxySecrets(worker func(string) (string, bool)) []string {
	var secrets []string
	for _, name := range proxies {
		v, set := worker(name)
		if !set || !strings.Contains(v, "@") {
			continue
		}
		secrets = append(secrets, v)
		if u, err := url.Parse(v); err == nil {
			if password, ok := u.User.Password(); ok && len(password) >= shortestSecret {
				secrets = append(secrets, password)
			}
		}
	}
	return secrets
}

// environ returns a child's environment: the definition's variables, before
// those of its file, before those that are inherited.
func environ(worker func(string) (string, bool), file, definition map[string]string) []string {
	vars := make(map[string]string, len(inherited)+len(file)+len(definition))
	for _, name := range inherited {
		if v, set := worker(name); set {
			vars[name] = v
		}
	}
	maps.Copy(vars, file)
	maps.Copy(vars, definition)
	env := make([]string, 0, len(vars)) // not nil: os/exec would take that for its own
	for _, name := range slices.Sorted(maps.Keys(vars)) {
		env = append(env, name+"="+vars[name])
	}
	return env
}

// parseEnvFile reads lines of NAME=value. Empty lines and those that begin with
// '#' are skipped, a leading "export " too; a value may be in single quotes, or
// in double quotes with \n, \t, \" and \\.
func parseEnvFile(text string) (map[string]string, error) {
	vars := make(map[string]string)
	for i, line := range strings.Split(strings.TrimPrefix(text, "\ufeff"), "\n") {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		line = strings.TrimSpace(strings.TrimPrefix(line, "export "))
		name, value, ok := strings.Cut(line, "=")
		name = strings.TrimSpace(name)
		if !ok || !variableName.MatchString(name) {
			return nil, errors.Newf("line %d is not NAME=value", i+1)
		}
		value, ok = unquote(strings.TrimSpace(value))
		if !ok {
			return nil, errors.Newf("line %d: the value of %s has an open quote", i+1, name)
		}
		vars[name] = value
	}
	return vars, nil
}

func unquote(v string) (string, bool) {
	if v == "" || v[0] != '\'' && v[0] != '"' {
		if comment := strings.Index(v, " #"); comment >= 0 {
			v = strings.TrimSpace(v[:comment])
		}
		return v, true
	}
	quote := v[0]
	var b strings.Builder
	for i := 1; i < len(v); i++ {
		switch c := v[i]; {
		case c == quote:
			return b.String(), true
		case c == '\\' && quote == '"' && i+1 < len(v):
			i++
			if s, err := strconv.Unquote(`"\` + string(v[i]) + `"`); err == nil {
				b.WriteString(s)
			} else {
				b.WriteByte('\\')
				b.WriteByte(v[i])
			}
		default:
			b.WriteByte(c)
		}
	}
	return "", false
}
