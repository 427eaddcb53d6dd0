package request

import (
	"testing"

	"github.com/cockroachdb/errors"
)

// Each code is its own error, and nobody else's.
func TestErrorsAreTheirCodes(t *testing.T) {
	for code, sentinel := range sentinels {
		err := errors.Wrap(Errorf(code, "server %q", "s"), "declare")
		for other, s := range sentinels {
			if got := errors.Is(err, s); got != (other == code) {
				t.Errorf("%s is %v: %v", code, sentinel, got)
			}
		}
	}
	if err := Errorf("from_the_future", "server"); errors.Is(err, ErrUnknownServer) {
		t.Error("an unknown code is known")
	}
}

func TestSubject(t *testing.T) {
	if got := Subject("prod", Declare); got != "tf.api.prod.declare" {
		t.Errorf("subject is %s", got)
	}
}
