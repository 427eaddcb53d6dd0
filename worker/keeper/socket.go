package keeper

import (
	"net"
	"os"
	"syscall"

	"github.com/cockroachdb/errors"
	"golang.org/x/sys/unix"
)

const (
	// streams is how many descriptors come with askSpawn.
	streams = 3
	// maxDescriptors bounds those that come with one read.
	maxDescriptors = 8 * streams
	readSize       = 16 << 10
)

// socketPair returns two connected sockets.
func socketPair() (ours, theirs *os.File, err error) {
	syscall.ForkLock.RLock() // no child shall be forked between the two calls
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err == nil {
		unix.CloseOnExec(fds[0])
		unix.CloseOnExec(fds[1])
	}
	syscall.ForkLock.RUnlock()
	if err != nil {
		return nil, nil, errors.Wrap(err, "make a socket pair")
	}
	return os.NewFile(uintptr(fds[0]), "keeper"), os.NewFile(uintptr(fds[1]), "worker"), nil
}

// connection takes over a socket.
func connection(f *os.File) (*net.UnixConn, error) {
	defer f.Close()
	c, err := net.FileConn(f)
	if err != nil {
		return nil, errors.Wrap(err, "use the keeper's socket")
	}
	unixConn, ok := c.(*net.UnixConn)
	if !ok {
		c.Close()
		return nil, errors.New("the keeper's socket is of another kind")
	}
	return unixConn, nil
}

// frames reads messages with their descriptors. On a stream these come with the
// first byte of what they were sent with at the latest, and in order.
type frames struct {
	conn  *net.UnixConn
	read  []byte
	files []int

	buf [readSize]byte
	oob []byte
}

// next returns the next message, and the descriptors that belong to it, which
// are the caller's to close.
func (f *frames) next() (*message, []int, error) {
	for {
		m, rest, err := nextFrame(f.read)
		if err != nil {
			return nil, nil, err
		}
		if m != nil {
			f.read = rest
			if m.kind != askSpawn {
				return m, nil, nil
			}
			if len(f.files) < streams {
				return nil, nil, errors.Wrap(errFrame, "a program without streams")
			}
			files := f.files[:streams]
			f.files = f.files[streams:]
			return m, files, nil
		}
		if err := f.more(); err != nil {
			return nil, nil, err
		}
	}
}

func (f *frames) more() error {
	if f.oob == nil {
		f.oob = make([]byte, unix.CmsgSpace(4*maxDescriptors))
	}
	n, oobn, flags, _, err := f.conn.ReadMsgUnix(f.buf[:], f.oob) // close-on-exec
	if err != nil {
		return err
	}
	if n == 0 {
		return errors.New("the socket was closed")
	}
	if flags&unix.MSG_CTRUNC != 0 {
		return errors.Wrap(errFrame, "too many descriptors")
	}
	f.read = append(f.read, f.buf[:n]...)
	controls, err := unix.ParseSocketControlMessage(f.oob[:oobn])
	if err != nil {
		return errors.Wrap(err, "read descriptors")
	}
	for i := range controls {
		fds, err := unix.ParseUnixRights(&controls[i])
		if err != nil {
			return errors.Wrap(err, "read descriptors")
		}
		f.files = append(f.files, fds...)
	}
	return nil
}

// writeFrame writes a frame, with descriptors if there are any.
func writeFrame(conn *net.UnixConn, frame []byte, fds []int) error {
	if len(fds) > 0 {
		// The length alone, so that nothing can be left over.
		if _, _, err := conn.WriteMsgUnix(frame[:frameHeader], unix.UnixRights(fds...), nil); err != nil {
			return err
		}
		frame = frame[frameHeader:]
	}
	_, err := conn.Write(frame)
	return err
}
