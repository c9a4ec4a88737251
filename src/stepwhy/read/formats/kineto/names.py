"""What a Kineto record is, from its category and name.

Categories of all generations are first mapped to the current spelling.

Source: libkineto's ActivityType strings, ActivityProfilerController and the torch profiler's
`_collection` module; libkineto's plugin for XPUs, and the forks of it for MLUs and GCUs;
`chrometracing_logger.cc` of Paddle.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from stepwhy.base.patterns import regex
from stepwhy.read.kernel_names import activity_row
from stepwhy.read.shared.cuda import call_kind, kernel_copy, kernel_kind, kind_of, named_direction
from stepwhy.read.shared.ranges import annotation, operation
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
    "cudaruntime": "cuda_runtime",
}
_LOADING = regex(r"Lazy Function Loading|Module Loading|Module Load", re.IGNORECASE)
_IGNORED = frozenset({"trace", "cuda_event", "cuda_profiler_range", "external_correlation"})


class Meaning(NamedTuple):
    """What a record's category and name mean.

    Args:
        kind: The slice's kind; None if the record is not a slice.
        on_device: Whether it runs on a device stream.
        copy: Direction of a copy.
        pageable: 1 pageable, 0 pinned, -1 not recorded.
        phase: Phase of the step, if the name implies one.
        source: Whether the name itself is the source line.
    """

    kind: Kind | None
    on_device: bool = False
    copy: Copy = Copy.NONE
    pageable: int = -1
    phase: Phase = Phase.UNKNOWN
    source: bool = False


def category_of(raw: str) -> str:
    """A category in the current spelling."""
    lower = raw.lower()
    return _OLD_CATEGORIES.get(lower, lower)


# Paddle's profiler writes Kineto's layout, with categories of its own.
_PADDLE = {
    "profilestep": Meaning(Kind.STEP),
    "dataloader": Meaning(Kind.INPUT, phase=Phase.INPUT),
    "forward": Meaning(Kind.ANNOTATION, phase=Phase.FORWARD),
    "backward": Meaning(Kind.ANNOTATION, phase=Phase.BACKWARD),
    "optimization": Meaning(Kind.ANNOTATION, phase=Phase.OPTIMIZER),
    "operatorinner": Meaning(Kind.OP),
    "dygraphkernellaunch": Meaning(Kind.OP),  # the kernel itself, on a CPU
    "userdefined": Meaning(Kind.FRAMEWORK),
    "pythonop": Meaning(Kind.OP),
    "pythonuserdefined": Meaning(Kind.ANNOTATION),
}


_ACCELERATORS = {"mtia": "MTIA", "mlu": "MLU", "gcu": "GCU", "hpu": "HPU"}


def accelerator_of(category: str) -> str:
    """Name of the only accelerator that writes this category, '' if several do."""
    return _ACCELERATORS.get(category.partition("_")[0], "")


@lru_cache(maxsize=1 << 12)
def meaning_of(category: str, name: str) -> Meaning:
    """Meaning of a record by its `category_of` category and its name."""
    if category in _IGNORED:
        return Meaning(None)
    if category in _PADDLE:
        return _PADDLE[category]
    if category in {"cpu_op", "user_annotation"}:
        kind, phase = (operation if category == "cpu_op" else annotation)(name)
        return Meaning(kind, phase=phase)
    if category == "python_function":
        return _python(name)
    if category.endswith(("_runtime", "_driver")) or category == "xpu_sync":
        return Meaning(call_kind(name))
    if category == "collective_comm" and name.startswith("xccl::"):
        # A host call; the device work that it launches has its own records.
        return Meaning(Kind.COLLECTIVE)
    if category == "overhead":
        return Meaning(Kind.COMPILE if _LOADING.search(name) else Kind.PROFILER)
    return _device(category, name)


# --- device rows -------------------------------------------------------------------------------

# Level Zero marks memory from malloc as 'M'.
_UNPINNED = regex(r"Pageable|M2D|D2M")


def _device(category: str, name: str) -> Meaning:
    if category == "kernel":
        return Meaning(kernel_kind(name), on_device=True, copy=kernel_copy(name))
    if category in {"gpu_memcpy", "memcpy"} or category.endswith("_memcpy"):
        return _copy(name)
    if category == "gpu_memset" or category.endswith("_memset"):
        return Meaning(Kind.MEMSET, on_device=True)
    if category == "collective_comm":
        return Meaning(Kind.COLLECTIVE, on_device=True)
    if category == "cuda_sync":
        return Meaning(Kind.DEVICE_WAIT, on_device=True)
    if category.endswith("_user_annotation"):
        return Meaning(Kind.DEVICE_ANNOTATION, on_device=True)
    if category.endswith(("_ccp_events", "_concurrent_kernel", "concurrent_kernel")):
        # Command rows of accelerators that are neither CUDA nor HIP (e.g. MTIA).
        kind = kind_of(activity_row(name))
        return _copy(name) if kind is Kind.MEMCPY else Meaning(kind, on_device=True)
    return Meaning(Kind.OTHER)


def _copy(name: str) -> Meaning:
    pageable = 1 if _UNPINNED.search(name) else 0 if "Pinned" in name else -1
    return Meaning(Kind.MEMCPY, on_device=True, copy=named_direction(name), pageable=pageable)


# --- Python functions (with_stack) -------------------------------------------------------------

_DURATION = regex(r"\[\d+\.\d{3} (?:ns|us|ms|s)\]$")
_ADDRESS = regex(r" at 0x[0-9a-fA-F]+")
_PYTHON_LINE = regex(r"^(?P<file>[^()]*)\((?P<line>\d+)\): (?P<function>.+)$")
_HOME = regex(r"^(/(home|Users)/[^/]+|/root)/")
_FRAMEWORK_FILE = regex(r"(^|/)(torch|torchvision|functorch|triton|apex|lightning|accelerate)/")
_PREPROCESS = regex(
    r"^_?(pre_?process\w*|collate\w*|read_(video|image|audio)\w*|decode_(image|video|jpeg)\w*"
    r"|load_(image|sample|batch)\w*|augment\w*"
    r"|(next|get|fetch)_batch(?!_?(norm|size|ind|idx|dim))\w*)$",
    re.IGNORECASE,
)
_DATALOADER_FILE = regex(r"(^|/)torch/utils/data/dataloader\.py$")
_STORAGE_FILE = regex(
    r"(^|/)(torch/serialization\.py|torch/utils/tensorboard/|torch/distributed/checkpoint/)"
)
_COMPILE_FILE = regex(
    r"(^|/)(torch/_dynamo/convert_frame\.py|torch/_inductor/compile_fx\.py|triton/compiler/)"
)
_WAITING = regex(r"<built-in (method|function) (acquire|select|poll|sleep|wait)\b|lock.*acquire")


def shown_name(category: str, name: str) -> str:
    """A record's name without object addresses and Paddle's durations, which differ per call."""
    if category == "python_function":
        return without_addresses(name)
    return _DURATION.sub("", name) if name.endswith("s]") else name


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
    """Meaning of `<built-in ...>` and `nn.Module: ...`; framework code if torch owns them."""
    if _WAITING.search(name):
        return Meaning(Kind.WAIT)
    if name.startswith("nn.Module:") or re.search(r"of (Tensor|Parameter|type) object|torch", name):
        return Meaning(Kind.FRAMEWORK)
    return Meaning(Kind.PYTHON)
