"""What the record shows of the program, so that only advice is given that fits it."""

from __future__ import annotations

import re

import numpy as np

from stepwhy.analyse.facts import Facts
from stepwhy.base.columns.groups import distinct
from stepwhy.base.patterns import regex
from stepwhy.trace import NULL, DeviceKind, Kind, Phase, among

# Source: kernel names of PyTorch, cuDNN, MIOpen and XLA.
_BACKWARD = regex(r"[Bb]ackward|_bwd|wgrad|dgrad|_bw_|bprop|multi_tensor_apply|[Aa]dam")
# Source: names of torch.compile (Inductor).
_COMPILED = regex(r"^triton_|^CompiledFunction|^Torch-Compiled")
# Source: `cudaGraphLaunch`, `cuGraphLaunch`, `hipGraphLaunch`.
_REPLAYED = regex(r"GraphLaunch")
_DDP = regex(r"DistributedDataParallel")
_LOADER = regex(r"DataLoader")

CALLS_UNSEEN = (
    "No stack of the training was sampled, and the trace has no Python frames, which would show "
    "calls of libraries."
)


def is_training(facts: Facts) -> bool | None:
    """Whether the program trains; None if the trace does not show it."""
    if among(facts.phases, (Phase.BACKWARD, Phase.OPTIMIZER)).any():
        return True
    if _occurs(facts, _BACKWARD, Kind.KERNEL):
        return True
    # Where operations are recorded, those of a backward pass would be among them.
    return False if "host-ops" in facts.trace.meta.signals else None


def is_compiled(facts: Facts) -> bool:
    """Whether the compiler of PyTorch made some kernels."""
    return _occurs(facts, _COMPILED, Kind.KERNEL, Kind.OP, Kind.FRAMEWORK, Kind.ANNOTATION)


def replays_graphs(facts: Facts) -> bool:
    """Whether some kernels are of a recorded graph."""
    return _occurs(facts, _REPLAYED, Kind.LAUNCH, Kind.RUNTIME)


def uses_ddp(facts: Facts) -> bool:
    """Whether the model is in a `DistributedDataParallel`."""
    return _occurs(facts, _DDP, Kind.OP, Kind.FRAMEWORK, Kind.ANNOTATION, Kind.PYTHON)


def uses_sessions(facts: Facts) -> bool:
    """Whether the program is one of TensorFlow 1, which runs its graph in a session."""
    is_timeline = facts.trace.meta.format in {"tf-timeline", "tf-run-metadata", "tfprof"}
    return is_timeline or bool((facts.trace.marks.graph_ns != NULL).any())


def feeds_placeholders(facts: Facts) -> bool:
    """Whether its graph has placeholders, which a session is fed with."""
    placeholders = facts.trace.strings_where(("Placeholder", "PlaceholderV2"))
    return bool(np.isin(facts.trace.nodes.op, placeholders).any())


def uses_loader(facts: Facts) -> bool:
    """Whether batches come from a `DataLoader` of PyTorch."""
    return is_pytorch(facts) and _occurs(facts, _LOADER, Kind.INPUT)


def is_pytorch(facts: Facts) -> bool:
    """Whether the program is one of PyTorch."""
    return facts.trace.meta.framework == "pytorch"


def on_gpu(facts: Facts) -> bool:
    """Whether the program computes on GPUs, which PyTorch calls 'cuda', those of AMD as well."""
    return bool(facts.leading) and all(a.kind is DeviceKind.GPU for a in facts.leading)


def shows_calls(facts: Facts) -> bool:
    """Whether calls of libraries on the host would be seen.

    Python frames and stack samples show them, and so do the operations of TensorFlow. Those of
    PyTorch and JAX are none of a library that saves or logs.
    """
    signals = facts.trace.meta.signals
    of_graph = facts.trace.meta.framework == "tensorflow" and "host-ops" in signals
    return of_graph or "python-stacks" in signals or len(facts.sampled.samples) > 0


def _occurs(facts: Facts, pattern: re.Pattern[str], *kinds: Kind) -> bool:
    """Whether the name of any slice of some kinds matches a pattern."""
    names = distinct(facts.trace.slices.name[facts.slices(*kinds)])
    return any(pattern.search(facts.trace.string(int(name))) for name in names)
