package jetlog_test

import (
	"bytes"
	"encoding/base64"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/errors"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/events/eventstest"
	"github.com/toolfleet/toolfleet/events/jetlog"
)

func TestBlobs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := eventstest.NewServer(t, nil)
		a := open(t, server.Connect("a"), nil)
		b := open(t, server.Connect("b"), nil)
		for _, data := range [][]byte{nil, []byte("x"), bytes.Repeat([]byte("0123456789abcdef"), 1<<16)} {
			d, err := a.PutBlob(t.Context(), data)
			if err != nil || d != events.DigestOf(data) {
				t.Fatalf("put %d bytes: %s, %v", len(data), d, err)
			}
			got, err := b.GetBlob(t.Context(), d)
			if err != nil || !bytes.Equal(got, data) {
				t.Errorf("%d bytes came back as %d: %v", len(data), len(got), err)
			}
			// It is an object for every other client too.
			js, err := jetstream.New(b.Conn())
			if err != nil {
				t.Fatal(err)
			}
			store, err := js.ObjectStore(t.Context(), "tf-test-blobs")
			if err != nil {
				t.Fatal(err)
			}
			if got, err := store.GetBytes(t.Context(), string(d)); err != nil || !bytes.Equal(got, data) {
				t.Errorf("as an object, %d bytes are %d: %v", len(data), len(got), err)
			}
		}
		if _, err := a.PutBlob(t.Context(), make([]byte, jetlog.MaxBlob+1)); !errors.Is(err, events.ErrTooLarge) {
			t.Errorf("a blob that is too large: %v", err)
		}
	})
}

func TestBlobIsStoredOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := eventstest.NewServer(t, nil)
		l := open(t, server.Connect("a"), nil)
		js, err := jetstream.New(l.Conn())
		if err != nil {
			t.Fatal(err)
		}
		last := func() uint64 {
			s, err := js.Stream(t.Context(), "OBJ_tf-test-blobs")
			if err != nil {
				t.Fatal(err)
			}
			return s.CachedInfo().State.LastSeq
		}
		if _, err := l.PutBlob(t.Context(), []byte("data")); err != nil {
			t.Fatal(err)
		}
		before := last()
		if _, err := l.PutBlob(t.Context(), []byte("data")); err != nil || last() != before {
			t.Errorf("the second put wrote %d messages: %v", last()-before, err)
		}
		// What is there but damaged is stored again.
		digest := events.DigestOf([]byte("data"))
		stream, err := js.Stream(t.Context(), "OBJ_tf-test-blobs")
		if err != nil {
			t.Fatal(err)
		}
		object, err := stream.GetMsg(t.Context(), before)
		if err != nil {
			t.Fatal(err)
		}
		_, err = js.Publish(t.Context(), object.Subject, []byte(`{"name":"x","nuid":"none","size":4,"chunks":1,"digest":"SHA-256=x"}`))
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if _, err := l.GetBlob(t.Context(), digest); !errors.Is(err, jetlog.ErrBlobNotFound) {
			t.Errorf("damaged: %v", err)
		}
		if d := time.Since(began); d < 4*time.Second || d > 6*time.Second {
			t.Errorf("it was waited for for %s", d)
		}
		if _, err := l.PutBlob(t.Context(), []byte("data")); err != nil {
			t.Fatal(err)
		}
		if got, err := l.GetBlob(t.Context(), digest); string(got) != "data" {
			t.Errorf("%q, %v", got, err)
		}
	})
}

// What is read is what was asked for, whatever is stored.
func TestBlobIsVerified(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := eventstest.NewServer(t, nil)
		l := open(t, server.Connect("a"), nil)
		js, err := jetstream.New(l.Conn())
		if err != nil {
			t.Fatal(err)
		}
		evil, err := l.PutBlob(t.Context(), []byte("evil"))
		if err != nil {
			t.Fatal(err)
		}
		// The good digest's object refers to the other's chunks.
		good := events.DigestOf([]byte("good"))
		subject := func(d events.Digest) string {
			return "$O.tf-test-blobs.M." + base64.URLEncoding.EncodeToString([]byte(d))
		}
		stream, err := js.Stream(t.Context(), "OBJ_tf-test-blobs")
		if err != nil {
			t.Fatal(err)
		}
		object, err := stream.GetLastMsgForSubject(t.Context(), subject(evil))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := js.Publish(t.Context(), subject(good), object.Data); err != nil {
			t.Fatal(err)
		}
		if got, err := l.GetBlob(t.Context(), good); !errors.Is(err, jetlog.ErrBlobNotFound) {
			t.Errorf("%q, %v", got, err)
		}
	})
}

func TestBlobIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := eventstest.NewServer(t, nil)
		l := open(t, server.Connect("a"), nil)
		time.AfterFunc(3*time.Second, func() {
			if _, err := l.PutBlob(t.Context(), []byte("late")); err != nil {
				t.Error(err)
			}
		})
		if got, err := l.GetBlob(t.Context(), events.DigestOf([]byte("late"))); string(got) != "late" {
			t.Errorf("%q, %v", got, err)
		}
		if _, err := l.GetBlob(t.Context(), events.DigestOf([]byte("never"))); !errors.Is(err, jetlog.ErrBlobNotFound) {
			t.Errorf("never put: %v", err)
		}
	})
}
