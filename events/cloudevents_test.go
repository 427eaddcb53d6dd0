package events_test

import (
	"bytes"
	"io"
	"net/http"
	"testing"

	"github.com/cloudevents/sdk-go/v2/binding"
	cehttp "github.com/cloudevents/sdk-go/v2/protocol/http"

	"github.com/toolfleet/toolfleet/events"
)

// The official SDK reads our events. Its NATS binding (v2.16.2) knows only the
// structured mode; the binary mode has the same headers as in HTTP, whose
// binding does know it.
func TestCloudEventsSDK(t *testing.T) {
	for _, e := range samples() {
		t.Run(string(e.Kind()), func(t *testing.T) {
			m := readGolden(t, goldenFile(e.Kind()))
			header := make(http.Header)
			for name, values := range m.Header {
				header.Set(name, values[0])
			}
			got, err := binding.ToEvent(t.Context(), cehttp.NewMessage(header, io.NopCloser(bytes.NewReader(m.Data))))
			if err != nil {
				t.Fatal(err)
			}
			if err := got.Validate(); err != nil {
				t.Error(err)
			}
			diff(t, "specversion", "1.0", got.SpecVersion())
			diff(t, "id", string(e.ID), got.ID())
			diff(t, "source", e.Source, got.Source())
			diff(t, "type", "dev.toolfleet."+string(e.Kind())+".v1", got.Type())
			diff(t, "subject", e.Chain.String(), got.Subject())
			diff(t, "time", e.Time, got.Time())
			diff(t, "datacontenttype", "application/json", got.DataContentType())
			diff(t, "data", m.Data, got.Data())
			diff(t, "extensions", 0, len(got.Extensions()))
		})
	}
}

// A header of the format that a later build may add is a CloudEvents extension
// where its name begins with ce-.
func TestCloudEventsExtensionIsKept(t *testing.T) {
	e := sample(server, events.Enabled{})
	e.Extra = map[string]string{"ce-dataschema": "https://schema.example/enabled", "tf-lane": "2"}
	m := encode(t, e)
	got, err := events.Decode(m)
	if err != nil {
		t.Fatal(err)
	}
	diff(t, "extra headers", e.Extra, got.Extra)
	diff(t, "encoded again", m, encode(t, got))
}
