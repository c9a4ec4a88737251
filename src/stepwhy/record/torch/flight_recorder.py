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
_OF_ARRIVALS = (
    *("profiling_name", "process_group", "collective_seq_id", "p2p_seq_id", "is_p2p"),
    *("input_sizes", "input_dtypes", "time_created_ns", "duration_ms"),
)


def takes_part() -> bool:
    """Whether this process is one of several ranks of `torch.distributed`; never raises."""
    distributed: Any = sys.modules.get("torch.distributed")
    try:
        return bool(distributed.is_initialized()) and int(distributed.get_world_size()) > 1
    except Exception:
        return False


def recorded_arrivals() -> dict[str, Any]:
    """When this process entered its latest collectives, without the lines, which take seconds.

    Raises:
        Exception: As for `recorded_collectives`.
    """
    from torch._C import _distributed_c10d

    library: Any = _distributed_c10d
    # PyTorch itself has just written this pickle, in this process.
    content: dict[str, Any] = pickle.loads(library._dump_fr_trace(includeStackTraces=False))  # noqa: S301
    entries = content.get("entries", [])[-_MOST_ENTRIES:]
    kept = [{name: one[name] for name in _OF_ARRIVALS if name in one} for one in entries]
    return {"pg_config": content.get("pg_config", {}), "entries": kept}


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
