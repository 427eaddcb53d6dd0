package gateway

import (
	"bytes"
	"cmp"
	"context"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/cockroachdb/errors"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/session"
)

// place begins the URIs that name the server of a resource, too.
const place = "toolfleet://"

// qualified returns the URI that names a resource of that server, whoever else has
// one of its own URI.
func qualified(server events.ServerID, uri string) string {
	return place + string(server) + "/" + url.PathEscape(uri)
}

// target is where a resource is read.
type target struct {
	server events.ServerID
	uri    string
}

// unqualified is the inverse of qualified; false for another URI.
func unqualified(uri string) (t target, ok bool) {
	rest, ok := strings.CutPrefix(uri, place)
	if !ok {
		return t, false
	}
	server, escaped, ok := strings.Cut(rest, "/")
	if !ok || server == "" || escaped == "" {
		return t, false
	}
	own, err := url.PathUnescape(escaped)
	return target{events.ServerID(server), own}, err == nil
}

// resource is a resource with the URI that clients know it by: the server's own
// unless one before it has that already.
type resource struct {
	uri string
	*session.Resource
}

// template is one that is not the same as one of a server before it.
type template struct {
	*session.Template
	pattern *regexp.Regexp // nil if it matches nothing
}

// offer is what a session's resources and templates, in the order of their
// servers, are to clients.
type offer struct {
	listed    []session.Resource
	templated []session.Template

	resources []resource // in the order of their URIs
	templates []template // in their own order, then that of their servers
}

// offer returns the newest offer. One is made anew only when the session has other
// lists.
func (g *Gateway) offer() *offer {
	listed, templated := g.session.Resources(), g.session.Templates()
	if o := g.offered.Load(); o != nil && isSame(o.listed, listed) && isSame(o.templated, templated) {
		return o
	}
	o := newOffer(listed, templated)
	g.offered.Store(o)
	return o
}

func isSame[T any](a, b []T) bool { return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0]) }

func newOffer(listed []session.Resource, templated []session.Template) *offer {
	o := &offer{listed: listed, templated: templated}
	taken := make(map[string]bool, len(listed))
	for i := range listed {
		r := resource{listed[i].URI, &listed[i]}
		if taken[r.uri] {
			r.uri = qualified(r.Server, r.URI)
		}
		taken[r.uri] = true
		o.resources = append(o.resources, r)
	}
	slices.SortStableFunc(o.resources, func(a, b resource) int { return cmp.Compare(a.uri, b.uri) })
	for i := range templated {
		o.templates = append(o.templates, template{&templated[i], patternOf(templated[i].URITemplate)})
	}
	slices.SortStableFunc(o.templates, func(a, b template) int { return cmp.Compare(a.URITemplate, b.URITemplate) })
	return o
}

// looksLike says whether clients see no difference between two offers.
func (o *offer) looksLike(other *offer) bool {
	return slices.EqualFunc(o.resources, other.resources, func(a, b resource) bool {
		return a.uri == b.uri && bytes.Equal(a.Definition, b.Definition)
	}) && slices.EqualFunc(o.templates, other.templates, func(a, b template) bool {
		return a.URITemplate == b.URITemplate && bytes.Equal(a.Definition, b.Definition)
	})
}

// targets returns where a resource is, or may be, in the order in which they are to
// be tried.
func (o *offer) targets(uri string) (all []target) {
	i, found := slices.BinarySearchFunc(o.resources, uri, func(r resource, uri string) int { return cmp.Compare(r.uri, uri) })
	if found {
		return []target{{o.resources[i].Server, o.resources[i].URI}}
	}
	if t, ok := unqualified(uri); ok {
		return []target{t}
	}
	for _, t := range o.templates {
		to := target{t.Server, uri}
		if t.pattern != nil && t.pattern.MatchString(uri) && !slices.Contains(all, to) {
			all = append(all, to)
		}
	}
	slices.SortFunc(all, func(a, b target) int { return cmp.Compare(a.server, b.server) })
	return all
}

// expression is one of a URI template (RFC 6570): its operator, and the rest.
var expression = regexp.MustCompile(`\{([^A-Za-z0-9_%{}]?)[^{}]*\}`)

// patternOf returns what the URIs of a template match: the simple {name} does not
// go beyond a segment, every other expression may be anything. It returns nil for
// what is no template.
func patternOf(template string) *regexp.Regexp {
	var b strings.Builder
	b.WriteString("^")
	rest := template
	for _, m := range expression.FindAllStringSubmatchIndex(template, -1) {
		literal := template[len(template)-len(rest) : m[0]]
		if strings.ContainsAny(literal, "{}") {
			return nil
		}
		b.WriteString(regexp.QuoteMeta(literal))
		if inner := template[m[0]:m[1]]; m[2] == m[3] && !strings.ContainsAny(inner, "*,") {
			b.WriteString("[^/?#]*")
		} else {
			b.WriteString("(?s:.*)")
		}
		rest = template[m[1]:]
	}
	if strings.ContainsAny(rest, "{}") {
		return nil
	}
	b.WriteString(regexp.QuoteMeta(rest) + "$")
	p, err := regexp.Compile(b.String())
	if err != nil {
		return nil // unreachable unless a template is too long for one
	}
	return p
}

// listResources answers resources/list.
func (a *asker) listResources(l *page, cursor string) error {
	some, err := cut(l, a.gateway.offer().resources, cursor, func(r resource) string { return r.uri })
	for _, r := range some {
		if r.uri == r.URI {
			l.add(r.Definition, nil)
		} else {
			l.add(withMember(r.Definition, "uri", mustMarshal(r.uri)))
		}
	}
	return err
}

// listTemplates answers resources/templates/list. What two servers have is one: it
// is read wherever there is something.
func (a *asker) listTemplates(l *page, cursor string) error {
	distinct := slices.CompactFunc(slices.Clone(a.gateway.offer().templates), func(a, b template) bool { return a.URITemplate == b.URITemplate })
	some, err := cut(l, distinct, cursor, func(t template) string { return t.URITemplate })
	for _, t := range some {
		l.add(t.Definition, nil)
	}
	return err
}

// read answers resources/read. Of several servers that may have it the first
// answers that does not refuse.
func (a *asker) read(ctx context.Context) (jsontext.Value, error) {
	var p struct {
		URI string `json:"uri"`
	}
	if err := read(a.message.Params, &p); err != nil {
		return nil, err
	}
	var refused error
	for _, t := range a.gateway.offer().targets(p.URI) {
		result, err := a.gateway.session.Read(ctx, t.server, t.uri, a.options())
		if err == nil {
			return a.cached(result)
		}
		if refused == nil || !isRefused(err) {
			refused = err
		}
		if !isRefused(err) {
			break
		}
	}
	if refused == nil || errors.Is(refused, session.ErrUnknownServer) {
		return nil, a.noResource(p.URI)
	}
	return nil, a.refusal(refused)
}

// isRefused says whether a server answered with an error of its own.
func isRefused(err error) bool {
	var e *session.CallError
	return errors.As(err, &e) && e.RPCCode != 0
}

// noResource is the answer to a URI that no server has.
func (a *asker) noResource(uri string) *rpcError {
	e := &rpcError{Code: codeInvalidParams, Message: "no server has this resource", Data: mustMarshal(struct {
		URI string `json:"uri"`
	}{uri})}
	if a.client != nil {
		e.Code = codeNoResource
	}
	return e
}

// cached says of a result that nobody may keep it, unless its server has said how
// long.
func (a *asker) cached(result jsontext.Value) (jsontext.Value, error) {
	if a.client != nil {
		return result, nil
	}
	result, err := withDefault(result, "cacheScope", jsontext.Value(`"private"`))
	if err == nil {
		result, err = withDefault(result, "ttlMs", jsontext.Value("0"))
	}
	return a.complete(result, err)
}
