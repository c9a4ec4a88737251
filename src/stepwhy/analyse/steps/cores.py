"""Time that a process waited for a CPU core, and the number of cores that other programs used."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stepwhy.analyse.steps.counters import series

if TYPE_CHECKING:
    from stepwhy.trace import Trace

CONTENDED = 0.15
"""Cores are contended from this share of waiting on: it lengthens the median step by as much."""


def run_delay_share(trace: Trace, span_ns: tuple[int, int] | None = None) -> float | None:
    """Share of its runnable time that the process waited for a core, 0..1; None if not sampled.

    Args:
        trace: The trace, with `counters`.
        span_ns: From when to when; None for the whole run.
    """
    rates = _rates(trace, span_ns, "cpu_ns", "run_delay_ns")
    if rates is None or sum(rates) <= 0:
        return None
    running, waiting = rates
    return round(waiting / (running + waiting), 3)


FEW_CORES = 0.25
"""Cores that other programs keep busy on a quiet machine: a desktop or sampling uses a tenth."""


def background_cores(trace: Trace, span_ns: tuple[int, int] | None = None) -> float | None:
    """Cores that other programs kept busy on average; None if not sampled.

    Args:
        trace: The trace, with `counters`.
        span_ns: From when to when; None for the whole run.
    """
    names = ("machine_busy_ns", "job_cpu_ns", "observer_cpu_ns")
    totals = [series(trace, name) for name in names]
    if span_ns is not None:
        totals = [total.between(*span_ns) for total in totals]
    machine, (busy_ns, job_ns, observer_ns) = totals[0], (total.growth for total in totals)
    if busy_ns is None or job_ns is None or machine.times_ns[-1] <= machine.times_ns[0]:
        return None
    passed_ns = int(machine.times_ns[-1] - machine.times_ns[0])
    return round(max(busy_ns - job_ns - (observer_ns or 0), 0) / passed_ns, 2)


def cores_left(trace: Trace, span_ns: tuple[int, int] | None = None) -> float | None:
    """Cores that other processes, also those of the job, left to this one; None if not sampled.

    Args:
        trace: The trace, with `counters`.
        span_ns: From when to when; None for the whole run.
    """
    cores = series(trace, "cores").last
    rates = _rates(trace, span_ns, "machine_busy_ns", "cpu_ns")
    if cores is None or rates is None:
        return None
    others = max((rates[0] - rates[1]) / 1e9 - (sampling_cores(trace) or 0.0), 0.0)
    return round(min(cores - others, usable_cores(trace) or cores), 2)


def sampling_cores(trace: Trace) -> float | None:
    """Cores that stepwhy's own sampling kept busy on average; None if not sampled."""
    sampling = series(trace, "observer_cpu_ns")
    if sampling.growth is None or sampling.times_ns[-1] <= sampling.times_ns[0]:
        return None
    return round(sampling.growth / int(sampling.times_ns[-1] - sampling.times_ns[0]), 4)


OVERSUBSCRIBED = 1.5
"""Runnable threads of a process per core; up to one and its helpers, they take turns for free."""


def runnable_threads(trace: Trace, span_ns: tuple[int, int] | None = None) -> float | None:
    """Threads of the process that ran or waited for a core, on average; None if not sampled.

    Other programs make them wait longer, but not more of them want to run.

    Args:
        trace: The trace, with `counters`.
        span_ns: From when to when; None for the whole run.
    """
    rates = _rates(trace, span_ns, "cpu_ns", "run_delay_ns")
    return None if rates is None else sum(rates) / 1e9


def core_waits_ns_per_step(trace: Trace, step_ns: int) -> int | None:
    """Time that all threads of the process waited for a core per step, in total, ns.

    None if not sampled.

    Args:
        trace: The trace, with `counters`.
        step_ns: Mean time of a step.
    """
    rates = _rates(trace, None, "cpu_ns", "run_delay_ns")
    return None if rates is None else round(rates[1] * step_ns / 1e9)


def children_cpu_ns_per_step(trace: Trace, step_ns: int) -> int | None:
    """CPU time that the processes of data loaders use per step, ns; None if not sampled.

    Includes all other processes that the training started. With one batch per step, this is what
    the workers spend on a batch.

    Args:
        trace: The trace, with `counters`.
        step_ns: Mean time of a step.
    """
    rates = _rates(trace, None, "cpu_ns", "children_cpu_ns")
    return None if rates is None else round(rates[1] * step_ns / 1e9)


def sibling_processes(trace: Trace, span_ns: tuple[int, int] | None = None) -> int:
    """Processes of the job that use as much CPU time as this one, itself included.

    Args:
        trace: The trace, with `counters`.
        span_ns: From when to when; None for the whole run.
    """
    rates = _rates(trace, span_ns, "cpu_ns", "job_cpu_ns")
    return 1 if rates is None else max(round(rates[1] / rates[0]), 1)


def busy_cores(trace: Trace, span_ns: tuple[int, int] | None = None) -> float | None:
    """Cores of the machine that any program kept busy, on average; None if not sampled.

    Args:
        trace: The trace, with `counters`.
        span_ns: From when to when; None for the whole run.
    """
    rates = _rates(trace, span_ns, "machine_busy_ns")
    return None if rates is None else rates[0] / 1e9


def job_cores(trace: Trace, span_ns: tuple[int, int] | None = None) -> float | None:
    """Cores that the processes of the job kept busy, on average; None if not sampled.

    Args:
        trace: The trace, with `counters`.
        span_ns: From when to when; None for the whole run.
    """
    rates = _rates(trace, span_ns, "job_cpu_ns")
    return None if rates is None else rates[0] / 1e9


def _rates(trace: Trace, span_ns: tuple[int, int] | None, *names: str) -> list[float] | None:
    """Growth of some totals per second, between samples in which none fell; None if unknown.

    The totals of a process are sums over its threads, so they fall when a thread ends.
    """
    totals = [series(trace, name) for name in names]
    if span_ns is not None:
        totals = [total.between(*span_ns) for total in totals]
    times_ns = totals[0].times_ns
    if any(not np.array_equal(total.times_ns, times_ns) for total in totals[1:]):
        return None
    grown, passed_ns = [np.diff(total.values) for total in totals], np.diff(times_ns)
    usable = (passed_ns > 0) & (grown[0] > 0) & np.all([growth >= 0 for growth in grown], axis=0)
    if not usable.any():
        return None
    return [float(g[usable].sum()) * 1e9 / float(passed_ns[usable].sum()) for g in grown]


def usable_cores(trace: Trace) -> int | None:
    """Cores that the process may use; those of the machine if that was not recorded."""
    machine, own = (series(trace, name).last for name in ("cores", "usable_cores"))
    return min(machine, own) if machine and own else own or machine
