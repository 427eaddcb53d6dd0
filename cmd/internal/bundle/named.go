package bundle

import (
	"regexp"
	"strings"

	"github.com/toolfleet/toolfleet/controller/client"
)

// reference matches "${NAME}", which has no space in it: a brace that is closed
// somewhere else hides nothing.
const reference = `\$\{[^{}\s"']*\}`

var referenceFirst = regexp.MustCompile(`^` + reference)

// named matches a reference, or a name and what separates its value from it, as
// in JSON (also in JSON that is a text of JSON), in "NAME=value", in a header and
// after a flag.
var named = regexp.MustCompile(reference + `|` +
	`([A-Za-z0-9_.-]+)(\\*["']?[ \t]*[:=][ \t]*\\*["']?)|` +
	`(--?[A-Za-z][A-Za-z0-9_.-]*)([ \t]+|\\*["'],\s*\\*["'])`)

// redactNamed takes out the values whose names speak of a secret.
func redactNamed(text string) string {
	var b strings.Builder
	for at := named.FindStringSubmatchIndex(text); at != nil; at = named.FindStringSubmatchIndex(text) {
		before, rest := text[:at[1]], text[at[1]:]
		b.WriteString(before)
		name, separator := at[2:4], at[4:6]
		if name[0] < 0 {
			name, separator = at[6:8], at[8:10]
		}
		if name[0] >= 0 && client.IsSecretName(before[name[0]:name[1]]) {
			kept := scheme.FindString(rest)
			value := valueOf(before, rest[len(kept):])
			inside := strings.Index(value, "${")
			isReference := inside >= 0 && referenceFirst.MatchString(rest[len(kept)+inside:])
			if !isReference && isLiteral(before[separator[0]:separator[1]], value) {
				b.WriteString(kept + Redacted)
				rest = rest[len(kept)+len(value):]
			}
		}
		text = rest
	}
	return b.String() + text
}

// scheme is what stays of the value of a header.
var scheme = regexp.MustCompile(`^(?i:bearer|basic|token|digest) +`)

// valueOf returns the value that a text begins with: up to the quote that ends it,
// if one is open before it, and else a word, or a line where it is a credential of
// a scheme that is not known.
func valueOf(before, text string) string {
	line, _, _ := strings.Cut(text, "\n")
	open := len(strings.TrimRight(before, `"'`))
	if open == len(before) {
		ends := " \t\r\"'`\\,;&}])"
		if authorization.MatchString(before) {
			ends = "\r\"'\\"
		}
		if end := strings.IndexAny(line, ends); end >= 0 {
			return line[:end]
		}
		return line
	}
	depth := open - len(strings.TrimRight(before[:open], `\`))
	escapes := 0
	for i := range len(line) {
		switch {
		case line[i] == '\\':
			escapes++
			continue
		case line[i] == before[open] && (escapes == depth || depth == 0 && escapes%2 == 0):
			return line[:i-depth]
		}
		escapes = 0
	}
	return line
}

var authorization = regexp.MustCompile(`(?i)authorization\s*[:=]\s*$`)

// isLiteral says whether a value is not a number, a boolean, an
// object or the beginning of a message.
func isLiteral(separator, value string) bool {
	quoted := strings.HasSuffix(separator, `"`) || strings.HasSuffix(separator, "'")
	switch {
	case value == "" || strings.HasPrefix(value, Redacted) || plain.MatchString(value):
		return false
	case !quoted && strings.ContainsAny(value[:1], "{[-"):
		return false
	}
	return !strings.HasSuffix(separator, ": ") || !message.MatchString(value)
}

var (
	plain   = regexp.MustCompile(`^(?:[-+]?[0-9]{1,9}|true|false|null|yes|no|on|off)$`)
	message = regexp.MustCompile(`^[a-z]+[.,;:]?(?: [a-z]+[.,;:]?)*$`)
)
