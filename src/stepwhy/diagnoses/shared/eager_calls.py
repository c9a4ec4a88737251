"""Operations that a program launches one by one from Python, on a CPU."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import numpy as np

from stepwhy.columns.groups import numbered
from stepwhy.diagnoses.shared.measure import mean_within, on_scale, steady, time_of
from stepwhy.diagnoses.shared.program import is_pytorch
from stepwhy.diagnoses.shared.slices import launched_ops, named
from stepwhy.patterns import regex
from stepwhy.trace import Kind, Phase

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepwhy.columns.intervals import Intervals
    from stepwhy.passes.facts import Facts

    Rows = NDArray[np.int64]

SHARE = 0.30  # of the step, in small operations and between them; less is not worth joining them
FEWEST = 100  # operations per step; a small model has some tens
SMALL_NS = 25_000  # ns; launching an operation from Python takes 5 to 15, recorded a little more
ONE_CALL_NS = 500_000  # ns of Python between two operations; the rest is other work
OF_CALLS = 0.2  # of the operations read an element in a loop over elements, which does little else
MANY_ELEMENTS = 100  # reads of single elements per step; a loss and some metrics are a dozen

_JITTED = regex(r"PjitFunction\(.*\)")
_ELEMENT = "aten::item"
_ELEMENTS = (
    _ELEMENT,
    "aten::_local_scalar_dense",
    "aten::is_nonzero",
    "aten::unbind",
    "aten::select",
    "aten::as_strided",
)


class EagerLoop(msgspec.Struct, frozen=True):
    """A step that consists of many small operations.

    Args:
        calls: The operations that the program launches in steady steps, without those of the
            backward pass and of the optimizer; rows of slices, ascending.
        cost_ns: Time per step in small operations and between operations, ns.
        python_ns: The part of it in Python.
    """

    calls: Rows
    cost_ns: int
    python_ns: int


def eager_loop(facts: Facts) -> EagerLoop | None:
    """The small operations of the step; None if it has few, or uses an accelerator."""
    return facts.derived(_eager_loop)


def _eager_loop(facts: Facts) -> EagerLoop | None:
    if facts.has_accelerator or single_elements(facts)[0]:
        return None
    every = _launched(facts)
    every = every[facts.phases[every] != Phase.OPTIMIZER]  # `unfused-optimizer` judges those
    calls = every[facts.phases[every] != Phase.BACKWARD]
    if len(calls) < FEWEST * max(facts.steady_count, 1):
        return None
    python_ns = on_scale(facts, _capped(facts, facts.partition.sets["python"]), "python")
    cost = python_ns + facts.breakdown["dispatch"] + in_small(facts, every, SMALL_NS)
    return EagerLoop(calls, cost, python_ns) if cost >= SHARE * facts.wall_ns else None


def in_small(facts: Facts, calls: Rows, limit_ns: int) -> int:
    """Time of the mean step in small operations, where launching and computing are one record, ns.

    Args:
        facts: Facts of the run.
        calls: Operations; (calls,).
        limit_ns: Median time of those of one name that counts as small.
    """
    if not is_pytorch(facts):
        return 0
    small = time_of(facts, calls[_is_small(facts, calls, limit_ns)])
    computing = mean_within(facts, small & facts.partition.sets["compute"])
    return on_scale(facts, computing, "compute")


def _is_small(facts: Facts, calls: Rows, limit_ns: int) -> NDArray[np.bool_]:
    """Whether the operations of each one's name are small, most of them; (calls,).

    On a busy machine, a thread loses its core for milliseconds in any of them.
    """
    names, place = numbered(facts.trace.slices.name[calls])
    durations = facts.trace.slices.dur_ns[calls]
    typical = [float(np.median(durations[place == name])) for name in range(len(names))]
    is_small: NDArray[np.bool_] = (np.asarray(typical) <= limit_ns)[place]
    return is_small


def _launched(facts: Facts) -> Rows:
    """Operations in steady steps that no other operation has called, ascending."""
    if facts.trace.meta.framework == "jax":
        return _jitted(facts)
    rows = launched_ops(facts)
    return rows[~facts.in_input[rows]]


def _jitted(facts: Facts) -> Rows:
    """Calls of jitted functions in steady steps that no other one has called, ascending."""
    slices = facts.trace.slices
    rows = facts.slices(Kind.FRAMEWORK, steady=True)
    rows = rows[facts.trace.matches(slices.name[rows], _JITTED.fullmatch)]
    # Rows are in the order of their starts, so a call within others ends before one of them does.
    ends = facts.trace.ends(rows)
    latest = np.append(np.int64(0), np.maximum.accumulate(ends)[:-1]) if len(rows) else ends
    found: Rows = rows[slices.start_ns[rows] >= latest]
    return found


def _capped(facts: Facts, time: Intervals) -> int:
    """Time of the mean step in some intervals, each capped at `ONE_CALL_NS`."""
    inside = time & steady(facts)
    return facts.mean_ns(float(np.minimum(inside.ends - inside.starts, ONE_CALL_NS).sum()))


def single_elements(facts: Facts) -> tuple[int, int]:
    """How many single elements a step reads, and how long the operations for this take, ns.

    (0, 0) where it is no loop over elements.
    """
    return facts.derived(_single_elements)


def _single_elements(facts: Facts) -> tuple[int, int]:
    rows = named(facts, _ELEMENT)
    # Fused optimizers read the step of each parameter.
    rows = rows[facts.phases[rows] != Phase.OPTIMIZER]
    per_step = round(len(rows) / max(facts.steady_count, 1))
    if per_step < MANY_ELEMENTS or len(rows) < OF_CALLS * len(launched_ops(facts)):
        return 0, 0
    reading = mean_within(facts, time_of(facts, named(facts, *_ELEMENTS)))
    return per_step, min(on_scale(facts, reading, "compute"), facts.breakdown["compute"])


__all__ = ["EagerLoop", "eager_loop", "in_small", "single_elements"]
