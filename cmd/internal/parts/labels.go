package parts

import (
	"maps"
	"os"
	"runtime"
	"slices"

	"github.com/cockroachdb/errors"

	"github.com/toolfleet/toolfleet/cmd/internal/exit"
	"github.com/toolfleet/toolfleet/events"
)

// labelsOf returns the labels of this host: those given, and those that are found
// out where none of that name is given.
func labelsOf(given map[string]string) (map[string]string, error) {
	labels := map[string]string{"os": runtime.GOOS, "arch": runtime.GOARCH}
	if name, err := os.Hostname(); err == nil && events.CheckLabel("hostname", name) == nil {
		labels["hostname"] = name
	}
	maps.Copy(labels, given)
	return labels, CheckLabels(labels)
}

// CheckLabels returns an error of usage for labels that are none.
func CheckLabels(labels map[string]string) error {
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		if err := events.CheckLabel(name, labels[name]); err != nil {
			return exit.With(exit.Usage, errors.Wrap(err, "--label"))
		}
	}
	if n := len(labels); n > events.MaxLabels {
		return exit.Usagef("--label: there are %d labels, with those that are found out: at most %d are allowed", n, events.MaxLabels)
	}
	return nil
}
