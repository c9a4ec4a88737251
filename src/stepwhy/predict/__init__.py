"""What a change of the program would gain, with an interval: `price`.

In: facts of a run, and edits such as `input=free`. Out: a `Prediction`, or a `Refusal` with its
reason. Steps on accelerators are replayed (`graph`, `replay`), others follow a model of the host
(`cpu`); `calibration` has how far earlier predictions were off. Imports: `analyse` and below.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepwhy.predict import cpu
from stepwhy.predict.device import price_replayed
from stepwhy.predict.ledger import whole_record
from stepwhy.result.edits import OF_RANKS
from stepwhy.result.predictions import Prediction, Refusal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepwhy.analyse.facts import Facts
    from stepwhy.predict.calibration import Record
    from stepwhy.result.edits import Edit


def price(
    facts: Facts, edits: Sequence[Edit], record: Record | None = None
) -> Prediction | Refusal:
    """Predict the step after some edits, or say why that is not possible.

    On an accelerator, the recorded steps are replayed. Where they cannot be, and on CPUs, a model
    of the host predicts what it can.

    Args:
        facts: Facts of the run.
        edits: The edits, made together; at least one.
        record: Measured fixes that the interval is calibrated with; None for those of the lab and
            of this user.
    """
    of_ranks = next((edit for edit in edits if edit.what in OF_RANKS), None)
    if of_ranks is not None:
        return Refusal(
            tuple(edits),
            f"What {of_ranks} changes shows only where all ranks are recorded.",
            "Name the traces of all ranks.",
        )
    replayed = price_replayed(facts, tuple(edits), record) if facts.has_accelerator else None
    if isinstance(replayed, Prediction):
        return replayed
    found = cpu.price(facts, edits, whole_record() if record is None else record)
    return found if isinstance(found, Prediction) or replayed is None else replayed


__all__ = ["price"]
