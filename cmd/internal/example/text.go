package example

import (
	"context"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/cockroachdb/errors"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

type textArgs struct {
	Text string `json:"text"`
}

type stats struct {
	Characters  int    `json:"characters" jsonschema:"Unicode code points"`
	Bytes       int    `json:"bytes" jsonschema:"length in UTF-8"`
	Words       int    `json:"words"`
	Lines       int    `json:"lines"`
	Sentences   int    `json:"sentences"`
	LongestWord string `json:"longestWord"`
}

func textStats() server.ServerTool {
	return reads("text_stats", "Text statistics",
		"Counts the characters, bytes, words, lines and sentences of a text and finds its longest word.",
		func(_ context.Context, a textArgs) (stats, error) { return measure(a.Text), nil },
		mcp.WithString("text", mcp.Required(), mcp.Description("The text to measure.")))
}

func measure(text string) stats {
	s := stats{Characters: utf8.RuneCountInString(text), Bytes: len(text)}
	if text != "" {
		s.Lines = 1 + strings.Count(strings.TrimSuffix(text, "\n"), "\n")
	}
	for word := range strings.FieldsSeq(text) {
		s.Words++
		if strings.ContainsAny(word[len(word)-1:], ".!?") {
			s.Sentences++
		}
		bare := strings.TrimFunc(word, unicode.IsPunct)
		if utf8.RuneCountInString(bare) > utf8.RuneCountInString(s.LongestWord) {
			s.LongestWord = bare
		}
	}
	return s
}

type formatArgs struct {
	JSON    string `json:"json"`
	Compact bool   `json:"compact"`
}

type formatted struct {
	JSON string `json:"json"`
}

func formatJSON() server.ServerTool {
	return reads("format_json", "Format JSON",
		"Checks a JSON text and writes it again, indented or compact. The order of members is kept.",
		func(_ context.Context, a formatArgs) (formatted, error) {
			v := jsontext.Value(a.JSON)
			format := v.Indent
			if a.Compact {
				format = v.Compact
			}
			if err := format(); err != nil {
				return formatted{}, errors.Wrap(err, "the text is not JSON")
			}
			return formatted{string(v)}, nil
		},
		mcp.WithString("json", mcp.Required(), mcp.Description("The JSON text.")),
		mcp.WithBoolean("compact", mcp.Description("One line without white space."), mcp.DefaultBool(false)))
}

type queryArgs struct {
	JSON    string `json:"json"`
	Pointer string `json:"pointer"`
}

func queryJSON() server.ServerTool {
	return reads("query_json", "Query JSON",
		`Returns the part of a JSON text that a JSON pointer (RFC 6901), such as "/items/0/name", leads to.`,
		func(_ context.Context, a queryArgs) (formatted, error) {
			v, err := lookUp(a.JSON, jsontext.Pointer(a.Pointer))
			return formatted{v}, err
		},
		mcp.WithString("json", mcp.Required(), mcp.Description("The JSON text.")),
		mcp.WithString("pointer", mcp.Required(), mcp.Description("The JSON pointer; empty for the whole text.")))
}

func lookUp(text string, p jsontext.Pointer) (string, error) {
	if !p.IsValid() {
		return "", errors.Newf("%q is no JSON pointer: it begins with / and has ~ only in ~0 and ~1", string(p))
	}
	here := jsontext.Value(text)
	if !here.IsValid() {
		return "", errors.New("the text is not JSON")
	}
	for token := range p.Tokens() {
		next, ok := member(here, token)
		if !ok {
			return "", errors.Newf("nothing is at %q", string(p))
		}
		here = next
	}
	return strings.TrimSpace(string(here)), nil
}

// member returns the member or element of a valid JSON text that a pointer's
// token names.
func member(v jsontext.Value, token string) (jsontext.Value, bool) {
	switch v.Kind() {
	case '{':
		var members map[string]jsontext.Value
		if json.Unmarshal(v, &members) != nil {
			return nil, false // unreachable unless the text is not valid
		}
		m, ok := members[token]
		return m, ok
	case '[':
		var elements []jsontext.Value
		i, err := strconv.Atoi(token)
		if err != nil || json.Unmarshal(v, &elements) != nil || i < 0 || i >= len(elements) {
			return nil, false
		}
		return elements[i], true
	default:
		return nil, false
	}
}
