package gateway

import (
	"net/http"

	"github.com/toolfleet/toolfleet/guard"
)

// newGuard returns what decides who may send requests: the option, or one of the
// other options.
func newGuard(o *Options) *guard.Guard {
	if o.Guard != nil {
		return o.Guard
	}
	var known []guard.Known
	for principal, token := range o.Tokens {
		known = append(known, guard.NewKnown(guard.Principal{Name: principal, Scopes: guard.Scopes()}, token))
	}
	holder := func(token string) (guard.Principal, bool) { return guard.Holder(known, token) }
	return guard.New(&guard.Options{Holder: holder, Open: o.Open, Hosts: o.Hosts, Origins: o.Origins})
}

// visitor is who sends a request.
type visitor struct {
	principal string
	// refused is why a call of theirs is, or nil.
	refused *guard.Refusal
}

// admit returns who sends a request, or has answered it. Whoever may read but not
// call may list tools, too.
func (g *Gateway) admit(w http.ResponseWriter, r *http.Request) (v visitor, ok bool) {
	v, refused := g.visitor(r)
	if refused != nil {
		refused.Write(w)
	}
	return v, refused == nil
}

func (g *Gateway) visitor(r *http.Request) (v visitor, refused *guard.Refusal) {
	p, refused := g.guard.Check(r, guard.Call)
	if refused != nil && refused.Code == guard.MissingScope {
		v.refused = refused
		p, refused = g.guard.Check(r, guard.Read)
	}
	v.principal = p.Name
	return v, refused
}

// admits returns what says whether who sent a request would still be admitted, and
// as the same.
func (g *Gateway) admits(r *http.Request, who visitor) func() bool {
	return func() bool {
		v, refused := g.visitor(r)
		return refused == nil && v.principal == who.principal
	}
}

// errRefused is the end of a stream whose reader is not admitted any more.
var errRefused error = &rpcError{Code: codeForbidden, Message: "the token does not admit to this any more"}
