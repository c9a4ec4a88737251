"""Traces of MegaScan, the tracer of MegatronApp for Megatron-LM: raw, and aggregated over ranks.

It times ranges of the training step (forward and backward of each microbatch, exchanges, the
optimizer) by CUDA events: on the GPU, but as a whole. Raw files hold one rank, with times in ns
from the beginning of each iteration. `scripts/aggregate.py` joins them into one Chrome trace, whose
processes are ranks.

Source: MegatronApp, `megatron/training/trace.py` and `scripts/aggregate.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepwhy.read.formats.megascan import aggregated, raw

if TYPE_CHECKING:
    from stepwhy.read.inputs.source import Source
    from stepwhy.trace import Trace


def recognise(source: Source) -> bool:
    """Whether the file is a list of MegaScan's records, of one rank or of several."""
    return raw.recognise(source.head) or aggregated.recognise(source.head)


def read(source: Source) -> Trace | None:
    """Read one rank, or all; None where a Chrome trace turns out to be of another tool.

    Raises:
        CorruptInputError: Not a single range could be read.
    """
    return raw.read(source) if raw.recognise(source.head) else aggregated.read(source)
