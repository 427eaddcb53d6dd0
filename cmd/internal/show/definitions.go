package show

import (
	"cmp"
	"strings"
	"time"

	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/projections"
	"github.com/toolfleet/toolfleet/projections/kvview"
)

// Definition is a definition in force, with what was asked of its server.
type Definition struct {
	ID         events.ServerID `json:"id"`
	Enabled    bool            `json:"enabled"`
	Want       events.Want     `json:"want"`
	Digest     events.Digest   `json:"digest"`
	Generation events.Seq      `json:"generation"`
	Declared   time.Time       `json:"declared"`
	Changed    time.Time       `json:"changed"`
	Actor      string          `json:"actor"`
	Reason     string          `json:"reason"`
	// Definition is unresolved: it holds references, and no secrets.
	Definition *events.Definition `json:"definition"`
}

// NewDefinition returns what a server's state says of its definition, which it
// must have.
func NewDefinition(s *projections.Server) Definition {
	return Definition{s.ID, s.Enabled, s.Wanted(), s.Digest, s.Generation, s.Declared, s.Changed, s.Actor, s.Reason, s.Definition}
}

// ReadDefinitions returns the definitions that a fleet has, in the order of
// their ids.
func ReadDefinitions(r *kvview.Reader) []Definition {
	var list []Definition
	for _, e := range r.Servers() {
		if e.Value.Exists() {
			list = append(list, NewDefinition(&e.Value))
		}
	}
	return list
}

// Definitions is the view of definitions.
var Definitions = &View[Definition]{
	Name:   func(d *Definition) string { return string(d.ID) },
	Member: "id",
	Object: func(d *Definition) any { return d },
	None:   Servers.None,
	Columns: []Column[Definition]{
		{Heading: "SERVER", Cell: func(d *Definition) string { return string(d.ID) }},
		{Heading: "TYPE", Cell: func(d *Definition) string { return string(d.Definition.Transport()) }},
		{Heading: "WANT", Cell: func(d *Definition) string {
			if !d.Enabled {
				return "disabled"
			}
			return string(d.Want)
		}},
		{Heading: "START", Cell: func(d *Definition) string {
			line := strings.Join(append([]string{d.Definition.Command}, d.Definition.Args...), " ")
			return cut(cmp.Or(d.Definition.URL, line), descriptionWidth)
		}},
		{Heading: "DIGEST", Cell: func(d *Definition) string { return short(d.Digest) }},
		{Heading: "CHANGED", Wide: true, Cell: func(d *Definition) string { return moment(d.Changed) }},
		{Heading: "BY", Wide: true, Cell: func(d *Definition) string { return d.Actor }},
		{Heading: "REASON", Wide: true, Cell: func(d *Definition) string { return d.Reason }},
		{Heading: "SOURCE", Wide: true, Cell: func(d *Definition) string {
			if s := d.Definition.Source; s != nil {
				return cmp.Or(s.Path, s.Provider)
			}
			return ""
		}},
	},
}
