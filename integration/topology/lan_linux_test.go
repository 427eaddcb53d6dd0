//go:build topology

package topology

import (
	"fmt"
	"math/rand/v2"
	"net"
	"regexp"
	"slices"
	"testing"

	"github.com/compose-spec/compose-go/v2/types"
)

// lan stands for the network of the containers: every service has a loopback
// address of its own, and the ports that the files name.
type lan struct {
	number   int      // of the network 127.<number>.0.0
	services []string // the third and fourth bytes of addresses are places in it
}

// newLAN takes a network that no other test of this host has.
func newLAN(t *testing.T, p *types.Project) *lan {
	t.Helper()
	l := &lan{services: p.ServiceNames()}
	for range 100 {
		l.number = 64 + rand.IntN(128)
		taken, err := net.Listen("tcp", fmt.Sprintf("127.%d.255.254:4222", l.number))
		if err == nil {
			t.Cleanup(func() { taken.Close() })
			return l
		}
	}
	t.Fatal("no network is free")
	return nil
}

func (l *lan) place(service string) int { return slices.Index(l.services, service) + 1 }

// address is that of a service.
func (l *lan) address(service string) string {
	return fmt.Sprintf("127.%d.0.%d", l.number, l.place(service))
}

// line is the address at which one service finds another, where what passes
// between them is watched.
func (l *lan) line(from, to string) string {
	return fmt.Sprintf("127.%d.%d.%d", l.number, l.place(from), l.place(to))
}

// watched says whether there is a line between two services: from all programs of
// toolfleet to the bus.
func watched(from, to string) bool {
	return role(to) == "nats" && (role(from) == "controller" || role(from) == "worker")
}

// localize puts addresses where a text of a service has hosts, before a port.
func (l *lan) localize(service, text string) string {
	for _, other := range l.services {
		to := l.address(other)
		if watched(service, other) {
			to = l.line(service, other)
		}
		text = replace(text, `(^|[^\w.-])`+regexp.QuoteMeta(other)+`(:\d)`, to)
	}
	return replace(text, `(^|[^\w.-])(?:0\.0\.0\.0|127\.0\.0\.1)(:\d)`, l.address(service))
}

// replace puts a text between the two groups of an expression.
func replace(text, expression, by string) string {
	return regexp.MustCompile(expression).ReplaceAllString(text, "${1}"+by+"${2}")
}
