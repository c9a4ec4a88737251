"""A matrix that is almost only zeros is multiplied as a dense one.

## What it means
Most entries of one operand are zero, and the product computes with them all the same. Typical are
the block-diagonal adjacency matrix of a batch of small graphs, the adjacency or incidence matrix of
one large graph, a vector of scales that was made a diagonal matrix, multi-hot rows with a one for
each word or tag that occurs, and an image that gets zeros between its pixels before a convolution.

## Why it costs
A dense product multiplies the zeros like all other values, in each layer and again for gradients.
With 64 graphs in a batch, one product per graph is 64 times less work than one of all.

## How it is measured
In one step after the traced ones, `stepwhy run` samples the operands of each longer matrix product
and convolution. Where most of the samples are zero, it counts the zeros of the whole operand, and
times the product beside what can replace it: a scaling, a product per block, a product without the
rows and columns of zeros, a weighted sum of rows, or a transposed convolution. A product counts if
it takes at least `LEAST_RATIO` times as long as the fastest replacement. The cost is the time of
these products in the traced steps less that of their replacements, and the time to make the
operands. Gradients of products with a diagonal, with blocks, or with zeros between values count by
the same ratio.

Zeros that come about by chance, as behind a ReLU or dropout, do not count: an operand that depends
on parameters must be diagonal, consist of blocks, have zeros at regular distances, or have the same
few values in each row. Gradients do not count as operands. For one-hot rows, see
[`one-hot-product`](one-hot-product.md).

In JAX, `stepwhy run` counts the zeros of large matrices that are arguments of a jitted function and
the same in each traced call, on CPUs. A matrix counts of which at least 90 % is zero, and a product
if it multiplies that as it is. A value that is not zero then takes `SPARSE` times as long as one in
the dense product, as an estimate: nothing is timed.

## Fix
Leave the zeros out: scale by the vector, multiply the blocks as a batch, look up and add rows by
their indices, store a constant matrix as a sparse one, or use a transposed convolution.

## Fix risk
Sums are added up in another order. Otherwise the values are the same.

## When it abstains
Without a step that was looked at: in traces of other profilers, in runs with `torch.compile`,
several processes, or subclasses of tensors; in JAX without calls whose arguments were looked at.
Does not apply to GPUs, where a dense product is often the fastest, and in TensorFlow, where the
values of operands are not seen.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

import msgspec
import numpy as np

from stepwhy.analyse.program.semantic_ops import matched_ops, work_ns
from stepwhy.analyse.steps.stalls import rows_of_kinds
from stepwhy.base.columns.types import Ints
from stepwhy.diagnose.compute.shared.one_hot import gradients_of, of_pytorch
from stepwhy.diagnose.not_needed.shared.semantics import without_semantics
from stepwhy.diagnose.shared.constants import OF_ZEROS, SAME, passed_arguments, program_name
from stepwhy.diagnose.shared.measure import by_string, mean_within, on_scale, time_of, times
from stepwhy.diagnose.shared.program import is_pytorch
from stepwhy.diagnose.shared.rule import Edit, Evidence, Facts, Finding, Rule, saving
from stepwhy.diagnose.shared.slices import is_inside
from stepwhy.diagnose.shared.work_lines import times_at_lines, work_lines
from stepwhy.trace import NULL

RULE = Rule(
    __name__,
    name="Products with a matrix that is almost only zeros",
    found="Leave the zeros out of the products: most of a matrix is zero",
    clear="Products with matrices of zeros take little or no time",
    needs=(("device-time",), ("host-ops",), ("steps",)),
    refines="dominant-op",
    least_share=0.05,  # of the step; below it the gain is less than the variation between steps
    # Of the time of the products; the gradients of what takes their place take time as well.
    least_saved=0.6,
    change="leave the zeros out",
    edit=Edit("ops", "replaced"),
)

# A value that is gathered, scaled and added to a row, against one of a product; 20 to 40 on CPUs.
SPARSE = 30
MOST_SAVED = 1.2  # of the cost; a large matrix displaces other data from the caches
MILLION = 1_000_000  # elements, of which an event has the zeros
LEAST_RATIO = 1.5  # times as long as without the zeros; two repetitions may differ by less
_SHOWN = 3
_PER_MILLE = 1000
_NOT_REPEATED = "Products with a matrix of zeros could not be repeated without the zeros."
_WITH_GRADIENTS = frozenset({"diagonal", "blocks", "stuffed"})
_TITLES = {
    "diagonal": "Scale by the vector instead of multiplying by a diagonal matrix",
    "blocks": "Multiply block by block: between the blocks, the matrix is zero",
    "compact": "Leave out the rows and columns of a matrix that are zero",
    "few": "Look rows up and add them: the rows of a matrix have only a few values each",
    "scattered": "Use a sparse product: most of a matrix is zero",
    "constant": "Store a constant matrix as a sparse one: most of it is zero",
    "stuffed": "Use a transposed convolution: the input has zeros between its values",
}
_SIZES = {
    "blocks": "blocks along the diagonal of the operand",
    "few": "values in each row of the operand that are not zero",
    "stuffed": "places per value in the input of the convolution",
}


class _Products(msgspec.Struct, frozen=True):
    """Operations that compute with zeros, in the steady steps.

    Args:
        rows: The products, and gradients of some; slices.
        places: Rows of `step_ops`: of the product itself, also for a gradient; (rows,).
        lost_ns: Time for the zeros; (rows,).
        made_ns: Time of what makes the operands.
        unknown_ns: Time of products with such an operand that were not repeated.
    """

    rows: Ints
    places: Ints
    lost_ns: Ints
    made_ns: int
    unknown_ns: int


def diagnose(facts: Facts) -> Finding:
    """Judge the time of products with operands that are almost only zeros."""
    is_jax = facts.trace.meta.framework == "jax"
    if not (is_jax or is_pytorch(facts)):
        return RULE.not_applicable("Values of operands are looked at only in PyTorch and JAX.")
    if facts.has_accelerator:
        return RULE.not_applicable("On an accelerator, a dense product is often the fastest.")
    if is_jax:
        return _of_jax(facts)
    abstention = without_semantics(RULE, facts)
    if abstention is not None:
        return abstention
    table = facts.trace.step_ops
    if (table.zeros == NULL).any():
        return RULE.incomplete("semantic-step", "The values of operands were not looked at.")
    found = _products(facts)
    lost, made = (
        on_scale(facts, facts.mean_ns(int(spent))) for spent in (found.lost_ns.sum(), found.made_ns)
    )
    cost = lost + made
    evidence = tuple(_evidence(facts, found, cost))
    if not lost or cost < RULE.least_share * facts.wall_ns:
        # Nothing measured says how long these would take otherwise.
        unknown = on_scale(facts, facts.mean_ns(found.unknown_ns))
        if unknown >= RULE.least_share * facts.wall_ns:
            return RULE.incomplete("semantic-step", _NOT_REPEATED)
        return RULE.nothing(evidence[:1] if cost else ())
    worst = int(found.places[int(np.argmax(found.lost_ns))])
    way = facts.trace.string(int(table.zero_pattern[worst]))
    if way == "scattered" and table.zero_constant[worst] == 1:
        way = "constant"
    gain = saving(RULE.change, RULE.least_saved * lost, cost)
    return RULE.finding(cost, evidence, RULE.fix(way), gain, title=_TITLES.get(way, ""))


def _of_jax(facts: Facts) -> Finding:
    """Judge the products with matrices that are arguments of jitted functions."""
    if not passed_arguments(facts, SAME):
        return RULE.no_data(
            "same-arguments", "It was not seen which arguments of jitted functions are the same."
        )
    events, rows_of = facts.trace.events, _zero_products(facts)
    cost, shown = 0, list[Evidence]()
    for event, rows in rows_of.items():
        used = 1 - int(events.count[event]) / MILLION
        spent = on_scale(facts, mean_within(facts, time_of(facts, rows)), "compute")
        cost += round(spent * (1 - SPARSE * used))
        name = facts.trace.string(int(events.reason[event]))
        shown.append(Evidence("entries of the matrix that are not zero", used, "fraction", name))
    share = Evidence("share of the step for the zeros", cost / facts.wall_ns, "fraction")
    if cost < RULE.least_share * facts.wall_ns:
        return RULE.nothing((share,) if cost else ())
    lines = work_lines(facts, np.sort(np.concatenate([*rows_of.values()])))
    most = min(MOST_SAVED * cost, facts.wall_ns)
    gain = saving(RULE.change, RULE.least_saved * cost, most)
    evidence = (share, *shown[:_SHOWN], *lines)
    return RULE.finding(cost, evidence, RULE.fix("jax"), gain, title=_TITLES["constant"])


def _zero_products(facts: Facts) -> dict[int, Ints]:
    """Events with a matrix of zeros, and the products of steady steps that multiply it; slices."""
    events, text, table = facts.trace.events, facts.trace.string, facts.trace.argument_uses
    dense = {
        (program_name(text(int(events.name[row]))), text(int(events.reason[row]))): row
        for row in rows_of_kinds(facts.trace, OF_ZEROS).tolist()
        if SPARSE * (MILLION - events.count[row]) < MILLION
    }
    known = np.flatnonzero((table.factors != NULL) & facts.is_steady[table.slice])
    found = defaultdict[int, list[int]](list)
    for use in known.tolist():
        program = text(int(table.program[use]))
        for factor in text(int(table.factors[use])).split("\n"):
            if (program, factor) in dense:
                found[dense[program, factor]].append(int(table.slice[use]))
                break
    return {event: np.array(sorted(rows), dtype=np.int64) for event, rows in found.items()}


def _products(facts: Facts) -> _Products:
    """The products that take longer than what can take their place."""
    table, matched = facts.trace.step_ops, matched_ops(facts)
    known = matched.places != NULL
    rows, places = matched.rows[known].astype(np.int64), matched.places[known]
    taken_ns = work_ns(facts, matched)[known]
    own_ns, without_ns = table.zero_ns[places], table.without_zeros_ns[places]
    slow = (table.zeros[places] > 0) & (own_ns > 0) & (own_ns >= LEAST_RATIO * without_ns)
    one_hot = of_pytorch(facts)
    if one_hot is not None:
        slow &= ~is_inside(facts, one_hot.rows, rows)
    share = np.where(slow, 1 - without_ns / np.maximum(own_ns, 1), 0.0)
    of_product = np.where(slow, places, NULL)
    patterns = facts.trace.strings_where(_WITH_GRADIENTS)
    for row in np.flatnonzero(slow & np.isin(table.zero_pattern[places], patterns)).tolist():
        back = gradients_of(facts, rows[[row]])
        if len(back):
            within = is_inside(facts, back, rows) & (table.zeros[places] == 0)
            share[within], of_product[within] = share[row], places[row]
    lost_ns = np.rint(share * taken_ns).astype(np.int64)
    chosen = lost_ns > 0
    # What makes an operand is as much less as that has values.
    zeros = table.zeros[places[slow]].mean() / _PER_MILLE if slow.any() else 0.0
    made_ns = round(float(zeros * taken_ns[(table.makes_zeros[places] == 1) & ~chosen].sum()))
    unknown_ns = int(taken_ns[(table.zeros[places] > 0) & (own_ns <= 0)].sum())
    return _Products(rows[chosen], of_product[chosen], lost_ns[chosen], made_ns, unknown_ns)


def _evidence(facts: Facts, found: _Products, cost: int) -> Iterator[Evidence]:
    yield Evidence("share of the step in products with zeros", cost / facts.wall_ns, "fraction")
    if not len(found.rows):
        return
    table, text = facts.trace.step_ops, facts.trace.string
    worst = int(found.places[int(np.argmax(found.lost_ns))])
    shape = text(int(table.zero_shape[worst])).replace("x", " x ")
    yield Evidence("share of zeros in the operand", int(table.zeros[worst]) / _PER_MILLE,
                   "fraction", shape)  # fmt: skip
    pattern = text(int(table.zero_pattern[worst]))
    if pattern in _SIZES:
        yield Evidence(_SIZES[pattern], int(table.zero_size[worst]), "count", shape)
    ratio = table.zero_ns[worst] / max(int(table.without_zeros_ns[worst]), 1)
    yield Evidence("times as long as without the zeros", round(float(ratio), 1), "ratio", shape)
    yield from times_at_lines(facts, found.rows)
    names = by_string(facts, facts.trace.slices.name[found.rows], found.lost_ns)
    yield from times(facts, "time for zeros in the operation", names[:_SHOWN])
