package example

import (
	"context"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/cockroachdb/errors"
	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

// unit is value × factor + offset in the base unit of its quantity.
type unit struct {
	quantity       string
	factor, offset float64
}

var units = map[string]unit{
	"m": {"length", 1, 0}, "km": {"length", 1000, 0}, "cm": {"length", 0.01, 0}, "mm": {"length", 0.001, 0},
	"in": {"length", 0.0254, 0}, "ft": {"length", 0.3048, 0}, "yd": {"length", 0.9144, 0}, "mi": {"length", 1609.344, 0},
	"g": {"mass", 1, 0}, "kg": {"mass", 1000, 0}, "oz": {"mass", 28.349523125, 0}, "lb": {"mass", 453.59237, 0},
	"s": {"time", 1, 0}, "min": {"time", 60, 0}, "h": {"time", 3600, 0}, "d": {"time", 86400, 0},
	"C": {"temperature", 1, 273.15}, "K": {"temperature", 1, 0}, "F": {"temperature", 5.0 / 9, 273.15 - 32*5.0/9},
	"B": {"data", 1, 0}, "kB": {"data", 1e3, 0}, "MB": {"data", 1e6, 0}, "GB": {"data", 1e9, 0},
	"KiB": {"data", 1 << 10, 0}, "MiB": {"data", 1 << 20, 0}, "GiB": {"data", 1 << 30, 0},
}

type convertArgs struct {
	Value float64 `json:"value"`
	From  string  `json:"from"`
	To    string  `json:"to"`
}

type converted struct {
	Value    float64 `json:"value"`
	Unit     string  `json:"unit"`
	Quantity string  `json:"quantity"`
}

func convertUnits() server.ServerTool {
	names := slices.Sorted(maps.Keys(units))
	return reads("convert_units", "Convert units",
		"Converts a value between units of length, mass, time, temperature or amount of data.",
		func(_ context.Context, a convertArgs) (converted, error) { return convert(a) },
		mcp.WithNumber("value", mcp.Required(), mcp.Description("The value to convert.")),
		mcp.WithString("from", mcp.Required(), mcp.Enum(names...), mcp.Description("The value's unit.")),
		mcp.WithString("to", mcp.Required(), mcp.Enum(names...), mcp.Description("The unit wanted.")))
}

func convert(a convertArgs) (converted, error) {
	from, known := units[a.From]
	to, alsoKnown := units[a.To]
	if !known || !alsoKnown {
		return converted{}, errors.Newf("unknown unit: use one of %s", strings.Join(slices.Sorted(maps.Keys(units)), ", "))
	}
	if from.quantity != to.quantity {
		return converted{}, errors.Newf("%s is %s and %s is %s: they cannot be converted", a.From, from.quantity, a.To, to.quantity)
	}
	base := a.Value*from.factor + from.offset
	return converted{significant((base - to.offset) / to.factor), a.To, from.quantity}, nil
}

// significant rounds to 12 digits, which hides what binary fractions add.
func significant(x float64) float64 {
	if x == 0 || math.IsInf(x, 0) || math.IsNaN(x) {
		return x
	}
	scale := math.Pow(10, 11-math.Floor(math.Log10(math.Abs(x))))
	if r := math.Round(x*scale) / scale; !math.IsInf(r, 0) && !math.IsNaN(r) {
		return r
	}
	return x
}
