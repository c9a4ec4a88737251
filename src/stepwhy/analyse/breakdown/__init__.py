"""Where the time of a step goes: the closed breakdown, its corrections, phases and operations."""
