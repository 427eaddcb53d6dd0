// Package eventstest holds what tests need that stand on a fleet's log: logs to
// test with, faults to test against, and what every log must do.
//
// # Logs
//
// [NewMemory] is a log without a broker, for tests of what is built on a log.
// [NewServer] is a real JetStream server, usually inside a testing/synctest
// bubble, where a ten-minute outage takes milliseconds. [NewCluster] is three
// servers on loopback TCP with replicated streams, and [StartProcess] a server
// in a process of its own that can be killed; these two need real time and so
// belong outside bubbles.
//
// # Faults
//
// [Outage] stands between clients and a server and cuts, freezes, or loses one
// publish, request or answer. [Memory] has knobs of its own. [Inject] puts messages
// into the history that no build of toolfleet would write.
//
// # Proofs
//
// [Conformance] runs against every implementation of [Log]; what it does not
// hold, nobody may rely on. [Expect] waits for events, and says what came
// instead.
//
// # Bubbles
//
// A bubble ends when all of its goroutines have, so whatever the kit starts in
// one is stopped by the test's clean-up: first what the test itself registered,
// then connections, then the server. Clean-ups of t run inside the bubble. A
// bubble holds neither sockets nor child processes, and no t.Run. Inside it,
// wait with a channel, a context or a follower; a goroutine that waits for a
// sync.Mutex stops the fake clock.
//
// The server keeps one goroutine for the whole process, which must not begin in
// a bubble; this package's initialisation begins it, so nothing needs to be done
// in TestMain. A check for leaked goroutines has to leave out
// github.com/nats-io/nats-server/v2/server/ats.Register.func1.
//
// nats.go keeps its timers for the whole process as well, and the kit takes them
// away between bubbles. So a test with a bubble is never parallel; one that uses
// real time may be, since parallel tests run after all others of the package.
//
// Tests of package jetlog that use this package are in package jetlog_test,
// because this package imports jetlog.
package eventstest

import (
	"time"

	"github.com/nats-io/nats-server/v2/server/ats"
)

// HangLimit is how long the kit waits for something before the test fails. It
// decides nothing else: no test waits that long when all is well.
const HangLimit = 60 * time.Second

func init() {
	ats.Register()
	hurryElections()
	serveIfChild()
	sweepStores()
}
