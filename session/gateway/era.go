package gateway

import (
	"net/http"
	"slices"
)

// modern is the revision without sessions: each request says by itself who sends
// it and how.
const modern = "2026-07-28"

// Revisions of the protocol that are served, the newest first.
var Revisions = []string{modern, "2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"}

// legacy are the revisions that begin with initialize.
var legacy = Revisions[1:]

// isLater says whether a header names a revision that does not begin with
// initialize.
func isLater(header string) bool { return header != "" && !slices.Contains(legacy, header) }

// isModern says whether a message is one of the revision without sessions, or of
// one that is not served at all. The header is that of HTTP, or empty. A client
// that tries initialize has turned to the earlier ones.
func (m *message) isModern(header string) bool {
	if said := m.meta.Revision; said != "" {
		return !slices.Contains(legacy, said)
	}
	return isLater(header) && m.Method != "initialize"
}

// check checks what a request says about itself.
func (m *message) check() *rpcError {
	switch said := m.meta.Revision; {
	case said == "":
		return malformed(codeInvalidParams, "_meta lacks io.modelcontextprotocol/protocolVersion")
	case said != modern:
		return unserved(said)
	case m.meta.Capabilities.Kind() != '{':
		return malformed(codeInvalidParams, "_meta lacks io.modelcontextprotocol/clientCapabilities, an object")
	default:
		return nil
	}
}

// checkHeaders checks that the headers of a request say what its body says:
// whoever stands between may have decided on them.
func (m *message) checkHeaders(h http.Header) *rpcError {
	header := h.Get(revisionHeader)
	switch said := m.meta.Revision; {
	case header == "":
		return malformed(codeHeaders, "the header "+revisionHeader+" is missing")
	case said == "" && header != modern:
		return unserved(header)
	case said != "" && header != said:
		return malformed(codeHeaders, "the header "+revisionHeader+" is not the revision in _meta")
	}
	if err := m.check(); err != nil {
		return err
	}
	if h.Get(methodHeader) != m.Method {
		return malformed(codeHeaders, "the header "+methodHeader+" is not the method")
	}
	return m.checkName(h)
}

func malformed(code int, words string) *rpcError {
	return &rpcError{Code: code, Message: words, status: http.StatusBadRequest}
}

// unserved is the answer to a request of another revision.
func unserved(revision string) *rpcError {
	e := malformed(codeRevision, "this revision of the protocol is not served")
	e.Data = mustMarshal(struct {
		Supported []string `json:"supported"`
		Requested string   `json:"requested"`
	}{Revisions, revision})
	return e
}
