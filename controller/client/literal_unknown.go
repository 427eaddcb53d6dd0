package client

import (
	"bytes"
	"io"

	"github.com/cockroachdb/errors"
	"github.com/go-json-experiment/json/jsontext"
)

// withoutSecrets returns unknown members without the texts that look like a
// secret, or stand under a name that speaks of one.
func withoutSecrets(members jsontext.Value, err error) (jsontext.Value, error) {
	if len(members) == 0 || err != nil {
		return members, err
	}
	var out bytes.Buffer
	dec := jsontext.NewDecoder(bytes.NewReader(members))
	enc := jsontext.NewEncoder(&out)
	for {
		token, err := dec.ReadToken()
		switch {
		case errors.Is(err, io.EOF) && dec.StackDepth() == 0:
			return bytes.TrimRight(out.Bytes(), "\n"), nil
		case err != nil:
			return nil, errors.New("the unknown members are no valid JSON") // the error may quote them
		}
		if token.Kind() == '"' && !isName(dec) && isLiteralSecret(nameOf(dec), token.String()) {
			token = jsontext.String(Removed)
		}
		if err := enc.WriteToken(token); err != nil {
			return nil, errors.New("the unknown members are no valid JSON") // unreachable: they were just read
		}
	}
}

// isName says whether the string just read is the name of a member.
func isName(dec *jsontext.Decoder) bool {
	kind, n := dec.StackIndex(dec.StackDepth())
	return kind == '{' && n%2 == 1
}

// nameOf returns the name of the member that the value just read is, or that the
// array is in which it stands.
func nameOf(dec *jsontext.Decoder) string {
	at := dec.StackPointer()
	if kind, _ := dec.StackIndex(dec.StackDepth()); kind == '[' {
		at = at.Parent()
	}
	return at.LastToken()
}

// isLiteralSecret says whether a value holds a literal secret, as far as it and
// its name tell.
func isLiteralSecret(name, value string) bool {
	if hasReference(value) {
		return mixesSecret(name, value) || hasJSONSecret(value)
	}
	return looksSecret(value) || hasURLSecret(value) || hasJSONSecret(value) || IsSecretName(name) && !isHarmlessForm(value)
}
