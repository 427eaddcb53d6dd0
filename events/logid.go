package events

import (
	"fmt"
	"strconv"
	"strings"
)

// Regressed returns the id of the history that begins when this one has lost
// its end: that of the same stream, and greater.
func (l LogID) Regressed() LogID {
	stream, n := l.split()
	return LogID(fmt.Sprintf("%s.%03d", stream, n+1))
}

// SameStream says whether both histories are in one stream.
func (l LogID) SameStream(m LogID) bool {
	a, _ := l.split()
	b, _ := m.split()
	return a == b
}

// split returns the stream's part of the id, and the number of losses.
func (l LogID) split() (stream string, regressions int) {
	s := string(l)
	i := strings.LastIndexByte(s, '.')
	if i < 0 {
		return s, 0
	}
	n, err := strconv.Atoi(s[i+1:])
	if err != nil {
		return s, 0
	}
	return s[:i], n
}
