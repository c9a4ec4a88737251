"""The collectives that this process has entered, from PyTorch's flight recorder.

PyTorch keeps the latest ones of NCCL and Gloo, and writes them as a pickle on request. The request
takes the recorder's own lock for as long as it copies its entries; PyTorch's watchdogs do the same
while collectives hang.

Source: PyTorch, `torch/csrc/distributed/c10d/init.cpp` and `FlightRecorderDetail.hpp`.
"""

from __future__ import annotations

import pickle
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any

# The recorder keeps 2,000 by default, and as many as the user asks for.
_MOST_ENTRIES = 4000


def takes_part() -> bool:
    """Whether this process is one of several ranks of `torch.distributed`; never raises."""
    distributed: Any = sys.modules.get("torch.distributed")
    try:
        return bool(distributed.is_initialized()) and int(distributed.get_world_size()) > 1
    except Exception:
        return False


def recorded_collectives() -> dict[str, Any]:
    """What the flight recorder holds, the newest entries only.

    Raises:
        Exception: This version of PyTorch has no such recorder, or it fails.
    """
    from torch._C import _distributed_c10d

    library: Any = _distributed_c10d
    # PyTorch itself has just written this pickle, in this process.
    content: dict[str, Any] = pickle.loads(library._dump_fr_trace())  # noqa: S301
    return {**content, "entries": content.get("entries", [])[-_MOST_ENTRIES:]}
