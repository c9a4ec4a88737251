"""Dumps of PyTorch's flight recorder (`nccl_trace_rank_0`): the collectives of one rank."""

from stepwhy.read.format import Format

FORMAT = Format(
    signals=("collective-calls", "open-collectives"),
    magic=b"entries",
)

__all__ = ["FORMAT"]
