"""Ranks call different collectives, sizes or types at the same place of a process group.

## What it means
The collectives of a process group are matched by their order alone. Here, the ranks agree on how
many they have called before, but one calls another kind of collective than the others, or gives it
another number of elements or another type.

## Why it costs
Such a call hangs until a timeout, ends with an error of the library far from its cause, or, worse,
returns wrong numbers.

## How it is measured
The record of each rank lists its collectives with their numbers in the group, as dumps of PyTorch's
flight recorder do. The first number under which ranks called something else is reported. The kind
is compared for all collectives; sizes and types for those to which all ranks have to give equally
much: all-reduce, all-gather, reduce-scatter, broadcast and reduce. Lists of different lengths that
were gathered without an error are no mismatch.

## Fix
Look at both lines: let all ranks take the same branch, and give tensors of the same shape and type.
Pad uneven batches, or drop the last one.

## Fix risk
Batches that are dropped or padded change the results slightly.

## When it abstains
`no_data` if no record lists the collectives. `incomplete` if only one rank of each group is
recorded.
"""

from __future__ import annotations

from collections.abc import Iterator

from stepwhy.analyse.lateness.hangs import find_mismatch
from stepwhy.diagnose.shared.rule import Evidence, Facts, Finding, Rule
from stepwhy.result.hangs import Mismatch
from stepwhy.result.wording.hangs import collective_name, given, group_name, ranks_text

RULE = Rule(
    __name__,
    name="Ranks that call different collectives",
    found="Let all ranks call the same collective with the same size and type",
    clear="All ranks call the same collectives",
    of_calls=True,
    ends_steps=True,
)

_MOST_VARIANTS = 4
_ONE_RANK = "Only one rank of each group is recorded. Explain the dumps of all ranks together."


def diagnose(facts: Facts) -> Finding:
    """Judge whether the calls of all ranks match."""
    mismatch = find_mismatch(facts.calls)
    if mismatch is not None:
        return RULE.finding(None, tuple(_evidence(mismatch)), RULE.fix())
    groups = [calls.group for calls in facts.calls.calls if not calls.p2p]
    if len(set(groups)) == len(groups):
        return RULE.incomplete("all-ranks", _ONE_RANK)
    return RULE.nothing()


def _evidence(mismatch: Mismatch) -> Iterator[Evidence]:
    for variant in mismatch.variants[:_MOST_VARIANTS]:
        call, ranks = variant.call, ranks_text(variant.ranks)
        called = collective_name(mismatch, call.operation)
        is_size = mismatch.what != "operation"
        what = f"{called}: {given(variant, mismatch.what)}" if is_size else called
        yield Evidence(f"call of {ranks}", what, "", call.line)
    yield Evidence("process group", group_name(mismatch) or "all ranks", "")
