"""What is known of a line of the program: where its time goes, what it runs, and how that grows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from math import prod

import numpy as np

from stepwhy.analyse.facts import Facts
from stepwhy.analyse.input.batch_size import batch_size
from stepwhy.analyse.lines.slice_lines import slice_lines
from stepwhy.analyse.program.operands import shapes_of
from stepwhy.base.columns.types import AnyRows
from stepwhy.base.patterns import regex
from stepwhy.result import Evidence, LineBreakdown, LineOperation, LineTime
from stepwhy.trace import NULL, FlowKind, Kind, Phase

WAITS = {
    "input_wait": "waiting for the next batch",
    "sync": "waiting for the device",
    "communication": "communicating",
    "unexplained": "without an explanation",
}
"""Categories in which a line does nothing itself, in words."""

_WORK = {
    "transfer": "copying to or from a device",
    "compile": "tracing and compiling",
    "dispatch": "launching operations",
    "python": "in Python",
    "storage": "writing files",
}
PER_SAMPLE = "runs of it per sample of the batch"
SHAPES = "shapes of its arguments"
PAIRS = "operations that combine two arrays, each repeated for the other, per step"
GROWING = "elements of its largest argument in the"
_SHOWN = 3  # operations
_SAMPLES = 2  # of a batch, at least: with one, each operation runs once per sample
_ALIKE = 0.01  # of a count per sample; steps may differ in an operation or two
_FEWEST_STEPS = 5  # of a trend; random lengths ascend in 1 of 120 records
_DIGITS = regex(r"\d+")


def line_evidence(facts: Facts, row: LineTime, lines: LineBreakdown) -> Iterator[Evidence]:
    """What a line does, the most important fact first; only what the record shows.

    Args:
        facts: Facts of the run.
        row: The line.
        lines: The breakdown that it is a row of.
    """
    yield Evidence("share of the step", row.time_ns / max(lines.wall_ns, 1), "fraction", row.line)
    for phase, ns in row.phases.items():
        name = "computing" if phase == "unknown" else f"computing, {phase}"
        yield Evidence(f"time of the line {name}", ns, "ns")
    for category, ns in row.categories.items():
        if category != "compute":
            words = WAITS.get(category) or _WORK.get(category, category)
            yield Evidence(f"time of the line {words}", ns, "ns")
    samples = batch_size(facts.trace) or 0
    for one in row.operations[:_SHOWN]:
        yield from _of_operation(facts, row, one, samples)
    pairs = of_pairs(facts, _rows(facts, row.line))
    if len(pairs):
        yield Evidence(PAIRS, len(pairs) / max(facts.steady_count, 1), "count", row.line)


def _of_operation(
    facts: Facts, row: LineTime, one: LineOperation, samples: int
) -> Iterator[Evidence]:
    yield Evidence(f"time of the operation, {one.phase}", one.time_ns, "ns", one.name)
    yield Evidence("runs of it per step", one.count, "count", one.name)
    if per_sample := _per_sample(one.count, samples):
        yield Evidence(PER_SAMPLE, per_sample, "count", one.name)
    rows = _rows_of(facts, row.line, one)
    sizes = facts.trace.slices.bytes[rows]
    if size := facts.mean_ns(int(sizes[sizes != NULL].sum())):
        yield Evidence("bytes of it per step", size, "bytes", one.name)
    shapes = Counter(s for s in shapes_of(facts.trace)[rows].tolist() if s != NULL)
    if shapes:
        text = facts.trace.string(shapes.most_common(1)[0][0]).strip(",").replace(",", ", ")
        yield Evidence(SHAPES, text, "", one.name)
    if ends := _growth(facts, rows):
        yield Evidence(f"{GROWING} first recorded step", ends[0], "count", one.name)
        yield Evidence(f"{GROWING} last recorded step", ends[1], "count", one.name)


def _per_sample(count: float, samples: int) -> int:
    """How often an operation runs per sample; 0 if its number is not a multiple of the batch."""
    if samples < _SAMPLES:
        return 0
    times = round(count / samples)
    return times if times and abs(count / samples - times) <= _ALIKE * times else 0


def _rows(facts: Facts, line: str) -> AnyRows:
    """Slices of the work of a line in the steady steps."""
    trace = facts.trace
    is_line = np.isin(facts.derived(slice_lines), trace.strings_where({line}))
    kinds = (Kind.OP, Kind.KERNEL, Kind.MEMCPY, Kind.MEMSET)
    return facts.in_steady(np.flatnonzero(is_line & trace.is_kind(*kinds)))


def _rows_of(facts: Facts, line: str, one: LineOperation) -> AnyRows:
    """Slices of an operation of a line in the steady steps."""
    trace, rows = facts.trace, _rows(facts, line)
    is_name = np.isin(trace.slices.name[rows], trace.strings_where({one.name}))
    found: AnyRows = rows[is_name & (facts.phases[rows] == Phase[one.phase.upper()])]
    return found


def _growth(facts: Facts, rows: AnyRows) -> tuple[int, int] | None:
    """Elements of the largest argument in the first and the last step; None if it does not grow."""
    steps = facts.steps
    at = np.searchsorted(steps.starts, facts.trace.slices.start_ns[rows], side="right") - 1
    shapes = shapes_of(facts.trace)[rows]
    largest: dict[int, int] = {}
    for step, shape in zip(at.tolist(), shapes.tolist(), strict=True):
        if shape != NULL:
            largest[step] = max(largest.get(step, 0), _elements(facts.trace.string(shape)))
    sizes = [largest[step] for step in sorted(largest)]
    grows = all(a < b for a, b in pairwise(sizes))
    return (sizes[0], sizes[-1]) if grows and len(sizes) >= _FEWEST_STEPS else None


def _elements(shapes: str) -> int:
    """Elements of the largest of some arguments, such as '8x3,3,'."""
    tensors = filter(None, shapes.replace("+", ",").split(","))
    return max((prod(map(int, _DIGITS.findall(one))) for one in tensors), default=0)


# Source: elementwise operations of two tensors in tensorflow/core/ops/math_ops.cc.
_OF_TWO = frozenset(
    {
        "Add", "AddV2", "Sub", "Mul", "Div", "RealDiv", "SquaredDifference", "Maximum", "Minimum",
        "Pow", "Equal", "NotEqual", "Less", "LessEqual", "Greater", "GreaterEqual", "LogicalAnd",
    }
)  # fmt: skip
# Result by argument, in bytes: truth values of floats have a quarter of their size.
_LARGER = 4


def of_pairs(facts: Facts, rows: AnyRows) -> AnyRows:
    """Those of some slices that combine all pairs, in compiled programs and graphs; ascending.

    Args:
        facts: Facts of the run.
        rows: Slices, ascending.
    """
    table = facts.trace.argument_uses
    compiled = np.isin(rows, table.slice[table.compares_pairs >= 1])
    names = facts.trace.slices.name[rows]
    elementwise = rows[np.isin(names, facts.trace.strings_where(_OF_TWO))]
    of_graph = [row for row in elementwise.tolist() if _is_larger(facts, row)]
    found: AnyRows = np.union1d(rows[compiled], np.array(of_graph, dtype=rows.dtype))
    return found


def _is_larger(facts: Facts, row: int) -> bool:
    """Whether the result of an operation is several times as large as each of two arguments."""
    slices, flows = facts.trace.slices, facts.trace.flows
    read = flows.source[(flows.target == row) & (flows.kind == FlowKind.DATA)]
    sizes = slices.bytes[read]
    if len(sizes) != 2 or not (sizes > 0).all():
        return False
    return bool((sizes * _LARGER <= slices.bytes[row]).all())
