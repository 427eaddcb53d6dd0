// Package near finds the names that somebody may have meant.
package near

import (
	"cmp"
	"slices"
	"strings"
)

// few is how many names are offered.
const few = 3

// Names returns those of the names that are close to what was written, the
// closest first; at most three.
func Names(written string, names []string) []string {
	type candidate struct {
		name     string
		distance int
	}
	var all []candidate
	w := strings.ToLower(written)
	for _, n := range names {
		l := strings.ToLower(n)
		d := distance(w, l)
		if _, bare, qualified := strings.Cut(l, "__"); qualified {
			d = min(d, distance(w, bare)) // the server's name was left out
		}
		if d <= max(1, len(w)/3) {
			all = append(all, candidate{n, d})
		}
	}
	slices.SortFunc(all, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(a.distance, b.distance), cmp.Compare(a.name, b.name))
	})
	var closest []string
	for _, c := range all[:min(len(all), few)] {
		closest = append(closest, c.name)
	}
	return closest
}

// distance is how many bytes have to be inserted, removed, replaced, or swapped
// with their neighbour, to make one text the other.
func distance(a, b string) int {
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			replaced := rows[i-1][j-1]
			if a[i-1] != b[j-1] {
				replaced++
			}
			rows[i][j] = min(replaced, rows[i-1][j]+1, rows[i][j-1]+1)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				rows[i][j] = min(rows[i][j], rows[i-2][j-2]+1)
			}
		}
	}
	return rows[len(a)][len(b)]
}
