"""The start of an observed run: how long it takes until the first steady step, and where."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from stepwhy.analyse.steps.counters import series
from stepwhy.analyse.steps.sampled_lines import FEWEST_SAMPLES, driver_packages, function_of
from stepwhy.analyse.steps.stalls import time_of_kinds
from stepwhy.analyse.steps.step_search import count_warm_up
from stepwhy.base.columns.intervals import Intervals
from stepwhy.trace import SampleRole

if TYPE_CHECKING:
    from stepwhy.analyse.facts import Facts
    from stepwhy.trace import Trace

_IMPORT = "import"  # entry of the samples of imports, see `record.sampling.stack_lines`
_MODULE = ": <module>"
# Compilation, memory allocation and the choice of kernels are over by then. Later long steps have
# other causes.
_MOST_WARM_UP = 3  # steps


class StartPlace(msgspec.Struct, frozen=True):
    """A function of the program, or a line outside of functions, before the first step.

    Args:
        line: Its line with most samples.
        package: Package that ran there, '' for the program itself; for imports the imported one.
        imports: Whether it imports that package.
        time_ns: Time spent there.
    """

    line: str
    package: str
    imports: bool
    time_ns: int


class StartUp(msgspec.Struct, frozen=True):
    """The start of a run.

    Args:
        total_ns: Time until the first steady step, without the usual time of the steps before it.
        run_ns: Time of the whole run.
        compile_ns: Time of logged compilations in it.
        places: Where the main thread was, longest first; None if it was not sampled.
        waiting: Share of its runnable time that the process waited for a core by then, 0..1.
        children_ns: Time until then in which the main thread may have waited for processes that the
            program had started, at most: it was blocked, and they used the CPU. 0 if unknown.
    """

    total_ns: int
    run_ns: int
    compile_ns: int
    places: tuple[StartPlace, ...] | None
    waiting: float
    children_ns: int = 0

    @property
    def share(self) -> float:
        """Share of the run, 0..1."""
        return self.total_ns / max(self.run_ns, 1)


def find_startup(facts: Facts) -> StartUp | None:
    """The start of an observed run; None if its start or end is unknown, or it has no steps.

    Args:
        facts: Facts of the run.
    """
    trace, run = facts.trace, facts.trace.meta.run_ns
    free = np.flatnonzero(trace.marks.profiled == 0)
    if run is None or not len(free):
        return None
    durations = trace.marks.dur_ns
    steady = free[min(count_warm_up(durations[free]), _MOST_WARM_UP) :]
    begins = int(trace.marks.start_ns[steady[0]])
    trained = int(steady[0]) * int(np.median(durations[steady]))
    compiling = time_of_kinds(trace, "trace", "compile") & Intervals.single(run[0], begins)
    ran, waited = (_by_then(trace, name) for name in ("cpu_ns", "run_delay_ns"))
    waiting = float(waited / max(ran + waited, 1))
    return StartUp(
        max(begins - run[0] - trained, 0),
        max(run[1] - run[0], 0),
        compiling.total_ns,
        _places(trace, facts.sampled),
        waiting,
        _waiting_for_children_ns(trace, begins - run[0]),
    )


def _waiting_for_children_ns(trace: Trace, start_ns: int) -> int:
    """Time in which the main thread may have waited for processes that the program had started.

    Args:
        trace: The run.
        start_ns: Time until its first steady step.
    """
    # The time that the main thread waited for a core is part of what it ran.
    ran_ns = _by_then(trace, "main_ran_ns")
    if not ran_ns:
        return 0  # not recorded: it may have run all the time
    return max(min(start_ns - ran_ns, _by_then(trace, "children_cpu_ns")), 0)


def _by_then(trace: Trace, name: str) -> int:
    """A total since the start of the process in its first sample, at the first step; 0 if none."""
    return int(series(trace, name).values[:1].sum())


def _places(trace: Trace, in_steps: Trace) -> tuple[StartPlace, ...] | None:
    """Where the main thread was before the first step, longest first; None if unknown."""
    samples = trace.samples
    rows = np.flatnonzero(samples.role == SampleRole.STARTUP)
    total = int(samples.count[rows].sum())
    if total < FEWEST_SAMPLES:
        return None
    start, end = int(samples.start_ns[rows[0]]), int(samples.end_ns[rows[0]])
    # The sampling ends some time after the first step.
    late = max(end - int(trace.marks.start_ns[0]), 0) / max(end - start, 1)
    usual = driver_packages(in_steps)
    seen: Counter[tuple[str, str, bool]] = Counter()
    for row in rows.tolist():
        line, package = (trace.string(int(c[row])) for c in (samples.line, samples.package))
        imports = trace.string(int(samples.entry[row])) == _IMPORT
        expected = 0.0 if imports else late * total * usual[line, package] / max(usual.total(), 1)
        seen[line, package, imports] += round(max(int(samples.count[row]) - expected, 0))
    return _grouped(seen, (end - start) / total)


def _grouped(seen: Counter[tuple[str, str, bool]], per_sample_ns: float) -> tuple[StartPlace, ...]:
    groups: dict[str, Counter[tuple[str, str, bool]]] = {}
    for (line, package, imports), count in seen.items():
        # Outside of functions, each line is a place of its own.
        name = line if line.endswith(_MODULE) else function_of(line)
        groups.setdefault(name, Counter())[line, package, imports] += count
    places = []
    for group in groups.values():
        line, _, imports = max(group, key=group.__getitem__)
        packages: Counter[str] = Counter()
        for (_, package, _), count in group.items():
            packages[package] += count
        package = max(packages, key=packages.__getitem__)
        places.append(StartPlace(line, package, imports, round(group.total() * per_sample_ns)))
    return tuple(sorted(places, key=lambda p: -p.time_ns))
