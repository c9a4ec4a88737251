"""The program's own Python that prepares batches, by stack samples.

All threads are sampled at the same moments. The number of samples divided by that of the driving
thread is therefore the average number of threads at once.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import msgspec

from stepwhy.analyse.activity.callbacks import callback_entries
from stepwhy.analyse.breakdown.work_kinds import WorkKind, kind_of
from stepwhy.analyse.steps.sampled_lines import FEWEST_SAMPLES, FRAMEWORKS, input_entries
from stepwhy.base.patterns import regex
from stepwhy.trace import SampleRole

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from stepwhy.trace import Trace

MOST = 0.5
"""Share of the preparation that has to be of one kind, to be called that."""
_LINE = regex(r"(?P<file>.*)\(\d+\): (?P<function>.*)")


class Preparation(msgspec.Struct, frozen=True):
    """Python of the program in the threads of one role that prepare batches.

    Args:
        role: Which threads.
        entry: What called it: 'py_func', 'DataLoader', 'PyDataset', 'feed', 'generator'; '' in the
            loop itself.
        function: The function in which most of it is spent, 'data.py: decode'.
        line: Its line with most samples, 'data.py(31): decode'.
        function_share: Share of this Python that is spent in the function, 0..1.
        package: The package outside the program in which the function spends most time; 'python'
            for the standard library, '' if it calls none.
        package_share: Share of the function that is spent there, 0..1.
        at_once: Number of threads in it at once, on average.
        producers: Number of processes that do such work, on average; None for threads of the
            training process.
        kind: What most of it does; `OTHER` if no kind has most of it.
        kind_share: Share of it that is of this kind, 0..1.
        kind_line: The line with most samples of this kind.
        kind_call: What that line mostly calls, 'h5py: Dataset.__getitem__'; '' if nothing is known.
    """

    role: SampleRole
    entry: str
    function: str
    line: str
    function_share: float
    package: str
    package_share: float
    at_once: float
    producers: float | None
    kind: WorkKind
    kind_share: float
    kind_line: str
    kind_call: str = ""

    @property
    def running(self) -> float:
        """Number of processes it keeps busy; the threads of one process share the GIL."""
        return min(self.at_once, 1.0) if self.producers is None else self.at_once


class _Sample(msgspec.Struct, frozen=True):
    """One row of `samples`."""

    role: SampleRole
    line: str
    package: str
    entry: str
    count: int
    kind: WorkKind
    called: str


def find_preparation(trace: Trace, *, fed: bool = False) -> Preparation | None:
    """Preparation by the role that spends most time in it; None if there is none.

    Args:
        trace: The trace, with `samples`.
        fed: Whether the loop itself prepares the values that it feeds. Then all Python of the
            driving thread outside the framework counts.
    """
    samples = list(_samples(trace))
    moments = sum(s.count for s in samples if s.role is SampleRole.DRIVER)
    if moments < FEWEST_SAMPLES:
        return None
    callbacks = callback_entries(trace)
    samples = [s for s in samples if s.entry not in callbacks]
    found = [
        prepared
        for role in SampleRole
        if (prepared := _of_role([s for s in samples if s.role is role], moments, fed=fed))
    ]
    return max(found, key=lambda p: p.at_once, default=None)


def _of_role(samples: Sequence[_Sample], moments: int, *, fed: bool) -> Preparation | None:
    inside = [s for s in samples if s.line and _prepares(s, fed=fed)]
    total = sum(s.count for s in inside)
    if not total:
        return None
    role = samples[0].role
    functions, lines, entries = Counter[str](), Counter[str](), Counter[str]()
    packages = Counter[str]()
    for s in inside:
        functions[_function(s.line)] += s.count
        entries[s.entry] += s.count
    function, most = functions.most_common(1)[0]
    for s in inside:
        if _function(s.line) == function:
            lines[s.line] += s.count
            packages[s.package] += s.count
    package = max(filter(None, packages), key=packages.__getitem__, default="")
    kind, kind_line, of_kind = _kind(inside)
    calls = Counter[str]()
    for s in inside:
        if (s.kind, s.line) == (kind, kind_line):
            calls[s.called] += s.count
    return Preparation(
        role=role,
        entry=entries.most_common(1)[0][0],
        function=function,
        line=lines.most_common(1)[0][0],
        function_share=most / total,
        package=package,
        package_share=packages[package] / most if package else 0.0,
        at_once=total / moments,
        producers=sum(s.count for s in samples) / moments if role is SampleRole.WORKER else None,
        kind=kind,
        kind_share=of_kind / total,
        kind_line=kind_line,
        kind_call=max(filter(None, calls), key=calls.__getitem__, default="") if kind else "",
    )


def _kind(inside: Sequence[_Sample]) -> tuple[WorkKind, str, int]:
    """The kind of most samples, its line with most of them, and how many samples it has."""
    lines = {kind: Counter[str]() for kind in WorkKind}
    for s in inside:
        lines[s.kind][s.line] += s.count
    kind = max(lines, key=lambda one: lines[one].total())
    if lines[kind].total() <= MOST * sum(s.count for s in inside):
        return WorkKind.OTHER, "", 0
    return kind, lines[kind].most_common(1)[0][0], lines[kind].total()


def _prepares(sample: _Sample, *, fed: bool) -> bool:
    """Whether a sample shows the preparation of batches.

    This holds for all samples of worker processes. In the training process it holds for code that
    an input pipeline calls or that fills a queue, and for the driving thread if `fed`.
    """
    if sample.entry or sample.role is SampleRole.WORKER:
        return True
    return fed and sample.role is SampleRole.DRIVER and sample.package not in FRAMEWORKS


def _function(line: str) -> str:
    match = _LINE.fullmatch(line)
    return f"{match['file']}: {match['function']}" if match else line


def _samples(trace: Trace) -> Iterator[_Sample]:
    table, text = trace.samples, trace.string
    about = (table.package, table.called, table.loop, table.names)
    columns = (table.role, table.line, input_entries(trace), table.count, *about)
    for role, line, entry, count, *what in zip(*(c.tolist() for c in columns), strict=True):
        package, called, loop, names = map(text, what)
        kind = kind_of(package, called, loop, names)
        yield _Sample(SampleRole(role), text(line), package, text(entry), count, kind, called)
