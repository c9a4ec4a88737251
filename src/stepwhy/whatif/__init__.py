"""What a change of the program would gain: `price`, and `stepwhy.whatif(path, edit, ...)`."""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from stepwhy.findings.edits import OF_RANKS
from stepwhy.findings.predictions import Prediction, Refusal
from stepwhy.whatif import cpu
from stepwhy.whatif.device import price_replayed
from stepwhy.whatif.ledger import whole_record

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepwhy.findings.edits import Edit
    from stepwhy.passes.facts import Facts
    from stepwhy.whatif.calibration import Record


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


class _Callable(ModuleType):
    """This package, which is also the function `stepwhy.whatif`: one name for both."""

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        """Call `stepwhy.api.whatif`."""
        # By name, because the layers below do not know the function.
        return import_module("stepwhy.api").whatif(*arguments, **options)


sys.modules[__name__].__class__ = _Callable

__all__ = ["price"]
