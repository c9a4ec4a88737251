"""One-hot rows are multiplied by a matrix, although looking its rows up gives the same.

## What it means
Integers, such as words or categories, become one-hot rows, which are multiplied by a matrix. Each
product selects one row of the matrix.

## Why it costs
The one-hot rows are as long as there are words: a batch of 1,024 words of 8,000 takes 64 MiB in
int64 and 32 MiB in float32, almost all of it zeros, which are written, converted, multiplied, and
multiplied again for the gradient. A lookup copies 1,024 rows.

## How it is measured
In PyTorch on a CPU, where the shapes of the arguments of operations were recorded, which
`stepwhy run` does in steps of 5 ms or more. A one-hot operation counts if a matrix product right
behind it, or behind conversions, has its result as the first factor: all dimensions are equal. In
the graph of a session, it counts if its result flows into a matrix product. The cost is the time of
these operations and, in PyTorch, of the gradient of the product.

## Fix
Look the rows up: an embedding, or an index.

## Fix risk
None: the values are the same. Optimizers that treat the gradients of embeddings as sparse may
behave differently.

## When it abstains
If the shapes of the arguments were not recorded. Does not apply on accelerators, whose matrix units
can make the product as fast as a lookup, or outside of PyTorch and sessions.
"""

from __future__ import annotations

from stepwhy.diagnose.compute.shared.one_hot import OneHot, of_graph, of_pytorch
from stepwhy.diagnose.shared.measure import by_name, mean_within, on_scale, time_of, times
from stepwhy.diagnose.shared.program import is_pytorch
from stepwhy.diagnose.shared.rule import Edit, Evidence, Facts, Finding, Rule
from stepwhy.diagnose.shared.sampled import own_lines

RULE = Rule(
    __name__,
    name="Products with one-hot rows",
    found="Look rows up instead of multiplying by one-hot rows",
    clear="Products with one-hot rows take little or no time",
    needs=(("device-time",), ("host-ops",), ("steps",)),
    least_share=0.05,  # of the step; below it the gain is less than the variation between steps
    least_saved=0.6,  # of the cost; the lookup, and the gradient of it, take time as well
    change="look rows up",
    edit=Edit("ops", "replaced"),
)


def diagnose(facts: Facts) -> Finding:
    """Judge the time of one-hot rows and of their products."""
    if facts.has_accelerator:
        return RULE.not_applicable("On an accelerator, the product can be as fast as a lookup.")
    if not is_pytorch(facts) and not facts.names_nodes:
        return RULE.not_applicable("One-hot rows are recognised in PyTorch and in graphs.")
    found = of_pytorch(facts) if is_pytorch(facts) else of_graph(facts)
    if found is None:
        return RULE.no_data(
            "operands", "What operations work on was not recorded: shapes, or what flows where."
        )
    cost = on_scale(facts, mean_within(facts, time_of(facts, found.rows)), "compute")
    evidence = _evidence(facts, found, cost)
    fix = RULE.fix("torch" if is_pytorch(facts) else "tensorflow")
    return RULE.judge(facts, cost, evidence, fix, shown=1)


def _evidence(facts: Facts, found: OneHot, cost: int) -> tuple[Evidence, ...]:
    sizes = (Evidence("size of the one-hot rows", found.shape, ""),) if found.shape else ()
    return (
        Evidence("share of the step in one-hot rows and their products", cost / facts.wall_ns,
                 "fraction"),
        *sizes,
        *times(facts, "time of the operation", by_name(facts, found.rows)[:4]),
        *own_lines(facts),
    )  # fmt: skip
