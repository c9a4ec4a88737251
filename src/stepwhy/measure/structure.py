"""Differences of two programs that no noise can explain: what they run, and on which machine."""

from __future__ import annotations

from statistics import mean
from typing import TYPE_CHECKING

from stepwhy.base.units import format_count
from stepwhy.read.kernel_names.short import short_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from stepwhy.measure.sample import Sample
    from stepwhy.result import Machine

# Operations that run less often than once in each step may be missing from the traced steps.
_LEAST_CALLS = 1.0
# Counts per step that differ by less come from steps that were traced in part.
_LEAST_CHANGE = 0.02
_MOST_NAMES = 3


def structural_differences(a: Sequence[Sample], b: Sequence[Sample]) -> tuple[str, ...]:
    """Operations that only one program runs in each step, and another number of kernels.

    Args:
        a: Runs of the first program.
        b: Runs of the second one.
    """
    found = [*_gone("Gone from B", a, b), *_gone("New in B", b, a)]
    return tuple(filter(None, [*found, _kernels(a, b)]))


def _gone(what: str, these: Sequence[Sample], others: Sequence[Sample]) -> Iterator[str]:
    """A sentence on the operations that only the first ones run, most time first."""
    if not all(s.ops for s in (*these, *others)):
        return
    # The tables are bounded: shorter operations may have been cut off.
    least = max(s.cut_ns for s in others)
    names = [
        name
        for name, _ in sorted(these[0].ops.items(), key=lambda op: -op[1])
        if these[0].longest[name] > least
        and all(s.calls.get(name, 0) >= _LEAST_CALLS for s in these)
        and not any(name in s.ops for s in others)
    ]
    if names:
        more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
        yield f"{what}: {', '.join(map(short_name, names[:_MOST_NAMES]))}{more}."


def _kernels(a: Sequence[Sample], b: Sequence[Sample]) -> str:
    """A sentence on the number of kernels per step, if it is known and differs."""
    counts = [[s.kernels for s in side] for side in (a, b)]
    if any(count is None for side in counts for count in side):
        return ""
    known = [[count for count in side if count is not None] for side in counts]
    # What varies between runs of one program is no difference of the programs.
    if min(known[0]) <= max(known[1]) and min(known[1]) <= max(known[0]):
        return ""
    before, after = mean(known[0]), mean(known[1])
    if abs(after - before) <= _LEAST_CHANGE * max(before, after):
        return ""
    return f"Kernels per step: {format_count(before)} in A, {format_count(after)} in B."


def machine_differences(a: Sequence[Sample], b: Sequence[Sample]) -> tuple[str, ...]:
    """How the environments of two programs differ, such as 'cores 2 in A, 8 in B'.

    What was not recorded is not compared.

    Args:
        a: Runs of the first program.
        b: Runs of the second one.
    """
    sides = [[_facts(s.machine) for s in side] for side in (a, b)]
    different = []
    for number, name in enumerate(_FACTS):
        known = [list(dict.fromkeys(f[number] for f in side if f[number])) for side in sides]
        if all(known) and set(known[0]) != set(known[1]):
            different.append(f"{name} {' and '.join(known[0])} in A, {' and '.join(known[1])} in B")
    return tuple(different)


_FACTS = ("processor", "cores", "device", "framework", "Python")


def _facts(machine: Machine) -> tuple[str, ...]:
    """What is compared, in the order of `_FACTS`; of Python, only '3.12', not '3.12.1'."""
    cores = "" if machine.cores is None else str(machine.cores)
    python = ".".join(machine.python.split(".")[:2])
    return machine.cpu, cores, ", ".join(machine.devices), machine.framework, python
