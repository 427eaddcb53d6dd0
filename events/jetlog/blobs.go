package jetlog

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"slices"
	"strconv"
	"time"

	"github.com/cockroachdb/errors"
	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/toolfleet/toolfleet/events"
)

const (
	// MaxBlob bounds a blob, in bytes: it is held in memory as a whole.
	MaxBlob = 32 << 20
	// blobPatience is how long a reader waits for a blob that another replica has
	// already told of.
	blobPatience = 5 * time.Second
	// blobChunk is NATS's own size of an object's chunks.
	blobChunk = 128 << 10
	// blobCleanup bounds the removal of chunks that no object refers to.
	blobCleanup = 2 * time.Second
)

// ErrBlobNotFound marks the error of [Log.GetBlob] when there is no whole blob of
// that digest.
var ErrBlobNotFound = errors.New("blob not found")

// blobStore is the fleet's object store. It reads and writes the format of NATS
// object stores by itself: the client's own Put can leave a goroutine behind for
// ever, and its Get one for each object whose chunks are missing.
type blobStore struct {
	log    *Log
	stream jetstream.Stream
	bucket string
}

// blobStore returns the store, looked up at first use.
func (l *Log) blobStore(ctx context.Context) (*blobStore, error) {
	if s := l.blobs.Load(); s != nil {
		return s, nil
	}
	s := &blobStore{log: l, bucket: l.stream("blobs")}
	err := l.ask(ctx, func(ctx context.Context) (err error) {
		s.stream, err = l.js.Stream(ctx, "OBJ_"+s.bucket)
		return err
	})
	if err != nil {
		return nil, err
	}
	l.blobs.Store(s)
	return s, nil
}

// PutBlob stores data under its digest, unless it is there already. It must be
// stored before the event that refers to it; when that has to be appended again
// later, the blob has to be put again too.
//
// It tries until the context ends, also while the store has no leader. Its errors
// are marked [events.ErrTooLarge] (above [MaxBlob]) or [events.ErrHistoryFull]
// (the store has no room), which come at once. Putting the same data again after
// any error does no harm.
func (l *Log) PutBlob(ctx context.Context, data []byte) (events.Digest, error) {
	digest := events.DigestOf(data)
	if len(data) > MaxBlob {
		return "", errors.Mark(errors.Newf("put blob %s: %d bytes, at most %d are allowed", digest, len(data), MaxBlob), events.ErrTooLarge)
	}
	store, err := l.blobStore(ctx)
	if err == nil {
		err = store.put(ctx, digest, data)
	}
	if isFull(err) {
		err = errors.Mark(err, events.ErrHistoryFull)
	}
	return digest, errors.Wrapf(err, "put blob %s", digest)
}

// GetBlob returns the data of that digest. One that is not there yet, not whole,
// or altered, is waited for up to 5 s; then the error is marked
// [ErrBlobNotFound]. Without a leader it tries until the context ends.
func (l *Log) GetBlob(ctx context.Context, digest events.Digest) ([]byte, error) {
	store, err := l.blobStore(ctx)
	if err != nil {
		return nil, errors.Wrapf(err, "get blob %s", digest)
	}
	patience, cancel := context.WithTimeout(ctx, blobPatience)
	defer cancel()
	for {
		data, err := store.get(ctx, digest)
		if !errors.Is(err, ErrBlobNotFound) || pause(patience, retryPause) != nil {
			return data, errors.Wrapf(err, "get blob %s", digest)
		}
	}
}

// put stores the chunks and then the object that refers to them.
func (s *blobStore) put(ctx context.Context, digest events.Digest, data []byte) error {
	before, err := s.info(ctx, digest)
	switch {
	case err == nil && before.Size == uint64(len(data)) && before.Digest == objectDigest(digest):
		return nil
	case err != nil && !errors.Is(err, ErrBlobNotFound):
		return err
	}
	size := min(blobChunk, max(int(s.log.nc.MaxPayload())-frameRoom, 1))
	info := jetstream.ObjectInfo{
		ObjectMeta: jetstream.ObjectMeta{Name: string(digest), Opts: &jetstream.ObjectMetaOptions{ChunkSize: uint32(size)}},
		Bucket:     s.bucket,
		NUID:       randomHex(folderIDSize),
		Size:       uint64(len(data)),
		Chunks:     uint32((len(data) + size - 1) / size),
		ModTime:    time.Now().UTC(),
		Digest:     objectDigest(digest),
	}
	if err := s.write(ctx, &info, slices.Chunk(data, size)); err != nil {
		s.purge(ctx, info.NUID)
		return err
	}
	if before != nil {
		s.purge(ctx, before.NUID)
	}
	return nil
}

func (s *blobStore) write(ctx context.Context, info *jetstream.ObjectInfo, chunks func(func([]byte) bool)) error {
	n := 0
	for chunk := range chunks {
		// With an id, a chunk that has to be sent again is stored once.
		id := jetstream.WithMsgID(info.NUID + "." + strconv.Itoa(n))
		if err := s.publish(ctx, &nats.Msg{Subject: s.chunks(info.NUID), Data: chunk}, id); err != nil {
			return err
		}
		n++
	}
	data, err := json.Marshal(info, json.Deterministic(true))
	if err != nil {
		return err // unreachable: the object's name is hex, and all else is ours
	}
	return s.publish(ctx, &nats.Msg{
		Subject: s.object(events.Digest(info.Name)), Data: data,
		Header: nats.Header{jetstream.MsgRollup: {jetstream.MsgRollupSubject}},
	})
}

func (s *blobStore) publish(ctx context.Context, m *nats.Msg, o ...jetstream.PublishOpt) error {
	return s.log.ask(ctx, func(ctx context.Context) error {
		_, err := s.log.js.PublishMsg(ctx, m, o...)
		return err
	})
}

// purge removes chunks that no object refers to. If that fails they only take
// room.
func (s *blobStore) purge(ctx context.Context, id string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), blobCleanup)
	defer cancel()
	if err := s.stream.Purge(ctx, jetstream.WithPurgeSubject(s.chunks(id))); err != nil {
		s.log.o.Logger.Debug("chunks of a blob were left", "err", err)
	}
}

// info returns what is stored about a blob, or an error marked ErrBlobNotFound.
func (s *blobStore) info(ctx context.Context, digest events.Digest) (*jetstream.ObjectInfo, error) {
	m, err := s.log.get(ctx, s.stream, 0, s.object(digest))
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return nil, errors.Mark(errors.New("it is not there"), ErrBlobNotFound)
	}
	if err != nil {
		return nil, err
	}
	var info jetstream.ObjectInfo
	if json.Unmarshal(m.Data, &info) != nil || info.Deleted || info.Size > MaxBlob {
		return nil, errors.Mark(errors.New("what is there is no blob"), ErrBlobNotFound)
	}
	return &info, nil
}

// get returns a blob, or an error marked ErrBlobNotFound.
func (s *blobStore) get(ctx context.Context, digest events.Digest) ([]byte, error) {
	info, err := s.info(ctx, digest)
	if err != nil {
		return nil, err
	}
	data := make([]byte, 0, info.Size)
	for next := events.Seq(1); uint64(len(data)) < info.Size; {
		m, err := s.log.get(ctx, s.stream, next, s.chunks(info.NUID))
		if errors.Is(err, jetstream.ErrMsgNotFound) || err == nil && len(m.Data) == 0 {
			return nil, errors.Mark(errors.Newf("only %d of its %d bytes are there", len(data), info.Size), ErrBlobNotFound)
		}
		if err != nil {
			return nil, err
		}
		data, next = append(data, m.Data...), events.Seq(m.Sequence)+1
	}
	if events.DigestOf(data) != digest {
		return nil, errors.Mark(errors.New("what is there has another digest"), ErrBlobNotFound)
	}
	return data, nil
}

// object is the subject of what is known of a blob; chunks that of its data.
func (s *blobStore) object(digest events.Digest) string {
	return "$O." + s.bucket + ".M." + base64.URLEncoding.EncodeToString([]byte(digest))
}

func (s *blobStore) chunks(id string) string { return "$O." + s.bucket + ".C." + id }

// objectDigest is the object store's form of a digest, or "" of what is none.
func objectDigest(digest events.Digest) string {
	sum, err := hex.DecodeString(string(digest))
	if err != nil {
		return ""
	}
	return "SHA-256=" + base64.URLEncoding.EncodeToString(sum)
}
