"""Environment variables that slow a training, read when its first steps are written.

Only variables of a fixed list are recorded, and of their values only those that have an effect and
are of a known form, so that nothing else of the environment reaches the run directory. A program
may set them itself, which is why they are read in its process and not by the launcher. Then its
code shows the line, as it does for settings that are calls: it is only looked at.

Source: CUDA C Programming Guide, environment variables; PyTorch, `c10/cuda` (allocator) and
`torch/csrc/distributed`; NCCL, environment variables; cuBLAS, results reproducibility; JAX,
`jax/_src/config.py` and GPU memory allocation; TensorFlow, `tensorflow/core/util`.
"""

from __future__ import annotations

import ast
import contextlib
import os
import re
import sys
from collections import Counter
from itertools import islice
from pathlib import Path

from stepwhy.record.core.user_code import program_files

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Mapping

_ON = r"(?i:[1-9]\d{0,2}|true|yes|on|t|y)"
_OFF = r"(?i:0|false|no|off|f|n)"

RUN_EAGERLY = "run_functions_eagerly"
"""The option of `tf.config`, for which there is no variable."""

COMPILE_EAGERLY = "run_eagerly"
"""The argument of `compile` of a Keras model."""

FORMS = {
    "CUDA_LAUNCH_BLOCKING": _ON,
    "CUDA_DEVICE_MAX_CONNECTIONS": "1",
    "CUBLAS_WORKSPACE_CONFIG": r"(:\d{1,6}:\d{1,6}){1,8}",
    "NVIDIA_TF32_OVERRIDE": "0",
    # The allocator only asks whether the variable exists.
    "PYTORCH_NO_CUDA_MEMORY_CACHING": f"{_ON}|{_OFF}",
    "TORCH_USE_CUDA_DSA": _ON,
    "TORCH_DISTRIBUTED_DEBUG": "(?i:detail)",
    "TORCH_NCCL_BLOCKING_WAIT": _ON,
    "TORCHDYNAMO_DISABLE": _ON,
    "TORCH_COMPILE_DISABLE": _ON,
    "NCCL_DEBUG": "(?i:trace)",
    "NCCL_P2P_DISABLE": _ON,
    "NCCL_SHM_DISABLE": _ON,
    "NCCL_IB_DISABLE": _ON,
    "TF_DETERMINISTIC_OPS": _ON,
    "TF_CUDNN_DETERMINISTIC": _ON,
    "TF_CUDNN_USE_AUTOTUNE": _OFF,
    "TF_GPU_ALLOCATOR": "cuda_malloc_async",
    "JAX_DISABLE_JIT": _ON,
    "JAX_DEBUG_NANS": _ON,
    "JAX_DEBUG_INFS": _ON,
    "JAX_ENABLE_CHECKS": _ON,
    "JAX_CHECK_TRACER_LEAKS": _ON,
    "XLA_PYTHON_CLIENT_ALLOCATOR": "platform",
    "XLA_PYTHON_CLIENT_PREALLOCATE": _OFF,
    RUN_EAGERLY: _ON,
    COMPILE_EAGERLY: _ON,
}
"""Variable -> pattern of the values that have an effect; others are not recorded."""

OPTIONS = {
    "XLA_FLAGS": (
        r"--xla_gpu_autotune_level=0",
        r"--xla_gpu_deterministic_ops(=(true|1))?",
        r"--xla_gpu_exclude_nondeterministic_ops(=(true|1))?",
    ),
    "PYTORCH_CUDA_ALLOC_CONF": (
        r"max_split_size_mb:\d{1,6}",
        r"garbage_collection_threshold:[01]?\.\d{1,4}",
    ),
    "PYTORCH_ALLOC_CONF": (
        r"max_split_size_mb:\d{1,6}",
        r"garbage_collection_threshold:[01]?\.\d{1,4}",
    ),
}
"""Variable with several options -> patterns of the options that have an effect."""

_of_fit: dict[str, str] = {}
_BETWEEN_OPTIONS = re.compile(r"[\s,]+")


def settings_of(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables that slow a training, with their values.

    Args:
        environ: The environment.
    """
    return dict(_found(environ))


def note_fit(model: object) -> None:
    """Note what slows the steps of `fit` of a Keras model, before the first of them."""
    if getattr(model, COMPILE_EAGERLY, None) is True:
        _of_fit[COMPILE_EAGERLY] = "1"


def process_settings() -> dict[str, dict[str, str]]:
    """Members of `process.json` for the settings of this process; none without such variables."""
    # Options that the program has switched on, under the names of their variables.
    config = getattr(sys.modules.get("jax"), "config", None)
    names = [name for name in FORMS if name.startswith("JAX_")]
    switched_on = {name: "1" for name in names if getattr(config, name.lower(), None) is True}
    tensorflow = getattr(sys.modules.get("tensorflow"), "config", None)
    if getattr(tensorflow, "functions_run_eagerly", bool)():
        switched_on[RUN_EAGERLY] = "1"
    found = settings_of({**os.environ, **switched_on, **_of_fit})
    return {"settings": found} if found else {}


def _found(environ: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for name, form in FORMS.items():
        value = environ.get(name, "").strip()
        if value and re.fullmatch(form, value):
            yield name, value
    for name, forms in OPTIONS.items():
        words = _BETWEEN_OPTIONS.split(environ.get(name, ""))
        kept = [word for word in words if any(re.fullmatch(form, word) for form in forms)]
        if kept:
            yield name, " ".join(kept)


SETTING = "setting"
"""Kind of the event for a line of the program that names a setting."""
_CALLS = frozenset(
    {
        "set_num_threads",
        "set_intra_op_parallelism_threads",
        "intra_op_parallelism_threads",
        "set_detect_anomaly",
        "detect_anomaly",
        "set_floatx",
        "set_default_dtype",
        "jax_enable_x64",
        "enable_x64",
        "float64",
        "double",
        RUN_EAGERLY,
        COMPILE_EAGERLY,
        "enable_check_numerics",
        *(name.lower() for name in FORMS if name.startswith("JAX_")),
        # `jax.disable_jit()` and the like, for a part of the program.
        *(name.removeprefix("JAX_").lower() for name in FORMS if name.startswith("JAX_")),
    }
)
"""Functions, arguments and options that set what an environment variable may set, too."""
_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "TF_NUM_INTRAOP_THREADS", "JAX_ENABLE_X64")
# Limits of what is read when the first steps are written: it takes a few milliseconds.
_MOST_FILES = 200
_MOST_BYTES = 1 << 17  # of code, in all files that name a setting
_MOST_LINES = 4  # with one name; of more, none is the line


def setting_lines() -> list[tuple[str, str]]:
    """Lines of the program that name a setting, as (name, 'train.py(3): main').

    A variable counts only if the process began without it, or with another value. Of other names,
    a line may never run: only a fact that the setting applies makes it one.
    """
    names = _CALLS | _set_since_start(os.environ)
    pattern = re.compile(rf"\b({'|'.join(sorted(names))})\b")
    found: list[tuple[str, str]] = []
    left = _MOST_BYTES
    for path, short in islice(program_files(), _MOST_FILES):
        # Modules made by code, such as `torch.ops`, may name a file that does not exist.
        with contextlib.suppress(OSError, SyntaxError):
            if os.stat(path).st_size > left:  # noqa: PTH116
                continue
            text = Path(path).read_text(errors="replace")
            if pattern.search(text):
                left -= len(text)
                found += _naming(ast.parse(text), names, short, "<module>")
    each = dict.fromkeys(found)
    lines = Counter(name for name, _ in each)
    return [(name, line) for name, line in each if lines[name] <= _MOST_LINES]


def _set_since_start(environ: Mapping[str, str]) -> frozenset[str]:
    """The variables that the process has set itself; none where its first values are unknown."""
    try:
        first = Path("/proc/self/environ").read_bytes().split(b"\0")
    except OSError:
        return frozenset()
    names = (*FORMS, *OPTIONS, *_THREADS)
    return frozenset(
        name
        for name in names
        if name in environ and f"{name}={environ[name]}".encode() not in first
    )


def _naming(
    node: ast.AST, names: Container[str], short: str, inside: str
) -> Iterator[tuple[str, str]]:
    """The names of settings below a node of the program's code, each with its line."""
    for child in ast.iter_child_nodes(node):
        match child:
            case ast.Attribute(attr=name, end_lineno=number):  # its name ends the expression
                pass
            case ast.Name(id=name, lineno=number) | ast.keyword(arg=str(name), lineno=number):
                pass
            case ast.Constant(value=str(name), lineno=number):
                pass
            case _:
                name = ""
        if name in names:
            yield name, f"{short}({number}): {inside}"
        match child:
            case ast.FunctionDef(name=function) | ast.AsyncFunctionDef(name=function):
                yield from _naming(child, names, short, function)
            case _:
                yield from _naming(child, names, short, inside)
