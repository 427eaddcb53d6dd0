package jetlog_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/errors"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/toolfleet/toolfleet/events/jetlog"
)

// listen starts a plain NATS server on a free port.
func listen(t *testing.T, o server.Options) (url string) {
	t.Helper()
	o.Host, o.Port, o.NoSigs, o.NoLog = "127.0.0.1", server.RANDOM_PORT, true, true
	s, err := server.NewServer(&o)
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	return "nats://" + s.Addr().String()
}

// nowhere is an address at which nothing listens.
func nowhere(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func env(vars map[string]string) func(string) (string, bool) {
	return func(name string) (string, bool) { v, ok := vars[name]; return v, ok }
}

// natsContext writes a NATS context, and makes it the only one there is.
func natsContext(t *testing.T, name, json string) {
	t.Helper()
	dir := t.TempDir()
	t.Setenv("XDG_CONFIG_HOME", dir)
	if err := os.MkdirAll(filepath.Join(dir, "nats", "context"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "nats", "context", name+".json"), []byte(json), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "nats", "context.txt"), []byte(name), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestConnectChoosesTheServer(t *testing.T) {
	one, two, three := listen(t, server.Options{}), listen(t, server.Options{}), listen(t, server.Options{})
	natsContext(t, "there", fmt.Sprintf(`{"url":%q}`, three))
	for _, c := range []struct {
		name string
		o    jetlog.ConnectOptions
		want string
	}{
		{"the URL first", jetlog.ConnectOptions{URL: one, Env: env(map[string]string{"NATS_URL": two}), Context: "there"}, one},
		{"then the variable", jetlog.ConnectOptions{Env: env(map[string]string{"NATS_URL": two}), Context: "there"}, two},
		{"then the context", jetlog.ConnectOptions{Env: env(nil), Context: "there"}, three},
		{"then the selected one", jetlog.ConnectOptions{Env: env(nil)}, three},
		{"several URLs", jetlog.ConnectOptions{URL: nowhere(t) + ", " + one}, one},
	} {
		t.Run(c.name, func(t *testing.T) {
			nc, err := jetlog.Connect(t.Context(), &c.o)
			if err != nil {
				t.Fatal(err)
			}
			defer nc.Close()
			if got := nc.ConnectedUrl(); strings.TrimPrefix(got, "nats://") != strings.TrimPrefix(c.want, "nats://") {
				t.Errorf("connected to %s, not %s", got, c.want)
			}
		})
	}
	t.Setenv("NATS_URL", two)
	nc, err := jetlog.Connect(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	if nc.ConnectedUrl() != two {
		t.Errorf("by default connected to %s, not %s", nc.ConnectedUrl(), two)
	}
}

func TestConnectSettings(t *testing.T) {
	nc, err := jetlog.Connect(t.Context(), &jetlog.ConnectOptions{URL: listen(t, server.Options{}), Name: "worker/a"})
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	o := nc.Opts
	if o.Name != "worker/a" || o.MaxReconnect != -1 || o.ReconnectBufSize != -1 || o.ReconnectWait != 250*time.Millisecond ||
		o.ReconnectJitter == 0 || o.PingInterval != 2*time.Second || o.MaxPingsOut != 2 {
		t.Errorf("name %q, reconnects %d, buffer %d, wait %s and %s, ping %s, %d out",
			o.Name, o.MaxReconnect, o.ReconnectBufSize, o.ReconnectWait, o.ReconnectJitter, o.PingInterval, o.MaxPingsOut)
	}
}

// An error names the address and the way out, and no credentials.
func TestConnectErrors(t *testing.T) {
	locked := strings.TrimPrefix(listen(t, server.Options{Username: "u", Password: "right"}), "nats://")
	plain := strings.TrimPrefix(listen(t, server.Options{}), "nats://")
	closed := nowhere(t)
	broken := filepath.Join(t.TempDir(), "broken.creds")
	if err := os.WriteFile(broken, []byte(canary), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name  string
		o     jetlog.ConnectOptions
		words []string
	}{
		{"nobody there", jetlog.ConnectOptions{URL: "nats://u:" + canary + "@" + closed}, []string{closed, "listens", "NATS_URL"}},
		{"nobody there, token", jetlog.ConnectOptions{URL: canary + "@" + closed}, []string{closed}},
		{"wrong password", jetlog.ConnectOptions{URL: "nats://u:" + canary + "@" + locked}, []string{locked, "credentials"}},
		{"no password", jetlog.ConnectOptions{URL: "nats://" + locked}, []string{locked, "credentials"}},
		{"no URL", jetlog.ConnectOptions{URL: "nats://u:" + canary + " x@host:port"}, []string{"host:port", "percent-encoded"}},
		{"no URL, variable", jetlog.ConnectOptions{Env: env(map[string]string{"NATS_URL": "nats://u:" + canary + "%zz@h"})}, []string{"nats://h"}},
		{"no TLS there", jetlog.ConnectOptions{URL: "tls://u:" + canary + "@" + plain}, []string{plain, "TLS"}},
		{"unknown context", jetlog.ConnectOptions{Env: env(nil), Context: "nowhere"}, []string{"NATS context nowhere", "nats context ls"}},
		{"no credentials file", jetlog.ConnectOptions{URL: plain, Creds: "/nonexistent.creds"}, []string{"/nonexistent.creds"}},
		{"broken credentials file", jetlog.ConnectOptions{URL: plain, Creds: broken}, []string{broken, "nsc generate creds"}},
		{"no CA file", jetlog.ConnectOptions{URL: plain, CA: "/nonexistent.pem"}, []string{"/nonexistent.pem"}},
		{"a certificate alone", jetlog.ConnectOptions{URL: plain, Cert: broken}, []string{"key"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.o.Env == nil {
				c.o.Env = env(nil)
			}
			t.Setenv("XDG_CONFIG_HOME", t.TempDir())
			nc, err := jetlog.Connect(t.Context(), &c.o)
			if err == nil {
				nc.Close()
				t.Fatal("connected")
			}
			for _, word := range c.words {
				if !strings.Contains(err.Error(), word) {
					t.Errorf("the error does not name %q: %v", word, err)
				}
			}
			if strings.Contains(fmt.Sprintf("%+v", err), canary) {
				t.Errorf("the error holds the secret: %+v", err)
			}
		})
	}
	t.Run("a context with a broken URL", func(t *testing.T) {
		natsContext(t, "broken", `{"url":"nats://u:`+canary+` x@h:1"}`)
		_, err := jetlog.Connect(t.Context(), &jetlog.ConnectOptions{Env: env(nil)})
		if err == nil || strings.Contains(fmt.Sprintf("%+v", err), canary) {
			t.Errorf("%+v", err)
		}
	})
}

func TestConnectHeedsItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := jetlog.Connect(ctx, &jetlog.ConnectOptions{URL: listen(t, server.Options{})}); !errors.Is(err, context.Canceled) {
		t.Errorf("with an ended context: %v", err)
	}
	// A server that never says anything.
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ctx, cancel = context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	began := time.Now()
	if _, err := jetlog.Connect(ctx, &jetlog.ConnectOptions{URL: l.Addr().String()}); err == nil {
		t.Error("connected to a silent server")
	}
	if d := time.Since(began); d > 4*time.Second {
		t.Errorf("that took %s, with a deadline of 50 ms", d)
	}
}

// certificates makes an authority, and a certificate for 127.0.0.1 by it.
func certificates(t *testing.T) (ca, cert, key string) {
	t.Helper()
	dir := t.TempDir()
	file := func(name, kind string, der []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	must := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		KeyUsage:    x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &k.PublicKey, k)
	must(err)
	private, err := x509.MarshalECPrivateKey(k)
	must(err)
	cert = file("cert.pem", "CERTIFICATE", der)
	return cert, cert, file("key.pem", "EC PRIVATE KEY", private)
}

func TestConnectWithTLS(t *testing.T) {
	ca, cert, key := certificates(t)
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	authorities := x509.NewCertPool()
	authorities.AddCert(pair.Leaf)
	config := &tls.Config{Certificates: []tls.Certificate{pair}, ClientCAs: authorities, ClientAuth: tls.RequireAndVerifyClientCert}
	for _, first := range []bool{false, true} {
		url := listen(t, server.Options{TLSConfig: config, TLSVerify: true, TLSTimeout: 5, TLSHandshakeFirst: first})
		nc, err := jetlog.Connect(t.Context(), &jetlog.ConnectOptions{URL: url, CA: ca, Cert: cert, Key: key, TLSFirst: first})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := nc.TLSConnectionState(); err != nil {
			t.Errorf("without TLS: %v", err)
		}
		nc.Close()
		_, err = jetlog.Connect(t.Context(), &jetlog.ConnectOptions{URL: url, TLSFirst: first})
		if err == nil || !strings.Contains(err.Error(), "certificate authority") {
			t.Errorf("with the system's authorities: %v", err)
		}
	}
}

// A connection that breaks is made again.
func TestConnectLasts(t *testing.T) {
	e := startEmbedded(t, &jetlog.EmbeddedOptions{Dir: t.TempDir()})
	url := e.URL()
	nc, err := jetlog.Connect(t.Context(), &jetlog.ConnectOptions{URL: url})
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	status := nc.StatusChanged(nats.RECONNECTING, nats.CONNECTED)
	shutdown(t, e)
	if s := <-status; s != nats.RECONNECTING {
		t.Fatalf("the connection is %s", s)
	}
	if err := nc.Publish("x", nil); !errors.Is(err, nats.ErrReconnectBufExceeded) {
		t.Errorf("a publish during the outage: %v", err)
	}
	startEmbedded(t, &jetlog.EmbeddedOptions{Dir: t.TempDir(), Addr: strings.TrimPrefix(url, "nats://")})
	if s := <-status; s != nats.CONNECTED {
		t.Errorf("the connection is %s", s)
	}
}
