package events

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/cockroachdb/errors"
	"github.com/go-json-experiment/json"
)

// Kind is the name of an event on the wire, such as "tools-listed".
type Kind string

// The kinds of event. What each means is said at its body: that of KindDeclared
// is [Declared], and so on, but that of KindStopped is [HasStopped]. The same
// kind may be written on chains of several kinds, with the same body.
const (
	KindDeclared         Kind = "declared"
	KindUpdated          Kind = "updated"
	KindUpdateSettled    Kind = "update-settled"
	KindUpdateRolledBack Kind = "update-rolled-back"
	KindEnabled          Kind = "enabled"
	KindDisabled         Kind = "disabled"
	KindWithdrawn        Kind = "withdrawn"
	KindRejected         Kind = "rejected"
	KindRestartRequested Kind = "restart-requested"
	KindStartRequested   Kind = "start-requested"
	KindStopRequested    Kind = "stop-requested"
	KindMoveRequested    Kind = "move-requested"
	KindAssigned         Kind = "assigned"
	KindConnecting       Kind = "connecting"
	KindConnected        Kind = "connected"
	KindToolsListed      Kind = "tools-listed"
	KindResourcesListed  Kind = "resources-listed"
	KindPromptsListed    Kind = "prompts-listed"
	KindDegraded         Kind = "degraded"
	KindRecovered        Kind = "recovered"
	KindFailed           Kind = "failed"
	KindRestartScheduled Kind = "restart-scheduled"
	KindRestarted        Kind = "restarted"
	KindAuthRequired     Kind = "auth-required"
	KindParked           Kind = "parked"
	KindStopping         Kind = "stopping"
	KindStopped          Kind = "stopped"
	KindReleased         Kind = "released"
	KindLost             Kind = "lost"
	KindJoined           Kind = "joined"
	KindLeft             Kind = "left"
	KindDraining         Kind = "draining"
	KindCordoned         Kind = "cordoned"
	KindUncordoned       Kind = "uncordoned"
	KindFrozen           Kind = "frozen"
	KindUnfrozen         Kind = "unfrozen"
	KindSourceFailed     Kind = "source-failed"
	KindDiscovered       Kind = "discovered"
	KindLedBy            Kind = "led-by"
)

func (Declared) kind() Kind         { return KindDeclared }
func (Updated) kind() Kind          { return KindUpdated }
func (UpdateSettled) kind() Kind    { return KindUpdateSettled }
func (UpdateRolledBack) kind() Kind { return KindUpdateRolledBack }
func (Enabled) kind() Kind          { return KindEnabled }
func (Disabled) kind() Kind         { return KindDisabled }
func (Withdrawn) kind() Kind        { return KindWithdrawn }
func (Rejected) kind() Kind         { return KindRejected }
func (RestartRequested) kind() Kind { return KindRestartRequested }
func (StartRequested) kind() Kind   { return KindStartRequested }
func (StopRequested) kind() Kind    { return KindStopRequested }
func (MoveRequested) kind() Kind    { return KindMoveRequested }
func (Assigned) kind() Kind         { return KindAssigned }
func (Connecting) kind() Kind       { return KindConnecting }
func (Connected) kind() Kind        { return KindConnected }
func (ToolsListed) kind() Kind      { return KindToolsListed }
func (ResourcesListed) kind() Kind  { return KindResourcesListed }
func (PromptsListed) kind() Kind    { return KindPromptsListed }
func (Degraded) kind() Kind         { return KindDegraded }
func (Recovered) kind() Kind        { return KindRecovered }
func (Failed) kind() Kind           { return KindFailed }
func (RestartScheduled) kind() Kind { return KindRestartScheduled }
func (Restarted) kind() Kind        { return KindRestarted }
func (AuthRequired) kind() Kind     { return KindAuthRequired }
func (Parked) kind() Kind           { return KindParked }
func (Stopping) kind() Kind         { return KindStopping }
func (HasStopped) kind() Kind       { return KindStopped }
func (Released) kind() Kind         { return KindReleased }
func (Lost) kind() Kind             { return KindLost }
func (Joined) kind() Kind           { return KindJoined }
func (Left) kind() Kind             { return KindLeft }
func (Draining) kind() Kind         { return KindDraining }
func (Cordoned) kind() Kind         { return KindCordoned }
func (Uncordoned) kind() Kind       { return KindUncordoned }
func (Frozen) kind() Kind           { return KindFrozen }
func (Unfrozen) kind() Kind         { return KindUnfrozen }
func (SourceFailed) kind() Kind     { return KindSourceFailed }
func (Discovered) kind() Kind       { return KindDiscovered }
func (LedBy) kind() Kind            { return KindLedBy }
func (u Unknown) kind() Kind        { k, _ := parseType(u.Type); return k }
func (Undecodable) kind() Kind      { return "" }

// catalogue holds every kind of event: the chains it may be written on, and its
// decoder.
var catalogue = []*entry{
	{KindDeclared, on(OfServer), encode[Declared], decode[Declared]},
	{KindUpdated, on(OfServer), encode[Updated], decode[Updated]},
	{KindUpdateSettled, on(OfServer), encode[UpdateSettled], decode[UpdateSettled]},
	{KindUpdateRolledBack, on(OfServer), encode[UpdateRolledBack], decode[UpdateRolledBack]},
	{KindEnabled, on(OfServer), encode[Enabled], decode[Enabled]},
	{KindDisabled, on(OfServer), encode[Disabled], decode[Disabled]},
	{KindWithdrawn, on(OfServer), encode[Withdrawn], decode[Withdrawn]},
	{KindRejected, on(OfServer, OfFleet), encode[Rejected], decode[Rejected]},
	{KindRestartRequested, on(OfServer), encode[RestartRequested], decode[RestartRequested]},
	{KindStartRequested, on(OfServer), encode[StartRequested], decode[StartRequested]},
	{KindStopRequested, on(OfServer), encode[StopRequested], decode[StopRequested]},
	{KindMoveRequested, on(OfServer), encode[MoveRequested], decode[MoveRequested]},
	{KindAssigned, on(OfInstance), encode[Assigned], decode[Assigned]},
	{KindConnecting, on(OfInstance), encode[Connecting], decode[Connecting]},
	{KindConnected, on(OfInstance), encode[Connected], decode[Connected]},
	{KindToolsListed, on(OfInstance), encode[ToolsListed], decode[ToolsListed]},
	{KindResourcesListed, on(OfInstance), encode[ResourcesListed], decode[ResourcesListed]},
	{KindPromptsListed, on(OfInstance), encode[PromptsListed], decode[PromptsListed]},
	{KindDegraded, on(OfInstance), encode[Degraded], decode[Degraded]},
	{KindRecovered, on(OfInstance), encode[Recovered], decode[Recovered]},
	{KindFailed, on(OfInstance), encode[Failed], decode[Failed]},
	{KindRestartScheduled, on(OfInstance), encode[RestartScheduled], decode[RestartScheduled]},
	{KindRestarted, on(OfInstance), encode[Restarted], decode[Restarted]},
	{KindAuthRequired, on(OfInstance), encode[AuthRequired], decode[AuthRequired]},
	{KindParked, on(OfInstance), encode[Parked], decode[Parked]},
	{KindStopping, on(OfInstance), encode[Stopping], decode[Stopping]},
	{KindStopped, on(OfInstance), encode[HasStopped], decode[HasStopped]},
	{KindReleased, on(OfInstance), encode[Released], decode[Released]},
	{KindLost, on(OfInstance, OfWorker), encode[Lost], decode[Lost]},
	{KindJoined, on(OfWorker), encode[Joined], decode[Joined]},
	{KindLeft, on(OfWorker), encode[Left], decode[Left]},
	{KindDraining, on(OfWorker), encode[Draining], decode[Draining]},
	{KindCordoned, on(OfWorker), encode[Cordoned], decode[Cordoned]},
	{KindUncordoned, on(OfWorker), encode[Uncordoned], decode[Uncordoned]},
	{KindFrozen, on(OfFleet), encode[Frozen], decode[Frozen]},
	{KindUnfrozen, on(OfFleet), encode[Unfrozen], decode[Unfrozen]},
	{KindSourceFailed, on(OfFleet), encode[SourceFailed], decode[SourceFailed]},
	{KindDiscovered, on(OfFleet), encode[Discovered], decode[Discovered]},
	{KindLedBy, on(OfFleet), encode[LedBy], decode[LedBy]},
}

type entry struct {
	kind   Kind
	chains uint8
	encode func(Body) ([]byte, error)
	decode func([]byte) (Body, error)
}

// kinds and types find an entry by its kind, and by the ce-type of the current
// version.
var kinds, types = func() (kinds map[Kind]*entry, types map[string]*entry) {
	kinds, types = make(map[Kind]*entry), make(map[string]*entry)
	for _, e := range catalogue {
		kinds[e.kind], types[e.kind.Type()] = e, e
	}
	return kinds, types
}()

func on(kinds ...ChainKind) (set uint8) {
	for _, k := range kinds {
		set |= 1 << k
	}
	return set
}

func encode[T Body](b Body) ([]byte, error) {
	body, ok := b.(T)
	if !ok {
		return nil, errors.Newf("a %T is no %T", b, body)
	}
	return json.Marshal(&body, json.Deterministic(true))
}

func decode[T Body](data []byte) (Body, error) {
	var body T
	if err := json.Unmarshal(data, &body); err != nil {
		return nil, err
	}
	return body, nil
}

// Kinds returns every kind, sorted.
func Kinds() []Kind { return slices.Sorted(maps.Keys(kinds)) }

// KindOf returns the kind of a body, for an [Unknown] the one that its type
// names; it is empty for nil and [Undecodable].
func KindOf(b Body) Kind {
	if b == nil {
		return ""
	}
	return b.kind()
}

// BelongsOn says whether events of the kind may be written on chains of that
// kind.
func (k Kind) BelongsOn(c ChainKind) bool {
	e := kinds[k]
	return e != nil && e.chains&on(c) != 0
}

const (
	typePrefix = "dev.toolfleet."
	// version is that of every kind so far.
	version = 1
)

// Type returns the ce-type of the kind's current version, such as
// "dev.toolfleet.tools-listed.v1".
func (k Kind) Type() string { return typePrefix + string(k) + ".v" + strconv.Itoa(version) }

// parseType returns the kind that a ce-type names, in whatever version.
func parseType(t string) (Kind, error) {
	name, ours := strings.CutPrefix(t, typePrefix)
	kind, v, versioned := strings.Cut(name, ".v")
	n, err := strconv.ParseUint(v, 10, 16)
	if !ours || !versioned || !isToken(kind) || err != nil || v != strconv.FormatUint(n, 10) {
		return "", errors.Newf("%s %s is not %s<kind>.v<version>", fieldType, quote(t), typePrefix)
	}
	return Kind(kind), nil
}
