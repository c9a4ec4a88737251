"""The gradient of an embedding table has all of its rows, although a batch uses few of them.

## What it means
A batch looks up some hundred rows of a table, but the gradient is a tensor of the size of the whole
table, nearly all of it zeros, and the optimizer updates every row. In PyTorch, this is the default
of `nn.Embedding`, and all that indexing a parameter does. In TensorFlow 1, it happens if rows are
not looked up in the variable itself but in a tensor that is computed from it, or if the whole table
is regularised.

## Why it costs
Each step fills, adds and updates the whole table, with its moments. That takes the longer, the more
rows the table has, whatever the size of the batch.

## How it is measured
The cost is the time to make the dense gradient, and that of the optimizer. Where shapes were
recorded, as in PyTorch on CPUs in steps of 5 ms or more, only the optimizer's operations on tables
count, and only tables that get a dense gradient, of which a step looks up at most a quarter of the
rows. A table that the forward pass uses in any other way does not count: its gradient is dense
anyway, as where a language model shares it with its output layer, or where it is regularised. A
parameter that the program indexes, as by `table[ids]` or `index_select`, counts like a table.

The lines at which the program declares the tables come first in the evidence: the change belongs
there. Without shapes, those of tables of at least 1 MiB do.

Without shapes, other parameters may cost as much as the tables. The gradient must then take 5 % of
the step to make, and 30 % together with the optimizer, so that small tables and models that mostly
consist of other layers do not count. In TensorFlow 1, operations of the backward pass whose result
is as large as such a gradient count as well: they pass it on, as through the slice or the sum from
which the rows were looked up.

The saving is up to a fifth more: other operations find their data in the caches again.

## Fix
Keep the gradient sparse, and update only the rows that were used.

## Fix risk
An optimizer of sparse gradients leaves the moments of unused rows as they are. Weight decay of the
whole table is then no longer applied in each step.

## When it abstains
If operations of the backward pass are not recorded, on accelerators, and in frameworks other than
PyTorch and TensorFlow 1.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from math import prod

import numpy as np
from msgspec.structs import replace

from stepwhy.analyse.program.operands import shapes_of
from stepwhy.base.columns.groups import distinct
from stepwhy.base.columns.intervals import Intervals
from stepwhy.base.columns.types import AnyRows
from stepwhy.base.patterns import regex
from stepwhy.diagnose.shared.measure import by_name, mean_within, on_scale, time_of, times
from stepwhy.diagnose.shared.program import is_pytorch
from stepwhy.diagnose.shared.rule import Edit, Evidence, Facts, Finding, Fix, Rule
from stepwhy.diagnose.shared.slices import is_inside
from stepwhy.diagnose.shared.work_lines import times_at_lines
from stepwhy.trace import NULL, Kind, Phase

RULE = Rule(
    __name__,
    name="Dense gradients of embedding tables",
    found="Keep the gradient of the embedding sparse: every step updates the whole table",
    clear="Gradients of embeddings take a small part of the step",
    needs=(("host-ops", "graph-ops"), ("steps",)),
    refines="unfused-optimizer",
    least_share=0.05,  # of the step; below it the gain is less than the variation between steps
    most_saved=1.2,  # of the cost; what the tables displace from the caches is read again as well
    least_saved=0.4,  # of the cost; it may hold other layers, and the used rows are still updated
    change="update only the rows that were used",
    edit=Edit("ops", "replaced"),
)

LARGE = 1 << 20  # bytes; smaller gradients may be of any layer
ALIKE = 0.01  # of a size; a slice of a table lacks a row or two
WITHOUT_SHAPES = 0.30  # of the step; below it other parameters may cost as much
MADE = 0.05  # of the step, to make the gradient; of small tables it takes less
MOST_USED = 0.25  # of the rows of a table in a step; with more, most of the work is needed

# Source: operator names of PyTorch (aten/src/ATen/native/Embedding.cpp), and the operation with
# which TensorFlow converts an `IndexedSlices` to a tensor (indexed_slices.py).
_OF_TORCH = regex(r"aten::embedding_dense_backward|aten::_embedding_bag_dense_backward")
_OF_TENSORFLOW = regex(r"UnsortedSegmentSum")
# Source: `embedding`, `_embedding_bag` and what they call, in the same file and EmbeddingBag.cpp.
_LOOKS_UP = regex(r"aten::(embedding|_embedding_bag(_forward_only)?)")
_PASSES = regex(r"(aten::)?(detach|alias)")
# What adds rows to zeros as large as an indexed tensor; the last argument are the rows. Source:
# `index_backward` and `index_select_backward` in torch/csrc/autograd/FunctionsManual.cpp.
_ADDS_ROWS = regex(r"aten::(_index_put_impl_|index_add_)")
_INDEXES = regex(r"aten::(index|index_select)")
# Source: `torch.nn.Embedding`: the optimizers that work with sparse gradients. With momentum, SGD
# adds each gradient to a sparse buffer, which grows; with weight decay or fused, it takes none.
_OPTIMIZER = regex(r"Optimizer\.step#(\w+)\.step")
_NAMED = frozenset({"Adam", "SGD"})  # in the code of the advice; others stay AdamW
_TAKE_SPARSE = frozenset({"SGD", "Adagrad", "SparseAdam"})
_NO_PLAIN_SGD = regex(r"aten::(mul_|add|_foreach_mul_|_foreach_add|_fused_sgd_)")
# What the observer logs of `nn.Embedding` and `nn.EmbeddingBag`: rows and columns.
_DECLARES = regex(r"nn\.Embedding\[\d+x\d+\]")
_FLOAT = 4  # bytes of an element
_SHOWN = 3


def diagnose(facts: Facts) -> Finding:
    """Judge the time of dense gradients of embeddings, and of the optimizer."""
    if facts.has_accelerator:
        return RULE.not_applicable("The run uses an accelerator: see dominant-op.")
    backward = facts.slices(Kind.OP, Kind.KERNEL, steady=True)
    backward = backward[facts.phases[backward] == Phase.BACKWARD]
    if not len(backward) and "whole-step" in facts.trace.meta.signals:
        return RULE.not_applicable("The graph only predicts: no operation of a backward pass ran.")
    if not len(backward):
        return RULE.no_data("backward-ops", "No operation of a backward pass is recorded.")
    made = _dense_gradients(facts, backward)
    if made is None:
        return RULE.not_applicable("The run uses neither PyTorch nor a session of TensorFlow 1.")
    updating = facts.slices(Kind.OP, Kind.KERNEL, Kind.FRAMEWORK, steady=True)
    updating = updating[facts.phases[updating] == Phase.OPTIMIZER]
    tables = _tables(facts, made) if len(made) and is_pytorch(facts) else None
    indexed, of_rows = _indexed(facts, backward, updating)
    if indexed:
        made, tables = np.union1d(made, of_rows), indexed | (tables or frozenset())
    made_ns = on_scale(facts, mean_within(facts, time_of(facts, made)))
    if tables is None:
        updated_ns = on_scale(facts, mean_within(facts, time_of(facts, updating)))
    else:
        updated_ns = on_scale(facts, _update_ns(facts, updating, tables))
    optimizing = _of_optimizer(facts, updating, tables)
    evidence = (
        *_declared(facts, tables),
        Evidence("time to make dense gradients", made_ns, "ns"),
        Evidence(
            f"time of the optimizer{'' if tables is None else ' for tables'}", updated_ns, "ns"
        ),
        *times(facts, "time of the operation", by_name(facts, made)[:_SHOWN]),
        *times_at_lines(facts, np.sort(np.concatenate([made, optimizing]))),
    )
    cost = min(made_ns + updated_ns, facts.wall_ns)
    is_short = made_ns < MADE * facts.wall_ns or cost < WITHOUT_SHAPES * facts.wall_ns
    unless = is_short if tables is None else not tables
    fix = RULE.fix("indexed") if indexed else _fix(facts, updating)
    return RULE.judge(facts, cost, evidence, fix, shown=2, unless=unless)


def _declared(facts: Facts, tables: frozenset[str] | None) -> Iterator[Evidence]:
    """The lines that declare the tables, largest first; without shapes, those of large tables."""
    events = facts.trace.events
    known = np.flatnonzero((events.name != NULL) & (events.source != NULL))
    declared = facts.trace.matches(events.name[known], _DECLARES.fullmatch)
    found: dict[str, str] = {}
    for row in known[declared].tolist():
        shape = facts.trace.string(int(events.name[row])).partition("[")[2].rstrip("]")
        if _elements(shape) * _FLOAT >= LARGE if tables is None else shape in tables:
            line = facts.trace.string(int(events.source[row]))
            found[line] = max(shape, found.get(line, ""), key=_elements)
    largest = sorted(found.items(), key=lambda item: _elements(item[1]), reverse=True)
    for line, shape in largest[:_SHOWN]:
        yield Evidence("shape of the table", shape.replace("x", " x "), "", line)


def _tables(facts: Facts, made: AnyRows) -> frozenset[str] | None:
    """Shapes of tables with dense gradients of which a step uses few rows; None without shapes.

    Args:
        facts: Facts of the run.
        made: The operations that make the dense gradients, ascending; (operations,).
    """
    trace, shapes = facts.trace, shapes_of(facts.trace)
    rows = facts.slices(Kind.OP, steady=True)
    rows = rows[(shapes[rows] != NULL) & (facts.phases[rows] == Phase.FORWARD)]
    names = trace.slices.name[rows]
    lookups = rows[trace.matches(names, _LOOKS_UP.fullmatch)]
    if not len(lookups):
        return None
    dense = {_looked_up(trace.string(shape)) for shape in np.unique(shapes[made]).tolist()}
    used: Counter[str] = Counter()
    for shape, count in Counter(shapes[lookups].tolist()).items():
        width, elements = _looked_up(trace.string(shape))
        if elements and (width, elements) in dense:
            used[trace.string(shape).split(",")[0]] += count * elements
    return _little_used(facts, rows, lookups, used)


def _indexed(facts: Facts, backward: AnyRows, updating: AnyRows) -> tuple[frozenset[str], AnyRows]:
    """Shapes of parameters that the program indexes, like tables, and what makes their gradients.

    Args:
        facts: Facts of the run.
        backward: Operations of the backward pass; (operations,).
        updating: Those of the optimizer, which tell a parameter from other tensors.
    """
    trace, shapes = facts.trace, shapes_of(facts.trace)
    adding = backward[trace.matches(trace.slices.name[backward], _ADDS_ROWS.fullmatch)]
    adding = adding[(shapes[adding] != NULL) & (facts.nesting.parent[adding] != NULL)]
    if not is_pytorch(facts) or not len(adding):
        return frozenset(), adding[:0]
    texts = [trace.string(shape) for shape in np.unique(shapes[updating]).tolist() if shape != NULL]
    updated = {tensor for text in texts for tensor in text.split(",")[0].split("+")}
    used: Counter[str] = Counter()
    for shape, count in Counter(shapes[adding].tolist()).items():
        table, *others = (one.split("x") for one in trace.string(shape).split(",") if one)
        added, key = others[-1] if others else [], "x".join(table)
        ids = len(added) - len(table) + 1
        if key in updated and ids > 0 and added[ids:] == table[1:]:
            used[key] += count * prod(map(int, added[:ids]))
    rows = facts.slices(Kind.OP, steady=True)
    rows = rows[(shapes[rows] != NULL) & (facts.phases[rows] == Phase.FORWARD)]
    lookups = rows[trace.matches(trace.slices.name[rows], _INDEXES.fullmatch)]
    found = _little_used(facts, rows, lookups, used)
    firsts = [trace.string(shape).split(",")[0] for shape in shapes[adding].tolist()]
    made = adding[np.isin(firsts, list(found))]
    return found, np.unique(facts.nesting.parent[made])


def _little_used(
    facts: Facts, rows: AnyRows, lookups: AnyRows, used: Mapping[str, int]
) -> frozenset[str]:
    """Shapes of tables of which a step uses few rows, and that nothing else reads.

    Args:
        facts: Facts of the run.
        rows: Operations of the forward pass with known shapes; (operations,).
        lookups: Those that look rows up.
        used: How many rows of each table the steady steps use.
    """
    trace, shapes = facts.trace, shapes_of(facts.trace)
    of_others = ~trace.matches(trace.slices.name[rows], _PASSES.fullmatch)
    of_others &= ~is_inside(facts, lookups, rows)
    others = np.unique(shapes[rows[of_others]]).tolist()
    elsewhere = {one for shape in others for one in trace.string(shape).split(",")}
    most = MOST_USED * max(facts.steady_count, 1)
    return frozenset(
        table
        for table, count in used.items()
        if table not in elsewhere and count <= most * int(table.split("x")[0])
    )


def _of_optimizer(facts: Facts, updating: AnyRows, tables: frozenset[str] | None) -> AnyRows:
    """Those operations of the optimizer that work on tables; all where shapes are unknown."""
    if tables is None:
        return updating
    shapes = shapes_of(facts.trace)[updating]
    of_tables = [
        shape
        for shape in distinct(shapes).tolist()
        if shape != NULL and tables & set(facts.trace.string(shape).split(",")[0].split("+"))
    ]
    chosen: AnyRows = updating[np.isin(shapes, of_tables)]
    return chosen


def _update_ns(facts: Facts, updating: AnyRows, tables: frozenset[str]) -> int:
    """Time of the mean step in which the optimizer works on tables, ns.

    An operation on a list of tensors (`aten::_foreach_add_`) counts by the tables' share of its
    elements, unless it calls an operation for each.
    """
    shapes = shapes_of(facts.trace)[updating]
    texts = {shape: facts.trace.string(shape) for shape in set(shapes.tolist()) - {int(NULL)}}
    first = {shape: text.split(",")[0].split("+") for shape, text in texts.items()}

    def time(*chosen: int) -> Intervals:
        return time_of(facts, updating[np.isin(shapes, chosen)])

    alone = time(*(shape for shape, tensors in first.items() if len(tensors) == 1))
    found = 0.0
    for shape, tensors in first.items():
        is_list = len(tensors) > 1
        sizes = Counter({tensor: _elements(tensor) * n for tensor, n in Counter(tensors).items()})
        share = sum(sizes[table] for table in tables) / max(sizes.total(), 1)
        if share:
            found += share * mean_within(facts, time(shape) - alone if is_list else time(shape))
    return round(found)


def _looked_up(shapes: str) -> tuple[str, int]:
    """Width of a row and number of rows of a lookup, or of the gradient that it gives a table.

    Args:
        shapes: Of the table or the gradient of the rows, and of the indices.
    """
    rows, indices, *_ = *shapes.split(","), ""
    return rows.rpartition("x")[2], _elements(indices)


def _elements(shape: str) -> int:
    """Number of elements of a shape such as '25000x32'; 0 if it is unknown."""
    return prod(map(int, shape.split("x"))) if shape else 0


def _fix(facts: Facts, updating: AnyRows) -> Fix:
    """The fix by framework, and by whether the optimizer takes sparse gradients."""
    if not is_pytorch(facts):
        return RULE.fix("tensorflow")
    names = [group.name for group in by_name(facts, updating)]
    optimizer = next((found[1] for name in names if (found := _OPTIMIZER.fullmatch(name))), "")
    is_plain = optimizer != "SGD" or not any(map(_NO_PLAIN_SGD.fullmatch, names))
    if optimizer in _TAKE_SPARSE and is_plain:
        return RULE.fix("same-optimizer")
    fix = RULE.fix("torch")
    code = fix.code.replace("AdamW", optimizer)
    return replace(fix, code=code) if optimizer in _NAMED else fix


def _dense_gradients(facts: Facts, backward: AnyRows) -> AnyRows | None:
    """The operations that make a dense gradient; None in other frameworks."""
    if is_pytorch(facts):
        pattern = _OF_TORCH
    elif (facts.trace.slices.scope[backward] != NULL).any():
        pattern = _OF_TENSORFLOW
    else:
        return None
    names = facts.trace.slices.name[backward]
    found: AnyRows = backward[facts.trace.matches(names, pattern.fullmatch)]
    return found if pattern is _OF_TORCH else _with_passed_on(facts, backward, found)


def _with_passed_on(facts: Facts, backward: AnyRows, made: AnyRows) -> AnyRows:
    """With the operations that pass a gradient of the whole table on, as through a slice of it."""
    sizes = facts.trace.slices.bytes
    tables = np.unique(sizes[made])
    tables = tables[tables >= LARGE]
    if not len(tables):
        return made
    of_table = np.abs(sizes[backward][:, None] / tables - 1).min(axis=1) <= ALIKE
    found: AnyRows = backward[of_table | np.isin(backward, made)]
    return found
