"""Facts of a run, computed from its trace by pure functions; `Facts` holds them."""
