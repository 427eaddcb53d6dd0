package jetlog

import (
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/toolfleet/toolfleet/events"
)

const (
	// SessionTTL is how long a session's key lives after it was last put. A
	// session puts it several times within.
	SessionTTL = time.Minute
	// markerTTL is how long the marker of an expired key stays, for watchers that
	// were cut off when it expired.
	markerTTL = time.Hour
	// kvDuplicates is nats.go's duplicate window of a bucket.
	kvDuplicates = 2 * time.Minute
)

// bucketConfigs returns the streams of the fleet's buckets, as they are created
// where they are absent. They are made as plain streams and opened as buckets,
// because nats.go would turn direct get on, and its answers may be old: off
// wherever something is decided.
func bucketConfigs(f events.FleetID, replicas int) []jetstream.StreamConfig {
	return []jetstream.StreamConfig{
		presenceConfig(f, replicas),
		sessionsConfig(f, replicas),
		viewsConfig(f, replicas),
		blobsConfig(f, replicas),
		secretsConfig(f, replicas),
	}
}

// presenceConfig keeps leases. Each renewal carries its own TTL.
func presenceConfig(f events.FleetID, replicas int) jetstream.StreamConfig {
	c := kvConfig(f, "presence", "who is there in", replicas)
	c.AllowMsgTTL, c.SubjectDeleteMarkerTTL = true, markerTTL
	return c
}

func sessionsConfig(f events.FleetID, replicas int) jetstream.StreamConfig {
	c := kvConfig(f, "sessions", "the agent sessions of", replicas)
	c.Storage, c.MaxAge, c.Duplicates = jetstream.MemoryStorage, SessionTTL, SessionTTL
	c.AllowMsgTTL, c.SubjectDeleteMarkerTTL = true, SessionTTL
	c.AllowDirect = true
	return c
}

func viewsConfig(f events.FleetID, replicas int) jetstream.StreamConfig {
	c := kvConfig(f, "views", "the status and tools of", replicas)
	c.AllowDirect = true
	return c
}

func secretsConfig(f events.FleetID, replicas int) jetstream.StreamConfig {
	return kvConfig(f, "secrets", "the encrypted secrets of", replicas)
}

// kvConfig is nats.go's configuration of a key-value bucket without direct get.
func kvConfig(f events.FleetID, what, description string, replicas int) jetstream.StreamConfig {
	bucket := StreamName(f, what)
	return jetstream.StreamConfig{
		Name:              kvStream(f, what),
		Description:       "toolfleet: " + description + " fleet " + string(f),
		Subjects:          []string{kvPrefix + bucket + ".>"},
		MaxMsgsPerSubject: 1,
		MaxBytes:          -1,
		MaxMsgSize:        -1,
		MaxMsgs:           -1,
		MaxConsumers:      -1,
		Storage:           jetstream.FileStorage,
		Replicas:          replicas,
		AllowRollup:       true,
		DenyDelete:        true,
		Duplicates:        kvDuplicates,
		Discard:           jetstream.DiscardNew,
	}
}

// blobsConfig is nats.go's configuration of an object store.
func blobsConfig(f events.FleetID, replicas int) jetstream.StreamConfig {
	bucket := StreamName(f, "blobs")
	return jetstream.StreamConfig{
		Name:        "OBJ_" + bucket,
		Description: "toolfleet: large bodies of fleet " + string(f) + ", by digest",
		Subjects:    []string{"$O." + bucket + ".C.>", "$O." + bucket + ".M.>"},
		MaxBytes:    -1,
		Storage:     jetstream.FileStorage,
		Replicas:    replicas,
		Discard:     jetstream.DiscardNew,
		AllowRollup: true,
		AllowDirect: true,
	}
}

const kvPrefix = "$KV."

// kvStream returns the name of the stream behind a key-value bucket.
func kvStream(f events.FleetID, what string) string { return "KV_" + StreamName(f, what) }

// kvSubject returns the subject of a bucket's key.
func kvSubject(f events.FleetID, what, key string) string {
	return kvPrefix + StreamName(f, what) + "." + key
}
