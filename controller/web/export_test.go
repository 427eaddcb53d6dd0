package web

import "net/http"

// Streams returns how many streams are open.
func (h *Handler) Streams() int { return int(h.streams.Taken()) }

// Operation is a method of a path, as it is served.
type Operation struct {
	Method, Path string
	// Access is the scope that it needs, or empty.
	Access string
	Query  []string
}

// Operations returns all operations. HEAD comes with GET, and those of /mcp are
// the protocol's.
func Operations() (all []Operation) {
	for path, methods := range routes {
		for method, x := range methods {
			o := Operation{method, path, string(x.access), x.query}
			if x.access == nearby {
				o.Access = ""
			}
			if len(x.query) > 0 && x.query[0] == anyQuery[0] {
				o.Query = nil
			}
			switch method {
			case http.MethodHead:
			case anyMethod:
				for _, m := range []string{http.MethodGet, http.MethodPost, http.MethodDelete} {
					all = append(all, Operation{m, path, "call", nil})
				}
			default:
				all = append(all, o)
			}
		}
	}
	return all
}
