package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/cockroachdb/errors"
	"github.com/spf13/cobra"

	"github.com/toolfleet/toolfleet/cmd/internal/attach"
	"github.com/toolfleet/toolfleet/cmd/internal/build"
	"github.com/toolfleet/toolfleet/cmd/internal/bundle"
	"github.com/toolfleet/toolfleet/cmd/internal/exit"
	"github.com/toolfleet/toolfleet/cmd/internal/show"
	"github.com/toolfleet/toolfleet/cmd/internal/tokens"
	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/events/jetlog"
	"github.com/toolfleet/toolfleet/projections"
	"github.com/toolfleet/toolfleet/projections/kvview"
)

const (
	// lastEvents and lastLines are how much of the history, and of each log, goes
	// into a bundle.
	lastEvents = 1000
	lastLines  = 200
)

func newBundle() *cobra.Command {
	var flags attach.Flags
	cmd := &cobra.Command{
		Use:   "bundle FILE",
		Short: "Pack what is known of the fleet into one file, without secrets",
		Long: "Packs what helps somebody else to see what is wrong into one file (.tar.gz): what\n" +
			"doctor says, status, definitions, the last 1000 events, the ends of the servers' logs,\n" +
			"versions, and metrics where they are served.\n\n" +
			"Nothing secret is in it: definitions hold references, logs are without the values that\n" +
			"servers were given, and what looks like a token is taken out. Names of hosts and users,\n" +
			"commands, URLs and tools are kept: look through it before you give it away.",
		Args: exit.Arguments(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			f, err := attachTo(cmd.Context(), &flags)
			if err != nil {
				return err
			}
			defer f.close()
			p := &packing{fleet: f, flags: &flags}
			p.pack(cmd.Context())
			if err := p.write(args[0], time.Now()); err != nil {
				return err
			}
			for _, m := range p.missing {
				cmd.PrintErrln("left out:", m)
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%s, %s; names of hosts and users are in it, secrets are not\n", args[0], show.Count(len(p.files), "file"))
			return nil
		},
	}
	flags.Register(cmd.Flags())
	return cmd
}

// packing is a bundle in the making.
type packing struct {
	*fleet
	flags *attach.Flags
	files []bundle.File
	// missing says what could not be had.
	missing []string
	// secrets are values that must not leave.
	secrets []string
}

// part adds a file that is made by writing, or says why there is none.
func (p *packing) part(name string, write func(io.Writer) error) {
	var b bytes.Buffer
	if err := write(&b); err != nil {
		p.missing = append(p.missing, name+": "+err.Error())
	}
	if b.Len() > 0 {
		p.files = append(p.files, bundle.File{Name: name, Data: b.Bytes()})
	}
}

func (p *packing) pack(ctx context.Context) {
	p.knowSecrets()
	format := jsonFormat()
	p.part("versions.json", func(w io.Writer) error {
		return format.Write(w, map[string]string{
			"toolfleet": build.Version(), "go": runtime.Version(), "os": runtime.GOOS, "arch": runtime.GOARCH,
			"nats": p.nc.ConnectedServerVersion(), "address": p.address(), "fleet": string(p.id),
		})
	})
	p.part("doctor.json", func(w io.Writer) error { return format.Write(w, examine(ctx, p.flags)) })
	p.part("events.jsonl", func(w io.Writer) error { return p.events(ctx, w) })
	r, err := kvview.Open(ctx, p.nc, p.id, nil)
	if err != nil {
		p.missing = append(p.missing, "status, definitions and logs: "+err.Error())
	} else {
		p.part("status.json", func(w io.Writer) error {
			return format.Write(w, show.ReadStatus(r, p.id, p.address(), time.Now()))
		})
		p.part("definitions.json", func(w io.Writer) error {
			return show.Definitions.Write(w, format, show.ReadDefinitions(r))
		})
		p.logs(ctx, r)
	}
	p.part("metrics.txt", func(w io.Writer) error { return p.metrics(ctx, w) })
}

func jsonFormat() *show.Format { return show.NewFormat(show.JSON) }

// knowSecrets finds out which values of this host's own must not be in a bundle.
func (p *packing) knowSecrets() {
	place, err := p.flags.Find()
	if err == nil {
		for at := range strings.SplitSeq(place.URL, ",") {
			u, err := url.Parse(at)
			if err != nil || u.User == nil {
				continue
			}
			password, _ := u.User.Password()
			p.secrets = append(p.secrets, password)
			if password == "" {
				p.secrets = append(p.secrets, u.User.Username()) // a token
			}
		}
	}
	if record, here := p.flags.Local(); here && record.HTTPTokenFile != "" {
		lines, _ := os.ReadFile(record.HTTPTokenFile) // without it nobody is let in
		for line := range strings.Lines(string(lines)) {
			if fields := strings.Fields(line); len(fields) == 3 && fields[0] != "#" {
				p.secrets = append(p.secrets, fields[2])
			}
		}
	}
}

func (p *packing) httpToken() (string, error) {
	record, here := p.flags.Local()
	if !here || record.HTTP == "" {
		return "", errors.New("no HTTP is served by a toolfleet up of this host")
	}
	return tokens.Token(record.HTTPTokenFile)
}

// events writes the last events, one a line.
func (p *packing) events(ctx context.Context, w io.Writer) error {
	log, err := p.log(ctx)
	if err != nil {
		return err
	}
	head, err := log.Head(ctx)
	if err != nil || head.Seq == 0 {
		return err
	}
	for r, err := range log.Follow(ctx, max(head.Seq, lastEvents)-lastEvents, &jetlog.FollowOptions{Until: head.Seq}) {
		if err == nil {
			err = show.Event(w, jsonFormat(), &r)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// logs adds the end of the log of each instance that has an owner.
func (p *packing) logs(ctx context.Context, r *kvview.Reader) {
	bus, err := jetlog.Visit(p.nc, p.id)
	if err != nil {
		p.missing = append(p.missing, "logs: "+err.Error())
		return
	}
	for _, s := range show.ReadServers(r) {
		for i := range s.Instances {
			n := &s.Instances[i]
			if !n.State.Owned() {
				continue
			}
			p.part("logs/"+string(s.ID)+"."+string(n.Instance)+".txt", func(w io.Writer) error {
				return p.logOf(ctx, bus, s.ID, n, w)
			})
		}
	}
}

func (p *packing) logOf(ctx context.Context, bus *jetlog.Guest, id events.ServerID, n *projections.InstanceStatus, w io.Writer) error {
	ctx, cancel := context.WithTimeout(ctx, askWithinEach)
	defer cancel()
	l := &logs{format: show.NewFormat(show.Text), tail: lastLines, server: id, fleet: p.id}
	_, err := l.ask(ctx, bus, n, &writer{out: w, format: l.format})
	return err
}

// metrics writes what the fleet's own HTTP tells, where there is one.
func (p *packing) metrics(ctx context.Context, w io.Writer) error {
	token, err := p.httpToken()
	if err != nil {
		return err
	}
	record, _ := p.flags.Local()
	ctx, cancel := context.WithTimeout(ctx, askWithinEach)
	defer cancel()
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, record.HTTP+"/metrics", nil)
	if err != nil {
		return errors.Wrap(err, "ask for metrics")
	}
	q.Header.Set("Authorization", "Bearer "+token)
	client := &http.Client{Timeout: askWithinEach}
	defer client.CloseIdleConnections()
	a, err := client.Do(q)
	if err != nil {
		return errors.Wrap(err, "ask for metrics")
	}
	defer a.Body.Close()
	if a.StatusCode != http.StatusOK {
		return errors.Newf("ask for metrics: %s", a.Status)
	}
	_, err = io.Copy(w, a.Body)
	return errors.Wrap(err, "read the metrics")
}

// readmeText says what is in a bundle.
const readmeText = `A bundle of fleet %s, made by toolfleet %s at %s.

doctor.json       what toolfleet doctor says
status.json       the fleet, its servers and workers
definitions.json  how servers are started or reached: references in the place of secrets
events.jsonl      the last events, as toolfleet events -o json prints them
logs/             the end of what each server wrote to stderr, without the values it was given
versions.json     of the parts
metrics.txt       where they are served

Names of hosts and users, commands, URLs and tools are in it. Secrets are not: what
looks like one was replaced by %s.
%s`

// write writes the bundle to a new file, for its owner only.
func (p *packing) write(path string, now time.Time) error {
	var missing strings.Builder
	for _, m := range p.missing {
		missing.WriteString("\nleft out: " + m)
	}
	readme := fmt.Sprintf(readmeText, p.id, build.Version(), now.UTC().Format(time.RFC3339), bundle.Redacted, missing.String())
	p.files = append([]bundle.File{{Name: "README.txt", Data: []byte(readme)}}, p.files...)
	out, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, os.ErrExist) {
		return errors.WithHint(errors.Newf("%s is there already", path), "name another file, or remove that one")
	}
	if err != nil {
		return errors.Wrap(err, "write the bundle")
	}
	err = bundle.Write(out, "toolfleet-"+string(p.id), now, bundle.NewRedactor(p.secrets...), p.files)
	if err = errors.Join(err, out.Close()); err != nil {
		return errors.CombineErrors(err, os.Remove(path))
	}
	return nil
}
