package keeper

import (
	"encoding/binary"

	"github.com/cockroachdb/errors"
)

// maxFrame bounds a message between worker and helper, in bytes. The system
// takes no more than 2 MiB of arguments and environment by default.
const maxFrame = 4 << 20

// frameHeader is the size of a frame's length, big-endian, which does not count
// itself.
const frameHeader = 4

// errFrame says that what came is no message of this program's.
var errFrame = errors.New("no message of the keeper's protocol")

// kind of a message. Both ends are the same program, so there are no versions.
type kind byte

const (
	// tellLease tells the lease's end in value, nanoseconds on the boot-time
	// clock; id counts these messages.
	tellLease kind = iota + 1
	// askSpawn asks for a child; it comes with three descriptors, and tells the
	// lease's end in value.
	askSpawn
	// askSignal asks for the signal in value to be sent to a child's group.
	askSignal
	// askEnd asks for the end of all that is left of a child, in peace for the
	// nanoseconds in value.
	askEnd

	// heardLease answers tellLease, with its id.
	heardLease
	// hasSpawned and hasRefused answer askSpawn, with the process id or with the
	// error number in value. A lapsed refusal is one for want of a lease.
	hasSpawned
	hasRefused
	// hasExited reports a child's wait status in value. Lapsed: it was killed
	// because the lease was over.
	hasExited
	// hasEnded answers askEnd when nothing is left.
	hasEnded

	afterLastKind
)

// message is one frame. All kinds have the same layout, most of it empty.
type message struct {
	kind   kind
	id     uint64 // of the child
	value  int64
	lapsed bool

	// What follows describes a program. Mark is the value of its [Marker].
	mark, path, dir string
	args, env       []string
}

// encode returns a frame.
func (m *message) encode() ([]byte, error) {
	b := make([]byte, frameHeader, 64)
	b = append(b, byte(m.kind))
	b = binary.AppendUvarint(b, m.id)
	b = binary.AppendVarint(b, m.value)
	b = appendFlag(b, m.lapsed)
	for _, s := range []string{m.mark, m.path, m.dir} {
		b = appendString(b, s)
	}
	for _, list := range [][]string{m.args, m.env} {
		b = binary.AppendUvarint(b, uint64(len(list)))
		for _, s := range list {
			b = appendString(b, s)
		}
	}
	n := len(b) - frameHeader
	if n > maxFrame {
		return nil, errors.Newf("%d bytes of arguments and environment are more than the limit of %d", n, maxFrame)
	}
	binary.BigEndian.PutUint32(b, uint32(n))
	return b, nil
}

func appendFlag(b []byte, flag bool) []byte {
	if flag {
		return append(b, 1)
	}
	return append(b, 0)
}

func appendString(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// nextFrame returns the first message of what was read, and what follows it; no
// message if more has to be read first.
func nextFrame(b []byte) (m *message, rest []byte, err error) {
	if len(b) < frameHeader {
		return nil, b, nil
	}
	n := binary.BigEndian.Uint32(b)
	if n > maxFrame {
		return nil, nil, errors.Wrapf(errFrame, "frame of %d bytes", n)
	}
	end := frameHeader + int(n)
	if len(b) < end {
		return nil, b, nil
	}
	m, err = decodeMessage(b[frameHeader:end])
	return m, b[end:], err
}

func decodeMessage(b []byte) (*message, error) {
	d := decoder{b: b}
	m := &message{kind: kind(d.byte()), id: d.uvarint(), value: d.varint(), lapsed: d.byte() == 1}
	m.mark, m.path, m.dir = d.string(), d.string(), d.string()
	m.args, m.env = d.strings(), d.strings()
	if d.bad || len(d.b) > 0 || m.kind == 0 || m.kind >= afterLastKind {
		return nil, errors.WithStack(errFrame)
	}
	return m, nil
}

// decoder takes values from the front of b; after the first bad one, all are
// zero.
type decoder struct {
	b   []byte
	bad bool
}

// take returns the next n bytes, or nil.
func (d *decoder) take(n uint64) []byte {
	if d.bad || n > uint64(len(d.b)) {
		d.bad = true
		return nil
	}
	taken := d.b[:n]
	d.b = d.b[n:]
	return taken
}

func (d *decoder) byte() byte {
	if b := d.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (d *decoder) uvarint() uint64 {
	v, n := binary.Uvarint(d.b)
	d.take(uint64(max(n, 0)))
	d.bad = d.bad || n <= 0
	return v
}

func (d *decoder) varint() int64 {
	v, n := binary.Varint(d.b)
	d.take(uint64(max(n, 0)))
	d.bad = d.bad || n <= 0
	return v
}

func (d *decoder) string() string { return string(d.take(d.uvarint())) }

func (d *decoder) strings() []string {
	var list []string
	for n := d.uvarint(); n > 0 && !d.bad; n-- {
		list = append(list, d.string()) // each takes a byte at least, so n is no claim on memory
	}
	return list
}
