package jetlog

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestEmbeddedConfig(t *testing.T) {
	for _, d := range []Durability{Interval, Always} {
		c, err := (&EmbeddedOptions{Dir: "x", Durability: d}).config()
		if err != nil {
			t.Fatal(err)
		}
		if c.SyncInterval != 200*time.Millisecond || c.SyncAlways != (d == Always) || c.Host != "127.0.0.1" || c.HTTPPort != 0 || !c.NoSigs {
			t.Errorf("%s: sync every %s, always %t, at %s, monitoring %d, no signals %t",
				d, c.SyncInterval, c.SyncAlways, c.Host, c.HTTPPort, c.NoSigs)
		}
	}
}

func TestStoreLimit(t *testing.T) {
	dir := t.TempDir()
	empty, err := storeLimit(dir, 0)
	if err != nil {
		t.Fatal(err)
	}
	if limit, err := storeLimit(dir, minStore); limit != minStore {
		t.Errorf("a lower limit gave %d, %v", limit, err)
	}
	if limit, err := storeLimit(dir, empty*100); limit > empty*2 {
		t.Errorf("a limit above the disk gave %d, %v", limit, err)
	}
	// What the store holds counts, whatever is free.
	if err := os.MkdirAll(filepath.Join(dir, "jetstream", "x"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a", "jetstream/x/b"} {
		if err := os.WriteFile(filepath.Join(dir, name), make([]byte, 1000), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if n, err := folderSize(dir); n != 2000 {
		t.Errorf("the folder's size is %d, %v", n, err)
	}
	if _, err := storeLimit(filepath.Join(dir, "absent"), 0); err == nil {
		t.Error("a folder that is absent has a limit")
	}
}
