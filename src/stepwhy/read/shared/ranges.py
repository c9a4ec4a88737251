"""Kind and phase of ranges on host threads, by their names.

Programs, libraries and frameworks name ranges. Kineto records those of `record_function`; Nsight
Systems and nvprof record those of NVTX.

Source: the names of `RECORD_FUNCTION`, `record_function` and of `torch.autograd.profiler.emit_nvtx`
in PyTorch's sources.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from stepwhy.base.patterns import regex
from stepwhy.read.kernel_names import is_exchange
from stepwhy.trace import Kind, Phase

LONG_NUMBER: Final = regex(r"\d{3,}")
"""Numbers that differ between names of the same meaning.

Numbers inside of technical names have fewer digits ('c10d', 'H2D').
"""
ANY_NUMBER: Final = "000"
"""Replacement for every `LONG_NUMBER`."""

_STEP = regex(
    r"^(profiler ?step|train(ing)?[ _]?step|step|iter(ation)?)[\s#_:=-]*\d+"
    r"(?: ?(?:/|of|to|-) ?\d+)?$",
    re.IGNORECASE,
)
_INPUT = regex(
    r"DataLoader|IterDataPipe|DataPipe#|IteratorGetNext|data[ _-]?load|(load|fetch)[ _-]data"
    r"|(load|next|get|fetch|copy)[ _-]batch(?![ _-]?(norm|size|ind|idx|dim))|host_to_dev"
    r"|^data([ _-](fetch|prep\w*|time|wait))?$",
    re.IGNORECASE,
)
_STORAGE = regex(r"checkpoint:save|save_checkpoint|torch\.save", re.IGNORECASE)
_FRAMEWORK_RANGE = regex(
    r"^(Optimizer\.|DistributedDataParallel|FullyShardedDataParallel|FSDP|nccl:|DDP|torch::|c10d"
    r"|Torch-Compiled|TorchDynamo|CompiledFunction|AOTDispatcher|autograd|Pregraph)"
)
_COMPILING = regex(
    r"(_compile\b.*dynamo|\(dynamo_timed\)$|^(dynamo|entire_frame_compile)$|compile_fx"
    r"|Inductor.*[Cc]ompil|autotun|CudaGraph.*[Rr]ecord)"
)
_AUTOGRAD = ("autograd::engine::", "torch::autograd::")
_PHASES = (
    (regex(r"^\W*(backward|bwd)\b", re.IGNORECASE), Phase.BACKWARD),
    (regex(r"^\W*(forward|fwd)\b", re.IGNORECASE), Phase.FORWARD),
    (regex(r"^\W*(optimi[sz]er|opt)\b", re.IGNORECASE), Phase.OPTIMIZER),
)


def operation(name: str) -> tuple[Kind, Phase]:
    """Kind and phase of a range that was recorded as an operation.

    Older traces record annotations as operations, so the rules of annotations apply first.
    """
    kind, phase = annotation(name)
    if kind is not Kind.ANNOTATION:
        return kind, phase
    return Kind.OP, Phase.BACKWARD if name.startswith(_AUTOGRAD) else Phase.UNKNOWN


def annotation(name: str) -> tuple[Kind, Phase]:
    """Kind and phase of a range that the user or a library named."""
    return _annotation(LONG_NUMBER.sub(ANY_NUMBER, name))


@lru_cache(maxsize=1 << 16)
def _annotation(name: str) -> tuple[Kind, Phase]:
    if _STEP.match(name):
        return Kind.STEP, Phase.UNKNOWN
    if _INPUT.search(name) and not name.startswith("aten::"):
        return Kind.INPUT, Phase.INPUT
    if is_exchange(name):
        return Kind.COLLECTIVE, Phase.COMMUNICATION
    if _STORAGE.search(name):
        return Kind.STORAGE, Phase.UNKNOWN
    if _COMPILING.search(name):
        return Kind.COMPILE, Phase.UNKNOWN
    if _FRAMEWORK_RANGE.match(name):
        if name.startswith("Optimizer."):
            return Kind.FRAMEWORK, Phase.OPTIMIZER
        if name.startswith(_AUTOGRAD):
            return Kind.OP, Phase.BACKWARD
        return Kind.FRAMEWORK, Phase.UNKNOWN
    phase = next((p for pattern, p in _PHASES if pattern.match(name)), Phase.UNKNOWN)
    return Kind.ANNOTATION, phase
