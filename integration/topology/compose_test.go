package topology

import (
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/compose-spec/compose-go/v2/types"
	"go.yaml.in/yaml/v3"
)

const token = "0123456789abcdef"

// What there is of each part, so that any one may die.
func TestParts(t *testing.T) {
	p := project(t, token)
	for what, want := range map[string]int{
		"nats": 3, "controller": 2, "worker": 2, "collector": 1, "jaeger": 1, "prometheus": 1,
	} {
		if got := len(named(p, what)); got != want {
			t.Errorf("%d of %s, want %d", got, what, want)
		}
	}
	labels := make(map[string]bool)
	for _, s := range named(p, "worker") {
		i := slices.Index(s.Command, "--label")
		if i < 0 || labels[s.Command[i+1]] {
			t.Errorf("%s has no label of its own: %v", s.Name, s.Command)
			continue
		}
		labels[s.Command[i+1]] = true
	}
}

// Every service is started again when it ends, says whether it is well, has time
// to end in peace, and may do no more than it needs.
func TestServices(t *testing.T) {
	for name, s := range project(t, token).Services {
		t.Run(name, func(t *testing.T) {
			if s.Restart != types.RestartPolicyUnlessStopped {
				t.Errorf("restart is %q", s.Restart)
			}
			if h := s.HealthCheck; h == nil || h.Disable || len(h.Test) < 2 || h.Test[0] != "CMD" || h.Interval == nil || h.Timeout == nil {
				t.Errorf("health check %+v: want a program, without a shell, with interval and time limit", h)
			}
			if s.StopGracePeriod == nil || time.Duration(*s.StopGracePeriod) < leastStop(name) {
				t.Errorf("stop_grace_period is %v, want at least %v", s.StopGracePeriod, leastStop(name))
			}
			for _, port := range s.Ports {
				if ip := net.ParseIP(port.HostIP); !ip.IsLoopback() {
					t.Errorf("port %s is published on %q", port.Published, port.HostIP)
				}
			}
			if s.Privileged || len(s.CapAdd) > 0 || !slices.Contains(s.CapDrop, "ALL") ||
				!slices.Contains(s.SecurityOpt, "no-new-privileges:true") || s.NetworkMode != "" || s.Pid != "" {
				t.Error("it may do more than it needs")
			}
			if s.Build == nil && !pinned(s.Image) {
				t.Errorf("image %s names no version", s.Image)
			}
		})
	}
}

// leastStop is how long a part may take to stop: a worker has 30 s for calls in
// flight and 15 s for all that follows, every other part a few seconds.
func leastStop(service string) time.Duration {
	if role(service) == "worker" {
		return 45*time.Second + time.Second
	}
	return 5 * time.Second
}

func pinned(image string) bool {
	_, tag, _ := strings.Cut(image, ":")
	return tag != "" && tag != "latest"
}

// What a part keeps is in a volume of its own, so that it outlives the container.
func TestVolumes(t *testing.T) {
	p := project(t, token)
	owner := make(map[string]string)
	for name, s := range p.Services {
		for _, v := range s.Volumes {
			switch {
			case v.Type == types.VolumeTypeBind && !v.ReadOnly:
				t.Errorf("%s may write to %s", name, v.Source)
			case v.Type == types.VolumeTypeVolume && v.Source == "":
				t.Errorf("%s has a volume without a name at %s", name, v.Target)
			case v.Type == types.VolumeTypeVolume && owner[v.Source] != "":
				t.Errorf("%s and %s share the volume %s", name, owner[v.Source], v.Source)
			case v.Type == types.VolumeTypeVolume:
				owner[v.Source] = name
			}
		}
	}
	for _, what := range []string{"nats", "controller", "worker", "prometheus"} {
		for _, s := range named(p, what) {
			if !slices.Contains(slices.Collect(values(owner)), s.Name) {
				t.Errorf("%s has no volume", s.Name)
			}
		}
	}
}

func values(m map[string]string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for _, v := range m {
			if !yield(v) {
				return
			}
		}
	}
}

// The file and what it mounts hold no secret: without the token they are refused,
// and with one it is in the environment of those who need it only.
func TestSecrets(t *testing.T) {
	if _, err := load(t); err == nil || !strings.Contains(err.Error(), "TOOLFLEET_NATS_TOKEN") {
		t.Errorf("without a token: %v", err)
	}
	p := project(t, token)
	for name, s := range p.Services {
		for key, v := range s.Environment {
			has := v != nil && strings.Contains(*v, token)
			if has && !slices.Contains([]string{"NATS_TOKEN", "NATS_PEERS", "TOOLFLEET_SERVER"}, key) {
				t.Errorf("%s has the token in %s", name, key)
			}
		}
		if strings.Contains(strings.Join(s.Command, " "), token) {
			t.Errorf("%s has the token in its command, which every user sees", name)
		}
	}
	secret := regexp.MustCompile(`(?i)(token|password|secret|key)"?\s*[:=]\s*["']?[A-Za-z0-9+/_-]{8,}`)
	for _, name := range append(mounted(t, p), composeFile, "../../Dockerfile") {
		if found := secret.FindString(read(t, name)); found != "" {
			t.Errorf("%s: %q looks like a secret", name, found)
		}
	}
}

// mounted returns the files that services mount.
func mounted(t *testing.T, p *types.Project) (files []string) {
	t.Helper()
	for _, s := range p.Services {
		for _, v := range s.Volumes {
			if v.Type == types.VolumeTypeBind && !slices.Contains(files, v.Source) {
				files = append(files, v.Source)
			}
		}
	}
	if len(files) < 4 {
		t.Errorf("only %v are mounted", files)
	}
	return files
}

func read(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// The bus keeps what it acknowledges: on disk before it says so, on every node.
func TestBus(t *testing.T) {
	p := project(t, token)
	for _, s := range named(p, "nats") {
		i := slices.IndexFunc(s.Volumes, func(v types.ServiceVolumeConfig) bool { return v.Type == types.VolumeTypeBind })
		if i < 0 || !slices.Contains(s.Command, s.Volumes[i].Target) {
			t.Fatalf("%s is not started with a configuration file: %v", s.Name, s.Command)
		}
		text := read(t, s.Volumes[i].Source)
		for _, want := range []string{`(?m)^\s*sync_interval: always$`, `(?m)^\s*max_file_store: `, `(?m)^\s*cluster \{$`, `(?m)^authorization \{`} {
			if !regexp.MustCompile(want).MatchString(text) {
				t.Errorf("%s lacks %s", s.Volumes[i].Source, want)
			}
		}
		for _, other := range named(p, "nats") {
			if peers := s.Environment["NATS_PEERS"]; peers == nil || !strings.Contains(*peers, "@"+other.Name+":6222") {
				t.Errorf("%s has no route to %s", s.Name, other.Name)
			}
		}
	}
	for _, what := range []string{"controller", "worker"} {
		for _, s := range named(p, what) {
			if n := s.Environment["TOOLFLEET_REPLICAS"]; n == nil || *n != "3" {
				t.Errorf("%s makes streams with %v replicas", s.Name, n)
			}
			for _, node := range named(p, "nats") {
				if !strings.Contains(*s.Environment["TOOLFLEET_SERVER"], "@"+node.Name+":4222") {
					t.Errorf("%s does not know %s", s.Name, node.Name)
				}
				if d, ok := s.DependsOn[node.Name]; !ok || d.Condition != types.ServiceConditionHealthy {
					t.Errorf("%s does not wait for %s", s.Name, node.Name)
				}
			}
		}
	}
}

// The files say of each other's hosts and ports what is there.
func TestTelemetry(t *testing.T) {
	p := project(t, token)
	collector := read(t, "../../deploy/collector.yaml")
	var prometheus struct {
		Rules  []string `yaml:"rule_files"`
		Scrape []struct {
			Static []struct {
				Targets []string `yaml:"targets"`
			} `yaml:"static_configs"`
		} `yaml:"scrape_configs"`
	}
	if err := yaml.Unmarshal([]byte(read(t, "../../deploy/prometheus.yml")), &prometheus); err != nil {
		t.Fatal(err)
	}
	for _, target := range prometheus.Scrape[0].Static[0].Targets {
		host, port, err := net.SplitHostPort(target)
		if _, ok := p.Services[host]; err != nil || !ok || !strings.Contains(collector, "0.0.0.0:"+port) {
			t.Errorf("prometheus scrapes %s", target)
		}
	}
	for _, rules := range prometheus.Rules {
		if !slices.ContainsFunc(p.Services["prometheus"].Volumes, func(v types.ServiceVolumeConfig) bool {
			return v.Target == filepath.Join("/etc/prometheus", rules) && filepath.Base(v.Source) == rules
		}) {
			t.Errorf("prometheus does not see %s", rules)
		}
	}
	for _, what := range []string{"controller", "worker"} {
		for _, s := range named(p, what) {
			host, port, _ := strings.Cut(strings.TrimPrefix(*s.Environment["OTEL_EXPORTER_OTLP_ENDPOINT"], "http://"), ":")
			if host != "collector" || !strings.Contains(collector, "endpoint: 0.0.0.0:"+port) {
				t.Errorf("%s sends its telemetry to %s:%s", s.Name, host, port)
			}
		}
	}
	if !strings.Contains(collector, "endpoint: jaeger:4317") {
		t.Error("the collector does not send traces to jaeger")
	}
}

// The image: programs linked statically, a user that is not root, every base with
// a version.
func TestDockerfile(t *testing.T) {
	text := read(t, "../../Dockerfile")
	stages := make(map[string]bool)
	for _, m := range regexp.MustCompile(`(?m)^FROM (\S+)(?: AS (\S+))?$`).FindAllStringSubmatch(text, -1) {
		if m[1] != "scratch" && !stages[m[1]] && !pinned(m[1]) {
			t.Errorf("FROM %s names no version", m[1])
		}
		stages[m[2]] = true
	}
	_, final, _ := strings.Cut(text, "AS toolfleet\n")
	final, _, _ = strings.Cut(final, "\nFROM ")
	for _, want := range []string{"\nUSER 65532:65532\n", "COPY --from=build /out/ /"} {
		if !strings.Contains(final, want) {
			t.Errorf("the image lacks %q", want)
		}
	}
	for _, want := range []string{"CGO_ENABLED=0", "./cmd/toolfleet", "./cmd/controller", "./cmd/worker"} {
		if !strings.Contains(text, want) {
			t.Errorf("the build lacks %s", want)
		}
	}
	for name, s := range project(t, token).Services {
		if s.Build != nil && !stages[s.Build.Target] {
			t.Errorf("%s is built from the stage %q", name, s.Build.Target)
		}
	}
}
