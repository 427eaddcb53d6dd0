package mcptest

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"sync"
	"syscall"

	"github.com/mark3labs/mcp-go/server"
)

// main is the life of a process that is a server.
func (s *Script) main() {
	s.note("start %d", os.Getpid())
	term := make(chan os.Signal, 1)
	signal.Notify(term, syscall.SIGTERM)
	go func() {
		for range term {
			if !s.Stubborn {
				s.exit(0, "TERM")
			}
		}
	}()
	if s.Helping {
		fmt.Println("ready")
		select {}
	}
	if s.Helper {
		s.startHelper()
	}
	if _, err := os.Stderr.WriteString(s.Stderr); err != nil {
		s.exit(1, err.Error())
	}
	if s.Exit != nil {
		s.exit(*s.Exit, "exit")
	}
	s.serve(&output{w: os.Stdout})
	if s.KeepOn || s.Stubborn {
		select {}
	}
	s.exit(0, "EOF")
}

func (s *Script) exit(status int, why string) {
	s.note("stop %d %s", os.Getpid(), why)
	os.Exit(status)
}

// startHelper starts another process of the group and waits until it is there.
func (s *Script) startHelper() {
	self, err := os.Executable()
	if err != nil {
		s.exit(1, err.Error())
	}
	helper := Script{Helping: true, Stubborn: s.Stubborn, Record: s.Record}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), variable+"="+helper.encode())
	cmd.Stdin, cmd.Stderr = os.Stdin, os.Stderr
	r, w, err := os.Pipe()
	if err != nil {
		s.exit(1, err.Error())
	}
	cmd.Stdout = w
	cmd.ExtraFiles = []*os.File{os.Stdout} // kept open, not written to
	if err := cmd.Start(); err != nil {
		s.exit(1, err.Error())
	}
	if _, err := bufio.NewReader(r).ReadString('\n'); err != nil {
		s.exit(1, err.Error())
	}
}

// output is stdout, line by line.
type output struct {
	mu sync.Mutex
	w  io.Writer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.w.Write(p)
}

// serve answers until the end of stdin.
func (s *Script) serve(out *output) {
	for _, line := range s.Noise {
		fmt.Fprintln(out, line)
	}
	for s.Flood {
		fmt.Fprint(out, strings.Repeat("x", 64<<10))
	}
	b := s.build(out)
	r, w := io.Pipe()
	done := make(chan struct{})
	go func() {
		defer close(done)
		std := server.NewStdioServer(b.server)
		server.WithWorkerPoolSize(100)(std)
		_ = std.Listen(context.Background(), r, out) // ends with its input
	}()
	in := bufio.NewReaderSize(os.Stdin, 1<<20)
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			break
		}
		if answer, taken := b.intercept(line); taken {
			if answer != nil {
				_, _ = out.Write(append(answer, '\n'))
			}
			continue
		}
		if _, err := w.Write(line); err != nil {
			break
		}
		if s.Deaf && strings.Contains(string(line), `"tools/list"`) {
			select {}
		}
	}
	_ = w.Close()
	<-done
}
