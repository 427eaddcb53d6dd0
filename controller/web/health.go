package web

import (
	"context"
	_ "embed"
	"net/http"
	"sync"
	"time"
)

// health is the answer of a process that is well.
type health struct {
	Status string `json:"status"`
}

// healthy answers: that it does is the answer.
func (h *Handler) healthy(w http.ResponseWriter, _ *http.Request, _ *caller) {
	answer(w, http.StatusOK, health{"ok"})
}

// checkWithin bounds the checks of a process that is asked whether it is ready.
const checkWithin = 2 * time.Second

// ready answers whether everything answers that the process stands on. Servers
// that fail are the fleet's business: they do not make it any less ready.
func (h *Handler) ready(w http.ResponseWriter, r *http.Request, _ *caller) {
	ctx, cancel := context.WithTimeout(r.Context(), checkWithin)
	defer cancel()
	wrong := make([]error, len(h.Checks))
	var all sync.WaitGroup
	for i, c := range h.Checks {
		all.Go(func() { wrong[i] = c.Ask(ctx) })
	}
	all.Wait()
	failed := make(map[string]string)
	for i, err := range wrong {
		if err != nil {
			failed[h.Checks[i].Name] = err.Error()
		}
	}
	if len(failed) == 0 {
		answer(w, http.StatusOK, health{"ready"})
		return
	}
	w.Header().Set("Retry-After", "1")
	(&Problem{
		Status: http.StatusServiceUnavailable, Code: CodeNotReady, Detail: "what this process stands on is not well", Checks: failed,
	}).write(w)
}

// Document is the OpenAPI document of what a [Handler] serves.
//
//go:embed openapi.json
var Document []byte

func (h *Handler) openAPI(w http.ResponseWriter, _ *http.Request, _ *caller) {
	w.Header().Set("Content-Type", "application/json")
	send(w, http.StatusOK, Document)
}
