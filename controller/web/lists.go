package web

import (
	"net/http"
	"slices"
	"strconv"

	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/projections/shape"
)

// seqHeader says how far the views are that an answer was made from.
const seqHeader = "Toolfleet-Seq"

func sayHow(w http.ResponseWriter, far events.Seq) {
	w.Header().Set(seqHeader, strconv.FormatUint(uint64(far), 10))
}

// list answers with an array, an empty one if there is nothing in it. The views
// are at least as far as they were before.
func list[T any](h *Handler, w http.ResponseWriter, read func() []T) {
	sayHow(w, h.Views.Seq())
	all := read()
	if all == nil {
		all = []T{}
	}
	answer(w, http.StatusOK, all)
}

func (h *Handler) servers(w http.ResponseWriter, _ *http.Request, _ *caller) {
	list(h, w, h.Views.Servers)
}

func (h *Handler) workers(w http.ResponseWriter, _ *http.Request, _ *caller) {
	list(h, w, h.Views.Workers)
}

// tools answers with the tools of all servers, or of those that are asked for.
func (h *Handler) tools(w http.ResponseWriter, r *http.Request, _ *caller) {
	servers := r.URL.Query()["server"]
	all := h.Views.Servers()
	for _, id := range servers {
		if !slices.ContainsFunc(all, func(s shape.Server) bool { return string(s.ID) == id }) {
			unknownServer(id).write(w)
			return
		}
	}
	list(h, w, func() []shape.Tool {
		tools := h.Views.Tools()
		if len(servers) > 0 {
			tools = slices.DeleteFunc(slices.Clone(tools), func(t shape.Tool) bool { return !slices.Contains(servers, string(t.Server)) })
		}
		return tools
	})
}

func (h *Handler) server(w http.ResponseWriter, _ *http.Request, c *caller) {
	sayHow(w, h.Views.Seq())
	for _, s := range h.Views.Servers() {
		if string(s.ID) == c.id {
			answer(w, http.StatusOK, &s)
			return
		}
	}
	unknownServer(c.id).write(w)
}

func unknownServer(id string) *Problem {
	return &Problem{
		Status: http.StatusNotFound, Code: CodeNotFound, Detail: "the fleet has no server " + quote(id),
		Hint: "GET /v1/servers lists those that there are",
	}
}
