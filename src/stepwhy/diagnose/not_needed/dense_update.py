"""The optimizer updates all rows of a table, although the gradient has only those of the batch.

## What it means
The gradient of an embedding table in TensorFlow is a list of rows, `tf.IndexedSlices`. Some
optimizers do not stop there: `tf.train.AdamOptimizer` and Adam of Keras decay the moments of all
rows, and move all rows by them, whether the batch has used them or not. An optimizer of the
program's own that computes with the gradient turns it into a tensor of the size of the table first.
In JAX, the gradient of `table[ids]` is an array of the size of the table, and every optimizer works
on all of it.

## Why it costs
Each step reads and writes the whole table and its moments several times. That takes the longer, the
more rows the table has, whatever the size of the batch.

## How it is measured
By the sizes of results in a recorded graph. The operations of an update are those in one name
scope, such as 'Adam/update_items'. It counts if it adds the rows of a sparse gradient to a table
that is at least four times as large. So does the sum that turns the rows of a gradient into a table
outside of the backward pass, with the operations on results of that size that it is connected to.
The cost is the time of the operations whose results have the size of the table, and of
assignments. A gradient that is made dense in the backward pass is found by
[`dense-embedding-gradient`](dense-embedding-gradient.md).

In functions of TensorFlow 2, sizes are not recorded. While a function is traced, `stepwhy run`
notes of which variables it only looks rows up, or in what it computes from them row by row, and
where the program, rather than an optimizer of Keras, turns their gradients into tensors. The cost
is the time of the operations at each line, as far as their results have the shape of such a
variable. For an optimizer of Keras, those of its operations count that take 0.2 to 3 times as long
as `UnsortedSegmentSum`, which makes a table of the rows of a gradient, where looking rows up takes
less than a quarter of that, and if they take 30 % of the step together.

In JAX, by the compiled programs in the profile: rows are scattered into zeros of the size of the
table, and what computes with the result changes an argument of that size. It does not count if
anything else is added to the gradient, such as that of a product with the same table. The cost is
the time of all instructions with results of that size that depend on the scatter.

## Fix
Update only the rows of the batch: a lazy Adam, or an optimizer that does so by itself, such as
Adagrad, momentum or plain gradient descent in TensorFlow. In JAX, compute the gradient of the
rows, and add to them.

## Fix risk
A lazy Adam leaves the moments of unused rows as they are, so that they are moved less.

## When it abstains
If no graph with the sizes of results was recorded, or no compiled program (JAX), or in functions of
TensorFlow 2 no operation of an optimizer. Does not apply to PyTorch, or if the graph computes no
gradient.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from msgspec.structs import replace

from stepwhy.analyse.input.batch_size import examples_per_step
from stepwhy.analyse.steps.stalls import rows_of_kinds
from stepwhy.base.columns.types import AnyRows
from stepwhy.base.patterns import regex
from stepwhy.diagnose.not_needed.shared.rewrites import knows_programs
from stepwhy.diagnose.shared.measure import by_name, mean_within, on_scale, time_of, times
from stepwhy.diagnose.shared.program import uses_sessions
from stepwhy.diagnose.shared.rule import Edit, Evidence, Facts, Finding, Rule
from stepwhy.diagnose.shared.slices import steady_work
from stepwhy.diagnose.shared.work_lines import lines_of, work_lines
from stepwhy.trace import NULL, Kind, Phase, among

RULE = Rule(
    __name__,
    name="Updates of all rows for a sparse gradient",
    found="Update only the rows of the batch: the optimizer updates the whole table",
    clear="No optimizer updates a whole table for the rows of a batch",
    needs=(("device-time",), ("steps",)),
    least_share=0.05,  # of the step; below it the gain is less than the variation between steps
    least_saved=0.7,  # of the cost; the rows of the batch are still updated
    change="update only the rows of the batch",
    edit=Edit("ops", "gone"),
)

WITHOUT_SIZES = 0.30  # of the step; below it other parameters may cost as much
MOST_USED = 0.25  # of the table in the gradient; with more, most of the work is needed
OF_TABLE = (0.2, 3.0)  # of the time to make a table of rows; to change one takes 0.3 to 1.6
_SHOWN = 3
_DENSE = "Compute with the rows of a sparse gradient: as a tensor, it has all rows of the table"
_COMPUTED = "Look rows up in the table itself: a step computes with all of its rows"
_SHARE = regex(r"0\.\d+|1\.0+")

# Source: `AdamOptimizer._apply_sparse_shared` of tensorflow/python/training/adam.py.
_ADDS_ROWS = regex(r"(?:Resource)?Scatter(?:Add|Sub|Update)")
_ASSIGNS = regex(r"Assign\w*")
# With which TensorFlow converts an `IndexedSlices` to a tensor: indexed_slices.py.
_MADE_DENSE = "UnsortedSegmentSum"


_LOOKS_UP = regex(r"(?:Resource)?Gather(?:V2)?")


class _Update(NamedTuple):
    """Work on a whole table.

    Args:
        rows: The operations, in the steady steps; slices.
        table_bytes: Size of the table.
        used_bytes: Size of the rows in the gradient.
        scope: Name scope of the update.
    """

    rows: AnyRows
    table_bytes: int
    used_bytes: int
    scope: str


def diagnose(facts: Facts) -> Finding:
    """Judge the time in which optimizers work on whole tables for sparse gradients."""
    framework = facts.trace.meta.framework
    if framework == "jax" and knows_programs(facts):
        return _judged(facts, list(_compiled(facts)))
    if framework == "jax":
        return RULE.no_data("programs", "The compiled programs were not recorded.")
    if framework not in {"", "tensorflow"}:
        return RULE.not_applicable("The run uses neither TensorFlow nor JAX.")
    if not facts.names_nodes and not uses_sessions(facts):
        return _of_functions(facts)
    if not facts.names_nodes:
        return RULE.lacks("graph-ops")
    rows = steady_work(facts, Kind.KERNEL, Kind.OP)
    rows = rows[facts.trace.slices.scope[rows] != NULL]
    if not among(facts.phases[rows], (Phase.OPTIMIZER, Phase.BACKWARD)).any():
        return RULE.not_applicable("No operation of a gradient or an optimizer ran in a graph.")
    if not (facts.trace.slices.bytes[rows] > 0).any():
        return RULE.no_data("operands", "The sizes of the results of operations were not recorded.")
    updating = rows[facts.phases[rows] == Phase.OPTIMIZER]
    return _judged(facts, [*_updates(facts, updating), *_made_dense(facts, rows)])


def _of_functions(facts: Facts) -> Finding:
    """Judge functions of TensorFlow 2, whose operations are recorded without sizes."""
    rows = steady_work(facts, Kind.KERNEL, Kind.OP)
    tables = _logged_tables(facts)
    if tables:
        return _of_program(facts, rows, tables)
    updating = rows[facts.phases[rows] == Phase.OPTIMIZER]
    if not len(updating):
        return RULE.lacks("graph-ops")
    found = _of_tables(facts, updating)
    if not len(found):
        return RULE.nothing()
    cost = on_scale(facts, mean_within(facts, time_of(facts, found)), "compute")
    share = Evidence("share of the step in updates of all rows", cost / facts.wall_ns, "fraction")
    if cost < WITHOUT_SIZES * facts.wall_ns:
        return RULE.nothing((share,))
    longest = times(facts, "time of the operation", by_name(facts, found)[:_SHOWN])
    evidence = (share, *_optimizers(facts), *longest, *work_lines(facts, found))
    return RULE.finding(cost, evidence, RULE.fix("keras"))


def _logged_tables(facts: Facts) -> list[tuple[str, str]]:
    """Shape and line of tables whose gradients the program makes dense, for few of their rows."""
    events, text = facts.trace.events, facts.trace.string
    found = []
    for row in rows_of_kinds(facts.trace, "dense-table").tolist():
        shape, used = text(int(events.name[row])), int(events.count[row])
        if "per-example" in text(int(events.reason[row])):
            used *= examples_per_step(facts) or 0
        rows = shape.partition("x")[0]
        if rows.isdecimal() and 0 < used <= MOST_USED * int(rows):
            found.append((shape, text(int(events.source[row]))))
    return found


def _of_program(facts: Facts, rows: AnyRows, tables: list[tuple[str, str]]) -> Finding:
    """Judge what functions of TensorFlow 2 compute with tensors of the shape of a table."""
    trace, groups = facts.trace, []
    names, lines = trace.slices.name[rows], lines_of(facts, rows)
    for event in rows_of_kinds(trace, "dense-table-work").tolist():
        name, line = int(trace.events.name[event]), int(trace.events.source[event])
        share = _SHARE.fullmatch(trace.string(int(trace.events.reason[event])))
        chosen = rows[(names == name) & (lines == line)] if line != NULL and share else rows[:0]
        spent = on_scale(facts, mean_within(facts, time_of(facts, chosen)), "compute")
        groups.append((trace.string(line), round(spent * float(share[0])) if share else 0))
    at: Counter[str] = Counter()
    for place, time_ns in groups:
        at[place] += time_ns
    cost = min(at.total(), facts.breakdown["compute"])
    evidence = (
        Evidence("share of the step in tables", cost / facts.wall_ns, "fraction"),
        *(
            Evidence("time at the line", time_ns, "ns", place)
            for place, time_ns in at.most_common(_SHOWN)
        ),
        *(
            Evidence("rows are looked up in a table of", shape.replace("x", " x "), "", line)
            for shape, line in tables[:_SHOWN]
        ),
    )
    made = trace.events.reason[rows_of_kinds(trace, "dense-table")].tolist()
    is_computed = any("computed" in trace.string(int(reason)) for reason in made)
    fix = RULE.fix("computed" if is_computed else "own-function")
    found = RULE.judge(facts, cost, evidence, fix, shown=2)
    title = _COMPUTED if is_computed else _DENSE
    return replace(found, title=title) if found.verdict == "found" else found


def _of_tables(facts: Facts, updating: AnyRows) -> AnyRows:
    """Operations of optimizers that work on as many elements as tables made of sparse gradients.

    They take about as long as what makes a table of the rows. The rows of the batch are looked up
    in a small part of this time.

    Args:
        facts: Facts of the run.
        updating: Operations of optimizers in the steady steps; slices.
    """
    slices = facts.trace.slices
    made = updating[np.isin(slices.name[updating], facts.trace.strings_where([_MADE_DENSE]))]
    if not len(made):
        return made
    typical = float(np.median(slices.dur_ns[made]))
    looked_up = steady_work(facts, Kind.KERNEL, Kind.OP)
    looked_up = looked_up[facts.trace.matches(slices.name[looked_up], _LOOKS_UP.fullmatch)]
    if len(looked_up) and slices.dur_ns[looked_up].max() > MOST_USED * typical:
        return made[:0]
    shares = slices.dur_ns[updating] / max(typical, 1.0)
    found: AnyRows = updating[(shares >= OF_TABLE[0]) & (shares <= OF_TABLE[1])]
    return found


def _judged(facts: Facts, updates: list[_Update]) -> Finding:
    """The finding about some updates."""
    if not updates:
        return RULE.nothing()
    rows = np.concatenate([update.rows for update in updates])
    spent = on_scale(facts, mean_within(facts, time_of(facts, rows)), "compute")
    table = sum(update.table_bytes for update in updates)
    cost = round(spent * (1 - sum(update.used_bytes for update in updates) / table))
    evidence = tuple(_evidence(facts, updates, rows, cost))
    fix = RULE.fix("own" if facts.phases[rows[0]] != Phase.OPTIMIZER else "lazy")
    fix = RULE.fix("jax") if facts.trace.meta.framework == "jax" else fix
    return RULE.judge(facts, cost, evidence, fix, shown=1)


def _compiled(facts: Facts) -> Iterator[_Update]:
    """The updates of whole tables in compiled programs, by the sizes of table and rows."""
    table = facts.trace.table_updates
    chosen = facts.is_steady[table.slice] & (table.used_bytes <= MOST_USED * table.table_bytes)
    sizes = np.stack([table.table_bytes, table.used_bytes], axis=1)
    for whole, used in sorted({(whole, used) for whole, used in sizes[chosen].tolist()}):
        of_size = chosen & (sizes == (whole, used)).all(axis=1)
        yield _Update(table.slice[of_size].astype(np.int64), whole, used, "")


def _updates(facts: Facts, updating: AnyRows) -> Iterator[_Update]:
    """The updates of whole tables for sparse gradients.

    Args:
        facts: Facts of the run.
        updating: Operations of optimizers in the steady steps; slices.
    """
    slices = facts.trace.slices
    scopes = np.array(
        [facts.trace.string(scope).rpartition("/")[0] for scope in slices.scope[updating].tolist()]
    )
    for scope in np.unique(scopes).tolist():
        update = _update(facts, updating[scopes == scope], scope)
        if update is not None:
            yield update


def _update(facts: Facts, rows: AnyRows, scope: str) -> _Update | None:
    """The work on a whole table in one name scope; None if it does none for a sparse gradient."""
    slices = facts.trace.slices
    names, sizes = slices.name[rows], slices.bytes[rows]
    sparse = facts.trace.matches(names, _ADDS_ROWS.fullmatch)
    if not sparse.any():
        return None
    table = int(sizes.max())
    smaller = sizes[sizes < table]
    used = int(smaller.max(initial=0))
    whole = (sizes == table) | facts.trace.matches(names, _ASSIGNS.fullmatch)
    is_needed = used <= 0 or used > MOST_USED * table
    return None if is_needed else _Update(rows[whole & ~sparse], table, used, scope)


def _made_dense(facts: Facts, rows: AnyRows) -> Iterator[_Update]:
    """Gradients that become tables outside of the backward pass, with what is done to them.

    Args:
        facts: Facts of the run.
        rows: Operations of the graph in the steady steps; slices.
    """
    slices, flows = facts.trace.slices, facts.trace.flows
    made = rows[np.isin(slices.name[rows], facts.trace.strings_where([_MADE_DENSE]))]
    for row in made[facts.phases[made] != Phase.BACKWARD].tolist():
        sources = flows.source[flows.target == row]
        used, table = int(slices.bytes[sources].max(initial=0)), int(slices.bytes[row])
        is_gradient = (facts.phases[sources] == Phase.BACKWARD).any()
        if is_gradient and 0 < used <= MOST_USED * table:
            scope = facts.trace.string(int(slices.scope[row])).rpartition("/")[0]
            yield _Update(_connected(facts, row, table), table, used, scope)


def _connected(facts: Facts, row: int, size: int) -> AnyRows:
    """An operation and those that it is connected to by results of its size, with assignments."""
    slices, flows = facts.trace.slices, facts.trace.flows
    assigns = facts.trace.matches(slices.name, _ASSIGNS.fullmatch)
    inside = ((slices.bytes == size) | assigns) & (facts.phases != Phase.BACKWARD)
    source, target = flows.source, flows.target
    between = inside[source] & inside[target] & (slices.bytes[source] == size)
    source, target = source[between], target[between]
    found = np.zeros(len(slices), dtype=bool)
    found[row], count = True, 0
    while count < (count := int(found.sum())):
        found[target[found[source]]] = True
        found[source[found[target]]] = True
    rows: AnyRows = np.flatnonzero(found)
    return rows


def _evidence(facts: Facts, updates: list[_Update], rows: AnyRows, cost: int) -> Iterator[Evidence]:
    yield Evidence("share of the step in updates of all rows", cost / facts.wall_ns, "fraction")
    largest = max(updates, key=lambda update: update.table_bytes)
    yield Evidence("size of the table", largest.table_bytes, "bytes", largest.scope)
    yield Evidence("size of the rows in its gradient", largest.used_bytes, "bytes")
    yield from _optimizers(facts)
    yield from times(facts, "time of the operation", by_name(facts, rows)[:_SHOWN])
    yield from work_lines(facts, rows)


def _optimizers(facts: Facts) -> Iterator[Evidence]:
    """The lines that make optimizers, where the program calls their class."""
    events, text = facts.trace.events, facts.trace.string
    rows = rows_of_kinds(facts.trace, "made")
    named = np.isin(events.name[rows], facts.trace.strings_where({"optimizer"}))
    for row in rows[named & (events.reason[rows] != NULL)].tolist()[:_SHOWN]:
        call = text(int(events.reason[row])).partition("(")[0]
        yield Evidence("the optimizer is made by", call, "", text(int(events.source[row])))
