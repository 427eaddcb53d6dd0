// Package bundle packs what is known of a fleet into one file that can be given
// away: nothing secret leaves with it.
package bundle

import (
	"archive/tar"
	"compress/gzip"
	"io"
	"regexp"
	"strings"
	"time"

	"github.com/cockroachdb/errors"
)

// File is one file of a bundle.
type File struct {
	Name string
	Data []byte
}

// Redacted stands for what was taken out.
const Redacted = "[redacted]"

// Redactor takes secrets out of text. What it is given should hold none: workers
// scrub what servers write, and definitions hold references. It is the last look.
type Redactor struct{ known *strings.Replacer }

// least is the length of the shortest value that is looked for everywhere.
const least = 4

// NewRedactor returns a Redactor of values that are known to be secret, and of
// what has the form of a secret.
func NewRedactor(values ...string) *Redactor {
	var pairs []string
	for _, v := range values {
		if len(v) >= least {
			pairs = append(pairs, v, Redacted)
		}
	}
	return &Redactor{strings.NewReplacer(pairs...)}
}

// forms are what secrets look like, each with what stays of it in front.
var forms = []*regexp.Regexp{
	regexp.MustCompile(`()AGE-SECRET-KEY-1[0-9A-Za-z]+`),
	regexp.MustCompile(`(?i)(bearer |basic )[A-Za-z0-9._~+/=-]{8,}`),
	regexp.MustCompile(`([a-z][a-z0-9+.-]*://)[^/@\s"']+@`),
	regexp.MustCompile(`()\b(?:ghp|gho|ghs|ghu|github_pat|glpat|sk|xox[abps])[-_][A-Za-z0-9_-]{16,}`),
	regexp.MustCompile(`()\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*`), // a JSON web token
}

// Redact returns the text without secrets.
func (r *Redactor) Redact(data []byte) []byte {
	text := r.known.Replace(string(data))
	for _, f := range forms {
		text = f.ReplaceAllString(text, "${1}"+Redacted)
	}
	return []byte(redactNamed(text))
}

// Write writes the files as a compressed tar archive, below one folder.
func Write(w io.Writer, folder string, now time.Time, r *Redactor, files []File) error {
	z := gzip.NewWriter(w)
	t := tar.NewWriter(z)
	for _, f := range files {
		data := r.Redact(f.Data)
		h := &tar.Header{Name: folder + "/" + f.Name, Mode: 0o600, Size: int64(len(data)), ModTime: now}
		if err := t.WriteHeader(h); err != nil {
			return errors.Wrapf(err, "pack %s", f.Name)
		}
		if _, err := t.Write(data); err != nil {
			return errors.Wrapf(err, "pack %s", f.Name)
		}
	}
	return errors.Wrap(errors.Join(t.Close(), z.Close()), "pack the bundle")
}
