package client

import (
	"io"
	"regexp"
	"slices"
	"strings"

	"github.com/cockroachdb/errors"
	"github.com/go-json-experiment/json/jsontext"
)

// hasJSONSecret says whether a value is or ends with JSON that has a text which
// looks like a secret, or a value below a name that speaks of one. What is moved
// is the JSON as a whole, so that here a name speaks for all that is below it.
func hasJSONSecret(value string) bool {
	i := strings.IndexAny(mask(value), "{[")
	if i < 0 {
		return false
	}
	dec := jsontext.NewDecoder(strings.NewReader(value[i:]), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	name, below := "", 0 // the name of a secret, and how deep its object is
	for {
		token, err := dec.ReadToken()
		switch {
		case errors.Is(err, io.EOF) && dec.StackDepth() == 0:
			return false
		case err != nil:
			return namesSecret(value[i:])
		}
		depth, named := dec.StackDepth(), isName(dec)
		if depth < below || depth == below && named {
			name, below = "", 0
		}
		switch {
		case named:
			if below == 0 && IsSecretName(token.String()) {
				name, below = token.String(), depth
			}
		case token.Kind() == '"':
			text := token.String()
			inner, rest := cutName(text) // "headers": ["X-Api-Key: value"]
			if isLiteralSecret(name, text) || IsSecretName(inner) && !hasReference(rest) && !isHarmlessForm(rest) || name != "" && !hasReference(text) && !isHarmlessValue(text) {
				return true
			}
		case token.Kind() == '0':
			if name != "" && !isBoolean(token.String()) {
				return true
			}
		}
	}
}

// member matches the name of a member and what parts it from the value.
var member = regexp.MustCompile(`([A-Za-z0-9_.-]+)\\*["']?\s*[:=]\s*\\*["']?`)

// namesSecret is hasJSONSecret for what only begins like JSON: it looks for the
// names in the text. Of a reference, the default is seen.
func namesSecret(text string) bool {
	text = reference.ReplaceAllStringFunc(withoutStored(text), func(ref string) string {
		_, otherwise, _ := strings.Cut(ref[len("${"):len(ref)-len("}")], ":-")
		return otherwise
	})
	return slices.ContainsFunc(member.FindAllStringSubmatchIndex(text, -1), func(at []int) bool {
		value := text[at[1]:]
		if end := strings.IndexAny(value, "\\\"',}] \t\r\n"); end >= 0 {
			value = value[:end]
		}
		return IsSecretName(text[at[2]:at[3]]) && !isHarmlessValue(value)
	})
}
