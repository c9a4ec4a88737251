"""Functions that are only ever run compiled; see `stepwhy.native`."""
