package worker

import (
	"github.com/go-json-experiment/json"

	"github.com/toolfleet/toolfleet/events"
)

// sameConnection says whether one connection serves both definitions. Unlike
// their digests it tells versions of secrets apart: a rotated secret needs a
// new connection.
func sameConnection(a, b *events.Definition) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Digest() == b.Digest() && string(connectionOf(a)) == string(connectionOf(b))
}

// connectionOf returns the part of a definition that its digest covers.
func connectionOf(d *events.Definition) []byte {
	c := *d
	c.Source, c.Labels, c.Disabled, c.Want = nil, nil, false, ""
	c.Scope, c.Type, c.AutoApprove, c.Placement = "", d.Transport(), nil, nil
	data, err := json.Marshal(&c, json.Deterministic(true))
	if err != nil {
		return nil // unreachable unless the definition has no digest either
	}
	return data
}

// digestOf returns the digest of a command's definition.
func digestOf(c *events.Command) events.Digest {
	if c.Digest != "" || c.Definition == nil {
		return c.Digest
	}
	return c.Definition.Digest()
}
