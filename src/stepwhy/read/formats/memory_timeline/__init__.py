"""PyTorch memory timelines (`export_memory_timeline`)."""

from stepwhy.read.format import Format

FORMAT = Format(signals=("memory",), after=("kineto",), memory_factor=0.7)

__all__ = ["FORMAT"]
