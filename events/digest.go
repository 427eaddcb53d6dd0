package events

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"regexp"

	"github.com/cockroachdb/errors"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Digest is a SHA-256 in lower-case hex: of a canonical JSON text (RFC 8785), or
// of the bytes of a blob.
type Digest string

// DigestOf returns the digest of data as it is.
func DigestOf(data []byte) Digest {
	sum := sha256.Sum256(data)
	return Digest(hex.EncodeToString(sum[:]))
}

// CanonicalDigest returns the digest of a JSON text brought into canonical
// form, so that white space and the order of members do not matter. Text that
// is not JSON, or has duplicate names, is an error.
func CanonicalDigest(text []byte) (Digest, error) {
	v := jsontext.Value(text).Clone()
	if err := v.Canonicalize(); err != nil {
		return "", errors.Wrap(err, "canonical JSON")
	}
	return DigestOf(v), nil
}

// secretVersion is the "#3" of "${secret:github/env.TOKEN#3}".
var secretVersion = regexp.MustCompile(`(\$\{secret:[^}#"\\]*)#[0-9]+\}`)

// Digest identifies what the definition connects to and how it is looked after:
// equal digests mean that one connection serves both. Where the definition came
// from, who sees it, what it is labelled, where and whether it should run and
// the versions of its secrets have no part in it, so that a rotated secret does
// not lose what is known of the server.
//
// A definition that cannot be written as JSON, which [Definition.Validate]
// refuses, has no digest: "".
func (d *Definition) Digest() Digest {
	data := d.connection()
	if data == nil {
		return ""
	}
	digest, err := CanonicalDigest(secretVersion.ReplaceAll(data, []byte("$1}")))
	if err != nil {
		// Two names of members differ in nothing but a version.
		digest, _ = CanonicalDigest(data) // what json writes is JSON
	}
	return digest
}

// SameConnection says whether one connection serves both definitions, either of
// which may be nil. Unlike their digests it tells versions of secrets apart: a
// rotated secret needs a new connection.
func SameConnection(a, b *Definition) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Digest() == b.Digest() && bytes.Equal(a.connection(), b.connection())
}

// connection returns the part of the definition that its digest covers, or nil
// if it cannot be written as JSON.
func (d *Definition) connection() []byte {
	c := *d
	c.Source, c.Labels, c.Disabled, c.Want = nil, nil, false, ""
	c.Scope, c.Type, c.AutoApprove, c.Placement = "", d.Transport(), nil, nil
	data, err := json.Marshal(&c, json.Deterministic(true))
	if err != nil {
		return nil
	}
	return data
}
