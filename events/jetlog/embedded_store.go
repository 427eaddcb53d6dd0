package jetlog

import (
	"context"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"

	"github.com/cockroachdb/errors"
	"golang.org/x/sys/unix"
)

// storeLimit returns how large the store in dir may become: what it holds, and
// three quarters of the space that is free; or the wanted limit, if that is
// lower and not 0.
func storeLimit(dir string, wanted int64) (int64, error) {
	var disk unix.Statfs_t
	if err := unix.Statfs(dir, &disk); err != nil {
		return 0, errors.Wrapf(err, "free space of %s", dir)
	}
	held, err := folderSize(dir)
	if err != nil {
		return 0, errors.Wrapf(err, "size of %s", dir)
	}
	limit := held + int64(disk.Bavail)*int64(disk.Bsize)/4*3
	if limit < minStore {
		return 0, errors.Newf("%s: %d MiB can be used there, at least %d are needed: free some space, or choose another folder",
			dir, limit>>20, minStore>>20)
	}
	if wanted > 0 && wanted < limit {
		return wanted, nil
	}
	return limit, nil
}

func folderSize(dir string) (total int64, err error) {
	err = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		info, err := d.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err == nil {
			total += info.Size()
		}
		return err
	})
	return total, err
}

// natsLogger hands what nats-server logs to slog, and keeps its last words.
type natsLogger struct {
	log *slog.Logger
	// fatal has the first error that the server cannot run with. Its own logger
	// would end the process.
	fatal chan error
}

func (l *natsLogger) write(level slog.Level, format string, v []any) {
	if ctx := context.Background(); l.log.Enabled(ctx, level) {
		l.log.Log(ctx, level, "nats-server: "+fmt.Sprintf(format, v...)) //nolint:sloglint // the server's own words
	}
}

func (l *natsLogger) Noticef(format string, v ...any) { l.write(slog.LevelDebug, format, v) }
func (l *natsLogger) Warnf(format string, v ...any)   { l.write(slog.LevelWarn, format, v) }
func (l *natsLogger) Errorf(format string, v ...any)  { l.write(slog.LevelError, format, v) }
func (l *natsLogger) Debugf(format string, v ...any)  { l.write(slog.LevelDebug, format, v) }
func (l *natsLogger) Tracef(format string, v ...any)  { l.write(slog.LevelDebug, format, v) }

func (l *natsLogger) Fatalf(format string, v ...any) {
	// Keep the error itself, if there is one, so that its cause can be told.
	err := errors.Newf(format, v...)
	for _, x := range v {
		if cause, ok := x.(error); ok {
			err = cause
		}
	}
	select {
	case l.fatal <- err:
	default: // the first one tells most
	}
}
