package example

import (
	"context"
	"math/rand/v2"

	"github.com/cockroachdb/errors"
	"github.com/google/uuid"
	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

// most is how many ids or items one call may ask for.
const most = 1000

type uuidArgs struct {
	Count   int    `json:"count"`
	Version string `json:"version"`
}

type uuids struct {
	UUIDs []string `json:"uuids"`
}

func randomUUID() server.ServerTool {
	return reads("random_uuid", "Random UUIDs",
		"Makes UUIDs (RFC 9562): version 4 is random, version 7 begins with the time and sorts by it.",
		func(_ context.Context, a uuidArgs) (uuids, error) { return makeUUIDs(max(a.Count, 1), a.Version) },
		mcp.WithInteger("count", mcp.Description("How many."), mcp.DefaultNumber(1), mcp.Min(1), mcp.Max(most)),
		mcp.WithString("version", mcp.Description("Their version."), mcp.Enum("4", "7"), mcp.DefaultString("4")))
}

func makeUUIDs(count int, version string) (uuids, error) {
	next := uuid.NewRandom
	if version == "7" {
		next = uuid.NewV7
	}
	made := uuids{make([]string, 0, count)}
	for range count {
		id, err := next()
		if err != nil {
			return uuids{}, errors.Wrap(err, "make a UUID")
		}
		made.UUIDs = append(made.UUIDs, id.String())
	}
	return made, nil
}

type choiceArgs struct {
	Items []string `json:"items"`
	Count int      `json:"count"`
	Seed  *uint64  `json:"seed"`
}

type chosen struct {
	Chosen []string `json:"chosen"`
}

func randomChoice() server.ServerTool {
	return reads("random_choice", "Random choice",
		"Picks items from a list at random, none twice. With a seed the choice is the same each time.",
		func(_ context.Context, a choiceArgs) (chosen, error) { return choose(a) },
		mcp.WithArray("items", mcp.Required(), mcp.Description("What to choose from."), mcp.WithStringItems(),
			mcp.MinItems(1), mcp.MaxItems(most)),
		mcp.WithInteger("count", mcp.Description("How many to pick."), mcp.DefaultNumber(1), mcp.Min(1)),
		mcp.WithInteger("seed", mcp.Description("Makes the choice repeatable."), mcp.Min(0)))
}

func choose(a choiceArgs) (chosen, error) {
	count := max(a.Count, 1)
	if count > len(a.Items) {
		return chosen{}, errors.Newf("%d of %d items cannot be picked", count, len(a.Items))
	}
	seed := rand.Uint64()
	if a.Seed != nil {
		seed = *a.Seed
	}
	picked := chosen{make([]string, 0, count)}
	for _, i := range rand.New(rand.NewPCG(seed, 0)).Perm(len(a.Items))[:count] {
		picked.Chosen = append(picked.Chosen, a.Items[i])
	}
	return picked, nil
}
