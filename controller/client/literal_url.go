package client

import (
	"slices"
	"strconv"
	"strings"
)

// url rewrites the parts of a URL that hold secrets. It works on the text: what
// is not moved stays as it was written, references in it included, and what is
// moved is moved as it was written, so that putting it back gives the same URL.
func (w *rewriter) url(raw string) string {
	scheme, rest, ok := strings.Cut(raw, "://")
	if !ok || hasReference(scheme) {
		// No absolute URL, or one that begins with a reference: "${BASE}/mcp".
		return w.pathAndQuery(raw)
	}
	end := strings.IndexAny(mask(rest), "/?#")
	if end < 0 {
		end = len(rest)
	}
	authority := rest[:end]
	if at := strings.LastIndex(mask(authority), "@"); at >= 0 {
		authority = w.userInfo(authority[:at]) + authority[at:]
	}
	return scheme + "://" + authority + w.pathAndQuery(rest[end:])
}

func (w *rewriter) userInfo(s string) string {
	colon := strings.Index(mask(s), ":")
	if colon < 0 {
		return w.part("query.&user", s)
	}
	return w.part("query.&user", s[:colon]) + ":" + w.part("query.&password", s[colon+1:])
}

// part rewrites a part of a URL that is a secret unless it is empty or a
// reference.
func (w *rewriter) part(key, value string) string {
	switch {
	case value == "":
		return value
	case reference.FindString(value) == value && !mixesSecret(key, value):
		return value
	case hasReference(value):
		w.mixed(key)
		return value
	}
	return w.move(key, value)
}

func (w *rewriter) pathAndQuery(s string) string {
	s, fragment, hasFragment := cutMasked(s, "#")
	path, query, hasQuery := cutMasked(s, "?")
	out := w.path(path)
	if hasQuery {
		out += "?" + w.query(query)
	}
	if hasFragment {
		out += "#" + w.part("query.&fragment", fragment)
	}
	return out
}

func (w *rewriter) path(path string) string {
	parts := splitMasked(path, "/")
	for i, p := range parts {
		key := "query.&path." + strconv.Itoa(i)
		switch {
		case hasReference(p):
			if mixesSecret("", p) {
				w.mixed(key)
			}
		case looksSecret(p):
			parts[i] = w.move(key, p)
		}
	}
	return strings.Join(parts, "/")
}

func (w *rewriter) query(query string) string {
	pairs := splitMasked(query, "&")
	count := make(map[string]int)
	for i, pair := range pairs {
		name, value, ok := cutMasked(pair, "=")
		if !ok {
			if looksSecret(pair) {
				pairs[i] = w.move("query.&"+strconv.Itoa(i+1), pair)
			}
			continue
		}
		key := "query." + name
		if count[name]++; count[name] > 1 {
			key += "&" + strconv.Itoa(count[name])
		}
		pairs[i] = name + "=" + w.value("query", name, key, value)
	}
	return strings.Join(pairs, "&")
}

// mask replaces references by as many bytes that separate nothing.
func mask(s string) string {
	return reference.ReplaceAllStringFunc(s, func(ref string) string { return strings.Repeat("x", len(ref)) })
}

func cutMasked(s, separator string) (before, after string, found bool) {
	i := strings.Index(mask(s), separator)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(separator):], true
}

func splitMasked(s, separator string) []string {
	parts := strings.Split(mask(s), separator)
	at := 0
	for i, p := range parts {
		parts[i] = s[at : at+len(p)]
		at += len(p) + len(separator)
	}
	return slices.Clip(parts)
}
