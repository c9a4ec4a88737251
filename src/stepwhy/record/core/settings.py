"""Environment variables that slow a training, read when its first steps are written.

Only variables of a fixed list are recorded, and of their values only those that have an effect and
are of a known form, so that nothing else of the environment reaches the run directory. A program
may set them itself, which is why they are read in its process and not by the launcher.

Source: CUDA C Programming Guide, environment variables; PyTorch, `c10/cuda` (allocator) and
`torch/csrc/distributed`; NCCL, environment variables; cuBLAS, results reproducibility; JAX,
`jax/_src/config.py` and GPU memory allocation; TensorFlow, `tensorflow/core/util`.
"""

from __future__ import annotations

import os
import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_ON = r"(?i:[1-9]\d{0,2}|true|yes|on|t|y)"
_OFF = r"(?i:0|false|no|off|f|n)"

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

_BETWEEN_OPTIONS = re.compile(r"[\s,]+")


def settings_of(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables that slow a training, with their values.

    Args:
        environ: The environment.
    """
    return dict(_found(environ))


def process_settings() -> dict[str, dict[str, str]]:
    """Members of `process.json` for the settings of this process; none without such variables."""
    found = settings_of(os.environ)
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
