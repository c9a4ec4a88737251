"""Explain a run, and return what the predicted gain of one of its findings depends on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from stepwhy.analyse.facts import Facts
from stepwhy.engine.explain import read_ranks
from stepwhy.engine.ranks import combine
from stepwhy.predict.inputs import gather
from stepwhy.result import Refusal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepwhy.engine.explain import Ranks
    from stepwhy.result import Finding, PricingInputs, Result


class Priced(msgspec.Struct, frozen=True):
    """What is known about one finding of a run.

    Args:
        edit: Its edit, as text; '' for none.
        inputs: What its prediction depends on; None if there is none.
        refusal: Why there is none; '' otherwise.
    """

    edit: str = ""
    inputs: PricingInputs | None = None
    refusal: str = ""


def explain_priced(names: Sequence[str], diagnosis: str) -> tuple[Result, Priced]:
    """Explain a run, and price one of its findings.

    Args:
        names: As in `explain`.
        diagnosis: Id of the diagnosis of that finding.

    Raises:
        InputError: As in `explain`.
    """
    run = read_ranks(names)
    result = combine(run.ranks, run.notes, detail_of=run.detail_of)
    found = next((f for f in result.findings if f.id == diagnosis and f.verdict == "found"), None)
    return result, _priced(found, result, run)


def _priced(found: Finding | None, result: Result, run: Ranks) -> Priced:
    if found is None:
        return Priced(refusal="The problem was not found.")
    if found.edit is None:
        return Priced(refusal="What the fix changes cannot be predicted.")
    # The step of the result is that of one rank; the finding may be of others.
    wall_ns = result.breakdown.wall_ns
    of_rank = next(one for one in run.ranks if one.breakdown.wall_ns == wall_ns)
    if found.ranks and of_rank.meta.rank not in found.ranks:
        of_rank = next(one for one in run.ranks if one.meta.rank in found.ranks)
    inputs = gather(Facts(run.detail_of(of_rank).trace), [found.edit])
    if isinstance(inputs, Refusal):
        return Priced(str(found.edit), refusal=inputs.reason)
    return Priced(str(found.edit), inputs)
