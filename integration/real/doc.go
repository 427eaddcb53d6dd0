// Package real proves the whole line with published MCP servers and real
// processes: toolfleet up is built and started with servers from npm, as children
// and over streamable HTTP, and a session uses them while they, and then the
// fleet itself, are killed, come back, are removed and are stopped.
//
// The tests need Linux, node and the packages of package-lock.json:
//
//	npm ci --ignore-scripts
//	go test -tags real ./integration/real
//
// Clients of other makes attach to the fleet as well: see TestClients and
// TestConformance. They run on the node of package-lock.json, which is newer than
// what the servers need. An optional package of one of them, for Windows, is
// overridden in package.json: not every registry has it.
package real
