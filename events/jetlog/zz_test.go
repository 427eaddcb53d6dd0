package jetlog_test
import ("testing";"github.com/toolfleet/toolfleet/events")
func explain(t *testing.T, r *recorder, places map[events.EventID]events.Seq) {
  stale, early := 0, 0
  for _, op := range r.ops {
    in, out := op.Input.(asked), op.Output.(answered)
    for _, op2 := range r.ops {
      in2, out2 := op2.Input.(asked), op2.Output.(answered)
      if in2.chain != in.chain || in2.read || out2.conflict { continue }
      seq2 := places[in2.id]; _ = out2
      if in.read && op2.Return < op.Call && seq2 > out.seq { stale++; if stale < 5 { t.Logf("stale read by %d of %s: %d, but %d acked to %d", op.ClientId, in.chain, out.seq, seq2, op2.ClientId) } }
      if in.read && op2.Call > op.Return && seq2 != 0 && seq2 <= out.seq { early++; t.Logf("early read") }
    }
    if out.conflict {
      ok := false
      for _, op2 := range r.ops {
        in2, out2 := op2.Input.(asked), op2.Output.(answered)
        if in2.chain != in.chain || in2.read || out2.conflict { continue }
        if places[in2.id] > in.expected && op2.Call < op.Return { ok = true }
      }
      if !ok { t.Logf("conflict with nothing: %+v", in) }
    }
  }
  t.Log("stale", stale, "early", early)
}
