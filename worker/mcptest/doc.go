// Package mcptest is a scripted MCP server for tests: good where its [Script]
// says nothing, and slow, noisy, deaf, stubborn or broken where it does.
//
// As a stdio server it is the test binary itself, started again: call [Main]
// first in TestMain, and run what [Script.Definition] returns. As an HTTP server
// it is [NewHTTP]. Both speak through the MCP library's server, except for the
// frames that no library would write.
//
// A [Record] tells which processes were started, and which of them still run.
//
// # Resources and prompts
//
// A resource that is read says what its URI is, a prompt what its name and its
// argument "text" are; see [OddURI] and [SleepingResource] for others. Requests
// about them are noted in the record, with their parameters.
//
// # Tools
//
// A server has the tools that its script names. These do something special, all
// others are like echo:
//
//	echo      returns its arguments, as JSON
//	env       returns the names of the process's environment
//	fail      returns an error of the tool's own (isError)
//	rpc-error answers with JSON-RPC error -32050 and data
//	odd       returns a result with members that the library does not know
//	big       returns as many bytes as the argument "bytes" says
//	sleep     answers after the argument "ms", or not, when it is cancelled
//	die       writes to stderr and exits with status 3, without an answer
//	bye       answers and exits with status 0
//	grow      adds a tool, or what the argument "what" says ("resources",
//	          "prompts"), announces that as often as the argument "times" says,
//	          and answers
//	progress  reports progress as often as the argument "times" says, each time
//	          after the argument "ms"
//	ask       asks the client for ping, roots/list and sampling/createMessage,
//	          and returns its answers
//	tell      writes the argument "text" to stderr as often as "times" says, and
//	          answers
//	log       sends the argument "text" as a log message, and answers
//	noise     writes a line that is no message, then answers
//	note      notes the argument "text" in the record, and answers after the
//	          argument "ms"
package mcptest
