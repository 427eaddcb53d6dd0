package client

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/errors"
	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"

	"github.com/toolfleet/toolfleet/events"
)

// vault keeps secrets in memory, with the contract of the fleet's store.
type vault struct {
	values map[string][]string // by server and key, one a version
	broken error
}

func (v *vault) Put(_ context.Context, s events.ServerID, key, value string) (string, error) {
	if v.broken != nil {
		return "", v.broken
	}
	if v.values == nil {
		v.values = make(map[string][]string)
	}
	at := string(s) + "/" + key
	all := v.values[at]
	if len(all) == 0 || all[len(all)-1] != value {
		v.values[at] = append(all, value)
	}
	return fmt.Sprintf("${secret:%s#%d}", at, len(v.values[at])), nil
}

// canary stands in every secret of these tests, and must be nowhere else.
const canary = "cAnary7Qx"

var harmlessArgs = []string{
	"-p", "8080", "-p", "8080:80", "localhost:8080", "token.example.com:443/mcp", "auth:8080", "https://x.test:8443/token", `C:\data`, "-v", "/srv/token:/run/token:ro",
	"--header", "Accept:application/json", "--header=X-Mode: fast", "--filter=state=open", "npm:left-pad", "mode:fast",
	`{"maxTokens":4096,"tokenFile":"/run/secrets/token","useToken":true,"mode":"oauth"}`, `--config={"url":"https://x.test/mcp?v=2","a":["b:c"]}`,
	"--include=[a-z]*.{js,ts}", "{{.Name}}", `{"apiKey":"${API_KEY}","port":${PORT:-8080}}`, `--config={"apiKey":"${API_KEY}","region":"${REGION:-eu-west-3}"}`,
	"--header=X-Api-Key: ${KEY}", "Authorization:${KEY}", "--pwd=${PWD}", "--pwd", "${PWD}",
}

func TestMoveSecrets(t *testing.T) {
	for _, test := range []struct {
		name     string
		in, want events.Definition
		moved    map[string]string
	}{
		{
			"values of env move, whatever they look like",
			events.Definition{Env: map[string]string{"TOKEN": canary, "GREETING": "hello " + canary, "X.Y": canary, "PIN": "1234"}},
			events.Definition{Env: map[string]string{
				"TOKEN": "${secret:s/env.TOKEN#1}", "GREETING": "${secret:s/env.GREETING#1}",
				"X.Y": "${secret:s/env.X.Y#1}", "PIN": "${secret:s/env.PIN#1}",
			}},
			map[string]string{"env.TOKEN": canary, "env.GREETING": "hello " + canary, "env.X.Y": canary, "env.PIN": "1234"},
		},
		{
			"harmless values of env stay",
			events.Definition{Env: map[string]string{
				"READ_ONLY": "true", "MIN_TOKENS": "6000", "LEVEL": "debug", "WORDS": "de_DE.UTF-8", "EMPTY": "",
				"PATH": "/usr/bin:/bin", "NODE_ENV": "production", "LC_ALL": "C.UTF-8", "USE_TOKEN": "off", "TOKEN_TTL": "60",
			}},
			events.Definition{Env: map[string]string{
				"READ_ONLY": "true", "MIN_TOKENS": "6000", "LEVEL": "debug", "WORDS": "de_DE.UTF-8", "EMPTY": "",
				"PATH": "/usr/bin:/bin", "NODE_ENV": "production", "LC_ALL": "C.UTF-8", "USE_TOKEN": "off", "TOKEN_TTL": "60",
			}},
			nil,
		},
		{
			"a harmless key does not excuse a token",
			events.Definition{Env: map[string]string{"HOST": "ghp_" + canary + "abcdef"}},
			events.Definition{Env: map[string]string{"HOST": "${secret:s/env.HOST#1}"}},
			map[string]string{"env.HOST": "ghp_" + canary + "abcdef"},
		},
		{
			"allowLiteral keeps single keys",
			events.Definition{AllowLiteral: []string{"A", "x-mode", "m"}, Env: map[string]string{"A": "words", "a": canary}, Headers: map[string]string{"X-Mode": "fast"}, URL: "https://x.test/?m=n"},
			events.Definition{AllowLiteral: []string{"A", "x-mode", "m"}, Env: map[string]string{"A": "words", "a": "${secret:s/env.a#1}"}, Headers: map[string]string{"X-Mode": "fast"}, URL: "https://x.test/?m=n"},
			map[string]string{"env.a": canary},
		},
		{
			"references stay, with what is around them",
			events.Definition{
				Env:     map[string]string{"TOKEN": "${TOKEN}", "DSN": "postgres://${USER}:${PASS}@${HOST:-localhost}/db", "E": "${env:E:-true}"},
				Headers: map[string]string{"Authorization": "Bearer ${secret:s/header.Authorization#4}"},
				URL:     "https://${HOST}/mcp?key=${KEY}", Args: []string{"--token=${TOKEN}", "--region", "${REGION:-eu-west-3}"},
			},
			events.Definition{
				Env:     map[string]string{"TOKEN": "${TOKEN}", "DSN": "postgres://${USER}:${PASS}@${HOST:-localhost}/db", "E": "${env:E:-true}"},
				Headers: map[string]string{"Authorization": "Bearer ${secret:s/header.Authorization#4}"},
				URL:     "https://${HOST}/mcp?key=${KEY}", Args: []string{"--token=${TOKEN}", "--region", "${REGION:-eu-west-3}"},
			},
			nil,
		},
		{
			"headers move, but for well-known ones",
			events.Definition{Headers: map[string]string{"Authorization": "Bearer " + canary, "X-Team": "blue-" + canary, "Accept": "application/json", "X-Readonly": "true"}},
			events.Definition{Headers: map[string]string{
				"Authorization": "${secret:s/header.Authorization#1}", "X-Team": "${secret:s/header.X-Team#1}", "Accept": "application/json", "X-Readonly": "true",
			}},
			map[string]string{"header.Authorization": "Bearer " + canary, "header.X-Team": "blue-" + canary},
		},
		{
			"user and query of a url move, as they are written",
			events.Definition{URL: "https://ann:" + canary + "%2F@x.test:8443/mcp/v1?api_key=" + canary + "&version=2&tag=" + canary + "&tag=b" + canary + "#" + canary},
			events.Definition{URL: "https://${secret:s/query.&user#1}:${secret:s/query.&password#1}@x.test:8443/mcp/v1?api_key=${secret:s/query.api_key#1}" +
				"&version=2&tag=${secret:s/query.tag#1}&tag=${secret:s/query.tag&2#1}#${secret:s/query.&fragment#1}"},
			map[string]string{
				"query.&user": "ann", "query.&password": canary + "%2F", "query.api_key": canary,
				"query.tag": canary, "query.tag&2": "b" + canary, "query.&fragment": canary,
			},
		},
		{
			"a token in the path of a url moves",
			events.Definition{URL: "https://hooks.test/api/s/" + canary + "9f8e7d6c5b4a/mcp"},
			events.Definition{URL: "https://hooks.test/api/s/${secret:s/query.&path.3#1}/mcp"},
			map[string]string{"query.&path.3": canary + "9f8e7d6c5b4a"},
		},
		{
			"arguments move when they look like secrets",
			events.Definition{Args: []string{
				"-y", "@scope/server-github@1.2.3", "--token=" + canary, "--api-key", canary, "-H", "Authorization: Bearer " + canary,
				"-e", "DB_PASSWORD=" + canary, "postgres://u:" + canary + "@db/x", "ghp_" + canary + "0123", "--verbose",
			}},
			events.Definition{Args: []string{
				"-y", "@scope/server-github@1.2.3", "--token=${secret:s/arg.3#1}", "--api-key", "${secret:s/arg.5#1}", "-H", "Authorization: ${secret:s/arg.7#1}",
				"-e", "DB_PASSWORD=${secret:s/arg.9#1}", "${secret:s/arg.10#1}", "${secret:s/arg.11#1}", "--verbose",
			}},
			map[string]string{
				"arg.3": canary, "arg.5": canary, "arg.7": "Bearer " + canary, "arg.9": canary,
				"arg.10": "postgres://u:" + canary + "@db/x", "arg.11": "ghp_" + canary + "0123",
			},
		},
		{
			"ordinary arguments stay",
			events.Definition{Args: []string{
				"run", "-i", "--rm", "-e", "Q_TOKEN", "quality/mcp@sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
				"--max-tokens", "4096", "--token-file=/run/secrets/token", "--auth-mode", "oauth", "/nix/store/1b9p07z77phvv2hf6gm9f28syp39f1ag-x/bin/y",
				"https://x.test/mcp?v=2", "mcp-server-kubernetes-v2-readonly-edition", "--port=8080", "--keys", "a,b",
			}},
			events.Definition{Args: []string{
				"run", "-i", "--rm", "-e", "Q_TOKEN", "quality/mcp@sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
				"--max-tokens", "4096", "--token-file=/run/secrets/token", "--auth-mode", "oauth", "/nix/store/1b9p07z77phvv2hf6gm9f28syp39f1ag-x/bin/y",
				"https://x.test/mcp?v=2", "mcp-server-kubernetes-v2-readonly-edition", "--port=8080", "--keys", "a,b",
			}},
			nil,
		},
		{
			"JSON in an argument moves when a name in it speaks of a secret",
			events.Definition{Args: []string{
				"--config", `{"apiKey":"4f9a0c77-b1e2-4d55-9c01-` + canary + `"}`, `--config={"a":[{"b":{"apiKey": "` + canary + `"}}],"c":"d=e"}`,
				`-c{"credentials":{"user":"` + canary + `"}}`, `{"port":8080,"x":"{\"pwd\":\"` + canary + `\"}"}`, `{port: 8080, apiKey: '` + canary + `'}`,
				`{"url":"https://x.test","id":"` + canary + `9f8e7d6c5b4a"}`, `[{"headers":["X-Api-Key: ` + canary + `"]}]`, `{"pin":1234567}`,
			}},
			events.Definition{Args: []string{
				"--config", "${secret:s/arg.2#1}", "--config=${secret:s/arg.3#1}", "${secret:s/arg.4#1}", "${secret:s/arg.5#1}", "${secret:s/arg.6#1}",
				"${secret:s/arg.7#1}", "${secret:s/arg.8#1}", "${secret:s/arg.9#1}",
			}},
			map[string]string{
				"arg.2": `{"apiKey":"4f9a0c77-b1e2-4d55-9c01-` + canary + `"}`, "arg.3": `{"a":[{"b":{"apiKey": "` + canary + `"}}],"c":"d=e"}`,
				"arg.4": `-c{"credentials":{"user":"` + canary + `"}}`, "arg.5": `{"port":8080,"x":"{\"pwd\":\"` + canary + `\"}"}`, "arg.6": `{port: 8080, apiKey: '` + canary + `'}`,
				"arg.7": `{"url":"https://x.test","id":"` + canary + `9f8e7d6c5b4a"}`, "arg.8": `[{"headers":["X-Api-Key: ` + canary + `"]}]`, "arg.9": `{"pin":1234567}`,
			},
		},
		{
			"headers and passwords in arguments move, however they are written",
			events.Definition{Args: []string{
				"--header", "Authorization:" + canary, "--header", "X-Api-Key:" + canary + "8c1f2ab", "--header=X-Api-Key: " + canary, "--header=X-Api-Key:" + canary + "=",
				"-H", "X-Api-Key: " + canary, "-HAuthorization:" + canary, "--pwd=" + canary, "--pwd", canary, "--env=DB_PASSWORD=" + canary,
				"--set=a=b,token=" + canary, "--api-key", canary + "==", "A=ghp_" + canary + "0123,TOKEN=x",
			}},
			events.Definition{Args: []string{
				"--header", "Authorization:${secret:s/arg.2#1}", "--header", "X-Api-Key:${secret:s/arg.4#1}", "--header=X-Api-Key: ${secret:s/arg.5#1}", "--header=X-Api-Key:${secret:s/arg.6#1}",
				"-H", "X-Api-Key: ${secret:s/arg.8#1}", "-HAuthorization:${secret:s/arg.9#1}", "--pwd=${secret:s/arg.10#1}", "--pwd", "${secret:s/arg.12#1}", "--env=DB_PASSWORD=${secret:s/arg.13#1}",
				"--set=a=b,token=${secret:s/arg.14#1}", "--api-key", "${secret:s/arg.16#1}", "A=${secret:s/arg.17#1}",
			}},
			map[string]string{
				"arg.2": canary, "arg.4": canary + "8c1f2ab", "arg.5": canary, "arg.6": canary + "=", "arg.8": canary, "arg.9": canary, "arg.10": canary,
				"arg.12": canary, "arg.13": canary, "arg.14": canary, "arg.16": canary + "==", "arg.17": "ghp_" + canary + "0123,TOKEN=x",
			},
		},
		{
			"arguments with colons, equals signs and JSON stay when they are harmless",
			events.Definition{Env: map[string]string{"PWD": "/srv"}, Args: harmlessArgs},
			events.Definition{Env: map[string]string{"PWD": "/srv"}, Args: harmlessArgs},
			nil,
		},
		{
			"secrets in unknown members are not kept",
			events.Definition{Unknown: []byte(`{"config":"{\"apiKey\":\"` + canary + `\"}","token":["` + canary + `"],"auth":{"clientSecret":"` + canary + `","list":["ghp_` + canary + `0123",7,"plain"]},"icon":"https://u:` + canary + `@x.test","hint":"${HINT}"}`)},
			events.Definition{Unknown: []byte(`{"config":"${removed}","token":["${removed}"],"auth":{"clientSecret":"${removed}","list":["${removed}",7,"plain"]},"icon":"${removed}","hint":"${HINT}"}`)},
			nil,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			before, err := json.Marshal(&test.in, json.Deterministic(true))
			if err != nil {
				t.Fatal(err)
			}
			v := &vault{}
			got, keys, err := MoveSecrets(t.Context(), "s", &test.in, v)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, *got); diff != "" {
				t.Errorf("definition (-want +got):\n%s", diff)
			}
			stored := map[string]string{}
			for key, values := range v.values {
				stored[strings.TrimPrefix(key, "s/")] = values[len(values)-1]
			}
			want := test.moved
			if want == nil {
				want = map[string]string{}
			}
			if diff := cmp.Diff(want, stored); diff != "" {
				t.Errorf("stored (-want +got):\n%s", diff)
			}
			if len(keys) != len(want) {
				t.Errorf("keys are %q", keys)
			}
			after, err := json.Marshal(&test.in, json.Deterministic(true))
			if err != nil {
				t.Fatal(err)
			}
			if string(before) != string(after) {
				t.Errorf("the definition given was changed to %s", after)
			}
			sent, err := json.Marshal(got)
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(string(sent), canary) {
				t.Errorf("the canary is in %s", sent)
			}
			again, moved, err := MoveSecrets(t.Context(), "s", got, v)
			if err != nil || len(moved) > 0 || cmp.Diff(got, again) != "" {
				t.Errorf("moved again: %q, %v", moved, err)
			}
		})
	}
}

func TestMixedSecretsAreRefusedByKey(t *testing.T) {
	for key, d := range map[string]events.Definition{
		"env.T":           {Env: map[string]string{"T": "ghp_" + canary + "xyz-${SUFFIX}"}},
		"env.TOKEN":       {Env: map[string]string{"TOKEN": "${TOKEN:-" + canary + "}"}},
		"env.API_KEY":     {Env: map[string]string{"API_KEY": "bghp_" + canary + "77aa11${a:-b}"}},
		"env.PASSWORD":    {Env: map[string]string{"PASSWORD": "${ghp_" + canary + "77aa11}"}},
		"env.MY_SECRET":   {Env: map[string]string{"MY_SECRET": "x${a:-b-ghp_" + canary + "77aa11}"}},
		"env.DSN":         {Env: map[string]string{"DSN": "postgres://u:" + canary + "@${HOST}/db"}},
		"header.X":        {Headers: map[string]string{"X": "Bearer " + canary + " ${X}"}},
		"query.&password": {URL: "https://u:" + canary + "${P}@x.test/"},
		"query.key":       {URL: "https://x.test/?key=${K:-" + canary + "}"},
		"arg.2":           {Args: []string{"a", "--token=${T:-" + canary + "}"}},
		"arg.1":           {Args: []string{`{"apiKey":"` + canary + `","b":"${B}"}`}},
		"arg.3":           {Args: []string{"a", "b", `{"port":${PORT},"apiKey":"${K:-` + canary + `}"}`}},
		"arg.4":           {Args: []string{"a", "b", "--header", "Authorization:${K:-" + canary + "}"}},
		"arg.5":           {Args: []string{"a", "b", "c", "--pwd", "${K:-" + canary + "}"}},
	} {
		_, _, err := MoveSecrets(t.Context(), "s", &d, &vault{})
		if !errors.Is(err, ErrMixedSecret) || !strings.Contains(fmt.Sprint(err), key) {
			t.Errorf("%s: error is %v", key, err)
		}
		if strings.Contains(fmt.Sprintf("%+v", err), canary) {
			t.Errorf("%s: the error holds the value: %+v", key, err)
		}
	}
}

func TestMisplacedSecretsAreRefused(t *testing.T) {
	token := "ghp_" + canary + "0123456789"
	for member, definitions := range map[string][]events.Definition{
		"command": {{Command: "/opt/run --token=" + token}, {Command: "${A}/" + token}, {Command: "${A:-" + token + "}"}},
		"cwd":     {{Command: "x", Cwd: "/srv/" + token + "/data"}, {Command: "x", Cwd: token}},
	} {
		for _, d := range definitions {
			v := &vault{}
			_, _, err := MoveSecrets(t.Context(), "s", &d, v)
			if !errors.Is(err, ErrMisplacedSecret) || !strings.Contains(fmt.Sprint(err), member+" holds a literal secret") ||
				!strings.Contains(fmt.Sprint(err), "env or args") {
				t.Errorf("%+v: error is %v", d, err)
			}
			if strings.Contains(fmt.Sprintf("%+v", err), canary) {
				t.Errorf("%s: the error holds the value: %+v", member, err)
			}
			if _, err := LiteralSecrets(&d); !errors.Is(err, ErrMisplacedSecret) {
				t.Errorf("%+v: error of LiteralSecrets is %v", d, err)
			}
		}
	}
	for _, d := range []events.Definition{
		{Command: "/opt/sk-learn-env/bin/python3", Cwd: "/home/ann/Basic Programs/npm_modules"},
		{Command: "/nix/store/1b9p07z77phvv2hf6gm9f28syp39f1ag-x/bin/y", Cwd: "~/hf_models"},
		{Command: "${secret:sk-a1b2c3d4/env.PATH#1}", Cwd: "${GITHUB_WORKSPACE}/x"},
	} {
		got, _, err := MoveSecrets(t.Context(), "s", &d, nil)
		if err != nil || got.Command != d.Command || got.Cwd != d.Cwd {
			t.Errorf("%+v became %+v, %v", d, got, err)
		}
	}
}

func TestSecretsNeedAStore(t *testing.T) {
	d := events.Definition{Env: map[string]string{"TOKEN": canary}, Args: []string{"--key=" + canary}}
	_, _, err := MoveSecrets(t.Context(), "s", &d, nil)
	if !errors.Is(err, ErrNoSecretStore) || !strings.Contains(err.Error(), "env.TOKEN") || strings.Contains(fmt.Sprintf("%+v", err), canary) {
		t.Errorf("error is %+v", err)
	}
	broken := errors.New("the bucket is gone")
	if _, _, err := MoveSecrets(t.Context(), "s", &d, &vault{broken: broken}); !errors.Is(err, broken) {
		t.Errorf("error is %v", err)
	}
	if _, _, err := MoveSecrets(t.Context(), "s", &events.Definition{Command: "x"}, nil); err != nil {
		t.Errorf("error without secrets is %v", err)
	}
	keys, err := LiteralSecrets(&d)
	if want := []string{"env.TOKEN", "arg.1"}; err != nil || !slices.Equal(keys, want) {
		t.Errorf("keys are %q, %v, want %q", keys, err, want)
	}
}

// Whatever a definition is made of, a secret under a key that speaks of one does
// not stay in it.
func FuzzMoveSecrets(f *testing.F) {
	parts := []string{
		"", "a", "${A}", "${", "}", "https://h/?a=b", "//", "@", "k=v", "a: b", "\x00", "${a:-b}", "#", "://:@", "?", "&", "${a:-",
		"x${a:-b", ":-b", "\x88:-b", "sha256:", "~", "${secret:s/k#1}", "${secret:",
	}
	for _, before := range parts {
		for _, after := range parts {
			f.Add(before, after)
		}
	}
	for _, part := range []string{
		"--config", "--config={", `{"apiKey":"a"}`, `{"a":"`, `{"a":[`, "--header", "--header=", "X-Api-Key: a", "Authorization:a", "-H", "--pwd", "--pwd=", "[", "\\",
	} {
		f.Add(part, "")
		f.Add("", part)
		f.Add(part, part)
	}
	f.Fuzz(func(t *testing.T, before, after string) {
		secret := "ghp_" + canary + "77aa11"
		d := events.Definition{
			Env:  map[string]string{"TOKEN": before + secret + after},
			URL:  "https://u:" + secret + "@h/" + before + "?token=" + secret + "&" + after,
			Args: []string{before, "--token=" + secret, after, "https://h/?api_key=" + secret},
		}
		got, _, err := MoveSecrets(t.Context(), "s", &d, &vault{})
		text := fmt.Sprintf("%+v", err)
		if got != nil {
			text = fmt.Sprintf("%q %q %q", got.Env, got.URL, got.Args)
		}
		if strings.Contains(text, secret) {
			t.Errorf("the secret is in %s", text)
		}
		for _, form := range []string{
			`--config={"apiKey":"` + canary + `"}`, `{"a":{"apiKey":"` + canary + `"}}`, "Authorization:" + canary, "--header=X-Api-Key: " + canary,
			"--header=X-Api-Key:" + canary, "X-Api-Key: " + canary, "--pwd=" + canary, "--pwd " + canary,
		} {
			d := events.Definition{Args: []string{before}}
			if flag, value, ok := strings.Cut(form, " "); ok && flag == "--pwd" {
				d.Args = append(d.Args, flag, value, after)
			} else {
				d.Args = append(d.Args, form, after)
			}
			got, _, err := MoveSecrets(t.Context(), "s", &d, &vault{})
			if got != nil && strings.Contains(strings.Join(got.Args[1:len(got.Args)-1], " "), canary) || strings.Contains(fmt.Sprintf("%+v", err), canary) {
				t.Errorf("%q became %+v, %v", d.Args, got, err)
			}
		}
		d = events.Definition{Command: before + "/" + secret + after}
		if _, _, err := MoveSecrets(t.Context(), "s", &d, nil); !errors.Is(err, ErrMisplacedSecret) {
			t.Errorf("%q: error is %v", d.Command, err)
		}
	})
}
