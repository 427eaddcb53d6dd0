package gateway

import (
	"crypto/sha256"
	"crypto/subtle"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// guard decides who may send requests.
type guard struct {
	tokens  map[string][sha256.Size]byte // digests, by principal
	open    bool
	hosts   []string
	origins []string
}

func newGuard(o *Options) *guard {
	g := &guard{tokens: make(map[string][sha256.Size]byte), open: o.Open, hosts: o.Hosts, origins: o.Origins}
	for principal, token := range o.Tokens {
		if token != "" { // an unset variable is nobody's token
			g.tokens[principal] = sha256.Sum256([]byte(token))
		}
	}
	return g
}

// check returns the principal of a request, or has answered it.
func (g *guard) check(w http.ResponseWriter, r *http.Request) (principal string, ok bool) {
	switch {
	case !g.knowsHost(r.Host):
		http.Error(w, "this host name is not served: list it, or use localhost", http.StatusForbidden)
	case !g.knowsOrigin(r):
		http.Error(w, "pages of this origin may not send requests", http.StatusForbidden)
	default:
		if principal, ok = g.principal(r); ok {
			return principal, true
		}
		w.Header().Set("WWW-Authenticate", `Bearer realm="toolfleet"`)
		http.Error(w, "a bearer token of this gateway is needed", http.StatusUnauthorized)
	}
	return "", false
}

// knowsHost holds off pages whose name was made to resolve to this host.
func (g *guard) knowsHost(host string) bool {
	name := withoutPort(host)
	return isLoopback(name) || slices.ContainsFunc(g.hosts, func(h string) bool {
		return strings.EqualFold(h, host) || strings.EqualFold(h, name)
	})
}

// knowsOrigin holds off pages of other origins. Programs that are no browsers
// name none.
func (g *guard) knowsOrigin(r *http.Request) bool {
	origin := r.Header.Get("Origin")
	if origin == "" {
		return r.Header.Get("Sec-Fetch-Site") != "cross-site"
	}
	if slices.ContainsFunc(g.origins, func(o string) bool { return strings.EqualFold(o, origin) }) {
		return true
	}
	u, err := url.Parse(origin)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && isLoopback(u.Hostname())
}

// principal returns whose token the request has. It takes as long whether one
// fits or not.
func (g *guard) principal(r *http.Request) (string, bool) {
	if g.open {
		return "", true
	}
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	digest := sha256.Sum256([]byte(token))
	var principal string
	found := 0
	for p, known := range g.tokens {
		if subtle.ConstantTimeCompare(digest[:], known[:]) == 1 {
			principal, found = p, 1
		}
	}
	return principal, found == 1 && strings.EqualFold(scheme, "Bearer")
}

func withoutPort(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		return name
	}
	return strings.Trim(host, "[]")
}

func isLoopback(name string) bool {
	ip := net.ParseIP(name)
	return strings.EqualFold(name, "localhost") || ip != nil && ip.IsLoopback()
}
