package jetlog_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/cockroachdb/errors"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/events/eventstest"
	"github.com/toolfleet/toolfleet/events/jetlog"
)

// canary is a value that must be found nowhere but where it belongs.
const canary = "canary-7f3a9e"

func identity(t *testing.T) *jetlog.Identity {
	t.Helper()
	id, err := jetlog.LoadOrCreateIdentity(filepath.Join(t.TempDir(), "identity"))
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func openSecrets(t *testing.T, l *jetlog.Log) *jetlog.Secrets {
	t.Helper()
	s, err := l.Secrets(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// secretsOf is a fleet's secrets, adopted by an identity.
func secretsOf(t *testing.T, s *eventstest.Server) (*jetlog.Secrets, *jetlog.Identity) {
	t.Helper()
	secrets := openSecrets(t, open(t, s.Connect("client"), nil))
	id := identity(t)
	if err := secrets.Adopt(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	return secrets, id
}

func put(t *testing.T, s *jetlog.Secrets, name, value string) string {
	t.Helper()
	ref, err := s.Put(t.Context(), "github", name, value)
	if err != nil {
		t.Fatal(err)
	}
	return ref
}

func get(t *testing.T, s *jetlog.Secrets, id *jetlog.Identity, ref string) string {
	t.Helper()
	value, err := s.Get(t.Context(), ref, id)
	if err != nil {
		t.Fatal(err)
	}
	return value
}

func TestSecretVersions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, id := secretsOf(t, eventstest.NewServer(t, nil))
		one := put(t, s, "env.TOKEN", "first")
		if one != "${secret:github/env.TOKEN#1}" {
			t.Errorf("the reference is %s", one)
		}
		if again := put(t, s, "env.TOKEN", "first"); again != one {
			t.Errorf("the same value again is %s", again)
		}
		two := put(t, s, "env.TOKEN", "second")
		if two != "${secret:github/env.TOKEN#2}" {
			t.Errorf("another value is %s", two)
		}
		// Only the last version counts: a value that comes back is a new version.
		three := put(t, s, "env.TOKEN", "first")
		if three != "${secret:github/env.TOKEN#3}" {
			t.Errorf("the first value again is %s", three)
		}
		for ref, want := range map[string]string{one: "first", two: "second", three: "first"} {
			if got := get(t, s, id, ref); got != want {
				t.Errorf("%s is %q", ref, got)
			}
		}
		refs, err := s.Versions(t.Context(), "github")
		if err != nil || len(refs) != 3 || refs[0].String() != one || refs[2].String() != three {
			t.Errorf("versions %v, %v", refs, err)
		}
		// A purged version is gone, and its number is not used again.
		if err := s.Purge(t.Context(), refs[2]); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Get(t.Context(), three, id); !errors.Is(err, jetlog.ErrSecretNotFound) {
			t.Errorf("a purged version: %v", err)
		}
		if four := put(t, s, "env.TOKEN", "first"); four != "${secret:github/env.TOKEN#4}" {
			t.Errorf("after the purge of #3 came %s", four)
		}
	})
}

func TestSecretKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, id := secretsOf(t, eventstest.NewServer(t, nil))
		for name, key := range map[string]string{
			"env.GITHUB_TOKEN":     "env.GITHUB_TOKEN",
			"header.Authorization": "header.Authorization",
			"query.api-key":        "query.api-key",
			"arg.3":                "arg.3",
			"env.A.B":              "env.=IEXEE",
			"env.=IEXEE":           "env.=HVEUKWCFIU",
			"query.a b*>":          "query.=MEQGEKR6",
			"header.x}#1":          "header.=PB6SGMI",
		} {
			ref := put(t, s, name, "value of "+name)
			if want := "${secret:github/" + key + "#1}"; ref != want {
				t.Errorf("%s is %s, not %s", name, ref, want)
			}
			if got := get(t, s, id, ref); got != "value of "+name {
				t.Errorf("%s is %q", ref, got)
			}
			r, err := jetlog.ParseSecretRef(ref)
			if err != nil || r.Name() != name || r.Server != "github" || r.Version != 1 || r.String() != ref {
				t.Errorf("%s parsed is %+v, %v", ref, r, err)
			}
		}
		for _, name := range []string{"", "env", "env.", "arg.x", "arg.", "TOKEN", "url.x", "env." + strings.Repeat("x", 600)} {
			if ref, err := s.Put(t.Context(), "github", name, canary); err == nil {
				t.Errorf("%q was stored as %s", name, ref)
			} else if strings.Contains(fmt.Sprintf("%+v", err), canary) {
				t.Errorf("the error holds the value: %+v", err)
			}
		}
		if _, err := s.Put(t.Context(), "git.hub", "env.X", canary); !errors.Is(err, events.ErrInvalidID) {
			t.Errorf("an id that is none: %v", err)
		}
	})
}

func TestParseSecretRef(t *testing.T) {
	for _, bad := range []string{
		"", canary, "${secret:}", "${secret:github}", "${secret:github/env.X}", "${secret:github/env.X#}", "${secret:github/env.X#0}",
		"${secret:github/env.X#-1}", "${secret:github/env.X#1", "secret:github/env.X#1", "${secret:git.hub/env.X#1}",
		"${secret:github/env.X.1#1}", "${secret:github/env.>#1}", "${secret:github/other.X#1}", "${env:X}",
	} {
		if r, err := jetlog.ParseSecretRef(bad); err == nil {
			t.Errorf("%q is %+v", bad, r)
		} else if strings.Contains(err.Error(), canary) {
			t.Errorf("the error repeats what was given: %v", err)
		}
	}
}

func TestSecretsNeedTheRightIdentity(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := eventstest.NewServer(t, nil)
		l := open(t, server.Connect("client"), nil)
		s := openSecrets(t, l)
		if _, err := s.Put(t.Context(), "github", "env.X", canary); !errors.Is(err, jetlog.ErrNoRecipient) {
			t.Errorf("without a recipient: %v", err)
		}
		right, wrong := identity(t), identity(t)
		for range 2 {
			if err := s.Adopt(t.Context(), right); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.Adopt(t.Context(), wrong); !errors.Is(err, jetlog.ErrOtherRecipient) {
			t.Errorf("a second identity: %v", err)
		}
		if r, err := s.Recipient(t.Context()); r != right.Recipient() {
			t.Errorf("the recipient is %s, %v", r, err)
		}
		ref := put(t, s, "env.X", canary)
		if _, err := s.Get(t.Context(), ref, wrong); !errors.Is(err, jetlog.ErrOtherRecipient) {
			t.Errorf("with the wrong identity: %v", err)
		}
		if _, err := s.Get(t.Context(), "${secret:github/env.Y#1}", right); !errors.Is(err, jetlog.ErrSecretNotFound) {
			t.Errorf("an unknown key: %v", err)
		} else if !strings.Contains(err.Error(), "env.Y of github") {
			t.Errorf("the error does not name the key: %v", err)
		}
	})
}

// Whoever writes the bucket cannot make a server get the value of another one.
func TestSecretsAreBoundToTheirKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := eventstest.NewServer(t, nil)
		s, id := secretsOf(t, server)
		put(t, s, "env.X", canary)
		js, err := jetstream.New(server.Connect("forger"))
		if err != nil {
			t.Fatal(err)
		}
		kv, err := js.KeyValue(t.Context(), "tf-test-secrets")
		if err != nil {
			t.Fatal(err)
		}
		e, err := kv.Get(t.Context(), "github.env.X.1")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := kv.Put(t.Context(), "evil.env.X.1", e.Value()); err != nil {
			t.Fatal(err)
		}
		value, err := s.Get(t.Context(), "${secret:evil/env.X#1}", id)
		if err == nil || strings.Contains(value+fmt.Sprintf("%+v", err), canary) {
			t.Errorf("%q, %+v", value, err)
		}
		if _, err := kv.Put(t.Context(), "github.env.Y.1", []byte("{}")); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Get(t.Context(), "${secret:github/env.Y#1}", id); err == nil {
			t.Error("a value that is none was read")
		}
	})
}

func TestSecretsPutAtTheSameTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := eventstest.NewServer(t, nil)
		s, id := secretsOf(t, server)
		var all []*jetlog.Secrets
		for i := range 8 {
			all = append(all, openSecrets(t, open(t, server.Connect(fmt.Sprint(i)), nil)))
		}
		refs := make([]string, len(all))
		var wg sync.WaitGroup
		for i, x := range all {
			wg.Go(func() { refs[i], _ = x.Put(t.Context(), "github", "env.SAME", "same") })
		}
		wg.Wait()
		if slices.Sort(refs); refs[0] != "${secret:github/env.SAME#1}" || refs[len(refs)-1] != refs[0] {
			t.Errorf("one value was stored as %q", refs)
		}
		for i, x := range all {
			wg.Go(func() { refs[i], _ = x.Put(t.Context(), "github", "env.MANY", fmt.Sprint("value", i)) })
		}
		wg.Wait()
		for i, ref := range refs {
			if got := get(t, s, id, ref); got != fmt.Sprint("value", i) {
				t.Errorf("%s is %q, but value%d was put there", ref, got, i)
			}
		}
	})
}

// An answer that is lost makes no second version.
func TestSecretPutWithALostAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := eventstest.NewServer(t, nil)
		s, id := secretsOf(t, server)
		put(t, s, "env.X", "old")
		line := server.Outage()
		cut := openSecrets(t, open(t, server.Connect("cut", nats.InProcessServer(line)), nil))
		lost := line.LoseAck("$KV.tf-test-secrets.github.")
		ref, err := cut.Put(t.Context(), "github", "env.X", "new")
		if err != nil || ref != "${secret:github/env.X#2}" {
			t.Errorf("%s, %v", ref, err)
		}
		<-lost
		if got := get(t, s, id, ref); got != "new" {
			t.Errorf("%s is %q", ref, got)
		}
		if refs, err := s.Versions(t.Context(), "github"); len(refs) != 2 {
			t.Errorf("there are versions %v, %v", refs, err)
		}
	})
}

// No stream has a value, or the key to it, in plain text; nor has an error or a
// printed identity.
func TestSecretsAreNowhereInPlainText(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := eventstest.NewServer(t, nil)
		nc := server.Connect("client")
		s, id := secretsOf(t, server)
		names := []string{"env.TOKEN", "header.Authorization", "query.key", "arg.1", "env.with space"}
		for i, name := range names {
			put(t, s, name, fmt.Sprint(canary, i))
		}
		large := canary + strings.Repeat("x", jetlog.MaxSecret)
		if _, err := s.Put(t.Context(), "github", "env.LARGE", large); err == nil || strings.Contains(fmt.Sprintf("%+v", err), canary) {
			t.Errorf("a value that is too large: %+v", err)
		}
		js, err := jetstream.New(nc)
		if err != nil {
			t.Fatal(err)
		}
		messages := 0
		for info := range js.ListStreams(t.Context()).Info() {
			stream, err := js.Stream(t.Context(), info.Config.Name)
			if err != nil {
				t.Fatal(err)
			}
			for seq := info.State.FirstSeq; seq <= info.State.LastSeq && info.State.Msgs > 0; seq++ {
				m, err := stream.GetMsg(t.Context(), seq)
				if errors.Is(err, jetstream.ErrMsgNotFound) {
					continue
				}
				if err != nil {
					t.Fatal(err)
				}
				messages++
				all := fmt.Sprint(m.Subject, m.Header) + string(m.Data)
				for _, secret := range []string{"canary", "Y2FuYXJ5", "AGE-SECRET-KEY"} { // the second is base64
					if strings.Contains(all, secret) {
						t.Errorf("%s %d holds %q: %s", info.Config.Name, seq, secret, all)
					}
				}
			}
		}
		if messages < len(names)+2 {
			t.Fatalf("only %d messages were looked at", messages)
		}
		for _, text := range []string{fmt.Sprint(id), fmt.Sprintf("%+v %#v %q", id, id, id), fmt.Sprintf("%v", *id)} {
			if strings.Contains(text, "AGE-SECRET-KEY") {
				t.Errorf("the identity prints as %s", text)
			}
		}
	})
}

func TestIdentityFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state", "identity")
	one, err := jetlog.LoadOrCreateIdentity(path)
	if err != nil {
		t.Fatal(err)
	}
	two, err := jetlog.LoadOrCreateIdentity(path)
	if err != nil || two.Recipient() != one.Recipient() {
		t.Errorf("at the second time %v, %v", two, err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file's mode is %v, %v", info.Mode(), err)
	}
	data, err := os.ReadFile(path)
	if err != nil || !bytes.Contains(data, []byte("# public key: "+one.Recipient()+"\n")) {
		t.Errorf("the file does not name its recipient: %v", err)
	}
	if names, err := os.ReadDir(filepath.Dir(path)); err != nil || len(names) != 1 {
		t.Errorf("the folder has %v, %v", names, err)
	}

	if err := os.Chmod(path, 0o640); err != nil {
		t.Fatal(err)
	}
	if _, err := jetlog.LoadIdentity(path); err == nil || !strings.Contains(err.Error(), "chmod 600") {
		t.Errorf("a file that others may read: %v", err)
	}
	broken := filepath.Join(t.TempDir(), "broken")
	if err := os.WriteFile(broken, []byte("AGE-SECRET-KEY-1"+canary+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := jetlog.LoadOrCreateIdentity(broken); err == nil || strings.Contains(fmt.Sprintf("%+v", err), canary) {
		t.Errorf("a broken file: %+v", err)
	}
	if _, err := jetlog.LoadIdentity(filepath.Join(t.TempDir(), "absent")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("an absent file: %v", err)
	}
}

func TestIdentityIsMadeOnce(t *testing.T) {
	for range 50 {
		path := filepath.Join(t.TempDir(), "identity")
		recipients := make([]string, 8)
		var wg sync.WaitGroup
		for i := range recipients {
			wg.Go(func() {
				if id, err := jetlog.LoadOrCreateIdentity(path); err != nil {
					t.Error(err)
				} else {
					recipients[i] = id.Recipient()
				}
			})
		}
		wg.Wait()
		if slices.Sort(recipients); recipients[0] != recipients[len(recipients)-1] {
			t.Fatalf("several identities were made: %q", recipients)
		}
	}
}
