package jetlog

import (
	"bytes"
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"slices"
	"strconv"
	"strings"

	"filippo.io/age"
	"github.com/cockroachdb/errors"
	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/toolfleet/toolfleet/events"
)

const (
	// MaxSecret bounds a secret value, in bytes.
	MaxSecret = 64 << 10
	// Keys of the bucket that no value has: those have dots in them.
	recipientKey   = "recipient"
	fingerprintKey = "fingerprint"
	// fingerprintSize is that of the key of fingerprints, in bytes.
	fingerprintSize = 32
)

// What can be wrong with secrets. Errors are marked with them.
var (
	// ErrNoRecipient says that the fleet has no recipient yet, so nothing can be
	// encrypted for it: see [Secrets.Adopt].
	ErrNoRecipient = errors.New("the fleet has no recipient for secrets")
	// ErrOtherRecipient says that an identity is not that of the fleet.
	ErrOtherRecipient = errors.New("the identity is not the fleet's")
	// ErrSecretNotFound says that there is no such version of a secret.
	ErrSecretNotFound = errors.New("secret not found")
)

// Secrets are the secret values of a fleet's definitions, encrypted to the
// fleet's recipient. Anyone who may read the bucket can add values; only who has
// the fleet's [Identity] can read them.
//
// A version of a value never changes. With it is stored its fingerprint, an HMAC
// over server, key and value, by which a repeated value is known without being
// decrypted. No error holds a value. Every method but [Secrets.Versions] tries
// until its context ends; a server without room is an error at once, with no mark.
type Secrets struct {
	log *Log
	kv  jetstream.KeyValue
	// stream is that of the bucket.
	stream jetstream.Stream
}

// Secrets opens the fleet's secrets. It tries until the context ends.
func (l *Log) Secrets(ctx context.Context) (*Secrets, error) {
	s := &Secrets{log: l}
	err := l.ask(ctx, func(ctx context.Context) (err error) {
		if s.kv, err = l.js.KeyValue(ctx, l.stream("secrets")); err == nil {
			s.stream, err = l.js.Stream(ctx, kvStream(l.fleet, "secrets"))
		}
		return err
	})
	if err != nil {
		return nil, errors.Wrap(err, "open the fleet's secrets")
	}
	return s, nil
}

// load returns the value of a key, from the stream's leader.
func (s *Secrets) load(ctx context.Context, key string) (value []byte, err error) {
	err = s.log.ask(ctx, func(ctx context.Context) error {
		e, err := s.kv.Get(ctx, key)
		if err == nil {
			value = e.Value()
		}
		return err
	})
	return value, err
}

// create stores a key that has no value. When it has one, which an attempt whose
// answer was lost may have stored, the error is ErrKeyExists.
func (s *Secrets) create(ctx context.Context, key string, value []byte) error {
	return s.log.ask(ctx, func(ctx context.Context) error {
		_, err := s.kv.Create(ctx, key, value)
		return err
	})
}

// Adopt makes the identity that of the fleet, if the fleet has none; if it is
// that of the fleet already, nothing is done. If the fleet has another one, the
// error is marked [ErrOtherRecipient] and names both recipients; of several
// identities at the same time, all but one get it. Only the recipient is stored.
func (s *Secrets) Adopt(ctx context.Context, id *Identity) error {
	there, err := s.once(ctx, recipientKey, []byte(id.Recipient()))
	if err != nil {
		return errors.Wrap(err, "store the fleet's recipient")
	}
	if r := string(there); r != id.Recipient() {
		return errors.Mark(errors.Newf("the fleet's secrets are encrypted to %s, but this host has the %s: copy the identity file of a host that has the right one",
			r, id), ErrOtherRecipient)
	}
	return nil
}

// Recipient returns the public key that the fleet's secrets are encrypted to, or
// an error marked [ErrNoRecipient].
func (s *Secrets) Recipient(ctx context.Context) (string, error) {
	value, err := s.load(ctx, recipientKey)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return "", errors.Mark(errors.New("the fleet has no recipient for secrets yet: start a worker that has an identity file (`toolfleet up` makes one)"),
			ErrNoRecipient)
	}
	if err != nil {
		return "", errors.Wrap(err, "read the fleet's recipient")
	}
	return string(value), nil
}

// once returns the value of a key that is written once in the fleet's life: the
// one that is there, or the one given.
func (s *Secrets) once(ctx context.Context, key string, value []byte) ([]byte, error) {
	for {
		there, err := s.load(ctx, key)
		if !errors.Is(err, jetstream.ErrKeyNotFound) {
			return there, err
		}
		if err := s.create(ctx, key, value); !errors.Is(err, jetstream.ErrKeyExists) {
			return value, err
		}
		// Someone else was faster; replicas tell so a little before they have it.
		if err := pause(ctx, retryPause); err != nil {
			return nil, err
		}
	}
}

// sealed is a stored value.
type sealed struct {
	// HMAC of server, key and value, in hex.
	HMAC string `json:"hmac"`
	// Age is the value, encrypted to the fleet's recipient.
	Age []byte `json:"age"`
}

// Put stores a value of a server, named by where in the definition it is:
// env.NAME, header.NAME, query.NAME or arg.N. It returns the reference to it,
// ${secret:<server>/<key>#<version>}. If the last version has the same value,
// nothing is stored and the reference is to that one.
//
// Its error is marked [ErrNoRecipient] or [events.ErrInvalidID] (the server's)
// where that is why; those of another name and of a value above [MaxSecret] have
// no mark.
func (s *Secrets) Put(ctx context.Context, server events.ServerID, name, value string) (ref string, err error) {
	if _, err := events.ParseServerID(string(server)); err != nil {
		return "", err
	}
	key, err := secretKeyOf(name)
	if err != nil {
		return "", err
	}
	if len(value) > MaxSecret {
		return "", errors.Newf("secret %s of %s: %d bytes, at most %d are allowed", name, server, len(value), MaxSecret)
	}
	r, err := s.put(ctx, SecretRef{Server: server, Key: key}, value)
	if err != nil {
		return "", errors.Wrapf(err, "store secret %s of %s", name, server)
	}
	return r.String(), nil
}

func (s *Secrets) put(ctx context.Context, r SecretRef, value string) (SecretRef, error) {
	fingerprint, err := s.fingerprint(ctx, r, value)
	if err != nil {
		return r, err
	}
	recipient, err := s.Recipient(ctx)
	if err != nil {
		return r, err
	}
	text, err := encrypt(recipient, value)
	if err != nil {
		return r, err
	}
	data, err := json.Marshal(&sealed{HMAC: fingerprint, Age: text})
	if err != nil {
		return r, err // unreachable: both fields can be encoded
	}
	for {
		if r.Version, err = s.lastVersion(ctx, r); err != nil {
			return r, err
		}
		last, err := s.read(ctx, r)
		switch {
		case err == nil && hmac.Equal([]byte(last.HMAC), []byte(fingerprint)):
			return r, nil
		case err != nil && !errors.Is(err, ErrSecretNotFound):
			return r, err
		}
		r.Version++
		if err = s.create(ctx, r.bucketKey(), data); !errors.Is(err, jetstream.ErrKeyExists) {
			return r, err
		}
		// It was stored meanwhile, by us or by someone else: which value is it?
		// Replicas tell so a little before they have it.
		if err := pause(ctx, retryPause); err != nil {
			return r, err
		}
	}
}

// lastVersion returns the number of the key's last version, or 0. Removed
// versions count, as long as the bucket knows of them.
func (s *Secrets) lastVersion(ctx context.Context, r SecretRef) (uint64, error) {
	prefix := kvSubject(s.log.fleet, "secrets", string(r.Server)+"."+r.Key+".")
	var info *jetstream.StreamInfo
	err := s.log.ask(ctx, func(ctx context.Context) (err error) {
		info, err = s.stream.Info(ctx, jetstream.WithSubjectFilter(prefix+"*"))
		return err
	})
	if err != nil {
		return 0, err
	}
	var last uint64
	for subject := range info.State.Subjects {
		if n, err := strconv.ParseUint(strings.TrimPrefix(subject, prefix), 10, 63); err == nil {
			last = max(last, n)
		}
	}
	return last, nil
}

// Versions returns the versions that are stored of a server's values, ordered by
// key and number. It does not try again: without a leader it fails.
func (s *Secrets) Versions(ctx context.Context, server events.ServerID) ([]SecretRef, error) {
	if _, err := events.ParseServerID(string(server)); err != nil {
		return nil, err
	}
	list, err := s.kv.ListKeysFiltered(ctx, string(server)+".>")
	if err != nil {
		return nil, errors.Wrapf(s.log.explain(err), "list the secrets of %s", server)
	}
	var refs []SecretRef
	for k := range list.Keys() {
		if r, ok := refOfKey(k); ok {
			refs = append(refs, r)
		}
	}
	slices.SortFunc(refs, func(a, b SecretRef) int {
		return cmp.Or(cmp.Compare(a.Key, b.Key), cmp.Compare(a.Version, b.Version))
	})
	return refs, errors.Wrapf(ctx.Err(), "list the secrets of %s", server)
}

// Purge removes a version for good. Its number is not used again. That it is not
// there is no error.
func (s *Secrets) Purge(ctx context.Context, r SecretRef) error {
	err := s.log.ask(ctx, func(ctx context.Context) error { return s.kv.Purge(ctx, r.bucketKey()) })
	return errors.Wrapf(err, "purge secret %s", r)
}

func (s *Secrets) read(ctx context.Context, r SecretRef) (sealed, error) {
	data, err := s.load(ctx, r.bucketKey())
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return sealed{}, errors.Mark(errors.Newf("there is no version %d", r.Version), ErrSecretNotFound)
	}
	if err != nil {
		return sealed{}, err
	}
	var v sealed
	if err := json.Unmarshal(data, &v); err != nil {
		return sealed{}, errors.Newf("version %d is damaged", r.Version)
	}
	return v, nil
}

// Get returns the value that a reference names. Its error names server and key,
// and is marked [ErrSecretNotFound] or [ErrOtherRecipient] where that is why;
// that of a stored value that was altered, or is another key's, has no mark, nor
// has that of text that is no reference, which it does not repeat.
func (s *Secrets) Get(ctx context.Context, ref string, id *Identity) (string, error) {
	r, err := ParseSecretRef(ref)
	if err != nil {
		return "", err
	}
	value, err := s.get(ctx, r, id)
	return value, errors.Wrapf(err, "secret %s of %s", r.Name(), r.Server)
}

func (s *Secrets) get(ctx context.Context, r SecretRef, id *Identity) (string, error) {
	v, err := s.read(ctx, r)
	if err != nil {
		return "", err
	}
	value, err := decrypt(id, v.Age)
	if err != nil {
		return "", err
	}
	// The fingerprint also proves that it is the value of this server and key.
	fingerprint, err := s.fingerprint(ctx, r, value)
	if err != nil {
		return "", err
	}
	if !hmac.Equal([]byte(v.HMAC), []byte(fingerprint)) {
		return "", errors.Newf("version %d is not what was stored", r.Version)
	}
	return value, nil
}

// fingerprint is the HMAC of server, key and value, under the fleet's key for
// it, which is made at first use.
func (s *Secrets) fingerprint(ctx context.Context, r SecretRef, value string) (string, error) {
	fresh := make([]byte, fingerprintSize)
	_, _ = rand.Read(fresh) // never fails
	key, err := s.once(ctx, fingerprintKey, fresh)
	if err != nil {
		return "", errors.Wrap(err, "read the key of fingerprints")
	}
	mac := hmac.New(sha256.New, key)
	// Neither a server's id nor a key holds a NUL.
	_, _ = io.WriteString(mac, string(r.Server)+"\x00"+r.Key+"\x00"+value) // never fails
	return hex.EncodeToString(mac.Sum(nil)), nil
}

func encrypt(recipient, value string) ([]byte, error) {
	to, err := age.ParseX25519Recipient(recipient)
	if err != nil {
		return nil, errors.New("the fleet's recipient is damaged")
	}
	var b bytes.Buffer
	w, err := age.Encrypt(&b, to)
	if err != nil {
		return nil, errors.Wrap(err, "encrypt")
	}
	_, err = io.WriteString(w, value)
	if err = errors.CombineErrors(err, w.Close()); err != nil {
		return nil, errors.Wrap(err, "encrypt") // unreachable: a buffer takes everything
	}
	return b.Bytes(), nil
}

func decrypt(id *Identity, data []byte) (string, error) {
	r, err := age.Decrypt(bytes.NewReader(data), id.x)
	if noMatch := (*age.NoIdentityMatchError)(nil); errors.As(err, &noMatch) {
		return "", errors.Mark(errors.Newf("it is encrypted to another recipient than this host's %s", id), ErrOtherRecipient)
	}
	if err != nil {
		return "", errors.New("the stored value is damaged")
	}
	value, err := io.ReadAll(io.LimitReader(r, MaxSecret+1))
	if err != nil || len(value) > MaxSecret {
		return "", errors.New("the stored value is damaged")
	}
	return string(value), nil
}
