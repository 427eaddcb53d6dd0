package worker

import (
	"cmp"
	"slices"
	"strings"
)

const (
	// maxParts is how many parts of one value are looked for.
	maxParts = 128
	// shortestPart is the shortest part, in bytes: less occurs by chance.
	shortestPart = 8
)

// separators split a value into parts, once with the first of them, once with the
// first two and so on: a secret may hold what others are split at.
var separators = []string{
	" \t\r\n\"'`", // an argument of a shell; "Bearer" and a token
	"=&;@:?,",     // a URL; NAME=value
	"/",           // of base64 as well
	"<>|(){}[]$\\!#%^*",
}

// withPieces adds the values without the white space around them, which a file
// ends with, the lines of those that have several, and the parts that are no
// words.
func withPieces(values []string) []string {
	all := slices.Clone(values)
	for _, v := range values {
		if bare := strings.TrimSpace(v); bare != v && len(bare) >= shortestSecret {
			all = append(all, bare)
		}
		if strings.Contains(v, "\n") {
			for line := range strings.Lines(v) {
				if line = strings.TrimSpace(line); len(line) >= shortestVariable {
					all = append(all, line)
				}
			}
		}
		all = append(all, partsOf(v)...)
	}
	return all
}

// partsOf returns the longest parts of a value that are no words, the longest
// first.
func partsOf(value string) []string {
	value = strings.ReplaceAll(value, `\n`, "\n") // a key within JSON
	var parts []string
	for i := range separators {
		at := strings.Join(separators[:i+1], "")
		for part := range strings.FieldsFuncSeq(value, func(r rune) bool { return strings.ContainsRune(at, r) }) {
			if len(part) >= shortestPart && !isWord(part) {
				parts = append(parts, part)
			}
		}
	}
	parts = longestFirst(parts)
	return parts[:min(len(parts), maxParts)]
}

// isWord says whether a part may be a word, or several: it has no digit beside its
// letters, and its case does not change four times and at every third letter.
func isWord(part string) bool {
	var letters, digits, changes int
	var last bool // whether the last letter was upper case
	for _, r := range part {
		upper := r >= 'A' && r <= 'Z'
		switch {
		case r >= '0' && r <= '9':
			digits++
		case upper, r >= 'a' && r <= 'z':
			if letters > 0 && upper != last {
				changes++
			}
			letters++
			last = upper
		}
	}
	return letters == 0 || digits == 0 && (changes < 4 || 3*changes < letters)
}

// longestFirst sorts texts and drops those that are there twice.
func longestFirst(texts []string) []string {
	slices.SortFunc(texts, func(a, b string) int {
		return cmp.Or(cmp.Compare(len(b), len(a)), strings.Compare(a, b))
	})
	return slices.Compact(texts)
}
