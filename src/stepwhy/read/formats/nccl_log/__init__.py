"""Logs of NCCL (`NCCL_DEBUG=INFO`), and what surrounds them in the output of a program."""

from stepwhy.read.format import Format

FORMAT = Format(
    signals=("collective-calls",),
    magic=b"NCCL",
)

__all__ = ["FORMAT"]
