package mcptest

import (
	"context"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

// SleepingResource is a URI that is answered when its reading is cancelled, if it is
// among a server's resources.
const SleepingResource = "test:///sleep"

// What is answered as it is here, with numbers and members that typed values lose:
// the resource OddURI, the prompt OddPrompt, and every completion.
const (
	OddURI        = "odd:///"
	OddContents   = `{"contents":[{"uri":"odd:///","text":"…","hologram":9007199254740993}],"vendor":{"a":1.0}}`
	OddPrompt     = "odd"
	OddMessages   = `{"messages":[{"role":"user","content":{"type":"hologram","n":9007199254740993}}],"vendor":{"a":1.0}}`
	OddCompletion = `{"completion":{"values":["a","b"],"total":9007199254740993},"vendor":{"a":1.0}}`
)

// capabilities are what the script declares.
func (s *Script) capabilities() (options []server.ServerOption) {
	if s.Tools != nil || s.Raw != nil {
		options = append(options, server.WithToolCapabilities(true))
	}
	if s.Resources != nil || s.Templates != nil || s.RawLists[string(mcp.MethodResourcesList)] != nil {
		options = append(options, server.WithResourceCapabilities(false, true))
	}
	if s.Prompts != nil || s.RawLists[string(mcp.MethodPromptsList)] != nil {
		options = append(options, server.WithPromptCapabilities(true))
	}
	if s.Completes {
		options = append(options, server.WithCompletions())
	}
	return options
}

// offer adds the resources, templates and prompts of the script.
func (b *behaviour) offer() {
	for _, uri := range b.script.Resources {
		b.addResource(uri)
	}
	for _, template := range b.script.Templates {
		b.server.AddResourceTemplate(mcp.NewResourceTemplate(template, "a template"), b.read)
	}
	for _, name := range b.script.Prompts {
		b.addPrompt(name)
	}
}

func (b *behaviour) addResource(uri string) {
	b.server.AddResource(mcp.NewResource(uri, "the resource "+uri), b.read)
}

func (b *behaviour) addPrompt(name string) {
	b.server.AddPrompt(mcp.NewPrompt(name, mcp.WithArgument("text")), func(_ context.Context, r mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
		return mcp.NewGetPromptResult("the prompt "+name, []mcp.PromptMessage{
			mcp.NewPromptMessage(mcp.RoleUser, mcp.NewTextContent(name+": "+r.Params.Arguments["text"])),
		}), nil
	})
}

func (b *behaviour) read(ctx context.Context, r mcp.ReadResourceRequest) ([]mcp.ResourceContents, error) {
	if r.Params.URI == SleepingResource {
		<-ctx.Done()
		b.script.note("cancelled")
		return nil, ctx.Err()
	}
	return []mcp.ResourceContents{mcp.TextResourceContents{URI: r.Params.URI, Text: "what is at " + r.Params.URI}}, nil
}

// grow adds a tool, or something else, and announces that so often.
func (b *behaviour) grow(what string, times int) {
	announced := mcp.MethodNotificationToolsListChanged
	switch what {
	case "resources":
		b.addResource("test:///grown")
		announced = mcp.MethodNotificationResourcesListChanged
	case "prompts":
		b.addPrompt("grown")
		announced = mcp.MethodNotificationPromptsListChanged
	default:
		b.server.AddTool(mcp.NewToolWithRawSchema("grown", "", []byte(`{"type":"object"}`)), b.handler("echo"))
	}
	for range times {
		b.server.SendNotificationToAllClients(announced, nil)
	}
}

// interceptOffers takes the messages about resources, prompts and completions that
// the script answers itself. All of them are noted, with their parameters.
func (b *behaviour) interceptOffers(m *message) (answer []byte, taken bool) {
	switch mcp.MCPMethod(m.Method) {
	case mcp.MethodResourcesList, mcp.MethodResourcesTemplatesList, mcp.MethodPromptsList,
		mcp.MethodResourcesRead, mcp.MethodPromptsGet, mcp.MethodCompletionComplete:
	default:
		return nil, false
	}
	b.script.note("%s %s", m.Method, m.Params)
	if e := b.script.Errors[m.Method]; e != nil {
		time.Sleep(time.Duration(b.script.ErrorMs) * time.Millisecond)
		return failure(m.ID, string(e)), true
	}
	if raw := b.script.RawLists[m.Method]; raw != nil {
		member := map[string]string{"resources/list": "resources", "resources/templates/list": "resourceTemplates", "prompts/list": "prompts"}
		return b.listRaw(m, member[m.Method], raw), true
	}
	var p struct {
		URI  string `json:"uri"`
		Name string `json:"name"`
	}
	_ = json.Unmarshal(m.Params, &p) // a list has neither
	switch {
	case m.Method == "resources/read" && p.URI == OddURI:
		return success(m.ID, OddContents), true
	case m.Method == "prompts/get" && p.Name == OddPrompt:
		return success(m.ID, OddMessages), true
	case m.Method == "completion/complete" && b.script.Completes:
		return success(m.ID, OddCompletion), true
	}
	return nil, false
}
