package callwire_test

import (
	"fmt"

	"github.com/toolfleet/toolfleet/events/callwire"
)

// An answer that is too large for one message travels in parts.
func ExampleJoiner() {
	frames := []callwire.Frame{{Kind: callwire.Accepted, Call: "call-1"}}
	frames = append(frames, callwire.Split(callwire.Result, "call-1", 1, []byte(`{"content":[]}`), 8)...)

	var j callwire.Joiner
	for _, f := range frames {
		decoded, err := callwire.DecodeFrame(f.Encode("_INBOX.caller"))
		if err != nil {
			fmt.Println(err)
			return
		}
		whole, err := j.Add(decoded)
		switch {
		case err != nil:
			fmt.Println(err)
		case whole == nil:
			fmt.Printf("part of a %s: %s\n", decoded.Kind, decoded.Data)
		default:
			fmt.Printf("%s of %d bytes\n", whole.Kind, len(whole.Data))
		}
	}
	// Output:
	// accepted of 0 bytes
	// part of a result: {"conten
	// result of 14 bytes
}
