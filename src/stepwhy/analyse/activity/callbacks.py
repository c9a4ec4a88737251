"""Callbacks: Python of the program that compiled code, a graph or autograd calls in the step.

`tf.py_function` and `tf.numpy_function` in a training graph, `jax.pure_callback`, `io_callback`
and `debug.callback`, and autograd functions in NumPy. Calls by an input pipeline do not count.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

from stepwhy.analyse.activity.devices import intervals_of
from stepwhy.base.columns.groups import distinct
from stepwhy.base.patterns import regex
from stepwhy.trace import Kind, Role

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepwhy.base.columns.intervals import Intervals
    from stepwhy.trace import Trace

    Rows = NDArray[np.int64]

_JAX = "jax callback"
_AUTOGRAD = "autograd.Function "
_PY_FUNC = "py_func"
_OPS = regex(r"(?:Eager)?PyFunc(?:Stateless)?")


def callback_rows(trace: Trace) -> Rows:
    """Rows of the slices that are callbacks, ascending.

    Args:
        trace: The trace.
    """
    of_executors = trace.rows(Kind.PYTHON, role=Role.EXECUTOR)
    classes = [entry.removeprefix(_AUTOGRAD) for entry in _sampled(trace) if _AUTOGRAD in entry]
    if not classes:
        return of_executors
    names = trace.strings_where([*classes, *(f"{name}Backward" for name in classes)])
    rows = trace.rows(Kind.PYTHON, role=Role.HOST_THREAD)
    return np.union1d(of_executors, rows[np.isin(trace.slices.name[rows], names)])


def callback_time(trace: Trace) -> Intervals:
    """Time in which any callback runs."""
    return intervals_of(trace, callback_rows(trace))


def callback_entries(trace: Trace) -> frozenset[str]:
    """The entries of stack samples that are callbacks, not calls by an input pipeline.

    Args:
        trace: The trace, with `samples`.
    """
    found = {e for e in _sampled(trace) if e == _JAX or e.startswith(_AUTOGRAD)}
    return frozenset(found | ({_PY_FUNC} if _only_steps_call_python(trace) else set()))


def callback_lines(trace: Trace) -> Counter[str]:
    """Samples of each line of the program in callbacks, over all threads.

    Args:
        trace: The trace, with `samples`.
    """
    entries, samples = callback_entries(trace), trace.samples
    lines: Counter[str] = Counter()
    columns = (samples.line, samples.entry, samples.count)
    for line, entry, count in zip(*(c.tolist() for c in columns), strict=True):
        if trace.string(entry) in entries:
            lines[trace.string(line)] += count
    return lines


def _sampled(trace: Trace) -> set[str]:
    """All entries of stack samples, including '' if some samples have none."""
    return {trace.string(entry) for entry in distinct(trace.samples.entry).tolist()}


def _only_steps_call_python(trace: Trace) -> bool:
    """Whether the operations of the step call Python, and those of its input pipelines do not."""
    slices, nodes = trace.slices, trace.nodes
    rows = trace.rows(Kind.PYTHON, role=Role.EXECUTOR)
    loading = trace.rows(Kind.OP, role=Role.WORKER)
    calls, loads = (trace.matches(slices.name[r], _OPS.fullmatch).any() for r in (rows, loading))
    calling = nodes.name[trace.matches(nodes.op, _OPS.fullmatch)]
    return bool(calls and not loads and np.isin(calling, slices.scope[rows]).all())
