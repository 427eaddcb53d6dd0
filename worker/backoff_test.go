package worker

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/toolfleet/toolfleet/events"
)

func TestDecide(t *testing.T) {
	policy := &events.RestartPolicy{}
	quick := &events.RestartPolicy{
		InitialDelayMs: new(int64(100)), MaxDelayMs: new(int64(350)), BackoffMultiplier: new(1.5), MaxRestartAttempts: new(4),
	}
	for name, tc := range map[string]struct {
		policy *events.RestartPolicy
		in     trouble
		want   verdict
	}{
		// R29
		"first":             {nil, trouble{Failures: 1, Retry: true, Rand: 0.9}, verdict{true, 0}},
		"second":            {nil, trouble{Failures: 2, Retry: true}, verdict{true, 500 * time.Millisecond}},
		"fifth":             {nil, trouble{Failures: 5, Retry: true}, verdict{true, 4 * time.Second}},
		"sixth":             {nil, trouble{Failures: 6, Retry: true}, verdict{}},
		"no use":            {nil, trouble{Failures: 1}, verdict{}},
		"local, worked":     {nil, trouble{Failures: 6, Retry: true, Worked: true}, verdict{}},
		"remote":            {nil, trouble{Failures: 6, Retry: true, Remote: true}, verdict{}},
		"remote, worked":    {nil, trouble{Failures: 6, Retry: true, Remote: true, Worked: true}, verdict{false, 15 * time.Second}},
		"probe":             {nil, trouble{Failures: 7, Retry: true, Remote: true, Worked: true, Probes: 1}, verdict{false, 30 * time.Second}},
		"fifth probe":       {nil, trouble{Failures: 11, Retry: true, Remote: true, Worked: true, Probes: 5}, verdict{false, 5 * time.Minute}},
		"hundredth probe":   {nil, trouble{Failures: 106, Retry: true, Remote: true, Worked: true, Probes: 100}, verdict{false, 5 * time.Minute}},
		"no use but remote": {nil, trouble{Failures: 1, Remote: true, Worked: true}, verdict{false, 15 * time.Second}},
		// M1, M4
		"policy, first":       {policy, trouble{Failures: 1, Retry: true}, verdict{true, time.Second}},
		"policy, jitter":      {policy, trouble{Failures: 1, Retry: true, Rand: 0.5}, verdict{true, 1100 * time.Millisecond}},
		"policy, fifth":       {policy, trouble{Failures: 5, Retry: true}, verdict{true, 16 * time.Second}},
		"policy, longest":     {policy, trouble{Failures: 6, Retry: true, Rand: 0.99}, verdict{true, 30 * time.Second}},
		"policy, tenth":       {policy, trouble{Failures: 10, Retry: true}, verdict{true, 30 * time.Second}},
		"policy, eleventh":    {policy, trouble{Failures: 11, Retry: true, Remote: true, Worked: true}, verdict{}},
		"policy, no use":      {policy, trouble{Failures: 1}, verdict{}},
		"quick, third":        {quick, trouble{Failures: 3, Retry: true}, verdict{true, 225 * time.Millisecond}},
		"quick, fourth":       {quick, trouble{Failures: 4, Retry: true, Rand: 0.2}, verdict{true, 350 * time.Millisecond}},
		"quick, fifth":        {quick, trouble{Failures: 5, Retry: true}, verdict{}},
		"policy, no restarts": {&events.RestartPolicy{MaxRestartAttempts: new(0)}, trouble{Failures: 1, Retry: true}, verdict{}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := decide(tc.policy, tc.in); got != tc.want {
				t.Errorf("decide(%+v) = %+v, want %+v", tc.in, got, tc.want)
			}
		})
	}
}

// M1: jitter adds up to a fifth, never subtracts and never passes the longest
// delay, whatever the policy.
func TestDecideJitter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		initial := rapid.Int64Range(0, 100_000).Draw(t, "initial")
		longest := rapid.Int64Range(initial, 1_000_000).Draw(t, "longest")
		p := &events.RestartPolicy{
			InitialDelayMs: &initial, MaxDelayMs: &longest,
			BackoffMultiplier:  new(rapid.Float64Range(1, 1000).Draw(t, "multiplier")),
			MaxRestartAttempts: new(1_000_000),
		}
		in := trouble{Failures: rapid.IntRange(1, 1_000_000).Draw(t, "failures"), Retry: true}
		plain := decide(p, in).Delay
		in.Rand = rapid.Float64Range(0, 0.999999).Draw(t, "rand")
		got := decide(p, in).Delay
		most := min(time.Duration(float64(plain)*1.2)+time.Microsecond, time.Duration(longest)*time.Millisecond)
		if got < plain || got > most {
			t.Fatalf("%s became %s, at most %s is allowed", plain, got, most)
		}
	})
}
