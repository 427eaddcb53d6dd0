package client

import (
	"context"

	"github.com/cockroachdb/errors"

	"github.com/toolfleet/toolfleet/events"
)

// Secrets stores literal secrets. *jetlog.Secrets is one.
type Secrets interface {
	// Put stores a value, unless it is that of the key's last version, and
	// returns the reference to it: "${secret:<server>/<key>#<n>}".
	Put(ctx context.Context, server events.ServerID, key, value string) (ref string, err error)
}

// Removed stands for a literal secret in a member that is not known.
const Removed = "${removed}"

// ErrNoSecretStore marks the error of a definition that holds literal secrets
// where there is nowhere to move them to.
var ErrNoSecretStore = errors.New("no store for secrets")

// ErrMixedSecret marks the error of a value in which a literal secret stands
// together with references, so that it cannot be moved on its own.
var ErrMixedSecret = errors.New("literal secret beside a reference")

// ErrMisplacedSecret marks the error of a member that holds a literal secret and
// from which none is moved.
var ErrMisplacedSecret = errors.New("literal secret where none is moved from")

// MoveSecrets returns the definition with each literal secret moved to the
// store and a reference in its place; the definition itself is not changed. It
// also returns the keys of what was moved. Nothing of it is needed on the way
// back: a worker resolves the references at each connect.
//
// Moved, under these keys, are, unless they are references already:
//
//	env.NAME          values of env
//	header.NAME       values of headers
//	query.NAME        values of the url's query; a second one is query.NAME&2
//	query.&user, query.&password, query.&fragment   those parts of the url
//	query.&path.N     parts of the url's path that look like a secret, from 1
//	arg.N             arguments, or their values, that look like a secret, from 1
//
// Values of env, headers and query stay literal when their key is well known to
// be harmless, when they have a harmless form (booleans, integers, log levels,
// locales; not under a key that speaks of a secret) or when
// [events.Definition.AllowLiteral] names the key. Values of unknown members that
// look like a secret are not kept: nothing resolves them, so [Removed] takes
// their place.
//
// A command or cwd with a known kind of token in it is refused
// ([ErrMisplacedSecret]).
//
// Errors are marked [ErrMixedSecret], [ErrMisplacedSecret] or [ErrNoSecretStore],
// or are those of the store. They name the key and never the value.
func MoveSecrets(ctx context.Context, server events.ServerID, d *events.Definition, s Secrets) (*events.Definition, []string, error) {
	var keys []string
	moved, err := rewrite(d, func(key, value string) (string, error) {
		keys = append(keys, key)
		if s == nil {
			return "", errors.Mark(errors.Newf("%s is a literal secret, and there is no store to move it to", key), ErrNoSecretStore)
		}
		ref, err := s.Put(ctx, server, key, value)
		return ref, errors.Wrapf(err, "store %s", key)
	})
	if err != nil {
		return nil, nil, errors.Wrapf(err, "move the secrets of server %q", server)
	}
	return moved, keys, nil
}

// LiteralSecrets returns the keys of what [MoveSecrets] would move.
func LiteralSecrets(d *events.Definition) ([]string, error) {
	var keys []string
	_, err := rewrite(d, func(key, _ string) (string, error) {
		keys = append(keys, key)
		return "${secret:" + key + "}", nil
	})
	return keys, err
}
