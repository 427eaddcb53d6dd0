// Package build tells what this program was built from.
package build

import "runtime/debug"

// Version returns the module's version, such as "v1.2.3"; a build from a
// working copy is "devel", with its revision where that is known.
func Version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "devel" // unreachable unless built without modules
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			return "devel+" + s.Value[:min(12, len(s.Value))]
		}
	}
	return "devel"
}
