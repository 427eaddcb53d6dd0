package worker

import (
	"encoding/base64"
	"net/url"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

const (
	// redacted stands where a secret was.
	redacted = "[redacted]"
	// Values shorter than that are not looked for: they occur by chance. A
	// variable is less likely to be a secret than a secret is.
	shortestSecret   = 4
	shortestVariable = 8
)

// scrubber removes the values that were resolved for one attempt from text. The
// zero scrubber removes nothing.
type scrubber struct {
	replace *strings.Replacer
	longest int // form that is looked for, in bytes
}

// newScrubber looks for the values in the forms that text may hold them in:
// plain, in a URL, in JSON, in base64. Of each value its lines and those of its
// parts that are no words are looked for as well: text is often cut into lines, and
// a server may say the token alone of a value that has more to it.
func newScrubber(values []string) scrubber {
	var forms []string
	for _, v := range withPieces(values) {
		forms = append(forms, v, url.QueryEscape(v), url.PathEscape(v),
			base64.StdEncoding.EncodeToString([]byte(v)), base64.RawStdEncoding.EncodeToString([]byte(v)),
			base64.URLEncoding.EncodeToString([]byte(v)), base64.RawURLEncoding.EncodeToString([]byte(v)))
		if quoted, err := json.Marshal(v); err == nil {
			forms = append(forms, string(quoted[1:len(quoted)-1]))
		}
	}
	forms = longestFirst(forms) // one may contain another
	pairs := make([]string, 0, 2*len(forms))
	for _, f := range forms {
		pairs = append(pairs, f, redacted)
	}
	s := scrubber{replace: strings.NewReplacer(pairs...)}
	if len(forms) > 0 {
		s.longest = len(forms[0])
	}
	return s
}

func (s scrubber) scrub(text string) string {
	if s.replace == nil {
		return text
	}
	return s.replace.Replace(text)
}

// text makes words of a server fit for an event: without secrets and control
// characters, and no more than their first limit bytes.
func (s scrubber) text(t string, limit int) string { return clean(s.scrub(t), limit) }

// tail is like text, but keeps the end, as whole lines where there are some.
func (s scrubber) tail(t string, limit int) string {
	t = s.scrub(t)
	if t = clean(t, len(t)); len(t) <= limit {
		return t
	}
	t = t[len(t)-limit:]
	if line := strings.IndexByte(t, '\n'); line >= 0 && line < len(t)-1 {
		return t[line+1:]
	}
	return strings.TrimLeftFunc(t, func(r rune) bool { return r == utf8.RuneError })
}

// clean removes terminal escapes, invalid UTF-8 and characters that cannot be
// seen, other than line feed and tab, and cuts at limit bytes.
func clean(t string, limit int) string {
	var b strings.Builder
	for i := 0; i < len(t) && b.Len() < limit; {
		if n := escapeSequence(t[i:]); n > 0 {
			i += n
			continue
		}
		r, n := utf8.DecodeRuneInString(t[i:])
		i += n
		if r != '\n' && r != '\t' && (r == utf8.RuneError && n == 1 || invisible(r)) {
			continue
		}
		if b.Len()+n > limit {
			break
		}
		b.WriteRune(r)
	}
	return strings.TrimSpace(b.String())
}

// escapeSequence returns the length of the terminal control sequence that t
// begins with, or 0.
func escapeSequence(t string) int {
	if len(t) < 2 || t[0] != 0x1b {
		return 0
	}
	switch t[1] {
	case '[': // CSI: parameters, then one final byte
		for i := 2; i < len(t); i++ {
			if t[i] >= 0x40 && t[i] <= 0x7e {
				return i + 1
			}
		}
		return len(t)
	case ']': // OSC: up to BEL or ST
		for i := 2; i < len(t); i++ {
			if t[i] == 0x07 {
				return i + 1
			}
			if t[i] == 0x1b && i+1 < len(t) && t[i+1] == '\\' {
				return i + 2
			}
		}
		return len(t)
	default:
		return 2
	}
}

// json scrubs a JSON text. Where that breaks it, nothing is left of it.
func (s scrubber) json(v jsontext.Value) jsontext.Value {
	if v == nil {
		return nil
	}
	if v = jsontext.Value(s.scrub(string(v))); !v.IsValid() {
		return nil
	}
	return v
}
