package parts

import (
	"context"
	"io/fs"
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
	if errors.Is(err, fs.ErrNotExist) {
		switch _, err = s.Recipient(ctx); {
		case errors.Is(err, jetlog.ErrNoRecipient):
			id, err = jetlog.LoadOrCreateIdentity(path)
		case err == nil:
			h.Logger.Warn("servers with secrets run elsewhere: this host has no identity file", "worker", h.ID)
			return nil, nil, nil
		}
	}
	if err != nil {
		return nil, nil, err
	}
	if err := s.Adopt(ctx, id); err != nil {
		return nil, nil, err
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
