"""Environment variables that slow a training: what each does, and to which runs it applies."""

from __future__ import annotations

import msgspec
import numpy as np

from stepwhy.analyse.facts import Facts
from stepwhy.analyse.program.gpus import sampled_gpus
from stepwhy.base.patterns import regex
from stepwhy.result import Evidence
from stepwhy.trace import NULL

LAUNCHES_WAIT = "share of kernels whose launch returned after them"
"""Evidence of launches that wait for their kernels, a fraction."""

MOST_WAIT = 0.5  # of the kernels; launches that do not wait return before all but the shortest ones

_TENSORFLOW, _JAX, _PYTORCH = ("tensorflow",), ("jax",), ("pytorch",)


class Setting(msgspec.Struct, frozen=True):
    """Effect of a variable.

    Args:
        effect: What it does, a clause.
        frameworks: Frameworks that read it; all if empty.
        gpu: Whether it applies only to runs on an accelerator.
        ranks: Whether it applies only to runs of several ranks.
        slows: Whether it slows every such run; otherwise it may, depending on the program.
    """

    effect: str
    frameworks: tuple[str, ...] = ()
    gpu: bool = False
    ranks: bool = False
    slows: bool = False


# Source: tensorflow/python/debug/lib/check_numerics_callback.py; a program that checks single
# tensors itself runs `CheckNumerics`.
CHECKS_OF_NUMERICS = regex(r"(?:DebugNumericSummary|CheckNumerics)V2")
"""Operations that `tf.debugging.enable_check_numerics()` adds after each other one."""

UNCOMPILED = frozenset({"JAX_DISABLE_JIT", "run_functions_eagerly", "run_eagerly"})
"""Settings that let compiled functions run their operations one by one."""

_DETERMINISTIC = "only deterministic algorithms are used, which may be slower"
_NO_COMPILER = "torch.compile leaves functions as they are"
_ALLOCATOR = "the allocator splits or keeps less memory, and may ask the driver more often"

SETTINGS = {
    "CUDA_LAUNCH_BLOCKING": Setting("each launch waits for its kernel", gpu=True, slows=True),
    "CUDA_DEVICE_MAX_CONNECTIONS": Setting(
        "all streams share one queue, so that less may overlap", gpu=True, ranks=True
    ),
    "CUBLAS_WORKSPACE_CONFIG": Setting(
        "matrix products have a fixed workspace, for deterministic results", gpu=True
    ),
    "NVIDIA_TF32_OVERRIDE": Setting("products in FP32 do not use TF32", gpu=True),
    "PYTORCH_NO_CUDA_MEMORY_CACHING": Setting(
        "each tensor is allocated and freed by the driver", _PYTORCH, gpu=True, slows=True
    ),
    "PYTORCH_CUDA_ALLOC_CONF": Setting(_ALLOCATOR, _PYTORCH, gpu=True),
    "PYTORCH_ALLOC_CONF": Setting(_ALLOCATOR, _PYTORCH, gpu=True),
    "TORCH_USE_CUDA_DSA": Setting("assertions on the device may be checked", _PYTORCH, gpu=True),
    "TORCH_DISTRIBUTED_DEBUG": Setting(
        "each collective is first compared between the ranks", _PYTORCH, ranks=True, slows=True
    ),
    "TORCH_NCCL_BLOCKING_WAIT": Setting(
        "the host waits for collectives", _PYTORCH, gpu=True, ranks=True
    ),
    "TORCHDYNAMO_DISABLE": Setting(_NO_COMPILER, _PYTORCH),
    "TORCH_COMPILE_DISABLE": Setting(_NO_COMPILER, _PYTORCH),
    "NCCL_DEBUG": Setting("each call of NCCL is logged", gpu=True, ranks=True),
    "NCCL_P2P_DISABLE": Setting("GPUs exchange through the host", gpu=True, ranks=True),
    "NCCL_SHM_DISABLE": Setting("ranks exchange through the network", gpu=True, ranks=True),
    "NCCL_IB_DISABLE": Setting("InfiniBand and RoCE are not used", gpu=True, ranks=True),
    "TF_DETERMINISTIC_OPS": Setting(_DETERMINISTIC, _TENSORFLOW),
    "TF_CUDNN_DETERMINISTIC": Setting(_DETERMINISTIC, _TENSORFLOW, gpu=True),
    "TF_CUDNN_USE_AUTOTUNE": Setting(
        "convolutions are not tuned for their shapes", _TENSORFLOW, gpu=True
    ),
    "run_functions_eagerly": Setting(
        "functions of tf.function run their operations one by one, uncompiled",
        _TENSORFLOW,
        slows=True,
    ),
    "run_eagerly": Setting(
        "fit runs its operations one by one, uncompiled", (*_TENSORFLOW, *_JAX), slows=True
    ),
    "TF_GPU_ALLOCATOR": Setting("another allocator is used", _TENSORFLOW, gpu=True),
    "JAX_DISABLE_JIT": Setting("operations run one by one, uncompiled", _JAX, slows=True),
    "JAX_DEBUG_NANS": Setting("the host waits for each result to look for NaN", _JAX, slows=True),
    "JAX_DEBUG_INFS": Setting(
        "the host waits for each result to look for infinity", _JAX, slows=True
    ),
    "JAX_ENABLE_CHECKS": Setting("JAX checks its own intermediate results", _JAX),
    "JAX_CHECK_TRACER_LEAKS": Setting("functions are traced without caches", _JAX),
    "XLA_FLAGS": Setting(
        "kernels are not tuned, or have to be deterministic", (*_JAX, *_TENSORFLOW), gpu=True
    ),
    "XLA_PYTHON_CLIENT_ALLOCATOR": Setting(
        "each array is allocated and freed by the driver", _JAX, gpu=True, slows=True
    ),
    "XLA_PYTHON_CLIENT_PREALLOCATE": Setting(
        "memory is allocated when it is needed, and may become fragmented", _JAX, gpu=True
    ),
}


def applied(facts: Facts) -> list[tuple[str, Setting]]:
    """The settings of the process that apply to its run, as 'NAME=VALUE', those that slow first."""
    found = [
        (f"{name}={value}", setting)
        for name, value in facts.trace.meta.settings
        if (setting := SETTINGS.get(name)) is not None and _applies(setting, facts)
    ]
    return sorted(found, key=lambda pair: not pair[1].slows)


def setting_lines(facts: Facts, *names: str) -> tuple[Evidence, ...]:
    """Lines of the program that name settings which are known to apply.

    Args:
        facts: Facts of the run.
        names: Functions, arguments and variables that make the setting.
    """
    trace = facts.trace
    rows = np.isin(trace.events.kind, trace.strings_where({"setting"}))
    rows &= np.isin(trace.events.name, trace.strings_where(names)) & (trace.events.source != NULL)
    pairs = zip(trace.events.name[rows].tolist(), trace.events.source[rows].tolist(), strict=True)
    return tuple(
        Evidence("set by", trace.string(name), "", trace.string(line))
        for name, line in dict.fromkeys(pairs)
    )


def maker_lines(facts: Facts, name: str) -> tuple[Evidence, ...]:
    """Lines of the program that make tensors what they are.

    Args:
        facts: Facts of the run.
        name: What of them: 'float64' or 'padding'.
    """
    trace = facts.trace
    rows = np.isin(trace.events.kind, trace.strings_where({"tensor-maker"}))
    rows &= np.isin(trace.events.name, trace.strings_where({name})) & (trace.events.reason != NULL)
    return tuple(
        Evidence(f"{name} is from", trace.string(reason), "", trace.string(source))
        for reason, source in zip(
            trace.events.reason[rows].tolist(), trace.events.source[rows].tolist(), strict=True
        )
    )


def _applies(setting: Setting, facts: Facts) -> bool:
    meta = facts.trace.meta
    if setting.frameworks and meta.framework not in setting.frameworks:
        return False
    if setting.ranks and meta.world_size < 2:
        return False
    # An accelerator is used, traced or not.
    uses_gpu = facts.has_accelerator or meta.device_expected or bool(sampled_gpus(facts.trace))
    return uses_gpu or not setting.gpu
