"""Print one line per run: how long its step takes and what was found in it."""

from __future__ import annotations

import sys
from pathlib import Path

from stepwhy.base.units import format_ns
from stepwhy.engine import explain


def line(run: str) -> str:
    """One run in one line."""
    result = explain([run])
    found = [f.id for f in result.findings if f.verdict == "found"]
    step = format_ns(result.breakdown.wall_ns)
    return f"  {Path(run).name:8} {step:>8} per step   found: {', '.join(found) or 'nothing'}"


if __name__ == "__main__":
    print(*map(line, sys.argv[1:]), sep="\n")
