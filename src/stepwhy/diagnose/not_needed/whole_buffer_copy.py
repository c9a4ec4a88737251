"""A whole buffer is copied in each step to change a small part of it.

## What it means
A replay buffer, a memory bank, a queue of keys or a cache keeps its values from step to step, and a
step writes some rows. But the operation returns a new array, for which it copies all rows first: an
update with `.at[...]` in JAX whose buffer is not donated, `torch.cat`, `roll`, `clone` or an
`index_put` that is not in place in PyTorch, `tf.tensor_scatter_nd_update` in TensorFlow.

## Why it costs
The copy takes the longer, the larger the buffer is, whatever the number of rows that change. The
memory of the copy is new each time, so that the system has to provide its pages as well.

## How it is measured
By the bytes that change among those that are copied, at most 25 %. In JAX, they are known from the
compiled programs in the profile: a copy of which a scatter or a slice update then changes a part,
or a concatenation with a slice of a buffer of the same shape. In PyTorch, they are known from the
shapes of arguments, which `stepwhy run` records in steps of 5 ms or more: an operation that returns
a changed copy, a copy with writes into a part of it right behind, or a concatenation whose largest
part is a slice of a tensor as large as the result, or the result of an earlier concatenation.
Operations whose gradient is computed do not count. In a graph of TensorFlow, they are known from
the sizes of tensors and what flows where. The cost is the time of these copies, without the share
of what changes. In JAX, lines that change a buffer outside of a jitted function also launch several
operations each; a single call that changes it in place saves most of that time, too.

## Fix
Change the buffer in place: donate it to the compiled function in JAX, assign to the rows in
PyTorch, or use a scatter operation of the variable in TensorFlow. Instead of moving all rows by one
place, write over the oldest ones.

## Fix risk
None for the values. Code that still uses the array from before the change finds it changed, or,
in JAX, deleted.

## When it abstains
If the profile has no compiled programs (JAX), no shapes (PyTorch), or no sizes and flows (graphs).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from stepwhy.analyse.lines.by_line import line_breakdown
from stepwhy.base.columns.nesting import climb
from stepwhy.base.columns.types import AnyRows
from stepwhy.diagnose.not_needed.shared.rewrites import Found, Rewrite, find_rewrites
from stepwhy.diagnose.shared.measure import mean_within, on_scale, time_of
from stepwhy.diagnose.shared.program import is_pytorch
from stepwhy.diagnose.shared.rule import Edit, Evidence, Facts, Finding, Fix, Rule
from stepwhy.diagnose.shared.slices import steady_work
from stepwhy.diagnose.shared.work_lines import groups_at_lines, work_lines
from stepwhy.trace import NULL, Kind

LAUNCHING = 0.8  # of the time at lines that launch operations; one call of a function remains

RULE = Rule(
    __name__,
    name="Whole buffers copied to change a part",
    found="Change the buffer in place: the step copies all of it to change a part",
    clear="No step copies a whole buffer to change a small part of it",
    needs=(("device-time",), ("steps",)),
    refines="page-faults",
    least_share=0.05,  # of the step; below it the gain is less than the variation between steps
    least_saved=0.7,  # of the cost; a change in place reads and writes memory as well
    change="change the buffer in place",
    edit=Edit("ops", "gone"),
)


def diagnose(facts: Facts) -> Finding:
    """Judge the time of copies of buffers of which a part is then changed."""
    found = find_rewrites(facts)
    if found is None and facts.trace.meta.framework == "jax":
        return RULE.no_data("programs", "The compiled programs were not recorded.")
    if found is None:
        return RULE.no_data(
            "operands", "What operations work on was not recorded: shapes, or what flows where."
        )
    if not found.copies:
        return RULE.nothing()
    rows = np.array([copy.row for copy in found.copies], dtype=np.int64)
    work = _work(facts, rows)
    spent = on_scale(facts, mean_within(facts, time_of(facts, work)), "compute")
    # Share of the copied elements that change, weighted by the time of the copies.
    own = facts.trace.slices.dur_ns[rows]
    shares = np.array([copy.changed / copy.copied for copy in found.copies])
    changed = float((own * shares).sum() / max(int(own.sum()), 1))
    launching = _launching_ns(facts, rows) if facts.trace.meta.framework == "jax" else 0
    cost = round(spent * (1 - changed)) + round(LAUNCHING * launching)
    evidence = tuple(_evidence(facts, found.copies, cost))
    if launching:
        evidence += (Evidence("launching operations at these lines", launching, "ns"),)
    return RULE.judge(facts, cost, evidence, _fix(facts, found), shown=1)


def _launching_ns(facts: Facts, rows: AnyRows) -> int:
    """Time per step in which the lines of some copies launch operations one by one, ns.

    A line in a jitted function launches nothing: the line that calls that does.
    """
    lines = facts.derived(line_breakdown)
    copying = {group.name for group in groups_at_lines(facts, rows)}
    return sum(
        sum(row.categories.get(category, 0) for category in ("dispatch", "python"))
        for row in (lines.lines if lines else ())
        if row.kind == "line" and row.line in copying
    )


def _work(facts: Facts, rows: AnyRows) -> AnyRows:
    """What runs for some slices: on an accelerator, the kernels that operations launched."""
    if not facts.has_accelerator or not is_pytorch(facts):
        return rows
    kernels = steady_work(facts, Kind.KERNEL, Kind.MEMCPY)
    calls = facts.launches.calls_of(kernels)
    kernels, calls = kernels[calls != NULL], calls[calls != NULL]
    chosen = np.zeros(len(facts.trace.slices), dtype=bool)
    chosen[rows] = True
    found: AnyRows = kernels[climb(facts.nesting, calls, chosen) != NULL]
    return found


def _evidence(facts: Facts, copies: list[Rewrite], cost: int) -> Iterator[Evidence]:
    yield Evidence("share of the step in copies of buffers", cost / facts.wall_ns, "fraction")
    yield Evidence("copies per step", len(copies) / max(facts.steady_count, 1), "count")
    largest = max(copies, key=lambda copy: copy.copied)
    if largest.width:
        yield Evidence("bytes copied at a time", largest.copied * largest.width, "bytes")
        changed = largest.changed * largest.width
        yield Evidence("bytes of it that change", changed, "bytes", largest.operation)
    else:
        share = largest.changed / largest.copied
        yield Evidence("share of it that changes", share, "fraction", largest.operation)
    yield from work_lines(facts, np.array([copy.row for copy in copies], dtype=np.int64))


def _fix(facts: Facts, found: Found) -> Fix:
    largest = max(found.copies, key=lambda copy: copy.copied)
    is_window = largest.operation in {"aten::cat", "concatenate"}
    if is_pytorch(facts):
        return RULE.fix("torch-window" if is_window else "torch")
    if facts.trace.meta.framework == "tensorflow" and found.of_argument is None:
        return RULE.fix("tensorflow")
    if is_window:
        return RULE.fix("jax-window")
    return RULE.fix("jax" if found.of_argument else "jax-inside")
