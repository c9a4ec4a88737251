"""Apply one fix inside an unmodified program, as `stepwhy try` asks for in the environment.

Each fix replaces functions of a framework in this process, right after the program has imported
it, and writes what it has changed to the run directory. Nothing outlives the process: no file of
the program, cache or environment is touched. A fix never raises into the training; where it cannot
be applied it leaves the call as it was and says why.
"""

from __future__ import annotations

from importlib import import_module

from stepwhy.record.core import import_hooks
from stepwhy.record.trials import blocks, losses, ticks
from stepwhy.record.trials.reports import Trial
from stepwhy.record.trials.spec import spec_of_process

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any

_SEED = 20_260

_TORCH = "torch.optim.optimizer"
_LOADER = "torch.utils.data.dataloader"
_DATASETS = "tensorflow.python.data.ops.dataset_ops"

FIXES: dict[str, tuple[tuple[str, str], ...]] = {
    "loader-workers": ((_LOADER, "torch_loaders:add_workers"),),
    "loader-prefetch": ((_LOADER, "torch_loaders:prefetch_more"),),
    "persistent-workers": ((_LOADER, "torch_loaders:keep_workers"),),
    "pin-memory": ((_LOADER, "torch_loaders:pin_memory"),),
    "constant-batch": (
        (_LOADER, "torch_loaders:repeat_batch"),
        (_DATASETS, "tf_data:repeat_batch"),
    ),
    "foreach-optimizer": ((_TORCH, "torch_optimizers:use_foreach"),),
    "fused-optimizer": ((_TORCH, "torch_optimizers:use_fused"),),
    "torch-threads": (("torch", "torch_settings:set_threads"),),
    "anomaly-detection-off": (("torch", "torch_settings:detect_no_anomaly"),),
    "own-profiler-off": (("torch.profiler.profiler", "torch_settings:profile_nothing"),),
    "empty-cache-rarely": (("torch.cuda.memory", "rare_calls:empty_cache"),),
    "summaries-rarely": (
        ("torch.utils.tensorboard.writer", "rare_calls:write_summaries"),
        ("tensorboardX.writer", "rare_calls:write_summaries"),
    ),
    "no-sync": (("torch.nn.parallel.distributed", "torch_models:synchronise_once"),),
    "channels-last": (("torch.nn", "torch_models:use_channels_last"),),
    "autocast": (("torch.nn", "torch_models:use_autocast"),),
    "torch-compile": (("torch.nn", "torch_models:compile_models"),),
    "compile-dynamic": (("torch", "torch_models:compile_dynamic"),),
    "parallel-map": ((_DATASETS, "tf_data:map_in_parallel"),),
    "data-prefetch": ((_DATASETS, "tf_data:prefetch"),),
    "data-cache": ((_DATASETS, "tf_data:cache"),),
    "keras-compiled": (
        ("keras.src.trainers.trainer", "keras_compile:compile_steps"),
        ("tensorflow.python.eager.polymorphic_function.eager_function_run",
         "keras_compile:run_functions_as_graphs"),
    ),
    "keras-jit": (("keras.src.trainers.trainer", "keras_compile:jit_steps"),),
    "reduce-retracing": (
        ("tensorflow.python.eager.polymorphic_function.polymorphic_function",
         "functions:reduce_retracing"),
    ),
    "tf-function": (("tensorflow.python.eager.backprop", "functions:make_tf_function"),),
    "jax-jit": (("jax._src.api", "functions:make_jitted"),),
    "jax-debug-off": (("jax._src.config", "functions:debug_nothing"),),
    "gc-rarely": (("", "process:collect_rarely"),),
    "keep-freed-memory": (("", "process:environment_only"),),
    "thread-variables": (("", "process:environment_only"),),
}  # fmt: skip
"""Name of a fix -> the modules of a framework, and what changes each (`module:function` here).

A function is called with the module and the trial, right after the import; without a module, at
the start of the process.
"""


def begin(run_dir: str) -> bool:
    """Begin the trial of this process.

    Args:
        run_dir: The run directory, absolute.

    Returns:
        Whether the trial times the steps itself.
    """
    spec = spec_of_process()
    if spec is None:
        return False
    trial = Trial(spec, run_dir)
    set_seeds()
    losses.keep_losses(trial)
    for module, target in FIXES.get(spec.fix, ()):
        hook = _hook(target, trial)
        if module:
            import_hooks.after_import(module, hook)
        else:
            trial.guard(lambda hook=hook: hook(None))  # type: ignore[misc]
    if spec.steps:
        ticks.end_after(spec.steps)
    if spec.timed:
        blocks.begin(trial)
    else:
        ticks.report_count(trial)
    return spec.timed


def _hook(target: str, trial: Trial) -> import_hooks.Hook:
    """The import hook that applies a part of a fix."""

    def apply(module: ModuleType | None) -> None:
        home, _, function = target.partition(":")
        change = getattr(import_module(f"{__name__}.{home}"), function)
        trial.guard(lambda: change(module, trial))

    return apply


def set_seeds() -> None:
    """Set the seeds of Python, NumPy, PyTorch and TensorFlow, each when it is imported.

    All runs then have the same. Where the program sets seeds, its own apply, since it runs later.
    """
    import_hooks.after_import("random", _seed_python)
    import_hooks.after_import("numpy.random", _seed_python)
    import_hooks.after_import("torch.random", _seed_torch)
    tensorflow = "tensorflow.python.framework.random_seed"
    import_hooks.after_import(tensorflow, lambda module: module.set_seed(_SEED))
    import_hooks.after_import("keras.src.random.seed_generator", _seed_keras)


def _seed_python(module: Any) -> None:
    """Seed `random` or `numpy.random`, which share the name of the function."""
    module.seed(_SEED)


def _seed_torch(module: Any) -> None:
    """Seed the generator of the CPU; `manual_seed` needs more of torch than is imported here."""
    module.default_generator.manual_seed(_SEED)


def _seed_keras(_: ModuleType) -> None:
    """Seed Keras' initialisers, which draw from Python's generator."""
    import random

    random.seed(_SEED)
