package parts

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/cockroachdb/errors"

	"github.com/toolfleet/toolfleet/events/jetlog"
	"github.com/toolfleet/toolfleet/worker"
)

// Secrets returns what resolves the fleet's secrets on this host, and for which
// recipients. The first
// worker of a fleet makes the fleet's identity; a later one without a copy of it
// runs the servers that need no secrets.
func Secrets(ctx context.Context, log *jetlog.Log, h *Host) (worker.Secrets, []string, error) {
	s, err := log.Secrets(ctx)
	if err != nil {
		return nil, nil, err
	}
	path := filepath.Join(h.Data, "identity")
	id, err := jetlog.LoadIdentity(path)
	made := false
	if errors.Is(err, fs.ErrNotExist) {
		if _, err = s.Recipient(ctx); errors.Is(err, jetlog.ErrNoRecipient) {
			made = true
			id, err = jetlog.LoadOrCreateIdentity(path)
		}
	}
	if err == nil && id != nil {
		err = s.Adopt(ctx, id)
	}
	if made && errors.Is(err, jetlog.ErrOtherRecipient) { // another worker of the new fleet was first
		id, err = nil, os.Remove(path)
	}
	switch {
	case err != nil:
		return nil, nil, err
	case id == nil:
		h.Logger.Warn("servers with secrets run elsewhere: this host has no identity file", "worker", h.ID)
		return nil, nil, nil
	}
	return resolver{s, id}, []string{id.Recipient()}, nil
}

// resolver resolves references with the host's identity.
type resolver struct {
	secrets *jetlog.Secrets
	id      *jetlog.Identity
}

func (r resolver) Get(ctx context.Context, ref string) (string, error) {
	return r.secrets.Get(ctx, ref, r.id)
}
