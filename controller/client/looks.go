package client

import (
	"regexp"
	"slices"
	"strings"
)

// reference is "${NAME}", "${NAME:-default}", "${kind:NAME}" or
// "${secret:server/key#1}".
var reference = regexp.MustCompile(`\$\{[^{}]*\}`)

// stored is what a reference that MoveSecrets made holds.
var stored = regexp.MustCompile(`^secret:[A-Za-z0-9_-]+/(env|header|query|arg)\.[^/]*#[0-9]+$`)

func hasReference(value string) bool { return reference.MatchString(value) }

// withoutStored returns a value without the references that MoveSecrets made: a
// server's id in them may look like anything.
func withoutStored(value string) string {
	return reference.ReplaceAllStringFunc(value, func(ref string) string {
		if stored.MatchString(ref[len("${") : len(ref)-len("}")]) {
			return ""
		}
		return ref
	})
}

// mixesSecret says whether a value with references also holds a literal secret:
// beside them, as the default of one or in the place of its name.
func mixesSecret(name, value string) bool {
	looks := looksSecret
	if IsSecretName(name) {
		looks = holdsSecret
	}
	for _, ref := range reference.FindAllString(value, -1) {
		inner := ref[len("${") : len(ref)-len("}")]
		if stored.MatchString(inner) {
			continue // a server's id may look like anything
		}
		variable, otherwise, _ := strings.Cut(inner, ":-")
		if looks(variable) || looks(otherwise) || ref == value && IsSecretName(name) && !isHarmlessForm(otherwise) {
			return true
		}
	}
	const placeholder = "\x00"
	rest := reference.ReplaceAllString(value, placeholder)
	if password := userInfo.FindStringSubmatch(rest); password != nil && password[2] != "" && password[2] != placeholder {
		return true
	}
	return slices.ContainsFunc(strings.Split(rest, placeholder), looks)
}

// userInfo matches a URL's user and password.
var userInfo = regexp.MustCompile(`^[a-zA-Z][a-zA-Z0-9+.-]*://([^/?#@:]*)(?::([^/?#@]*))?@`)

// isHarmless says whether a literal value of env, headers or a query may stay.
func isHarmless(kind, name, value string) bool {
	switch {
	case isHarmlessValue(value):
		return true
	case looksSecret(value) || IsSecretName(name) && (kind != "env" || name != "PWD"): // the shell's PWD is a folder
		return false
	}
	return isHarmlessName(kind, name) || isHarmlessForm(value)
}

// isHarmlessForm says whether a value is a boolean, an integer, a log level or a
// locale.
func isHarmlessForm(value string) bool {
	return value == "" || isBoolean(value) || integer.MatchString(value) || locale.MatchString(value) ||
		slices.Contains(logLevels, strings.ToLower(value))
}

// isHarmlessValue says whether a value is none, whatever its name.
func isHarmlessValue(value string) bool { return value == "" || isBoolean(value) }

func isBoolean(value string) bool {
	switch strings.ToLower(value) {
	case "true", "false", "yes", "no", "on", "off", "0", "1":
		return true
	}
	return false
}

var (
	// A number with more digits may be a secret.
	integer   = regexp.MustCompile(`^[-+]?[0-9]{1,9}$`)
	locale    = regexp.MustCompile(`^(C|POSIX|[a-z]{2}|[a-z]{2,3}[_-][A-Z]{2})(\.(UTF-8|utf8))?$`)
	logLevels = []string{
		"trace", "debug", "info", "notice", "warn", "warning", "error", "critical", "fatal", "panic", "silent", "verbose", "none",
	}
)

// isHarmlessName says whether a key is well known to hold no secret.
func isHarmlessName(kind, name string) bool {
	switch kind {
	case "env":
		return slices.Contains(harmlessEnv, name) || harmlessPrefix.MatchString(name)
	case "header":
		return slices.Contains(harmlessHeaders, strings.ToLower(name))
	default:
		return slices.Contains(harmlessQuery, strings.ToLower(name))
	}
}

var (
	harmlessEnv = []string{
		"AWS_DEFAULT_REGION", "AWS_PROFILE", "AWS_REGION", "CI", "COLUMNS", "DEBUG", "EDITOR", "FORCE_COLOR", "GOPATH",
		"GOROOT", "HOME", "HOST", "HOSTNAME", "JAVA_HOME", "LANG", "LANGUAGE", "LINES", "LOGNAME", "LOG_FORMAT", "LOG_LEVEL",
		"NODE_ENV", "NODE_PATH", "NO_COLOR", "NO_PROXY", "PATH", "PORT", "PWD", "PYTHONPATH", "PYTHONUNBUFFERED",
		"RUST_LOG", "SHELL", "SSL_CERT_DIR", "SSL_CERT_FILE", "TEMP", "TERM", "TMP", "TMPDIR", "TZ", "USER", "VIRTUAL_ENV",
		"no_proxy",
	}
	harmlessPrefix  = regexp.MustCompile(`^(LC|XDG)_[A-Z_]+$`)
	harmlessHeaders = []string{
		"accept", "accept-encoding", "accept-language", "cache-control", "content-type", "mcp-protocol-version", "origin",
		"user-agent", "x-mcp-readonly", "x-mcp-toolsets",
	}
	harmlessQuery = []string{
		"api-version", "env", "features", "format", "lang", "language", "locale", "mode", "page", "profile", "project", "read_only",
		"region", "tools", "toolsets", "transport", "v", "version",
	}
)

// secretWord matches names with a word that speaks of a secret: a strong word
// anywhere, a weak one at the end, where it is what the value is. Plurals such
// as "tokens" count things. A word may follow a flag of one letter: "-Dtoken".
var secretWord = regexp.MustCompile(`(?i)(^|^-[a-z]|[^a-z])(` +
	`(pass|passwd|pwd|password|passphrase|secret|token|api[-_.]?key|apikey|access[-_.]?key|private[-_.]?key|` +
	`credential|credentials|authorization|bearer)([^a-z]|$)|` +
	`(key|pin|pat|auth|cookie|signature|sig|dsn|otp)[^a-z]*$)`)

// aboutSecret matches names that have such a word, but whose values are about
// the secret: where it is, or how long it is good for.
var aboutSecret = regexp.MustCompile(`(?i)[^a-z](file|path|dir|url|uri|endpoint|name|type|kind|ttl|timeout|expiry|limit|count|size|length|env)[^a-z]*$`)

// camel finds where a word begins inside camelCase.
var camel = regexp.MustCompile(`([a-z0-9])([A-Z])`)

// IsSecretName says whether a name speaks of a secret that its value is:
// "--api-key", "DB_PASSWORD" and "clientSecret" do, "--token-file" does not.
func IsSecretName(name string) bool {
	words := camel.ReplaceAllString(name, "${1}_$2")
	return secretWord.MatchString(words) && !aboutSecret.MatchString(words)
}

// isSecretFlag says whether the argument after a is a secret: "--api-key".
func isSecretFlag(a string) bool {
	return strings.HasPrefix(a, "-") && !strings.ContainsAny(strings.TrimSuffix(a, ":"), "=:") && IsSecretName(a)
}

// knownSecret matches the beginnings that issuers give to their tokens.
var knownSecret = regexp.MustCompile(`(^|[^A-Za-z0-9])(` +
	`sk-|sk_|rk_|pk_live|gh[opsru]_|github_pat_|glpat-|glptt-|xox[a-z]-|xapp-|AKIA|ASIA|AIza|ya29\.|eyJ|npm_|pypi-|hf_|` +
	`lin_api_|ntn_|secret_|SG\.|dop_v1_|shp(at|ca|pa|ss)_|dckr_pat_|hvs\.|tskey-|figd_|AGE-SECRET-KEY-` +
	`)[A-Za-z0-9_\-]{6}|-----BEGIN |(?i:bearer|basic|token) [A-Za-z0-9._~+/=-]{8}`)

// hasToken says whether an element of a path, or of a command, has the form of a
// known kind of token. Folders are called "npm_modules" and "sk-learn-test", but a
// token has a digit.
func hasToken(path string) bool {
	return slices.ContainsFunc(strings.Split(withoutStored(path), "/"), func(element string) bool {
		return knownSecret.MatchString(element) && strings.ContainsAny(element, "0123456789")
	})
}

var (
	// run matches what has no word boundary in it, shortRun what may be a part
	// of a secret.
	run      = regexp.MustCompile(`[A-Za-z0-9+=]{20,}`)
	shortRun = regexp.MustCompile(`[A-Za-z0-9+=]{12,}`)
)

// looksSecret says whether a value alone, whatever its key, looks like a secret:
// it has the form of a known kind of token, or a long run of letters and digits
// in which no words are. What is a path or the name of a package may have such
// runs.
func looksSecret(value string) bool {
	if knownSecret.MatchString(value) {
		return true
	}
	if value == "" || strings.ContainsRune("/.~@", rune(value[0])) || strings.Contains(value, "://") || strings.Contains(value, "sha256:") {
		return false
	}
	return slices.ContainsFunc(run.FindAllString(value, -1), isOpaque)
}

// holdsSecret is looksSecret for a part of a value whose key speaks of a secret:
// there a shorter run is enough, wherever it stands.
func holdsSecret(part string) bool {
	return knownSecret.MatchString(part) || slices.ContainsFunc(shortRun.FindAllString(part, -1), isOpaque)
}

// isOpaque says whether a run mixes letters with digits, or cases as no word
// does.
func isOpaque(s string) bool {
	var lower, upper, digits, changes int
	var last rune
	for _, r := range s {
		kind := 'd'
		switch {
		case r >= 'a' && r <= 'z':
			lower++
			kind = 'l'
		case r >= 'A' && r <= 'Z':
			upper++
			kind = 'u'
		default:
			digits++
		}
		if last != 0 && kind != last {
			changes++
		}
		last = kind
	}
	letters := lower + upper
	return letters > 0 && digits >= 3 && changes >= 4 || upper > 0 && lower > 0 && changes >= len(s)/3
}
