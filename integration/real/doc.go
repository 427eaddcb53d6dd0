// Package real proves the whole line with published MCP servers and real
// processes: toolfleet up is built and started, owns servers from npm, loses one
// to kill -9 and is stopped with Ctrl-C.
//
// The tests need node and the packages of package-lock.json:
//
//	npm ci --ignore-scripts
//	go test -tags real ./integration/real
package real
