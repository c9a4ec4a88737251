"""What a Kineto record is, from its category and name: the one place that knows the names.

Categories of all generations are folded onto one spelling first. Names are matched because Kineto
says 'this is a runtime call' but not 'this call waits for the device'.

Source: libkineto's ActivityType strings, ActivityProfilerController and the torch profiler's
`_collection` module; CUDA and HIP runtime API references for which calls block.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from stepwhy.trace import Copy, Kind, Phase

# Categories up to 2021 -> the spelling since 2022.
_OLD_CATEGORIES = {
    "operator": "cpu_op",
    "kernel": "kernel",
    "memcpy": "gpu_memcpy",
    "memset": "gpu_memset",
    "runtime": "cuda_runtime",
    "driver": "cuda_driver",
    "user_annotation": "user_annotation",
    "python": "python_function",
}
_IGNORED = frozenset({"trace", "cuda_event", "cuda_profiler_range", "external_correlation"})


class Meaning(NamedTuple):
    """What a record's category and name say.

    Args:
        kind: The slice's kind; None: not a slice of its own.
        on_device: Whether it lies on a device stream.
        copy: Direction of a copy.
        pageable: 1 pageable, 0 pinned, -1 not recorded.
        phase: Phase of the step where the name decides it.
        source: Whether the name itself is the source line.
    """

    kind: Kind | None
    on_device: bool = False
    copy: Copy = Copy.NONE
    pageable: int = -1
    phase: Phase = Phase.UNKNOWN
    source: bool = False


def category_of(raw: str) -> str:
    """A category in the current spelling, whatever generation wrote it."""
    lower = raw.lower()
    return _OLD_CATEGORIES.get(lower, lower)


@lru_cache(maxsize=1 << 16)
def meaning_of(category: str, name: str) -> Meaning:
    """Meaning of a record by its `category_of` category and its name."""
    if category in _IGNORED:
        return Meaning(None)
    if category == "cpu_op":
        return _host_op(name)
    if category == "user_annotation":
        return _annotation(name)
    if category == "python_function":
        return _python(name)
    if category.endswith(("_runtime", "_driver")):
        return Meaning(_runtime_kind(name))
    if category == "overhead":
        return Meaning(Kind.COMPILE if _LOADING.search(name) else Kind.PROFILER)
    return _device(category, name)


# --- device rows -------------------------------------------------------------------------------

COLLECTIVE = re.compile(
    r"nccl|rccl|oneccl|msccl|hccl|nvshmem|multimem_|all_?reduce|all_?gather|reduce_?scatter"
    r"|all_?to_?all|cross_device_reduce|sendrecv|deep_ep::(intra|inter)node",
    re.IGNORECASE,
)
# Inductor names a kernel after the operations around it, collectives included.
_GENERATED = re.compile(r"^triton_[a-z]+_fused_")
_ANONYMOUS = "(anonymous namespace)::"
_DEVICE_WAIT = re.compile(r"event_wait|wait_?event|semaphore|barrier_wait", re.IGNORECASE)
_DMA = re.compile(r"^(dma|copy|memcpy)", re.IGNORECASE)
_DIRECTIONS = (
    (re.compile(r"HtoD|HostToDevice|Host -> Device|H2D", re.IGNORECASE), Copy.H2D),
    (re.compile(r"DtoH|DeviceToHost|Device -> Host|D2H", re.IGNORECASE), Copy.D2H),
    (re.compile(r"PtoP|Peer", re.IGNORECASE), Copy.PEER),
    (re.compile(r"DtoD|DeviceToDevice|D2D", re.IGNORECASE), Copy.D2D),
    (re.compile(r"HtoH|HostToHost", re.IGNORECASE), Copy.H2H),
)


def _device(category: str, name: str) -> Meaning:
    if category == "kernel":
        return Meaning(Kind.COLLECTIVE if _exchanges(name) else Kind.KERNEL, on_device=True)
    if category in {"gpu_memcpy", "memcpy"} or category.endswith("_memcpy"):
        return _copy(name)
    if category == "gpu_memset" or category.endswith("_memset"):
        return Meaning(Kind.MEMSET, on_device=True)
    if category == "collective_comm":
        return Meaning(Kind.COLLECTIVE, on_device=True)
    if category == "cuda_sync":
        return Meaning(Kind.DEVICE_WAIT, on_device=True)
    if category.startswith("gpu_") and category.endswith("annotation"):
        return Meaning(Kind.DEVICE_ANNOTATION, on_device=True)
    if category.endswith(("_ccp_events", "_concurrent_kernel", "concurrent_kernel")):
        return _other_accelerator(name)
    return Meaning(Kind.OTHER)


def _exchanges(kernel: str) -> bool:
    """Whether a kernel's own name, which comes before its template arguments, is a collective."""
    own = re.split(r"[<(]", kernel.replace(_ANONYMOUS, ""), maxsplit=1)[0]
    return COLLECTIVE.search(own) is not None and not _GENERATED.match(own)


def _copy(name: str) -> Meaning:
    copy = next((c for pattern, c in _DIRECTIONS if pattern.search(name)), Copy.NONE)
    pageable = 1 if "Pageable" in name else 0 if "Pinned" in name else -1
    return Meaning(Kind.MEMCPY, on_device=True, copy=copy, pageable=pageable)


def _other_accelerator(name: str) -> Meaning:
    """Command rows of accelerators that are neither CUDA nor HIP (e.g. MTIA)."""
    if _DEVICE_WAIT.search(name):
        return Meaning(Kind.DEVICE_WAIT, on_device=True)
    if _DMA.search(name):
        return _copy(name)
    return Meaning(Kind.KERNEL, on_device=True)


# --- runtime calls -----------------------------------------------------------------------------

_SYNC = re.compile(
    r"Synchronize|^(cuda|hip)Memcpy(2D|3D|ToSymbol|FromSymbol|HtoD|DtoH|DtoD|WithStream)?$"
    r"|^cuMemcpy(HtoD|DtoH|DtoD)?(_v2)?$|^synchronize|^(ur|pi)(QueueFinish|EventWait|EventsWait)$"
)
_LAUNCH = re.compile(r"Launch|Memcpy|Memset|enqueueCommand|runFunction")
_LOADING = re.compile(r"Lazy Function Loading|Module Loading|Module Load", re.IGNORECASE)


def _runtime_kind(name: str) -> Kind:
    if _SYNC.search(name):
        return Kind.SYNC
    if _LAUNCH.search(name):
        return Kind.LAUNCH
    if "ModuleLoad" in name or "LibraryLoad" in name:
        return Kind.COMPILE
    return Kind.RUNTIME


# --- host ranges -------------------------------------------------------------------------------

_STEP = re.compile(
    r"^(profiler ?step|train(ing)?[ _]?step|step|iter(ation)?)[\s#_:=-]*\d+$", re.IGNORECASE
)
_INPUT = re.compile(
    r"DataLoader|IterDataPipe|DataPipe#|IteratorGetNext|data_?load|(load|fetch)_data"
    r"|(load|next|get|fetch|copy)_batch(?!_?(norm|size|ind|idx|dim))|host_to_dev",
    re.IGNORECASE,
)
_HOST_COLLECTIVE = re.compile(r"^(gloo|mpi|ucc|xccl):")
_STORAGE = re.compile(r"checkpoint:save|save_checkpoint|torch\.save", re.IGNORECASE)
_FRAMEWORK_RANGE = re.compile(
    r"^(Optimizer\.|DistributedDataParallel|FullyShardedDataParallel|FSDP|nccl:|DDP|torch::|c10d"
    r"|Torch-Compiled|TorchDynamo|CompiledFunction|AOTDispatcher|autograd|Pregraph)"
)
_COMPILING = re.compile(
    r"(_compile\b.*dynamo|\(dynamo_timed\)$|^(dynamo|entire_frame_compile)$|compile_fx"
    r"|Inductor.*[Cc]ompil|autotun|CudaGraph.*[Rr]ecord)"
)


def _host_op(name: str) -> Meaning:
    """Old traces keep annotations in the operator category, so both are asked."""
    meaning = _annotation(name)
    if meaning.kind is not Kind.ANNOTATION:
        return meaning
    backward = name.startswith(("autograd::engine::", "torch::autograd::"))
    return Meaning(Kind.OP, phase=Phase.BACKWARD if backward else Phase.UNKNOWN)


def _annotation(name: str) -> Meaning:
    if _STEP.match(name):
        return Meaning(Kind.STEP)
    if _INPUT.search(name) and not name.startswith("aten::"):
        return Meaning(Kind.INPUT, phase=Phase.INPUT)
    if _HOST_COLLECTIVE.match(name):
        return Meaning(Kind.COLLECTIVE, phase=Phase.COMMUNICATION)
    if _STORAGE.search(name):
        return Meaning(Kind.STORAGE)
    if _COMPILING.search(name):
        return Meaning(Kind.COMPILE)
    if _FRAMEWORK_RANGE.match(name):
        return _framework_range(name)
    return Meaning(Kind.ANNOTATION, phase=_phase_of_range(name))


def _framework_range(name: str) -> Meaning:
    if name.startswith("Optimizer."):
        return Meaning(Kind.FRAMEWORK, phase=Phase.OPTIMIZER)
    backward = name.startswith(("autograd::engine::", "torch::autograd::"))
    if backward:
        return Meaning(Kind.OP, phase=Phase.BACKWARD)
    return Meaning(Kind.FRAMEWORK)


_RANGE_PHASES = (
    (re.compile(r"^\W*(backward|bwd)\b", re.IGNORECASE), Phase.BACKWARD),
    (re.compile(r"^\W*(forward|fwd)\b", re.IGNORECASE), Phase.FORWARD),
    (re.compile(r"^\W*(optimi[sz]er|opt)\b", re.IGNORECASE), Phase.OPTIMIZER),
)


def _phase_of_range(name: str) -> Phase:
    return next((p for pattern, p in _RANGE_PHASES if pattern.match(name)), Phase.UNKNOWN)


# --- Python functions (with_stack) -------------------------------------------------------------

_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")
_PYTHON_LINE = re.compile(r"^(?P<file>[^()]*)\((?P<line>\d+)\): (?P<function>.+)$")
_HOME = re.compile(r"^(/(home|Users)/[^/]+|/root)/")
_FRAMEWORK_FILE = re.compile(
    r"(^|/)(torch|torchvision|functorch|triton|apex|lightning|accelerate)/"
)
_PREPROCESS = re.compile(
    r"^_?(pre_?process\w*|collate\w*|read_(video|image|audio)\w*|decode_(image|video|jpeg)\w*"
    r"|load_(image|sample|batch)\w*|augment\w*"
    r"|(next|get|fetch)_batch(?!_?(norm|size|ind|idx|dim))\w*)$",
    re.IGNORECASE,
)
_DATALOADER_FILE = re.compile(r"(^|/)torch/utils/data/dataloader\.py$")
_STORAGE_FILE = re.compile(
    r"(^|/)(torch/serialization\.py|torch/utils/tensorboard/|torch/distributed/checkpoint/)"
)
_COMPILE_FILE = re.compile(
    r"(^|/)(torch/_dynamo/convert_frame\.py|torch/_inductor/compile_fx\.py|triton/compiler/)"
)
_WAITING = re.compile(
    r"<built-in (method|function) (acquire|select|poll|sleep|wait)\b|lock.*acquire"
)


def without_addresses(name: str) -> str:
    """A Python function's name without the object address that makes every call unique."""
    return _ADDRESS.sub("", name) if " at 0x" in name else name


def shorten_path(line: str) -> str:
    """A 'file(line): function' with at most the last three path components (no home folders)."""
    match = _PYTHON_LINE.match(line)
    if match is None:
        return line
    tail = "/".join(_HOME.sub("", match["file"]).split("/")[-3:])
    return f"{tail}({match['line']}): {match['function']}"


def _python(name: str) -> Meaning:
    match = _PYTHON_LINE.match(name)
    if match is None:
        return _builtin(name)
    file, function = match["file"], match["function"]
    if _DATALOADER_FILE.search(file) and function in {"__next__", "_next_data"}:
        return Meaning(Kind.INPUT, phase=Phase.INPUT, source=True)
    if _STORAGE_FILE.search(file):
        return Meaning(Kind.STORAGE, source=True)
    if _COMPILE_FILE.search(file):
        return Meaning(Kind.COMPILE, source=True)
    if _FRAMEWORK_FILE.search(file):
        return Meaning(Kind.FRAMEWORK, source=True)
    if _PREPROCESS.match(function):
        return Meaning(Kind.INPUT, phase=Phase.INPUT, source=True)
    return Meaning(Kind.PYTHON, source=True)


def _builtin(name: str) -> Meaning:
    """`<built-in ...>` and `nn.Module: ...`: the framework's own when a tensor or torch owns it."""
    if _WAITING.search(name):
        return Meaning(Kind.WAIT)
    if name.startswith("nn.Module:") or re.search(r"of (Tensor|Parameter|type) object|torch", name):
        return Meaning(Kind.FRAMEWORK)
    return Meaning(Kind.PYTHON)
