"""Which process of a distributed training explains it."""

from __future__ import annotations

import json
import os

# Set by torchrun, Horovod, Open MPI, and MPICH and its relatives.
_RANKS = ("RANK", "HOROVOD_RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK")
_CLUSTER = "TF_CONFIG"


def is_first_rank() -> bool:
    """Whether this process is the first rank of its job, or the only process.

    Source of `TF_CONFIG`: https://www.tensorflow.org/guide/distributed_training
    """
    ranks = (os.environ.get(name, "") for name in _RANKS)
    number = next((rank for rank in ranks if rank.isdecimal()), None)
    return _is_chief(os.environ.get(_CLUSTER, "")) if number is None else int(number) == 0


def _is_chief(config: str) -> bool:
    """Whether `TF_CONFIG` names this process the chief, which may be the first worker."""
    try:
        found = json.loads(config)
        kind, index = found["task"]["type"], int(found["task"]["index"])
        return kind == "chief" or ("chief" not in found["cluster"] and (kind, index) == _FIRST)
    except (ValueError, TypeError, KeyError, RecursionError):
        return True


_FIRST = ("worker", 0)

__all__ = ["is_first_rank"]
