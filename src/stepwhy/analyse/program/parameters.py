"""Types of the trainable parameters of a run that stepwhy observed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stepwhy.analyse.steps.stalls import rows_of_kinds

if TYPE_CHECKING:
    from stepwhy.trace import Trace


def parameter_types(trace: Trace) -> dict[str, int]:
    """Elements of the trainable parameters by type, such as {'float32': 25_557_032}.

    They are those of the largest model or, in JAX, of the largest arguments of a compiled function.
    Empty if they were not recorded.

    Args:
        trace: The trace.
    """
    rows = rows_of_kinds(trace, "parameters")
    if not len(rows):
        return {}
    events = trace.events
    # The types of one model have one time; a later model was logged because it is larger.
    last = rows[events.start_ns[rows] == np.max(events.start_ns[rows])]
    return {trace.string(int(events.name[row])): int(events.count[row]) for row in last}
