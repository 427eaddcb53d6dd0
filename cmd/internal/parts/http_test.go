package parts

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/errors"

	"github.com/toolfleet/toolfleet/cmd/internal/exit"
)

func listen(t *testing.T, o *HTTPOptions) (*HTTP, string, error) {
	t.Helper()
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	var log bytes.Buffer
	s, err := ListenHTTP(t.Context(), o, &Host{Data: t.TempDir(), Logger: slog.New(slog.NewTextHandler(&log, nil))})
	t.Cleanup(s.Close)
	return s, log.String(), err
}

func TestListenHTTP(t *testing.T) {
	for _, tt := range []struct {
		addr, url string
		warns     bool
	}{
		{"127.0.0.1:0", "http://127.0.0.1:", false},
		{"localhost:0", "http://localhost:", false},
		{"0.0.0.0:0", "http://127.0.0.1:", true},
		{":0", "http://127.0.0.1:", true},
	} {
		s, log, err := listen(t, &HTTPOptions{Addr: tt.addr})
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(s.URL, tt.url) || strings.HasSuffix(s.URL, ":0") {
			t.Errorf("%s: the URL is %s", tt.addr, s.URL)
		}
		if strings.Contains(log, "without TLS") != tt.warns {
			t.Errorf("%s: it said %q", tt.addr, log)
		}
		if _, err := os.Stat(s.TokenFile); err != nil {
			t.Error(err)
		}
	}
	if s, _, err := listen(t, &HTTPOptions{Addr: "off"}); s != nil || err != nil {
		t.Errorf("off: %v, %v", s, err)
	}
}

// An address that cannot be had is an error that says what to do.
func TestListenHTTPFails(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, _, err = listen(t, &HTTPOptions{Addr: l.Addr().String()})
	if err == nil || !strings.Contains(err.Error(), "another program listens there") || !strings.Contains(strings.Join(errors.GetAllHints(err), "\n"), "--http off") {
		t.Errorf("taken: %v, %q", err, errors.GetAllHints(err))
	}
	for _, o := range []HTTPOptions{{Addr: "8377"}, {Addr: ""}, {Addr: "127.0.0.1:0", CertFile: "c"}, {Addr: "127.0.0.1:0", KeyFile: "k"}} {
		if _, _, err := listen(t, &o); exit.Of(err) != exit.Usage {
			t.Errorf("%+v: %v", o, err)
		}
	}
	if _, _, err := listen(t, &HTTPOptions{Addr: "127.0.0.1:0", CertFile: "c", KeyFile: "k"}); err == nil || exit.Of(err) == exit.Usage {
		t.Errorf("no such files: %v", err)
	}
}

// With a certificate everything goes over TLS, and an address that others reach
// is nothing to warn of.
func TestHTTPOverTLS(t *testing.T) {
	cert, key, pool := certificate(t)
	s, log, err := listen(t, &HTTPOptions{Addr: "0.0.0.0:0", CertFile: cert, KeyFile: key})
	if err != nil || log != "" {
		t.Fatalf("%v: it said %q", err, log)
	}
	s.start(nil)
	part := s.serve(func(ctx context.Context) error {
		<-ctx.Done()
		return nil
	})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- part.Run(ctx) }()
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}
	client := &http.Client{Transport: transport}
	for path, want := range map[string]int{"/healthz": http.StatusOK, "/readyz": http.StatusServiceUnavailable, "/v1/servers": http.StatusServiceUnavailable} {
		resp, err := client.Get(s.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("%s while it starts: %s", path, resp.Status)
		}
	}
	if resp, err := client.Get(strings.Replace(s.URL, "https", "http", 1)); err == nil {
		resp.Body.Close()
		if resp.StatusCode != http.StatusBadRequest {
			t.Errorf("without TLS: %s", resp.Status)
		}
	}
	transport.CloseIdleConnections()
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// certificate returns the files of a certificate for 127.0.0.1, and who trusts it.
func certificate(t *testing.T) (certFile, keyFile string, pool *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	certFile, keyFile = filepath.Join(dir, "cert"), filepath.Join(dir, "key")
	certPEM := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	err = errors.Join(os.WriteFile(certFile, certPEM, 0o600),
		os.WriteFile(keyFile, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}), 0o600))
	if err != nil {
		t.Fatal(err)
	}
	pool = x509.NewCertPool()
	pool.AppendCertsFromPEM(certPEM)
	return certFile, keyFile, pool
}
