"""What PyTorch's DistributedDataParallel records of a step: forward passes and gradients.

Source: `torch/nn/parallel/distributed.py` and `torch/csrc/distributed/c10d/reducer.cpp`.
"""

from __future__ import annotations

import numpy as np
from msgspec.structs import replace

from stepwhy.analyse.facts import Facts
from stepwhy.base.columns.groups import distinct
from stepwhy.base.columns.nesting import climb
from stepwhy.base.columns.types import AnyRows, Mask
from stepwhy.base.patterns import regex
from stepwhy.base.units import format_count, format_ns
from stepwhy.diagnose.shared.advice import advice
from stepwhy.diagnose.shared.measure import nearest_of, on_scale
from stepwhy.diagnose.shared.slices import named, strings_among
from stepwhy.result import Fix
from stepwhy.trace import NULL, Kind

FORWARD = "DistributedDataParallel.forward"
"""One forward pass of a wrapped model."""
SCALED = "torch::distributed::reducer::mul_out"
"""A gradient is scaled and copied to its bucket, to be exchanged."""
GRADIENT = "torch::autograd::AccumulateGrad"
"""A gradient is complete in this backward pass."""
_EXCHANGE = "c10d::allreduce_"
_READY = (GRADIENT, f"autograd::engine::evaluate_function: {GRADIENT}")
_COPY = "torch.distributed.ddp.reducer::copy_bucket_to_grad"
_ALL_REDUCE = regex(r"(?i).*all_?reduce")
_RANGE = regex(r"nccl:all_?reduce")
_UPDATE = regex(r"Optimizer\.step#")
_SEVERAL = 1.5  # per step; some steps at the ends of the record may lack one
_COPIES_SHARE = 0.02  # of the step; below it the gain is less than the variation between steps
_WRAPPED = "DistributedDataParallel(model"


def exchange_calls(facts: Facts) -> AnyRows:
    """Calls of all-reduces by the program itself, outside of the backward pass, ascending."""
    rows = named(facts, _EXCHANGE)
    found: AnyRows = rows[~np.isin(rows, bucket_exchanges(facts))]
    return found


def bucket_exchanges(facts: Facts) -> AnyRows:
    """Calls that exchange a bucket of gradients as soon as its last one is complete, ascending.

    Those of the program itself are not inside of the backward pass.
    """
    rows = named(facts, _EXCHANGE)
    around = nearest_of(facts, rows, Kind.OP)
    is_ready = np.append(strings_among(facts, _READY)[facts.trace.slices.name], values=False)
    chosen: AnyRows = rows[is_ready[around]]
    return chosen


def all_reduces(facts: Facts) -> AnyRows:
    """All-reduces in the steady steps, ascending.

    Kernels of RCCL have one name for all collectives, so that it takes the arguments of a kernel,
    or the range in which it was launched (`nccl:all_reduce`), to tell them apart.
    """
    rows, trace = facts.slices(Kind.COLLECTIVE, steady=True), facts.trace
    found = trace.matches(trace.slices.name[rows], _ALL_REDUCE.match)
    named = trace.collectives.operation != NULL
    recorded = trace.collectives.slice[named]
    is_one = trace.matches(trace.collectives.operation[named], _ALL_REDUCE.match)
    found |= np.isin(rows, recorded[is_one])
    chosen: AnyRows = rows[found | _in_ranges(facts, rows)]
    return chosen


def _in_ranges(facts: Facts, rows: AnyRows) -> Mask:
    """Mask of the collectives whose launch is in a range of an all-reduce; (rows,)."""
    calls = facts.launches.calls_of(rows)
    ranges = facts.slices(Kind.FRAMEWORK)
    is_range = np.zeros(len(facts.trace.slices), dtype=bool)
    is_range[ranges] = facts.trace.matches(facts.trace.slices.name[ranges], _RANGE.match)
    found = np.zeros(len(rows), dtype=bool)
    known = calls != NULL
    found[known] = climb(facts.nesting, calls[known], is_range) != NULL
    return found


def bucket_copies_ns(facts: Facts) -> int:
    """Host time per step in which reduced buckets are copied back to the gradients, ns."""
    return on_scale(facts, facts.mean_ns(float(facts.trace.slices.dur_ns[_copies(facts)].sum())))


def without_copies(fix: Fix, facts: Facts) -> Fix:
    """A fix that also avoids the copies of buckets, if these take a while."""
    if bucket_copies_ns(facts) < _COPIES_SHARE * facts.wall_ns:
        return fix
    count = format_count(len(_copies(facts)) / max(facts.steady_count, 1))
    of_ns = format_ns(bucket_copies_ns(facts))
    view = advice(__name__, "bucket-view", count=count, of_ns=of_ns)
    if _WRAPPED in fix.code:
        code = fix.code.replace(_WRAPPED, f"{_WRAPPED}, gradient_as_bucket_view=True", 1)
        return replace(fix, text=f"{fix.text} {view.text}", code=code)
    code = "\n".join(filter(None, (view.code, fix.code)))
    return replace(fix, text=f"{fix.text} {view.text}", code=code)


def _copies(facts: Facts) -> AnyRows:
    return named(facts, _COPY)


def all_reduce_ns(facts: Facts) -> int:
    """Time of the step in which nothing but communication runs, as far as it is all-reduces."""
    dur_ns, every = facts.trace.slices.dur_ns, facts.slices(Kind.COLLECTIVE, steady=True)
    total = float(dur_ns[every].sum())
    share = float(dur_ns[all_reduces(facts)].sum()) / total if total else 0.0
    return round(share * facts.breakdown["communication"])


def exchanges_per_update(facts: Facts) -> float | None:
    """Exchanges of the same gradients per optimizer step; None if not recorded.

    Gradients that are views of their bucket are not copied again, but still exchanged.
    """
    found = [_repeats(facts, rows) for rows in (named(facts, SCALED), bucket_exchanges(facts))]
    return max((count for count in found if count), default=None)


def may_accumulate(facts: Facts) -> bool:
    """Whether exchanging gradients at the last of several micro-batches may save exchanges.

    Not with one forward pass per step, nor where the program does so already.
    """
    passes = len(named(facts, FORWARD)) / max(facts.steady_count, 1)
    if not passes:
        return True
    exchanges = exchanges_per_update(facts)
    return passes >= _SEVERAL and (exchanges is None or exchanges >= _SEVERAL)


def _repeats(facts: Facts, marks: AnyRows) -> float:
    """After how many forward passes per optimizer step equally many marks follow.

    Passes that are followed by fewer marks than others are of another model, or of no_sync().
    """
    start_ns, forward = facts.trace.slices.start_ns, named(facts, FORWARD)
    passed = np.searchsorted(start_ns[forward], start_ns[marks], side="right") - 1
    marked = np.bincount(passed[passed >= 0], minlength=len(forward))
    rows = facts.slices(Kind.FRAMEWORK, steady=True)
    steps = rows[facts.trace.matches(facts.trace.slices.name[rows], _UPDATE.match)]
    # When optimizers begin their steps, or the steps where that is not recorded.
    begins = start_ns[steps] if len(steps) else facts.steps.starts
    update = np.searchsorted(begins, start_ns[forward])
    alike = [np.unique(marked[update == one], return_counts=True) for one in distinct(update)]
    return float(np.mean([max(counts[sizes > 0], default=0) for sizes, counts in alike]))
