// Package story tells in plain words what became of a fleet: why something in it
// is as it is ([Why]), and what is different between two moments ([Compare]).
//
// It is pure: it is given the folds of a history and some of its events. What it
// says rests on nothing else, so it is the same for everyone who asks about the
// same moment. Words may change from version to version; members of JSON shapes
// are added, never renamed, retyped or left out.
package story
