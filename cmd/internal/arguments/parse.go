package arguments

import (
	"io"
	"strings"

	"github.com/cockroachdb/errors"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Read returns the arguments of a call, a JSON object, as they are written on a
// command line: nothing for none, one JSON object, "-" for one on in, or members,
// each as name=text or name:=JSON. A name with dots stands for itself.
func Read(words []string, in io.Reader) ([]byte, error) {
	if len(words) == 0 {
		return []byte("{}"), nil
	}
	first := strings.TrimSpace(words[0])
	switch {
	case first == "-" && len(words) == 1:
		data, err := io.ReadAll(io.LimitReader(in, maxSize+1))
		if err == nil && len(data) > maxSize {
			err = errors.Newf("more than %d bytes", maxSize)
		}
		if err != nil {
			return nil, errors.Wrap(err, "read the arguments from standard input")
		}
		return object(data)
	case !strings.Contains(first, "=") || strings.HasPrefix(first, "{") || strings.HasPrefix(first, "["):
		if len(words) > 1 {
			return nil, errors.Newf("%q: give one JSON object, or arguments as name=text and name:=JSON", words[1])
		}
		return object([]byte(words[0]))
	default:
		return members(words)
	}
}

// maxSize bounds what is read from standard input, in bytes; no server takes
// more.
const maxSize = 64 << 20

// object returns JSON that must be an object.
func object(data []byte) ([]byte, error) {
	v := jsontext.Value(data)
	if !v.IsValid() {
		return nil, errors.Newf("%s is not JSON: write an object, or arguments as name=text and name:=JSON", shortened(data))
	}
	if v.Kind() != '{' {
		return nil, errors.Newf("arguments are not a JSON object, but %s", typeNames([]string{kindOf(v.Kind())}))
	}
	return data, nil
}

func kindOf(k jsontext.Kind) string {
	switch k {
	case '[':
		return "array"
	case '"':
		return "string"
	case '0':
		return "number"
	case 'n':
		return "null"
	default:
		return "boolean"
	}
}

func shortened(data []byte) string {
	const most = 40
	s := strings.TrimSpace(string(data))
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "…"
	}
	return s
}

// members makes an object of words such as name=text and name:=JSON, in their
// order.
func members(words []string) ([]byte, error) {
	all := []byte{'{'}
	seen := make(map[string]bool)
	for _, w := range words {
		name, text, ok := strings.Cut(w, "=")
		name, raw := strings.CutSuffix(name, ":")
		switch {
		case !ok || name == "":
			return nil, errors.Newf("%q: write name=text or name:=JSON", w)
		case seen[name]:
			return nil, errors.Newf("%s is there twice", name)
		}
		seen[name] = true
		value := jsontext.Value(text)
		if raw && !value.IsValid() {
			return nil, errors.Newf("%s:=%s is not JSON: write %s=… for text", name, shortened(value), name)
		}
		key, err := json.Marshal(name)
		if err == nil && !raw {
			value, err = json.Marshal(text)
		}
		if err != nil {
			return nil, errors.Newf("%q is no valid Unicode text", w)
		}
		if len(all) > 1 {
			all = append(all, ',')
		}
		all = append(append(append(all, key...), ':'), value...)
	}
	return append(all, '}'), nil
}
