"""Operations on nothing but constants, the making of constant tensors, and arguments of programs.

In JAX, what a compiled program computes from depends on the arguments that its calls pass.
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet

import msgspec
import numpy as np

from stepwhy.analyse.facts import Facts
from stepwhy.analyse.lines.driver_lines import DriverParts
from stepwhy.analyse.lines.line_shares import driver_parts
from stepwhy.analyse.program.semantic_ops import matched_ops, work_ns
from stepwhy.analyse.steps.stalls import rows_of_kinds
from stepwhy.base.columns.types import AnyRows, Ints, Mask
from stepwhy.base.patterns import regex
from stepwhy.diagnose.shared.measure import on_scale
from stepwhy.trace import NULL, Phase, among

CONVERTED = "time of making tensors of lists and arrays"
"""Evidence of `constant-computation`: the part of its cost that is Python."""

# Events of the observer. Source: `stepwhy.record.jax.same_arguments`.
SAME = "same-arguments"
OF_BATCH = "batch-arguments"
OF_ZEROS = "zero-argument"
_FEWEST_STEPS = 3  # between the first and the last call that were compared
# Source: `sanitize_name` of jax/_src/interpreters/mlir.py, by which it names a program.
_NO_LETTER = regex(r"[^\w.-]")

# Called after the values of a list or an array were copied. Source: `torch.tensor` and
# `torch.from_numpy` in torch/csrc/utils/tensor_new.cpp and torch/csrc/utils/tensor_numpy.cpp.
_MADE = "aten::lift_fresh"
# Operations of the same call, before that.
_OF_MAKING = ("aten::empty", "aten::to", "aten::_to_copy", "aten::copy_")


class Constants(msgspec.Struct, frozen=True):
    """Operations that compute constants in steady steps.

    Args:
        rows: Slices, ascending; (rows,).
        places: Rows of `step_ops`; (rows,).
        times_ns: Time of each; (rows,).
        making_ns: Time of the driving thread before it in which a list or an array became a tensor;
            (rows,).
    """

    rows: Ints
    places: Ints
    times_ns: Ints
    making_ns: Ints

    def computed_ns(self, facts: Facts) -> int:
        """Time of the mean step in the operations, ns."""
        return on_scale(facts, facts.mean_ns(int(self.times_ns.sum())))

    def made_ns(self, facts: Facts) -> int:
        """Time of the mean step in which constant tensors are made of lists and arrays, ns."""
        return on_scale(facts, facts.mean_ns(int(self.making_ns.sum())), "python")


def constants(facts: Facts) -> Constants:
    """The operations of the steady steps that compute constants; none if no step was looked at."""
    return facts.derived(_constants)


def _constants(facts: Facts) -> Constants:
    if not len(facts.trace.step_ops):
        return Constants(*(np.zeros(0, dtype=np.int64) for _ in range(4)))
    matched = matched_ops(facts)
    known = facts.trace.step_ops.constant == 1
    chosen = known[matched.places] & (matched.places != NULL)
    chosen &= ~among(facts.phases[matched.rows], (Phase.BACKWARD, Phase.OPTIMIZER))
    rows = matched.rows[chosen].astype(np.int64)
    times = work_ns(facts, matched)[chosen]
    return Constants(rows, matched.places[chosen], times, _making_ns(facts, rows))


def _making_ns(facts: Facts, rows: Ints) -> Ints:
    """Time at the line of each operation in which its list or array became a tensor; (rows,)."""
    found = np.zeros(len(rows), dtype=np.int64)
    made = np.flatnonzero(np.isin(facts.trace.slices.name[rows], _strings(facts, _MADE)))
    parts = driver_parts(facts) if len(made) else None
    if parts is None:
        return found
    is_making = (parts.unit == NULL) | np.isin(
        np.append(facts.trace.slices.name, NULL)[parts.unit], _strings(facts, *_OF_MAKING)
    )
    place = np.full(len(facts.trace.slices), NULL, dtype=np.int64)
    place[parts.unit[parts.unit != NULL]] = np.flatnonzero(parts.unit != NULL)
    for one in made.tolist():
        found[one] = _before(parts, is_making, int(place[rows[one]]))
    return found


def _before(parts: DriverParts, is_making: Mask, part: int) -> int:
    """Time at the line of a part right before it, in which a tensor is being made, ns."""
    first = part
    while first > 0 and is_making[first - 1] and parts.line[first - 1] == parts.line[part] != NULL:
        first -= 1
    return int(parts.starts[part] - parts.starts[first]) if first < part else 0


def _strings(facts: Facts, *names: str) -> Ints:
    return facts.trace.strings_where(set(names))


def passed_arguments(facts: Facts, kind: str) -> dict[str, set[str]]:
    """Names of the arguments that all calls of a jitted function pass alike, by its name.

    Args:
        facts: Facts of the run.
        kind: `SAME` for those that are always the same array, `OF_BATCH` for those that are
            another one from NumPy in each call.

    Returns:
        The names; empty if no function was called in enough steps to tell.
    """
    events, text = facts.trace.events, facts.trace.string
    found: dict[str, set[str]] = {}
    for row in rows_of_kinds(facts.trace, kind).tolist():
        if events.count[row] < _FEWEST_STEPS:
            continue
        reason = int(events.reason[row])
        names = set() if reason == NULL else set(text(reason).split("\n"))
        function = program_name(text(int(events.name[row])))
        found[function] = found.get(function, names) & names
    return found


def program_name(function: str) -> str:
    """What JAX calls the program of a jitted function."""
    return _NO_LETTER.sub("_", function)


def instructions_reading(facts: Facts, arguments: Mapping[str, AbstractSet[str]]) -> AnyRows:
    """Slices of the steady steps whose instruction reads nothing but certain arguments, ascending.

    Args:
        facts: Facts of the run.
        arguments: Names of these arguments, by the name of the jitted function.
    """
    table, text = facts.trace.argument_uses, facts.trace.string
    known = (table.arguments != NULL) & facts.is_steady[table.slice]
    keys = np.stack([table.program, table.arguments], axis=1)[known]
    used, place = np.unique(keys, axis=0, return_inverse=True)
    is_meant = [
        text(program) in arguments
        and set(filter(None, text(names).split("\n"))) <= arguments[text(program)]
        for program, names in used.tolist()
    ]
    chosen = np.array(is_meant, dtype=np.bool_)[place.reshape(-1)]
    rows: AnyRows = np.sort(table.slice[known][chosen])
    return rows
