package eventstest

import (
	"context"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/errors"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Nodes is how many servers a [Cluster] has.
const Nodes = 3

// Cluster is three JetStream servers on loopback TCP. It needs real time, so it
// belongs outside bubbles.
type Cluster struct {
	t     testing.TB
	nodes [Nodes]node
	up    [Nodes]bool
	urls  [Nodes]string
	admin *nats.Conn
}

// ClusterOptions of [NewCluster].
type ClusterOptions struct {
	// Processes gives every node a process of its own, so that it can be killed.
	// Default false: they are in the test's process, which starts faster.
	Processes bool
	// Sync writes to disk before each acknowledgement. Default false.
	Sync bool
}

// node is a [Server] or a [Process].
type node interface {
	Start()
	Stop()
	URL() string
	Dir() string
}

// NewCluster starts a cluster for the test and stops it after the test. It
// returns when replicated streams can be created.
func NewCluster(t testing.TB, o *ClusterOptions) *Cluster {
	t.Helper()
	if o == nil {
		o = &ClusterOptions{}
	}
	c := &Cluster{t: t}
	ports := freePorts(t)
	routes := make([]string, Nodes)
	for i, port := range ports {
		routes[i] = fmt.Sprintf("nats://127.0.0.1:%d", port)
	}
	for i := range c.nodes {
		config := nodeConfig{
			Name: nodeName(i), Dir: newStore(t), Listen: true,
			RoutePort: ports[i], Routes: routes, Sync: o.Sync,
		}
		if o.Processes {
			c.nodes[i] = newProcess(t, config)
		} else {
			c.nodes[i] = &Server{t: t, c: config}
		}
		t.Cleanup(func() { c.Stop(i) })
		c.Start(i)
	}
	c.admin = c.Connect("admin")
	c.waitUntilReplicating()
	return c
}

func nodeName(i int) string { return fmt.Sprintf("nats-%d", i) }

// freePorts returns ports that were free a moment ago, all different.
func freePorts(t testing.TB) [Nodes]int {
	t.Helper()
	var ports [Nodes]int
	for i := range ports {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatalf("find a free port: %v", err)
		}
		defer l.Close()
		ports[i] = l.Addr().(*net.TCPAddr).Port
	}
	return ports
}

// Start starts a node on the store and ports that it had before. It does not
// wait for it to catch up.
func (c *Cluster) Start(i int) {
	c.t.Helper()
	if c.up[i] {
		return
	}
	c.nodes[i].Start()
	c.up[i], c.urls[i] = true, c.nodes[i].URL()
}

// Stop stops a node in good order: what it leads is led by another one at once.
func (c *Cluster) Stop(i int) {
	if c.up[i] {
		c.up[i] = false
		c.nodes[i].Stop()
	}
}

// Kill ends a node as kill -9 does. The cluster must be one of processes.
func (c *Cluster) Kill(i int) {
	c.t.Helper()
	p, ok := c.nodes[i].(*Process)
	if !ok {
		c.t.Fatalf("kill node %d: it has no process; see ClusterOptions", i)
	}
	c.up[i] = false
	p.Kill()
}

// Dir returns the store of a node.
func (c *Cluster) Dir(i int) string { return c.nodes[i].Dir() }

// URL returns the address of a node, which stays the same.
func (c *Cluster) URL(i int) string { return c.urls[i] }

// Connect returns a connection to any node that is up; it lasts until the test
// ends and is made again, to any node, whenever it breaks.
func (c *Cluster) Connect(name string, opts ...nats.Option) *nats.Conn {
	c.t.Helper()
	return connect(c.t, strings.Join(c.urls[:], ","), name, opts)
}

// ConnectTo returns a connection to one node.
func (c *Cluster) ConnectTo(i int, name string, opts ...nats.Option) *nats.Conn {
	c.t.Helper()
	return connect(c.t, c.urls[i], name, append([]nats.Option{nats.IgnoreDiscoveredServers()}, opts...))
}

// Leader returns the node that leads a stream. It waits until there is one that
// is up.
func (c *Cluster) Leader(stream string) int {
	c.t.Helper()
	leader := -1
	c.wait("a leader of "+stream, func(ctx context.Context, js jetstream.JetStream) error {
		s, err := js.Stream(ctx, stream)
		if err != nil {
			return err
		}
		info := s.CachedInfo()
		for i := range c.nodes {
			if info.Cluster != nil && info.Cluster.Leader == nodeName(i) && c.up[i] {
				leader = i
				return nil
			}
		}
		return errNotYet
	})
	return leader
}

// WaitCurrent waits until every replica of a stream has all of it.
func (c *Cluster) WaitCurrent(stream string) {
	c.t.Helper()
	c.wait("all replicas of "+stream+" to be current", func(ctx context.Context, js jetstream.JetStream) error {
		s, err := js.Stream(ctx, stream)
		if err != nil {
			return err
		}
		info := s.CachedInfo()
		if info.Cluster == nil || info.Cluster.Leader == "" || len(info.Cluster.Replicas) != Nodes-1 {
			return errNotYet
		}
		for _, r := range info.Cluster.Replicas {
			if !r.Current || r.Offline || r.Lag > 0 {
				return errNotYet
			}
		}
		return nil
	})
}

// waitUntilReplicating waits until a replicated stream can be created. Before
// the nodes know each other, it is refused.
func (c *Cluster) waitUntilReplicating() {
	c.t.Helper()
	const probe = "eventstest-probe"
	c.wait("replication", func(ctx context.Context, js jetstream.JetStream) error {
		_, err := js.CreateStream(ctx, jetstream.StreamConfig{
			Name: probe, Subjects: []string{probe}, Storage: jetstream.MemoryStorage, Replicas: Nodes,
		})
		return err
	})
	c.wait("the end of the probe", func(ctx context.Context, js jetstream.JetStream) error {
		if err := js.DeleteStream(ctx, probe); !errors.Is(err, jetstream.ErrStreamNotFound) {
			return err
		}
		return nil // an earlier look deleted it
	})
}

const (
	// pollPause lies between two looks at the cluster.
	pollPause = 10 * time.Millisecond
	// askTimeout bounds one question to it; without a leader, none is answered.
	askTimeout = 500 * time.Millisecond
)

// wait repeats a look at the cluster until it brings no error.
func (c *Cluster) wait(what string, look func(context.Context, jetstream.JetStream) error) {
	c.t.Helper()
	js, err := jetstream.New(c.admin)
	if err != nil {
		c.t.Fatalf("wait for %s: %v", what, err)
	}
	for deadline := time.Now().Add(HangLimit); ; time.Sleep(pollPause) {
		ctx, cancel := context.WithTimeout(context.Background(), askTimeout)
		err := look(ctx, js)
		cancel()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			c.t.Fatalf("waited %s for %s: %v", HangLimit, what, err)
		}
	}
}

// errNotYet says that what is waited for is not there.
var errNotYet = errors.New("not yet")
