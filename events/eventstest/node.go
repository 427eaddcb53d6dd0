package eventstest

import (
	"cmp"
	"net/url"
	"time"
	_ "unsafe" // for go:linkname

	"github.com/cockroachdb/errors"
	"github.com/nats-io/nats-server/v2/server"
)

// nodeConfig is all that a server of the kit is started with. It goes to child
// processes as JSON.
type nodeConfig struct {
	Name string
	Dir  string
	// Listen on 127.0.0.1; at Port, or at a free one.
	Listen bool
	Port   int
	// RoutePort is where other nodes connect, and Routes those ports of all.
	RoutePort  int
	Routes     []string
	Sync       bool
	MaxPayload int32
	MaxStore   int64
}

// maxStore is the storage limit of a server that is given none: NATS's own
// depends on how much the machine has left.
const maxStore = 1 << 40

func (c *nodeConfig) options() (*server.Options, error) {
	o := &server.Options{
		ServerName:        c.Name,
		DontListen:        !c.Listen,
		Host:              "127.0.0.1",
		Port:              c.Port,
		NoSigs:            true,
		NoLog:             true,
		JetStream:         true,
		StoreDir:          c.Dir,
		SyncAlways:        c.Sync,
		MaxPayload:        c.MaxPayload,
		JetStreamMaxStore: cmp.Or(c.MaxStore, maxStore),
	}
	if c.Listen && c.Port == 0 {
		o.Port = server.RANDOM_PORT
	}
	if len(c.Routes) == 0 {
		return o, nil
	}
	o.Cluster = server.ClusterOpts{Name: "test", Host: "127.0.0.1", Port: c.RoutePort}
	for _, r := range c.Routes {
		u, err := url.Parse(r)
		if err != nil {
			return nil, errors.Wrap(err, "route")
		}
		o.Routes = append(o.Routes, u)
	}
	return o, nil
}

// startServer starts a server. One of a cluster does not wait for the others.
func startServer(c *nodeConfig) (*server.Server, error) {
	o, err := c.options()
	if err != nil {
		return nil, err
	}
	ns, err := server.NewServer(o)
	if err != nil {
		return nil, err
	}
	ns.Start()
	if !ns.ReadyForConnections(HangLimit) {
		ns.Shutdown()
		return nil, errors.Newf("server %s was not ready after %s", o.ServerName, HangLimit)
	}
	return ns, nil
}

// The server elects a leader 4 to 9 s after the old one fell silent, and has no
// option for it. Its own tests set these variables; so do we, since a test that
// kills a leader would otherwise spend its time waiting. A heartbeat has five
// chances to come through, which a busy machine needs.
//
//go:linkname minElectionTimeout github.com/nats-io/nats-server/v2/server.minElectionTimeout
//go:linkname maxElectionTimeout github.com/nats-io/nats-server/v2/server.maxElectionTimeout
//go:linkname hbInterval github.com/nats-io/nats-server/v2/server.hbInterval
var minElectionTimeout, maxElectionTimeout, hbInterval time.Duration

func hurryElections() {
	if minElectionTimeout == 0 || maxElectionTimeout == 0 || hbInterval == 0 {
		panic("nats-server has renamed its election timeouts")
	}
	minElectionTimeout, maxElectionTimeout = time.Second, 2*time.Second
	hbInterval = 200 * time.Millisecond
}
