package gateway

import (
	"bytes"
	"slices"

	"github.com/toolfleet/toolfleet/session"
)

// lists are what clients can see.
type lists struct {
	tools   []session.Tool
	prompts []session.Prompt
	offer   *offer
}

func (g *Gateway) look() (l lists) {
	l.tools, _ = g.session.Tools()
	l.prompts, l.offer = g.session.Prompts(), g.offer()
	return l
}

// changed returns of which kinds clients see a difference to what was before.
func (l *lists) changed(before *lists) (all []kind) {
	if !slices.EqualFunc(before.tools, l.tools, func(a, b session.Tool) bool {
		return a.Name == b.Name && bytes.Equal(a.Definition, b.Definition)
	}) {
		all = append(all, tools)
	}
	if !slices.EqualFunc(before.prompts, l.prompts, func(a, b session.Prompt) bool {
		return a.Name == b.Name && bytes.Equal(a.Definition, b.Definition)
	}) {
		all = append(all, prompts)
	}
	if before.offer != l.offer && !before.offer.looksLike(l.offer) {
		all = append(all, resources)
	}
	return all
}
