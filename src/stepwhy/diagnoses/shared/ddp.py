"""What PyTorch's DistributedDataParallel records of a step: forward passes and gradients.

Source: `torch/nn/parallel/distributed.py` and `torch/csrc/distributed/c10d/reducer.cpp`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from stepwhy.diagnoses.shared.measure import nearest_of
from stepwhy.diagnoses.shared.slices import named, strings_among
from stepwhy.patterns import regex
from stepwhy.trace import Kind

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepwhy.passes.facts import Facts

    Rows = NDArray[np.signedinteger[Any]]

FORWARD = "DistributedDataParallel.forward"
"""One forward pass of a wrapped model."""
SCALED = "torch::distributed::reducer::mul_out"
"""A gradient is scaled and copied to its bucket, to be exchanged."""
GRADIENT = "torch::autograd::AccumulateGrad"
"""A gradient is complete in this backward pass."""
_EXCHANGE = "c10d::allreduce_"
_READY = (GRADIENT, f"autograd::engine::evaluate_function: {GRADIENT}")
_ALL_REDUCE = regex(r"(?i).*all_?reduce")


def bucket_exchanges(facts: Facts) -> Rows:
    """Calls that exchange a bucket of gradients as soon as its last one is complete, ascending.

    Those of the program itself are not inside of the backward pass.
    """
    rows = named(facts, _EXCHANGE)
    around = nearest_of(facts, rows, Kind.OP)
    is_ready = np.append(strings_among(facts, _READY)[facts.trace.slices.name], values=False)
    chosen: Rows = rows[is_ready[around]]
    return chosen


def all_reduces(facts: Facts) -> Rows:
    """All-reduces in the steady steps, ascending."""
    rows = facts.slices(Kind.COLLECTIVE, steady=True)
    return rows[facts.trace.matches(facts.trace.slices.name[rows], _ALL_REDUCE.match)]


def all_reduce_ns(facts: Facts) -> int:
    """Time of the step in which nothing but communication runs, as far as it is all-reduces."""
    dur_ns, every = facts.trace.slices.dur_ns, facts.slices(Kind.COLLECTIVE, steady=True)
    total = float(dur_ns[every].sum())
    share = float(dur_ns[all_reduces(facts)].sum()) / total if total else 0.0
    return round(share * facts.breakdown["communication"])
