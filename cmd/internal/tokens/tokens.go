// Package tokens keeps the bearer tokens of a host's HTTP interface in a file,
// <data>/http-token, that its user alone can read:
//
//	# name  scopes  token
//	default read,call,change 4QXGV3…
//	read    read             ZK7PA2…
//
// The file is made at first use with the token "default", which may do
// everything. Each has a name of its own, since what belongs to a name belongs to
// whoever holds its token. Lines may be added and removed while the file is used:
// it is read again when it has changed. One that others could read, or that is not
// understood, is refused, and then nobody is let in.
package tokens

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/cockroachdb/errors"

	"github.com/toolfleet/toolfleet/guard"
)

// Name is the file's name in a host's folder.
const Name = "http-token"

// Default is the name of the token that may do everything.
const Default = "default"

// ErrMode marks the error of a file that others than its user may read.
var ErrMode = errors.New("others may read the tokens")

// File is a file of tokens.
type File struct {
	path   string
	logger *slog.Logger

	mu sync.Mutex // guards what follows
	// stamp is of the file as it was read last, and known what was in it.
	stamp stamp
	known []guard.Known
}

// stamp tells whether a file is the one that was read.
type stamp struct {
	info fs.FileInfo
	none bool
}

// Open returns the file at a path, which is made with its folder if it is not
// there. The logger is told when it cannot be read again.
func Open(path string, logger *slog.Logger) (*File, error) {
	if err := makeUnlessThere(path); err != nil {
		return nil, err
	}
	f := &File{path: path, logger: logger}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f, f.load()
}

// Path returns where the file is.
func (f *File) Path() string { return f.path }

// Holder returns who holds a token, in a time that does not tell.
func (f *File) Holder(token string) (guard.Principal, bool) {
	f.mu.Lock()
	if f.changed() {
		if err := f.load(); err != nil {
			f.logger.Warn("nobody is let in over HTTP", "err", err)
		}
	}
	known := f.known
	f.mu.Unlock()
	return guard.Holder(known, token)
}

// changed says whether the file is not the one that was read.
func (f *File) changed() bool {
	info, err := os.Stat(f.path)
	if err != nil {
		return !f.stamp.none
	}
	was := f.stamp.info
	return was == nil || !os.SameFile(was, info) || !was.ModTime().Equal(info.ModTime()) || was.Size() != info.Size() || was.Mode() != info.Mode()
}

// load reads the file. After an error nobody is known, until it has changed.
func (f *File) load() error {
	f.known = nil
	info, err := os.Stat(f.path)
	f.stamp = stamp{info, err != nil}
	if err != nil {
		return errors.Wrap(err, "read the tokens")
	}
	lines, err := read(f.path)
	for _, l := range lines {
		f.known = append(f.known, guard.NewKnown(guard.Principal{Name: l.name, Scopes: l.scopes}, l.token))
	}
	return err
}

// Token returns a token from the file at a path that has these scopes and no
// others, or all if none are given. One that is not there is added.
func Token(path string, scopes ...guard.Scope) (string, error) {
	if len(scopes) == 0 {
		scopes = guard.Scopes()
	}
	if err := makeUnlessThere(path); err != nil {
		return "", err
	}
	lines, err := read(path)
	if err != nil {
		return "", err
	}
	scopes = ordered(scopes)
	if i := find(lines, scopes); i >= 0 {
		return lines[i].token, nil
	}
	return add(path, scopes)
}

// find returns where the token is that has these scopes, or -1.
func find(lines []line, scopes []guard.Scope) int {
	return slices.IndexFunc(lines, func(l line) bool { return slices.Equal(l.scopes, scopes) })
}

// add adds a token, unless somebody else just did.
func add(path string, scopes []guard.Scope) (token string, err error) {
	file, err := os.OpenFile(path, os.O_APPEND|os.O_RDWR, 0)
	if err != nil {
		return "", errors.Wrap(err, "add a token")
	}
	defer func() { err = errors.CombineErrors(err, errors.Wrap(file.Close(), "add a token")) }()
	// Two that add at a time would give two tokens one name.
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX); err != nil {
		return "", errors.Wrap(err, "lock the tokens")
	}
	lines, err := read(path)
	if err != nil {
		return "", err
	}
	if i := find(lines, scopes); i >= 0 {
		return lines[i].token, nil
	}
	added := line{freeName(lines, scopes), scopes, rand.Text()}
	text := added.String()
	if !endsLine(file) {
		text = "\n" + text
	}
	_, err = file.WriteString(text)
	return added.token, errors.Wrap(err, "add a token")
}

// endsLine says whether a file is at the end of a line, as editors may not leave it.
func endsLine(file *os.File) bool {
	info, err := file.Stat()
	if err != nil || info.Size() == 0 {
		return err == nil
	}
	last := make([]byte, 1)
	_, err = file.ReadAt(last, info.Size()-1)
	return err == nil && last[0] == '\n'
}

// makeUnlessThere makes a file with one token, unless there is one.
func makeUnlessThere(path string) error {
	if _, err := os.Lstat(path); err == nil {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return errors.Wrap(err, "make the folder of the tokens")
	}
	temporary, err := os.CreateTemp(filepath.Dir(path), Name+"-*")
	if err != nil {
		return errors.Wrap(err, "make the tokens")
	}
	defer os.Remove(temporary.Name())
	first := line{Default, guard.Scopes(), rand.Text()}
	_, err = temporary.WriteString("# name scopes token\n" + first.String())
	if err := errors.Join(err, temporary.Close()); err != nil {
		return errors.Wrap(err, "make the tokens")
	}
	// It appears whole, and not in the place of one that somebody else made.
	if err := os.Link(temporary.Name(), path); err != nil && !errors.Is(err, fs.ErrExist) {
		return errors.Wrap(err, "make the tokens")
	}
	return nil
}

// line is one token.
type line struct {
	name   string
	scopes []guard.Scope
	token  string
}

func (l line) String() string {
	words := make([]string, 0, len(l.scopes))
	for _, s := range l.scopes {
		words = append(words, string(s))
	}
	return fmt.Sprintf("%s %s %s\n", l.name, strings.Join(words, ","), l.token)
}

// read returns the tokens of a file. Its errors quote nothing of it.
func read(path string) ([]line, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, errors.Wrap(err, "read the tokens")
	}
	if info.Mode().Perm()&0o077 != 0 {
		return nil, errors.WithHintf(errors.Mark(errors.Newf("others than you may read %s (mode %04o)", path, info.Mode().Perm()), ErrMode),
			"chmod 600 %s; if others have read it, remove it, and new tokens are made", path)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, errors.Wrap(err, "read the tokens")
	}
	var lines []line
	numbers := make(map[string]int) // of the line with a name
	for i, text := range bytes.Split(data, []byte("\n")) {
		words := strings.Fields(string(text))
		if len(words) == 0 || strings.HasPrefix(words[0], "#") {
			continue
		}
		l, ok := parse(words)
		if !ok {
			return nil, errors.WithHintf(errors.Newf("line %d of %s is no token", i+1, path),
				"a line is a name, scopes such as read,call,change, and the token; without the file a new one is made")
		}
		if n := numbers[l.name]; n > 0 {
			return nil, errors.WithHintf(errors.Newf("line %d of %s has the name of line %d", i+1, path, n),
				"give it another name, or remove it")
		}
		numbers[l.name] = i + 1
		lines = append(lines, l)
	}
	return lines, nil
}

func parse(words []string) (line, bool) {
	const fields = 3
	if len(words) != fields {
		return line{}, false
	}
	l := line{name: words[0], token: words[2]}
	for s := range strings.SplitSeq(words[1], ",") {
		if !slices.Contains(guard.Scopes(), guard.Scope(s)) {
			return line{}, false
		}
		l.scopes = append(l.scopes, guard.Scope(s))
	}
	l.scopes = ordered(l.scopes)
	return l, len(l.token) >= leastToken
}

// leastToken is how long a token has to be that somebody chose.
const leastToken = 16

// ordered returns scopes in the order of [guard.Scopes], each once.
func ordered(scopes []guard.Scope) []guard.Scope {
	return slices.DeleteFunc(guard.Scopes(), func(s guard.Scope) bool { return !slices.Contains(scopes, s) })
}

// freeName returns a name for a token that no other has.
func freeName(lines []line, scopes []guard.Scope) string {
	first := nameOf(scopes)
	name := first
	for n := 2; slices.ContainsFunc(lines, func(l line) bool { return l.name == name }); n++ {
		name = fmt.Sprintf("%s-%d", first, n)
	}
	return name
}

func nameOf(scopes []guard.Scope) string {
	if len(scopes) == len(guard.Scopes()) {
		return Default
	}
	words := make([]string, 0, len(scopes))
	for _, s := range scopes {
		words = append(words, string(s))
	}
	return strings.Join(words, "-")
}
