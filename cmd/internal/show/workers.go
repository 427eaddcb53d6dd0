package show

import (
	"io"
	"strconv"
	"strings"

	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/projections"
	"github.com/toolfleet/toolfleet/projections/kvview"
	"github.com/toolfleet/toolfleet/projections/shape"
)

// Worker is a worker with the instances that it owns.
type Worker = shape.Worker

// ReadWorkers returns the workers that a fleet has or had, in the order of their
// ids.
func ReadWorkers(r *kvview.Reader) []Worker {
	owned := make(map[events.WorkerID][]string)
	for _, s := range r.Servers() {
		for _, i := range r.Instances(s.Value.ID) {
			if n := &i.Value; n.State.Owned() {
				owned[n.Worker] = append(owned[n.Worker], string(n.Server)+"."+string(n.Instance))
			}
		}
	}
	list := []Worker{}
	for _, e := range r.Workers() {
		list = append(list, shape.NewWorker(&e.Value, owned[e.Value.ID]))
	}
	return list
}

// Workers is the view of workers.
var Workers = &View[Worker]{
	Name:   func(w *Worker) string { return string(w.ID) },
	Member: "id",
	Object: func(w *Worker) any { return w },
	None:   "no worker has joined the fleet",
	Columns: []Column[Worker]{
		{Heading: "WORKER", Cell: func(w *Worker) string { return string(w.ID) }},
		{Heading: "STATE", Cell: func(w *Worker) string { return workerState(w) }, Paint: func(w *Worker) paint {
			switch w.State {
			case projections.WorkerJoined:
				return green
			case projections.WorkerLost:
				return red
			default:
				return noPaint
			}
		}},
		{Heading: "INSTANCES", Cell: func(w *Worker) string { return strconv.Itoa(len(w.Instances)) }},
		{Heading: "HOST", Cell: func(w *Worker) string { return w.Host }},
		{Heading: "LABELS", Cell: func(w *Worker) string { return pairs(w.Labels) }},
		{Heading: "SINCE", Cell: func(w *Worker) string { return moment(w.Since) }},
		{Heading: "CAPACITY", Wide: true, Cell: func(w *Worker) string { return number(w.Capacity) }},
		{Heading: "JOINS", Wide: true, Cell: func(w *Worker) string { return strconv.Itoa(w.Joins) }},
		{Heading: "VERSION", Wide: true, Cell: func(w *Worker) string { return w.Versions["toolfleet"] }},
		{Heading: "INCARNATION", Wide: true, Cell: func(w *Worker) string { return string(w.Incarnation) }},
	},
}

func workerState(w *Worker) string {
	s := string(w.State)
	if w.Draining {
		s += ", draining"
	}
	if w.Cordoned {
		s += ", cordoned"
	}
	return s
}

// DescribeWorker writes all there is to know of a worker, with its last events.
func DescribeWorker(out io.Writer, f *Format, w *Worker, last []events.Record) error {
	if f.Data() {
		d := struct {
			Worker any   `json:"worker"`
			Events []any `json:"events"`
		}{Workers.Object(w), []any{}}
		for i := range last {
			e, err := shape.NewEvent(&last[i])
			if err != nil {
				return err
			}
			d.Events = append(d.Events, &e)
		}
		return f.Write(out, &d)
	}
	p := &prose{}
	p.heading("worker " + string(w.ID))
	p.pair("state", workerState(w)+" since "+moment(w.Since))
	p.pair("host", w.Host)
	p.pair("labels", pairs(w.Labels))
	p.pair("versions", pairs(w.Versions))
	p.pair("capacity", number(w.Capacity))
	p.pair("incarnation", string(w.Incarnation))
	p.pair("instances", strings.Join(w.Instances, ", "))
	return p.write(out, last)
}
