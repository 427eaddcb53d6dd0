package invariants

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestMain makes the test binary a server that has a record and does nothing.
func TestMain(m *testing.M) {
	if os.Getenv(RecordVariable) != "" {
		if err := Guard(); err != nil {
			panic(err)
		}
		_, _ = os.Stdout.WriteString("there\n")
		_, _ = os.Stdin.Read(make([]byte, 1)) // until the test ends it
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// start starts this binary as a server, and returns how to end it.
func start(t *testing.T, record Record, mark, instance string) (end func()) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), RecordVariable+"="+string(record), MarkVariable+"="+mark, instanceVariable+"="+instance)
	if _, err := cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 6)); err != nil {
		t.Fatal(err)
	}
	end = func() {
		_ = cmd.Process.Kill() // it may be gone
		_ = cmd.Wait()         // it was killed
	}
	t.Cleanup(end)
	return end
}

func TestProcessesAndRecords(t *testing.T) {
	r := Record(filepath.Join(t.TempDir(), "record"))
	wants(t, r.Check(), "no process was started")
	end := start(t, r, "mark", "")
	wants(t, NoneLeft("mark"), "invariant 5")
	wants(t, NoneLeft("mar"), "")
	end()
	wants(t, NoneLeft("mark"), "")
	start(t, r, "mark", "")
	wants(t, r.Check(), "")
	start(t, r, "mark", "")
	wants(t, r.Check(), "started beside another one, as number 3")
	if n, err := r.Starts(); n != 3 || err != nil {
		t.Errorf("%d starts, %v", n, err)
	}
}

// Instances may live side by side, and each has its owners one after the other.
func TestRecordsOfInstances(t *testing.T) {
	r := Record(filepath.Join(t.TempDir(), "record"))
	start(t, r, "mark", "folder/incarnation/s/0/3.1")
	end := start(t, r, "mark", "folder/incarnation/s/1/2.1")
	wants(t, r.Check(), "")
	end()
	end = start(t, r, "mark", "folder/incarnation/s/1/2.2")
	end()
	wants(t, r.Check(), "")
	start(t, r, "mark", "folder/incarnation/s/1/1.7")
	wants(t, r.Check(), "under epoch 1, after one of epoch 2")
	if n, err := r.Starts(); n != 4 || err != nil {
		t.Errorf("%d starts, %v", n, err)
	}
}
