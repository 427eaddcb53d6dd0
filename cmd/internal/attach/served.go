package attach

import (
	"net"
	"net/url"
	"path/filepath"

	"github.com/toolfleet/toolfleet/events"
)

// WhoServes returns the running toolfleet up of this user that serves HTTP on the
// port of an address, if it is one.
func WhoServes(addr string) (events.FleetID, Running, bool) {
	own, err := StateFolder(events.DefaultFleet)
	_, port, err2 := net.SplitHostPort(addr)
	if err != nil || err2 != nil {
		return "", Running{}, false
	}
	folders, _ := filepath.Glob(filepath.Join(filepath.Dir(string(own)), "*")) // the pattern is a good one
	for _, folder := range folders {
		r, err := Folder(folder).Running()
		if err != nil {
			continue
		}
		u, err := url.Parse(r.HTTP)
		if err != nil || u.Port() != port {
			continue
		}
		if p, err := r.Process(); err == nil {
			_ = p.Release() // only looked at
			return events.FleetID(filepath.Base(folder)), r, true
		}
	}
	return "", Running{}, false
}
