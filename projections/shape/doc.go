// Package shape says how servers, workers, tools, resources, prompts and events
// are written as JSON, by the command line and over HTTP.
//
// The shapes are a contract: members are added, never renamed, retyped or left
// out. Only those of a server's status that say so may be absent.
package shape
