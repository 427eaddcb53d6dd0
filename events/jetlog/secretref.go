package jetlog

import (
	"encoding/base32"
	"regexp"
	"strconv"
	"strings"

	"github.com/cockroachdb/errors"

	"github.com/toolfleet/toolfleet/events"
)

// SecretRef names one version of a secret value: what a definition holds in
// place of the value. Its text form is ${secret:<server>/<key>#<version>}.
type SecretRef struct {
	Server events.ServerID
	// Key is env.NAME, header.NAME, query.NAME or arg.N. A NAME that is not made
	// of ASCII letters, digits, '-' and '_' is encoded, because a bucket's key
	// cannot hold it: '=' and its base32 (RFC 4648) without padding.
	Key string
	// Version counts the values of the key, from 1.
	Version uint64
}

// String returns the reference's text form.
func (r SecretRef) String() string {
	return refPrefix + string(r.Server) + "/" + r.Key + "#" + strconv.FormatUint(r.Version, 10) + "}"
}

const (
	refPrefix = "${secret:"
	// encodedName begins a name that is in base32, because a bucket's key cannot
	// hold it as it is.
	encodedName = "="
	// maxSecretKey bounds a key, in bytes: it becomes part of a subject.
	maxSecretKey = 512
)

var (
	nameEncoding = base32.StdEncoding.WithPadding(base32.NoPadding)
	plainName    = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)
	secretKey    = regexp.MustCompile(`^(env|header|query)\.(=[A-Z2-7]+|[A-Za-z0-9_-]+)$|^arg\.[0-9]+$`)
)

// secretKeyOf returns the key of what a caller calls env.NAME and so on, with
// any NAME.
func secretKeyOf(name string) (string, error) {
	place, rest, _ := strings.Cut(name, ".")
	if !plainName.MatchString(rest) {
		rest = encodedName + nameEncoding.EncodeToString([]byte(rest))
	}
	key := place + "." + rest
	if err := checkSecretKey(key); err != nil {
		return "", errors.Newf("secret %q: use env.NAME, header.NAME, query.NAME or arg.N", shorten(name))
	}
	return key, nil
}

// Name returns the key as its user knows it, with NAME not encoded.
func (r SecretRef) Name() string {
	place, name, _ := strings.Cut(r.Key, ".")
	if encoded, ok := strings.CutPrefix(name, encodedName); ok {
		if plain, err := nameEncoding.DecodeString(encoded); err == nil {
			return place + "." + string(plain)
		}
	}
	return r.Key
}

func checkSecretKey(key string) error {
	if !secretKey.MatchString(key) || len(key) > maxSecretKey {
		return errors.Newf("key %q is none of a secret", shorten(key))
	}
	return nil
}

// ParseSecretRef is the inverse of [SecretRef.String]. Its error does not repeat
// text that is no reference: it may be a value.
func ParseSecretRef(s string) (SecretRef, error) {
	body, ok := strings.CutPrefix(s, refPrefix)
	body, closed := strings.CutSuffix(body, "}")
	server, rest, slash := strings.Cut(body, "/")
	key, version, hash := strings.Cut(rest, "#")
	if !ok || !closed || !slash || !hash {
		// Not quoted: what was given may be a value.
		return SecretRef{}, errors.New("not a reference to a secret: use ${secret:<server>/<key>#<version>}")
	}
	id, err := events.ParseServerID(server)
	if err != nil {
		return SecretRef{}, errors.Wrap(err, "reference to a secret")
	}
	if err := checkSecretKey(key); err != nil {
		return SecretRef{}, errors.Wrapf(err, "reference to a secret of %s", id)
	}
	n, err := strconv.ParseUint(version, 10, 63)
	if err != nil || n == 0 {
		return SecretRef{}, errors.Newf("reference to secret %s/%s: the version is no number from 1", id, key)
	}
	return SecretRef{Server: id, Key: key, Version: n}, nil
}

// bucketKey is where the version is stored.
func (r SecretRef) bucketKey() string {
	return string(r.Server) + "." + r.Key + "." + strconv.FormatUint(r.Version, 10)
}

// refOfKey is the inverse of bucketKey.
func refOfKey(k string) (r SecretRef, ok bool) {
	server, rest, _ := strings.Cut(k, ".")
	dot := strings.LastIndexByte(rest, '.')
	if dot < 0 {
		return r, false
	}
	n, err := strconv.ParseUint(rest[dot+1:], 10, 63)
	r = SecretRef{Server: events.ServerID(server), Key: rest[:dot], Version: n}
	return r, err == nil && checkSecretKey(r.Key) == nil
}

// shorten cuts text that is too long for a message.
func shorten(s string) string {
	const longest = 80
	if len(s) > longest {
		return s[:longest] + "…"
	}
	return s
}
