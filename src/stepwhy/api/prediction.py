"""`stepwhy.whatif(path, edit, ...)`: what `stepwhy whatif` predicts, in a program."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stepwhy.result import Edit, WhatIfResult


def whatif(path: str | os.PathLike[str], *edits: str | Edit, redact: bool = True) -> WhatIfResult:
    """Predict the step time of a recorded run after a change of its program.

    Args:
        path: A run directory, or anything else that `stepwhy explain` accepts.
        edits: The changes, made together, such as 'input=free'; none for the fixes of all findings,
            and what each part of the step could gain at most.
        redact: Whether to replace secrets and private facts in the result.

    Returns:
        The predictions, and what cannot be predicted and why.

    Raises:
        EditError: A text describes no change that can be predicted.
        InputError: The path cannot be read, or has several runs.
    """
    from stepwhy.engine.whatif import predict  # noqa: PLC0415 - a training does not need it
    from stepwhy.result import parse_edit  # noqa: PLC0415

    chosen = [parse_edit(edit) if isinstance(edit, str) else edit for edit in edits]
    return predict([os.fspath(path)], chosen, redact=redact)
