package worker

import (
	"context"
	"os"
	"slices"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/mark3labs/mcp-go/client/transport"

	"github.com/toolfleet/toolfleet/events"
)

// maxEnvFile bounds a file of variables, in bytes.
const maxEnvFile = 1 << 20

// link is a transport with its end.
type link struct {
	*lifeline

	wire   transport.Interface
	pid    int
	strays *strays // of a process's stdout, or nil
	stderr *tail   // of a process, or nil
}

// dialing makes one connection. What there is of it stays visible when that
// fails: phase says how far it came.
type dialing struct {
	definition *events.Definition
	env        func(string) (string, bool)
	secrets    Secrets
	// spawner starts the process, under the name of the connection.
	spawner Spawner
	name    string
	// record takes what the server says to be read by people.
	record *recorder
	// dial connects to the host of a URL; nil is a plain dialer.
	dial dialFunc
	// allowed is asked right before anything is spawned or dialled.
	allowed func() error
	// budget is the time limit, 0 for none; the caller's context holds to it.
	budget time.Duration

	phase    events.Phase
	resolved *resolved
	scrub    scrubber
	notices  *notices
	link     *link
	last     *exchange
}

// connect resolves the definition, spawns or dials, and shakes hands, until the
// context ends. Life is the context of what goes on afterwards. After an error
// the link, if there is one, is the caller's to close.
func (d *dialing) connect(ctx, life context.Context) (*conn, error) {
	d.phase, d.notices = events.PhaseResolve, newNotices()
	d.notices.logged = func(params jsontext.Value) { d.record.message(d.scrub, params) }
	var err error
	if d.resolved, err = resolve(d.definition, sources{env: d.env, secret: d.secret(ctx)}); err != nil {
		return nil, err
	}
	d.scrub = newScrubber(d.resolved.private)
	c, h, err := d.handshake(ctx, life)
	if err != nil {
		return nil, err
	}
	conn := &conn{link: d.link, client: c, hello: h, notices: d.notices, scrub: d.scrub}
	if h.stateless && slices.Contains(h.offers[:], true) {
		go conn.listen(life)
	}
	return conn, nil
}

func (d *dialing) secret(ctx context.Context) func(string) (string, error) {
	return func(ref string) (string, error) {
		if d.secrets == nil {
			return "", errNoSecrets
		}
		return d.secrets.Get(ctx, ref)
	}
}

// open makes the link for a revision, unless the one that there is will do.
func (d *dialing) open(ctx, life context.Context, stateless bool) error {
	switch d.definition.Transport() {
	case events.Stdio:
		if d.link != nil {
			return nil
		}
		return d.spawn(ctx, life)
	case events.HTTP:
		if d.link != nil {
			d.link.Shut(0)
			<-d.link.gone
		}
		d.phase = events.PhaseConnect
		if err := d.allowed(); err != nil {
			return err
		}
		t, err := newHTTP(d.dial, d.resolved.url, d.resolved.headers, !stateless, d.definition.Roots, d.notices.take)
		if err == nil {
			d.link = &link{lifeline: t.lifeline, wire: t}
		}
		return err
	default:
		d.phase = events.PhaseConnect
		return events.NewFailure(events.InvalidDefinition, events.PhaseConnect,
			"this worker does not speak "+string(d.definition.Transport())+": use http if the server has it")
	}
}

func (d *dialing) spawn(ctx, life context.Context) error {
	d.resolved.private = append(d.resolved.private, proxySecrets(d.env)...)
	var file map[string]string
	if d.resolved.envFile != "" {
		var err error
		if file, err = readEnvFile(d.resolved.envFile); err != nil {
			return err
		}
		for _, v := range file {
			if len(v) >= shortestVariable {
				d.resolved.private = append(d.resolved.private, v)
			}
		}
	}
	d.scrub = newScrubber(d.resolved.private)
	d.phase = events.PhaseSpawn
	if err := d.allowed(); err != nil {
		return err
	}
	ctx, started := spawns(ctx, d.resolved.command)
	p, err := spawn(ctx, d.spawner, d.resolved, environ(d.env, file, d.resolved.env), d.name)
	started(p, err)
	if err != nil {
		return err
	}
	t := newStdio(life, p, &tail{lines: d.record.stderr(d.scrub)}, d.definition.Roots, d.notices.take)
	d.link = &link{lifeline: t.lifeline, wire: t, pid: p.PID(), strays: t.stray, stderr: t.stderr}
	return nil
}

// readEnvFile reads variables. Its error names the file, and no value.
func readEnvFile(path string) (map[string]string, error) {
	fail := func(reason string) (map[string]string, error) {
		return nil, events.NewFailure(events.UnresolvedVariable, events.PhaseResolve, "envFile "+path+": "+reason)
	}
	if info, err := os.Stat(path); err != nil || info.Size() > maxEnvFile || !info.Mode().IsRegular() {
		return fail("is no file of at most 1 MiB on this worker")
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return fail(withoutPath(err).Error())
	}
	vars, err := parseEnvFile(string(text))
	if err != nil {
		return fail(err.Error())
	}
	return vars, nil
}
