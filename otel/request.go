package otel

import "go.opentelemetry.io/otel/attribute"

// RequestName names the span of an MCP request: the method, and the tool or
// prompt that it is about. The URI of a resource is one of too many.
func RequestName(method, target string) string {
	if target == "" || targetKey(method) == MCPResource {
		return method
	}
	return method + " " + target
}

// roomForMore is for what a span has besides, so that it is one slice.
const roomForMore = 12

// Request returns the attributes of an MCP request.
func Request(method, target string) []attribute.KeyValue {
	all := make([]attribute.KeyValue, 0, roomForMore)
	all = append(all, MCPMethod.String(method))
	if key := targetKey(method); key != "" && target != "" {
		all = append(all, key.String(target))
	}
	if method == "tools/call" {
		all = append(all, GenAIOperation.String(executeTool))
	}
	return all
}

func targetKey(method string) attribute.Key {
	switch method {
	case "tools/call":
		return GenAITool
	case "prompts/get":
		return GenAIPrompt
	case "resources/read":
		return MCPResource
	default:
		return ""
	}
}

// Message returns the attributes of a message that is sent or processed, at a
// destination such as [CommandTemplate].
func Message(operation, kind, template string) []attribute.KeyValue {
	all := make([]attribute.KeyValue, 0, roomForMore)
	return append(all, MessagingSystem.String(messagingSystemOfNATS), MessagingOperation.String(operation),
		MessagingType.String(kind), MessagingTemplate.String(template))
}
