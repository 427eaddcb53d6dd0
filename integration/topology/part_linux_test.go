//go:build topology

package topology

import (
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/errors"
	"github.com/compose-spec/compose-go/v2/types"

	"github.com/toolfleet/toolfleet/integration/invariants"
)

// part is a service as a process. It keeps its folders from one life to the next.
type part struct {
	t       *testing.T
	lan     *lan
	service types.ServiceConfig
	folders map[string]string // of this host, by path in the container
	env     []string

	cmd  *exec.Cmd
	said *os.File
	done chan struct{}
}

// newPart prepares a service: its folders, its files with the hosts of this
// network, its environment and nothing else. It is ended with the test, and its
// last words are told if that failed.
func newPart(t *testing.T, l *lan, s types.ServiceConfig, dir string) *part {
	t.Helper()
	p := &part{t: t, lan: l, service: s, folders: make(map[string]string)}
	for _, v := range s.Volumes {
		host := filepath.Join(dir, s.Name, filepath.Base(v.Target))
		p.folders[v.Target] = host
		if err := os.MkdirAll(filepath.Dir(host), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, v := range s.Volumes {
		host := p.folders[v.Target]
		err := os.MkdirAll(host, 0o700)
		if v.Type == types.VolumeTypeBind {
			err = errors.Join(os.Remove(host), os.WriteFile(host, []byte(p.here(read(t, v.Source))), 0o600))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for name, value := range s.Environment {
		p.env = append(p.env, name+"="+p.here(*value))
	}
	p.env = append(p.env, "PATH="+bin+string(os.PathListSeparator)+os.Getenv("PATH"), "HOME="+filepath.Join(dir, s.Name),
		"TOOLFLEET_HTTP=127.0.0.1:0") // each container has a loopback interface of its own
	var err error
	if p.said, err = os.Create(filepath.Join(dir, s.Name, "output")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.kill()
		if t.Failed() {
			t.Logf("%s said last:\n%s", s.Name, p.lastWords())
		}
		p.said.Close()
	})
	return p
}

// here puts what is on this host into a text of the container.
func (p *part) here(text string) string {
	text = p.lan.localize(p.service.Name, text)
	for path, host := range p.folders {
		text = replace(text, `(^|[\s"'=:,])`+regexp.QuoteMeta(path)+`($|[/\s"',])`, host)
	}
	return text
}

// command returns a command of the service, as it would be run in its container.
func (p *part) command(words []string) *exec.Cmd {
	args := make([]string, 0, len(words))
	for _, w := range words {
		args = append(args, p.here(w))
	}
	if local := filepath.Join(bin, args[0]); exists(local) {
		args[0] = local
	}
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Env = p.env
	return cmd
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// listen has the part find the nodes of the bus where what passes is watched.
func (p *part) listen(nodes []*part, ledger *invariants.Ledger) {
	p.t.Helper()
	line := invariants.NewLine(ledger)
	for _, n := range nodes {
		const clients = ":4222"
		l, err := net.Listen("tcp", p.lan.line(p.service.Name, n.service.Name)+clients)
		if err != nil {
			p.t.Fatal(err)
		}
		p.t.Cleanup(func() { l.Close() })
		go line.Serve(l, p.lan.address(n.service.Name)+clients)
	}
}

// start starts the process.
func (p *part) start() {
	p.t.Helper()
	p.cmd = p.command(p.service.Command)
	p.cmd.Stdout, p.cmd.Stderr = p.said, p.said
	if err := p.cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	p.done = make(chan struct{})
	cmd, done := p.cmd, p.done
	go func() {
		_ = cmd.Wait() // it is killed, mostly
		close(done)
	}()
}

// kill ends the process as kill -9 does, if it was started.
func (p *part) kill() {
	if p.cmd == nil {
		return
	}
	_ = p.cmd.Process.Kill() // it may be gone
	<-p.done
}

// stop ends the process as docker does: it has its time, and no more.
func (p *part) stop() {
	p.t.Helper()
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // it may be gone
	select {
	case <-p.done:
	case <-time.After(time.Duration(*p.service.StopGracePeriod)):
		p.t.Errorf("%s does not stop within %v", p.service.Name, *p.service.StopGracePeriod)
		p.kill()
	}
}

// healthy runs the service's own health check.
func (p *part) healthy() error {
	test := p.service.HealthCheck.Test[1:]
	if test[0] != "wget" {
		cmd := p.command(test)
		out, err := cmd.CombinedOutput()
		return errors.Wrapf(err, "%q: %s", test, out)
	}
	r, err := http.NewRequestWithContext(p.t.Context(), http.MethodGet, p.here(test[len(test)-1]), http.NoBody)
	if err != nil {
		return err
	}
	client := &http.Client{Timeout: time.Second}
	answer, err := client.Do(r)
	if err != nil {
		return err
	}
	answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return errors.Newf("%q: %s", test, answer.Status)
	}
	return nil
}

// lastWords are the last lines that the process wrote, in all its lives, without
// what a node tells of each route and each question about its health.
func (p *part) lastWords() string {
	const most = 40
	data, err := os.ReadFile(p.said.Name())
	if err != nil {
		return err.Error()
	}
	var lines []string
	for line := range strings.Lines(string(data)) {
		if !strings.Contains(line, "oute") && !strings.Contains(line, "Healthcheck failed") {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines[max(0, len(lines)-most):], "")
}
