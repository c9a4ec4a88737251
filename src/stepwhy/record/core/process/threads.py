"""How many threads an operation may use, and how many cores there are for them."""

from __future__ import annotations

import math
import os
from pathlib import Path

from stepwhy.record.core.process.cores import allowed_cores, visible_cores

Facts = dict[str, int]


def threads_and_cores(intra_op: int) -> Facts:
    """Facts for `process.json`: threads of an operation, and cores that the process may use.

    A limit of the control group counts as cores: more threads than it allows stop each other.

    Args:
        intra_op: Threads of an operation as the framework is configured; 0 for one per core.
    """
    visible, limit = visible_cores(), allowed_cores(_read)
    cores = visible if limit is None else min(visible, max(math.floor(limit), 1))
    return {"intra_op_threads": intra_op or visible, "usable_cores": cores}


def tensorflow_threads(configured: int) -> Facts:
    """The facts of a TensorFlow process.

    Args:
        configured: Threads of an operation that the program asked for; 0 for the default.

    Source: tensorflow/core/common_runtime/process_util.cc, `NumIntraOpThreadsFromEnvironment`.
    """
    default = os.environ.get("TF_NUM_INTRAOP_THREADS", "")
    return threads_and_cores(configured or (int(default) if default.isdigit() else 0))


def _read(path: str) -> str | None:
    try:
        return Path("/", path).read_text()
    except (OSError, UnicodeDecodeError):
        return None
