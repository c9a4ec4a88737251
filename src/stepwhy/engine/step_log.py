"""From the lines of a step log to observed steps."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import TYPE_CHECKING

import msgspec

from stepwhy.trace import NULL

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepwhy.trace import TraceBuilder

# A call that a program makes fewer times than this is set-up, not a training step.
_FEWEST_RUNS = 3


class _Line(msgspec.Struct):
    """A step of a PyTorch loop (kind 'step'), or one `Session.run` (kind 'run')."""

    kind: str
    start_ns: int
    end_ns: int
    profiled: int = 0
    signature: int = 0
    input_wait_ns: int | None = None


def marks_of(lines: Sequence[bytes], builder: TraceBuilder) -> bool:
    """Add the steps of a log to `marks`; returns whether the log is torn.

    Args:
        lines: The lines of `steps.jsonl`.
        builder: Takes the rows.
    """
    records, torn = _records(lines)
    for line in records:
        if line.kind == "step":
            builder.add(
                "marks",
                start_ns=line.start_ns,
                dur_ns=max(line.end_ns - line.start_ns, 0),
                profiled=line.profiled,
                input_wait_ns=NULL if line.input_wait_ns is None else line.input_wait_ns,
            )
    _add_session_steps([line for line in records if line.kind == "run"], builder)
    return torn


def _records(lines: Sequence[bytes]) -> tuple[list[_Line], bool]:
    records, torn = [], False
    for line in lines:
        try:
            records.append(msgspec.json.decode(line, type=_Line))
        except msgspec.DecodeError:
            torn = True
    return records, torn


def _add_session_steps(runs: list[_Line], builder: TraceBuilder) -> None:
    """A step lasts from one run of the training fetches to the next.

    The training fetches are those that take most of the time. Runs of other fetches (metrics,
    summaries, queue sizes) and the Python between runs belong to the step they follow.
    """
    time: Counter[int] = Counter()
    count: Counter[int] = Counter()
    for run in runs:
        time[run.signature] += run.end_ns - run.start_ns
        count[run.signature] += 1
    repeated = [s for s in time if count[s] >= _FEWEST_RUNS]
    if not repeated:
        return
    anchor = max(repeated, key=lambda s: time[s])
    runs = sorted(runs, key=lambda r: r.start_ns)
    starts = [i for i, run in enumerate(runs) if run.signature == anchor]
    for first, following in pairwise(starts):
        inside = runs[first:following]
        builder.add(
            "marks",
            start_ns=inside[0].start_ns,
            dur_ns=runs[following].start_ns - inside[0].start_ns,
            profiled=int(any(run.profiled for run in inside)),
            graph_ns=sum(run.end_ns - run.start_ns for run in inside),
        )
