"""The call tree of the steady steps as a profile for https://www.speedscope.app.

It has a profile of the device's time and one of the host's, each with one stack per node that takes
time itself, and means per step in whole nanoseconds.

Source: `src/lib/file-format-spec.ts` of speedscope.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from stepwhy.analyse.answers.call_tree import DEVICE, HOST, call_tree
from stepwhy.analyse.answers.tree_rows import means, tree_rows
from stepwhy.analyse.facts import Facts
from stepwhy.base.text import escape_json_bytes
from stepwhy.show.export.files import compressed_file
from stepwhy.trace import NULL

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from stepwhy.analyse.answers.tree_rows import TreeRow
    from stepwhy.trace import Trace

_SCHEMA = "https://www.speedscope.app/file-format-schema.json"
# As many as `stepwhy ops --view tree --json` lists.
_MOST = 1 << 14


def write_speedscope(trace: Trace, path: Path) -> None:
    """Write the call tree of a trace to a file, completely or not at all.

    Args:
        trace: The trace.
        path: The file; compressed if its name ends in '.gz'.

    Raises:
        OutputError: If the file cannot be written.
    """
    facts = Facts(trace)
    rows = tree_rows(facts.derived(call_tree), _MOST)
    own = [times for times, _ in means(rows, max(facts.steady_count, 1))] if rows else []
    frames: dict[str, int] = {}
    stacks = _stacks(rows, frames)
    profiles = []
    for name, measure in (("Device time per step", DEVICE), ("Host time per step", HOST)):
        weights = [int(times[measure]) for times in own]
        if any(weights):
            profiles.append(_profile(name, stacks, weights))
    content = {
        "$schema": _SCHEMA,
        "exporter": "stepwhy",
        "shared": {"frames": [{"name": name} for name in frames]},
        "profiles": profiles,
    }
    with compressed_file(path) as file:
        file.write(escape_json_bytes(msgspec.json.encode(content)))


def _stacks(rows: Sequence[TreeRow], frames: dict[str, int]) -> list[list[int]]:
    """The stack of each node, outermost first, as numbers of frames, which are added."""
    stacks: list[list[int]] = []
    for row in rows:
        parent = row.node.parent
        around = [] if parent == NULL else stacks[parent]
        stacks.append([*around, frames.setdefault(row.node.name, len(frames))])
    return stacks


def _profile(name: str, stacks: Sequence[list[int]], weights: Sequence[int]) -> dict[str, object]:
    """One profile of what takes time itself."""
    taken = [(stack, ns) for stack, ns in zip(stacks, weights, strict=True) if ns]
    return {
        "type": "sampled",
        "name": name,
        "unit": "nanoseconds",
        "startValue": 0,
        "endValue": sum(ns for _, ns in taken),
        "samples": [stack for stack, _ in taken],
        "weights": [ns for _, ns in taken],
    }
