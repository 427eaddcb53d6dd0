// Package guard decides whose HTTP requests are served.
//
// Refused are, in this order:
//
//   - a Host that is neither loopback nor listed: 403, [UnknownHost]. It holds
//     off pages whose name was made to resolve to this host.
//   - an Origin that is neither loopback nor listed, or a cross-site request of a
//     browser: 403, [UnknownOrigin]. Programs that are no browsers name none.
//   - a request without a bearer token: 401, [NoToken]
//   - one with a token that nobody holds: 401, [InvalidToken]
//   - one of somebody who may not do it: 403, [MissingScope]
//
// A token counts in the Authorization header only, never in the URL, which ends
// up in logs. There is nothing here that lets pages of other origins read answers.
//
// [Shares] keep one of those who are served from taking what is there for all.
package guard

import (
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// Scope is what the holder of a token may do.
type Scope string

// The scopes. None of them includes another.
const (
	Read   Scope = "read"   // see what there is and what happened
	Call   Scope = "call"   // call tools, as an agent does
	Change Scope = "change" // change what runs
)

// Scopes returns all scopes.
func Scopes() []Scope { return []Scope{Read, Call, Change} }

// Principal is who sends a request.
type Principal struct {
	// Name is that of the token; empty where the guard is open.
	Name   string
	Scopes []Scope
}

// May says whether the principal has a scope.
func (p *Principal) May(s Scope) bool { return slices.Contains(p.Scopes, s) }

// Options of [New].
type Options struct {
	// Holder returns who holds a token, in a time that does not tell, as the
	// function [Holder] does for those that are known. Default nobody holds any.
	Holder func(token string) (Principal, bool)
	// Open lets everyone in who can reach the URL, with all scopes; tokens are not
	// looked at.
	Open bool
	// Hosts are names that requests may be addressed to, besides loopback ones:
	// "tools.example.org" with any port, or "tools.example.org:8443". Default none.
	Hosts []string
	// Origins are those of pages that may send requests, besides loopback ones,
	// such as "https://tools.example.org". Default none.
	Origins []string
}

// Guard decides; the zero Guard serves nobody.
type Guard struct{ o Options }

// New returns a guard.
func New(o *Options) *Guard {
	g := &Guard{}
	if o != nil {
		g.o = *o
	}
	return g
}

// Check returns who sends a request that needs a scope, or why it is refused.
func (g *Guard) Check(r *http.Request, need Scope) (Principal, *Refusal) {
	if refused := g.CheckPlace(r); refused != nil {
		return Principal{}, refused
	}
	if g.o.Open {
		return Principal{Scopes: Scopes()}, nil
	}
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	p, known := Principal{}, false
	if g.o.Holder != nil && token != "" {
		p, known = g.o.Holder(token)
	}
	switch {
	case !strings.EqualFold(scheme, "Bearer") || token == "":
		return Principal{}, noToken
	case !known:
		return Principal{}, invalidToken
	case !p.May(need):
		return Principal{}, missing(need)
	default:
		return p, nil
	}
}

// CheckPlace is [Guard.Check] for what everyone may see who comes from the right
// place.
func (g *Guard) CheckPlace(r *http.Request) *Refusal {
	switch {
	case !g.knowsHost(r.Host):
		return unknownHost
	case !g.knowsOrigin(r):
		return unknownOrigin
	default:
		return nil
	}
}

func (g *Guard) knowsHost(host string) bool {
	name := withoutPort(host)
	return IsLoopback(name) || slices.ContainsFunc(g.o.Hosts, func(h string) bool {
		return strings.EqualFold(h, host) || strings.EqualFold(h, name)
	})
}

func (g *Guard) knowsOrigin(r *http.Request) bool {
	origin := r.Header.Get("Origin")
	if origin == "" {
		return r.Header.Get("Sec-Fetch-Site") != "cross-site"
	}
	if slices.ContainsFunc(g.o.Origins, func(o string) bool { return strings.EqualFold(o, origin) }) {
		return true
	}
	u, err := url.Parse(origin)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && IsLoopback(u.Hostname())
}

func withoutPort(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		return name
	}
	return strings.Trim(host, "[]")
}

// IsLoopback says whether a host's name or address is this host to itself.
func IsLoopback(name string) bool {
	ip := net.ParseIP(name)
	return strings.EqualFold(name, "localhost") || ip != nil && ip.IsLoopback()
}
