"""The steps of a run: where they are in the trace, and how long the unrecorded ones took."""
