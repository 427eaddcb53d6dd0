package gateway

import (
	"slices"

	"github.com/go-json-experiment/json/jsontext"
)

type implementation struct {
	Name    string `json:"name"`
	Version string `json:"version"`
}

// list says that there is a list whose changes are told.
type list struct {
	ListChanged bool `json:"listChanged"`
}

// capabilities are what the gateway can do. Nobody can subscribe to a resource.
type capabilities struct {
	Completions struct{} `json:"completions"`
	Logging     struct{} `json:"logging"`
	Prompts     list     `json:"prompts"`
	Resources   list     `json:"resources"`
	Tools       list     `json:"tools"`
}

var able = capabilities{Prompts: list{true}, Resources: list{true}, Tools: list{true}}

// greet returns the result of initialize.
func (g *Gateway) greet(revision string) jsontext.Value {
	if !slices.Contains(legacy, revision) {
		revision = legacy[0]
	}
	return mustMarshal(struct {
		Revision     string         `json:"protocolVersion"`
		Capabilities capabilities   `json:"capabilities"`
		Server       jsontext.Value `json:"serverInfo"`
		Instructions string         `json:"instructions,omitzero"`
	}{revision, able, g.about, g.instructions()})
}

// discover returns the result of server/discover. It is never fresh: what it says
// of servers is of this moment.
func (g *Gateway) discover() jsontext.Value {
	return mustMarshal(struct {
		Type         string         `json:"resultType"`
		Revisions    []string       `json:"supportedVersions"`
		Capabilities capabilities   `json:"capabilities"`
		Instructions string         `json:"instructions,omitzero"`
		FreshFor     int            `json:"ttlMs"`
		Scope        string         `json:"cacheScope"`
		Meta         jsontext.Value `json:"_meta"`
	}{"complete", Revisions, able, g.instructions(), 0, "private", metaOf(g.about, nil)})
}

func (g *Gateway) instructions() string {
	return instructions(g.session.Pending(), g.session.Status().Servers)
}
