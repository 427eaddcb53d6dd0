package shape

import "github.com/toolfleet/toolfleet/projections"

// Server is a server: its status, with a failure also where there is none.
type Server struct {
	projections.Status
	Failure *projections.Fault `json:"failure"`
}

// NewServer returns the shape of a server.
func NewServer(s *projections.Status) Server { return Server{*s, s.Failure} }
