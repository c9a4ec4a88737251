"""What became of all inputs: counted by format, for people and as JSON."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fuzz.judge import Outcome


@dataclass(slots=True)
class Tally:
    """What became of the inputs of one format.

    Args:
        known: Of those explained, how many were read as a trace that had been explained before.
    """

    inputs: int = 0
    known: int = 0
    explained: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    failed: Counter[str] = field(default_factory=Counter)
    cpu_s: float = 0.0
    slowest_s: float = 0.0
    most_memory_bytes: int = 0

    def add(self, outcome: Outcome) -> None:
        """Count one input."""
        self.inputs += 1
        self.known += outcome.is_known
        getattr(self, outcome.kind)[outcome.what] += 1
        self.cpu_s += outcome.cpu_s
        self.slowest_s = max(self.slowest_s, outcome.cpu_s)
        self.most_memory_bytes = max(self.most_memory_bytes, outcome.memory_bytes)

    def as_json(self) -> dict[str, Any]:
        """The counts, the most frequent first."""
        return {
            "inputs": self.inputs,
            "explained_as": dict(self.explained.most_common()),
            "of_them_traces_explained_before": self.known,
            "refused_as": dict(self.refused.most_common()),
            "failed_as": dict(self.failed.most_common()),
            "cpu_s": round(self.cpu_s, 1),
            "slowest_s": round(self.slowest_s, 2),
            "most_memory_mb": round(self.most_memory_bytes / 1e6, 1),
        }

    def line(self, name: str) -> str:
        """The counts for people."""
        explained, refused = self.explained.total(), self.refused.total()
        return (
            f"{name:14} {self.inputs:9,} inputs  {explained:8,} explained  {refused:8,} refused  "
            f"{self.failed.total():5,} failed  slowest {self.slowest_s:6.2f} s  "
            f"memory {self.most_memory_bytes / 1e6:5.0f} MB"
        )
