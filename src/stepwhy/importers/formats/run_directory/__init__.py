"""Run directories that `stepwhy run` wrote."""
