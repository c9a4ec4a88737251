"""The parts of a result, each computed from the facts of one run."""
