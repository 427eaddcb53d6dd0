package worker

import (
	"bufio"
	"bytes"
	"io"
	"strconv"
	"unicode/utf8"

	"github.com/cockroachdb/errors"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// maxFrame bounds one message of a server, in bytes: what a call's result may
// have on its way to the caller.
const maxFrame = 32 << 20

// errFrameTooLarge is the error of a line above the limit.
var errFrameTooLarge = errors.New("a message exceeds the limit for a frame")

// frame is one JSON-RPC message, its values as they were sent.
type frame struct {
	JSONRPC string         `json:"jsonrpc"`
	ID      jsontext.Value `json:"id,omitzero"`
	Method  string         `json:"method,omitzero"`
	Params  jsontext.Value `json:"params,omitzero"`
	Result  jsontext.Value `json:"result,omitzero"`
	Error   jsontext.Value `json:"error,omitzero"`
}

// rpcError is a server's JSON-RPC error.
type rpcError struct {
	Code    int            `json:"code"`
	Message string         `json:"message"`
	Data    jsontext.Value `json:"data,omitzero"`
}

func (e *rpcError) Error() string {
	return "JSON-RPC error " + strconv.Itoa(e.Code) + ": " + e.Message
}

// decodeFrame returns false for a line that is no JSON-RPC message. Names are
// matched exactly. Duplicate names are left to whoever reads the values.
func decodeFrame(line []byte) (*frame, bool) {
	if len(line) == 0 || line[0] != '{' {
		return nil, false
	}
	if !utf8.Valid(line) {
		line = bytes.ToValidUTF8(line, []byte("\ufffd"))
	}
	var f frame
	if json.Unmarshal(line, &f, jsontext.AllowDuplicateNames(true)) != nil {
		return nil, false
	}
	if f.Method == "" && (f.ID == nil || f.Result == nil && f.Error == nil) {
		return nil, false
	}
	return &f, true
}

// number returns the id of one of our requests. Some servers answer a number
// with its text.
func (f *frame) number() (int64, bool) {
	n, err := strconv.ParseInt(string(bytes.Trim(f.ID, `"`)), 10, 64)
	return n, err == nil
}

// failure returns the frame's error. Some servers send a bare text.
func (f *frame) failure() *rpcError {
	e := &rpcError{}
	if json.Unmarshal(f.Error, e, jsontext.AllowDuplicateNames(true)) == nil {
		return e
	}
	e = &rpcError{Code: codeInternalError}
	if json.Unmarshal(f.Error, &e.Message) != nil {
		e.Message = string(f.Error)
	}
	return e
}

// encode returns the frame as one line.
func (f *frame) encode() ([]byte, error) {
	f.JSONRPC = "2.0"
	line, err := json.Marshal(f, jsontext.AllowDuplicateNames(true))
	return append(line, '\n'), err
}

// lines reads lines of bounded length.
type lines struct {
	r     *bufio.Reader
	limit int
	begun bool
}

func newLines(r io.Reader, limit int) *lines {
	return &lines{r: bufio.NewReaderSize(r, 64<<10), limit: limit}
}

// next returns a line without its end, and without the byte order mark that
// some programs begin with. A last line without an end is a line too. The error
// is errFrameTooLarge or the reader's own.
func (l *lines) next() ([]byte, error) {
	var line []byte
	for {
		part, err := l.r.ReadSlice('\n')
		if len(line)+len(part) > l.limit {
			return nil, errFrameTooLarge
		}
		line = append(line, part...)
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
		case err == nil, errors.Is(err, io.EOF) && len(line) > 0:
			line = bytes.TrimRight(line, "\r\n")
			if !l.begun {
				l.begun = true
				line = bytes.TrimPrefix(line, []byte("\ufeff"))
			}
			return bytes.TrimSpace(line), nil
		default:
			return nil, err
		}
	}
}
