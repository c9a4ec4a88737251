"""Files of NCCL Inspector: one JSON object per collective that has ended."""

from stepwhy.read.format import Format

FORMAT = Format(
    signals=("collective-calls",),
    magic=b'"coll_perf"',
)

__all__ = ["FORMAT"]
