"""Traces of MegaScan, MegatronApp's tracer for Megatron-LM."""

from stepwhy.read.format import Format

FORMAT = Format(signals=("passes", "ranks"), magic=b'"iteration"', after=("exported", "rocprof"))

__all__ = ["FORMAT"]
