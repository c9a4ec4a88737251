"""Which category of the breakdown each slice is drawn as."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stepwhy.result.timeline import DRAWN_CATEGORIES
from stepwhy.trace import Copy, Kind

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepwhy.analyse.facts import Facts

    Ints = NDArray[np.int64]

_OF_KIND = {
    Kind.OP: "dispatch",
    Kind.LAUNCH: "dispatch",
    Kind.RUNTIME: "dispatch",
    Kind.FRAMEWORK: "dispatch",
    Kind.SYNC: "sync",
    Kind.PYTHON: "python",
    Kind.INPUT: "input_wait",
    Kind.COMPILE: "compile",
    Kind.STORAGE: "storage",
    Kind.KERNEL: "compute",
    Kind.MEMSET: "compute",
    Kind.COLLECTIVE: "communication",
    Kind.MEMCPY: "transfer",
}


def categories_of(facts: Facts) -> Ints:
    """What each slice is drawn as, an index into `DRAWN_CATEGORIES`; (slices,)."""
    trace, place = facts.trace, DRAWN_CATEGORIES.index
    of_kind = np.full(max(Kind) + 1, place("other"), dtype=np.int64)
    for kind, category in _OF_KIND.items():
        of_kind[kind] = place(category)
    if not facts.has_accelerator:
        of_kind[Kind.OP] = place("compute")
    found: Ints = of_kind[trace.slices.kind]
    found[(trace.slices.kind == Kind.MEMCPY) & (trace.slices.copy == Copy.D2D)] = place("compute")
    return found
