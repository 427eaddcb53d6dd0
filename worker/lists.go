package worker

import (
	"context"

	"github.com/cockroachdb/errors"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/mcp"

	"github.com/toolfleet/toolfleet/events"
)

// ListKind is one of the lists that a server may offer. What holds of tools holds
// of the others, except that an instance is ready without them.
type ListKind int

// The lists.
const (
	Tools ListKind = iota
	Resources
	Prompts

	listKinds = 3
)

// others are the lists that an instance is ready without.
var others = [...]ListKind{Resources, Prompts}

func (k ListKind) String() string { return [...]string{"tools", "resources", "prompts"}[k] }

// body returns the event for a complete list.
func (k ListKind) body(l events.Listing) events.Body {
	switch k {
	case Resources:
		return events.ResourcesListed{Listing: l}
	case Prompts:
		return events.PromptsListed{Listing: l}
	default:
		return events.ToolsListed{Listing: l}
	}
}

// listOf returns the list that an event of that kind tells of.
func listOf(k events.Kind) (ListKind, bool) {
	switch k {
	case events.KindToolsListed:
		return Tools, true
	case events.KindResourcesListed:
		return Resources, true
	case events.KindPromptsListed:
		return Prompts, true
	default:
		return 0, false
	}
}

// announcements are the notifications that a list has changed.
var announcements = map[string]ListKind{
	mcp.MethodNotificationToolsListChanged:     Tools,
	mcp.MethodNotificationResourcesListChanged: Resources,
	mcp.MethodNotificationPromptsListChanged:   Prompts,
}

// section is what one method lists. All but that of resources are a list by
// themselves.
type section struct {
	method mcp.MCPMethod
	// member holds the items in a result, stored in the blob of a list of several
	// sections.
	member, stored string
	// key is the member that identifies an item, noun what an item is.
	key, noun string
	check     func(*shape) (path, reason string)
	// page asks for a page. What comes of it is in the context's exchange: the
	// library's own decoding may well fail.
	page func(ctx context.Context, c *client.Client, p mcp.PaginatedRequest) error
}

var sections = [listKinds][]section{
	Tools: {{
		method: mcp.MethodToolsList, member: "tools", key: "name", noun: "tool", check: checkTool,
		page: func(ctx context.Context, c *client.Client, p mcp.PaginatedRequest) error {
			_, err := c.ListToolsByPage(ctx, mcp.ListToolsRequest{PaginatedRequest: p})
			return err
		},
	}},
	Resources: {{
		method: mcp.MethodResourcesList, member: "resources", stored: "resources",
		key: "uri", noun: "resource", check: checkResource,
		page: func(ctx context.Context, c *client.Client, p mcp.PaginatedRequest) error {
			_, err := c.ListResourcesByPage(ctx, mcp.ListResourcesRequest{PaginatedRequest: p})
			return err
		},
	}, {
		method: mcp.MethodResourcesTemplatesList, member: "resourceTemplates", stored: "templates",
		key: "uriTemplate", noun: "template", check: checkResource,
		page: func(ctx context.Context, c *client.Client, p mcp.PaginatedRequest) error {
			_, err := c.ListResourceTemplatesByPage(ctx, mcp.ListResourceTemplatesRequest{PaginatedRequest: p})
			return err
		},
	}},
	Prompts: {{
		method: mcp.MethodPromptsList, member: "prompts", key: "name", noun: "prompt", check: checkPrompt,
		page: func(ctx context.Context, c *client.Client, p mcp.PaginatedRequest) error {
			_, err := c.ListPromptsByPage(ctx, mcp.ListPromptsRequest{PaginatedRequest: p})
			return err
		},
	}},
}

// The bounds of a section. They are far above what servers have and below what
// would hurt.
const (
	maxPages     = 1000
	maxItems     = 10_000
	maxListBytes = 16 << 20
)

// errNoSuchList says that the server does not know a method that lists.
var errNoSuchList = errors.New("the server has no such method")

// page is a part of a section.
type page struct {
	items []jsontext.Value
	next  string
}

// decodePage splits the result of a method that lists. Duplicate names are let
// through here, so that they only cost the item that has them.
func decodePage(result []byte, member string) (p page, err error) {
	lenient := json.JoinOptions(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	var members struct {
		Next jsontext.Value `json:"nextCursor"`
		// What is there may be anything: only one of them counts.
		Tools     jsontext.Value `json:"tools"`
		Resources jsontext.Value `json:"resources"`
		Templates jsontext.Value `json:"resourceTemplates"`
		Prompts   jsontext.Value `json:"prompts"`
	}
	if err := json.Unmarshal(result, &members, lenient); err != nil {
		return p, err
	}
	if members.Next != nil {
		if err := json.Unmarshal(members.Next, &p.next, lenient); err != nil {
			return p, err
		}
	}
	items := map[string]jsontext.Value{
		"tools": members.Tools, "resources": members.Resources, "resourceTemplates": members.Templates, "prompts": members.Prompts,
	}[member]
	if items == nil {
		return p, nil
	}
	return p, json.Unmarshal(items, &p.items, lenient)
}

// pages lists a section, page by page.
func (c *conn) pages(ctx context.Context, s *section, x *exchange) ([]jsontext.Value, error) {
	var all []jsontext.Value
	var request mcp.PaginatedRequest
	request.Params.Meta = traceMeta(ctx)
	size := 0
	seen := map[string]bool{"": true}
	for range maxPages {
		err := s.page(withExchange(ctx, x), c.client, request)
		switch {
		case x.failure != nil && x.failure.Code == codeMethodNotFound:
			return nil, errors.Mark(x.failure, errNoSuchList)
		case x.failure != nil:
			return nil, x.failure
		case x.result == nil:
			return nil, withoutURL(err)
		}
		p, err := decodePage(x.result, s.member)
		if err != nil {
			return nil, errors.Wrapf(err, "read the answer to %s", s.method)
		}
		x.result = nil
		for _, item := range p.items {
			size += len(item)
		}
		all = append(all, p.items...)
		switch {
		case size > maxListBytes:
			return nil, errors.Newf("the %ss have more than %d bytes", s.noun, maxListBytes)
		case len(all) > maxItems:
			return nil, errors.Newf("there are more than %d %ss", maxItems, s.noun)
		case p.next == "":
			return all, nil
		case seen[p.next]:
			return nil, errors.Newf("a cursor of %s came again", s.method)
		default:
			seen[p.next], request.Params.Cursor = true, mcp.Cursor(p.next)
		}
	}
	return nil, errors.Newf("the %ss have more than %d pages", s.noun, maxPages)
}
