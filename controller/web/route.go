package web

import (
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/toolfleet/toolfleet/controller/request"
	"github.com/toolfleet/toolfleet/guard"
)

// caller is who sends a request, about which server, if about one.
type caller struct {
	id        string
	principal guard.Principal
}

// route is what serves a method of a path.
type route struct {
	access access
	// query are the names of parameters; those of other handlers are theirs.
	query []string
	serve func(*Handler, http.ResponseWriter, *http.Request, *caller)
}

// anyMethod stands for all methods of a path that another handler serves.
const anyMethod = "*"

// anyQuery are the parameters of another handler.
var anyQuery = []string{"*"}

// verbs are what can be asked of a server by POST.
var verbs = []request.Verb{request.Start, request.Stop, request.Restart, request.Enable, request.Disable}

const oneServer = "/v1/servers/{id}"

// routes are by path and method. HEAD is GET without a body.
var routes = make(map[string]map[string]route)

func init() { //nolint:gochecknoinits // the handlers refer to routes
	add := func(path, method string, x route) {
		if routes[path] == nil {
			routes[path] = make(map[string]route)
		}
		routes[path][method] = x
		if method == http.MethodGet {
			routes[path][http.MethodHead] = x
		}
	}
	add("/healthz", http.MethodGet, route{everyone, nil, (*Handler).healthy})
	add("/readyz", http.MethodGet, route{everyone, nil, (*Handler).ready})
	add("/openapi.json", http.MethodGet, route{nearby, nil, (*Handler).openAPI})
	add("/v1/servers", http.MethodGet, route{reads, nil, (*Handler).servers})
	add("/v1/workers", http.MethodGet, route{reads, nil, (*Handler).workers})
	add("/v1/tools", http.MethodGet, route{reads, []string{"server"}, (*Handler).tools})
	add("/v1/events", http.MethodGet, route{reads, []string{"id", "kind", "limit", "since"}, (*Handler).events})
	add(oneServer, http.MethodGet, route{reads, nil, (*Handler).server})
	add(oneServer, http.MethodPut, route{changes, []string{"reason"}, (*Handler).declare})
	add(oneServer, http.MethodDelete, route{changes, []string{"reason"}, asking(request.Withdraw)})
	for _, v := range verbs {
		add(oneServer+":"+string(v), http.MethodPost, route{changes, []string{"reason"}, asking(v)})
	}
	add("/metrics", http.MethodGet, route{reads, anyQuery, func(h *Handler, w http.ResponseWriter, r *http.Request, _ *caller) {
		h.Metrics.ServeHTTP(w, r)
	}})
	add("/mcp", anyMethod, route{everyone, anyQuery, func(h *Handler, w http.ResponseWriter, r *http.Request, _ *caller) {
		h.MCP.ServeHTTP(w, r)
	}})
}

// template returns the path of the route that a request's path belongs to, and
// the id in it.
func template(path string) (route, id string) {
	rest, ok := strings.CutPrefix(path, "/v1/servers/")
	if !ok {
		return path, ""
	}
	id, verb, asks := strings.Cut(rest, ":")
	switch {
	case id == "" || strings.Contains(rest, "/"):
		return "", ""
	case asks:
		return oneServer + ":" + verb, id
	default:
		return oneServer, id
	}
}

func allowed(methods map[string]route) []string { return slices.Sorted(maps.Keys(methods)) }
