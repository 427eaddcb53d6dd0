package events_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/toolfleet/toolfleet/events"
)

// The package document names every header of the format, and every kind beside
// the chains that have it.
func TestTheDocumentIsComplete(t *testing.T) {
	doc, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	words := strings.Fields(string(doc))
	e := sample(instance, events.Recovered{})
	for name := range encode(t, e).Header {
		if !slices.Contains(words, name) {
			t.Errorf("doc.go does not name %s", name)
		}
	}

	chains := map[string]events.ChainKind{
		"server": events.OfServer, "instance": events.OfInstance, "worker": events.OfWorker, "fleet": events.OfFleet,
	}
	_, table, _ := strings.Cut(string(doc), "//\tserver     declared")
	table, _, _ = strings.Cut("//\tserver declared"+table, "# Format")
	documented := make(map[events.ChainKind][]events.Kind)
	var of events.ChainKind
	for word := range strings.FieldsSeq(table) {
		switch c, isChain := chains[word]; {
		case isChain:
			of = c
		case word != "//":
			documented[of] = append(documented[of], events.Kind(word))
		}
	}
	for name, c := range chains {
		var want []events.Kind
		for _, k := range events.Kinds() {
			if k.BelongsOn(c) {
				want = append(want, k)
			}
		}
		got := documented[c]
		slices.Sort(got)
		diff(t, "kinds of "+name+" chains", want, got)
	}
}
