"""The program's own Python that prepares batches, by stack samples.

Samples are taken of all threads at the same moments, so that their number, by that of the driving
thread's, is how many threads were there at once on average.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import msgspec

from stepwhy.passes.sampled_lines import FEWEST_SAMPLES, FRAMEWORKS
from stepwhy.patterns import regex
from stepwhy.trace import SampleRole

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from stepwhy.trace import Trace

_LINE = regex(r"(?P<file>.*)\(\d+\): (?P<function>.*)")


class Preparation(msgspec.Struct, frozen=True):
    """Python of the program in the threads of one role that prepare batches.

    Args:
        role: Which threads.
        entry: What called it: 'py_func', 'DataLoader', 'PyDataset', 'feed'; '' in the loop itself.
        function: The function in which most of it is spent, 'data.py: decode'.
        line: Its line with most samples, 'data.py(31): decode'.
        function_share: Of all this Python, what is spent in that function, 0..1.
        at_once: How many threads were in it at once, on average.
        producers: Processes that do such work, where each has a main thread of its own; None for
            threads of the training's process.
    """

    role: SampleRole
    entry: str
    function: str
    line: str
    function_share: float
    at_once: float
    producers: float | None


class _Sample(msgspec.Struct, frozen=True):
    """One row of `samples`."""

    role: SampleRole
    line: str
    package: str
    entry: str
    count: int


def find_preparation(trace: Trace, *, fed: bool = False) -> Preparation | None:
    """The Python of the role that spends most time in it; None where none is known.

    Args:
        trace: The trace, with `samples`.
        fed: Whether the loop itself prepares what it feeds: then the Python of the driving thread
            outside the framework counts, whatever called it.
    """
    samples = list(_samples(trace))
    looks = sum(s.count for s in samples if s.role is SampleRole.DRIVER)
    if looks < FEWEST_SAMPLES:
        return None
    found = [
        prepared
        for role in SampleRole
        if (prepared := _of_role([s for s in samples if s.role is role], looks, fed=fed))
    ]
    return max(found, key=lambda p: p.at_once, default=None)


def _of_role(samples: Sequence[_Sample], looks: int, *, fed: bool) -> Preparation | None:
    inside = [s for s in samples if s.line and _prepares(s, fed=fed)]
    total = sum(s.count for s in inside)
    if not total:
        return None
    role = samples[0].role
    functions, lines, entries = Counter[str](), Counter[str](), Counter[str]()
    for s in inside:
        functions[_function(s.line)] += s.count
        entries[s.entry] += s.count
    function, most = functions.most_common(1)[0]
    for s in inside:
        if _function(s.line) == function:
            lines[s.line] += s.count
    return Preparation(
        role=role,
        entry=entries.most_common(1)[0][0],
        function=function,
        line=lines.most_common(1)[0][0],
        function_share=most / total,
        at_once=total / looks,
        producers=sum(s.count for s in samples) / looks if role is SampleRole.WORKER else None,
    )


def _prepares(sample: _Sample, *, fed: bool) -> bool:
    """Whether a line of the program prepares batches there.

    A child process that runs the program is there for nothing else; of the threads of the training,
    only those that an input pipeline calls, or that feed one.
    """
    if sample.entry or sample.role is SampleRole.WORKER:
        return True
    return fed and sample.role is SampleRole.DRIVER and sample.package not in FRAMEWORKS


def _function(line: str) -> str:
    match = _LINE.fullmatch(line)
    return f"{match['file']}: {match['function']}" if match else line


def _samples(trace: Trace) -> Iterator[_Sample]:
    table = trace.samples
    columns = (table.role, table.line, table.package, table.entry, table.count)
    for role, line, package, entry, count in zip(*(c.tolist() for c in columns), strict=True):
        yield _Sample(
            SampleRole(role), trace.string(line), trace.string(package), trace.string(entry), count
        )
