"""Which process of a distributed training explains it."""

from __future__ import annotations

import json
import os

from stepwhy.record.core.process.ranks import place_by_launcher


def is_first_rank() -> bool:
    """Whether this process is the first rank of its job, or the only process."""
    rank, _ = place_by_launcher(os.environ)
    return rank == 0 if rank is not None else not _is_beside(os.environ.get("TF_CONFIG", ""))


def _is_beside(config: str) -> bool:
    """Whether `TF_CONFIG` names this process something else than a worker, such as an evaluator."""
    try:
        kind = json.loads(config)["task"]["type"]
    except (ValueError, TypeError, KeyError, RecursionError):
        return False
    return kind not in {"chief", "worker"}
