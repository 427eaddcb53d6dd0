package session

// LongLists returns how many long lists the feeds of the process keep.
func LongLists() (n int) {
	feeds.mu.Lock()
	defer feeds.mu.Unlock()
	for _, f := range feeds.open {
		f.mu.Lock()
		n += len(f.lists)
		f.mu.Unlock()
	}
	return n
}
