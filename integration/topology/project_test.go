// Package topology holds docker-compose.yml to what it promises, and runs it: as
// processes with the commands, the environment and the configuration files that
// it names, so that the file itself is what is tested.
package topology

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/compose-spec/compose-go/v2/types"
)

const composeFile = "../../docker-compose.yml"

// load reads the compose file as docker compose does, with only these variables.
func load(t *testing.T, env ...string) (*types.Project, error) {
	t.Helper()
	dir, err := filepath.Abs(filepath.Dir(composeFile))
	if err != nil {
		t.Fatal(err)
	}
	o, err := cli.NewProjectOptions([]string{filepath.Join(dir, filepath.Base(composeFile))},
		cli.WithWorkingDirectory(dir), cli.WithEnv(env))
	if err != nil {
		t.Fatal(err)
	}
	return o.LoadProject(t.Context())
}

// project returns the compose file with a token.
func project(t *testing.T, token string) *types.Project {
	t.Helper()
	p, err := load(t, "TOOLFLEET_NATS_TOKEN="+token)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// role is what a service is, by its name without the number.
func role(service string) string {
	name, _, _ := strings.Cut(service, "-")
	return name
}

// named returns the services of a role, in order.
func named(p *types.Project, what string) (all []types.ServiceConfig) {
	for _, name := range p.ServiceNames() {
		if role(name) == what {
			all = append(all, p.Services[name])
		}
	}
	return all
}
