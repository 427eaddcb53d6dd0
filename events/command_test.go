package events_test

import (
	"testing"

	"github.com/toolfleet/toolfleet/events"
)

func TestCommandRoundTrip(t *testing.T) {
	d := localDefinition()
	for _, c := range []events.Command{
		{Want: events.Stopped, Incarnation: "i-17", Epoch: 8},
		{
			Want: events.Running, Definition: &d, Digest: d.Digest(), Generation: 41, Restart: 40,
			Incarnation: "i-17", Epoch: 8, Cause: "01890a5d-ac96-774b-bcce-b302099a8057",
		},
	} {
		data, err := events.EncodeCommand(&c)
		if err != nil {
			t.Fatal(err)
		}
		got, err := events.DecodeCommand(data)
		if err != nil {
			t.Fatal(err)
		}
		diff(t, "command", &c, got)
	}
}

func TestCommandFormat(t *testing.T) {
	data, err := events.EncodeCommand(&events.Command{
		Want: events.Running, Definition: &events.Definition{Command: "npx"}, Digest: digestA, Generation: 41, Incarnation: "i-17",
		Epoch: 8, Trace: events.Trace{Parent: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"},
	})
	if err != nil {
		t.Fatal(err)
	}
	diff(t, "command", `{"want":"running","definition":{"command":"npx"},"digest":"`+string(digestA)+
		`","generation":41,"incarnation":"i-17","epoch":8}`, string(data))
}

func TestInvalidCommands(t *testing.T) {
	for _, text := range []string{
		``, `null`, `{}`, `[]`, `{"want":"paused"}`, `{"want":"running","epoch":1}`, `{"want":"stopped","want":"running"}`,
		`{"Want":"stopped"}`, `{"want":"stopped","epoch":-1}`, `{"want":"stopped","epoch":"1"}`, `{"want":"stopped"} x`,
		"{\"want\":\"stopped\",\"cause\":\"\xff\"}", `{"want":"running","definition":null}`,
	} {
		if c, err := events.DecodeCommand([]byte(text)); err == nil {
			t.Errorf("%s was decoded: %+v", text, c)
		}
	}
	for _, c := range []events.Command{{}, {Want: "paused"}, {Want: events.Running}} {
		if data, err := events.EncodeCommand(&c); err == nil {
			t.Errorf("%+v was encoded: %s", c, data)
		}
	}
}

// Commands never go back in (epoch, generation).
func TestCommandOlder(t *testing.T) {
	ordered := []events.Command{{Epoch: 1, Generation: 9}, {Epoch: 2, Generation: 3}, {Epoch: 2, Generation: 4}, {Epoch: 3}}
	for i := range ordered {
		for j := range ordered {
			if got, want := ordered[i].Older(&ordered[j]), i < j; got != want {
				t.Errorf("%+v older than %+v: %v", ordered[i], ordered[j], got)
			}
		}
	}
}
