"""The observer's entry point: instrument each framework as soon as the job imports it.

This runs in every Python process of the job, including those that never train. So it imports next
to nothing, and appends one line to one file: the proof that the job can be observed.
"""

from __future__ import annotations

import atexit
import os
import sys

from stepwhy.record import RUN_DIR_VARIABLE, SAMPLER_VARIABLE, TRIAL_VARIABLE
from stepwhy.record.core import import_hooks, registry

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType
    from typing import Any

_POLYMORPHIC = "tensorflow.python.eager.polymorphic_function"

INSTRUMENTATION = {
    "tensorflow.python.client.session": "tf1.sessions:observe_sessions",
    "tensorflow.python.training.optimizer": "tf1.sessions:observe_optimizers",
    f"{_POLYMORPHIC}.polymorphic_function": "tf2.functions:observe_functions",
    f"{_POLYMORPHIC}.tracing_compilation": "tf2.tracing:observe_tracing",
    "tensorflow.python.data.ops.iterator_ops": "tf2.pipeline:observe_iterators",
    "tensorflow.python.data.ops.dataset_ops": "tf2.generators:observe_generators",
    "torch.optim.optimizer": "torch.observer:observe_optimizers",
    "torch.nn.modules.module": "torch.evaluations:observe_modes",
    "torch.nn.modules.sparse": "torch.observer:observe_tables",
    "torch.autograd": "torch.observer:observe_backward",
    "torch.cuda.graphs": "torch.observer:observe_graphs",
    "torch.amp.grad_scaler": "torch.observer:observe_scalers",
    "torch.utils.data.dataloader": "torch.observer:observe_loaders",
    "torch._dynamo.utils": "torch.observer:observe_compiler",
    "torch.serialization": "torch.observer:observe_checkpoints",
    "transformers.trainer": "torch.evaluations:observe_trainer",
    "lightning.pytorch.loops.evaluation_loop": "torch.evaluations:observe_lightning",
    "pytorch_lightning.loops.evaluation_loop": "torch.evaluations:observe_lightning",
    "keras.src.optimizers.base_optimizer": "keras.optimizers:observe_optimizers",
    "tf_keras.src.optimizers.optimizer": "keras.optimizers:observe_optimizers",
    "keras.src.ops.operation": "watchers.layer_lines:observe_layers",
    "keras.src.metrics.metric": "watchers.layer_lines:observe_metrics",
    "keras.src.callbacks.callback_list": "keras.fit:observe_fit",
    "tf_keras.src.callbacks": "keras.fit:observe_fit",
    "keras.src.trainers.epoch_iterator": "keras.batches:observe_batches",
    "keras.src.models.model": "keras.evaluations:observe_evaluations",
    "tf_keras.src.engine.training": "keras.evaluations:observe_evaluations",
    "jax._src.api": "jax.functions:observe_functions",
    "jax._src.array": "jax.waits:observe_waits",
    "jax._src.lax.control_flow.conditionals": "jax.batched_branches:observe_branches",
    "jax._src.profiler": "jax.annotations:observe_annotations",
    "jax._src.dispatch": "watchers.saving:observe_plain_saving",
    "torch.distributed.checkpoint.state_dict_saver": "watchers.saving:observe_saving",
    "safetensors.torch": "watchers.saving:observe_saving",
    "tensorflow.python.training.saver": "watchers.saving:observe_saving",
    "tensorflow.python.saved_model.save": "watchers.saving:observe_saving",
    "tensorflow.python.checkpoint.checkpoint": "watchers.saving:observe_saving",
    "tensorflow.python.checkpoint.checkpoint_management": "watchers.saving:observe_saving",
    "keras.src.saving.saving_api": "watchers.saving:observe_saving",
    "tf_keras.src.saving.saving_api": "watchers.saving:observe_saving",
    "keras.src.callbacks.model_checkpoint": "watchers.saving:observe_keepers",
    "keras.src.callbacks.backup_and_restore": "watchers.saving:observe_keepers",
    "tensorflow.python.training.basic_session_run_hooks": "watchers.saving:observe_keepers",
    "lightning.pytorch.callbacks.model_checkpoint": "watchers.saving:observe_keepers",
    "pytorch_lightning.callbacks.model_checkpoint": "watchers.saving:observe_keepers",
    "orbax.checkpoint.checkpoint_manager": "watchers.saving:observe_saving",
    "orbax.checkpoint._src.checkpointers.checkpointer": "watchers.saving:observe_saving",
    "orbax.checkpoint._src.checkpointers.async_checkpointer": "watchers.saving:observe_saving",
    "flax.training.checkpoints": "watchers.saving:observe_saving",
    "multiprocessing.popen_fork": "watchers.child_waits:observe_joins",
    "multiprocessing.util": "core.process.workers:observe_workers",
    "multiprocessing.pool": "core.process.workers:observe_pools",
}
"""Module of a framework -> function in `stepwhy.record` that instruments it (`module:function`).

Each function is called once, right after the import, with the module and the run directory.
"""

OBSERVERS_NEED = tuple(
    f"stepwhy.base.{name}"
    for name in (
        *("errors", "redaction.assignments", "redaction.commands", "redaction.prefilter"),
        *("regular_files", "text", "units", "whole_files"),
    )
)
"""Everything outside of `stepwhy.record` that observers import."""

_instrumented: set[str] = set()
# This package, where the program has a module of the same name.
_nameless: ModuleType | None = None
_first_run_dir = ""


def run_dir() -> str:
    """The run directory of the first observation in this process, absolute.

    It is the key of everything that observers share. Recorders follow later run directories.
    """
    return _first_run_dir or os.environ[RUN_DIR_VARIABLE]


def is_instrumented(module: str) -> bool:
    """Whether the job has imported a module and it has been instrumented.

    Args:
        module: Its full name, one of `INSTRUMENTATION`.
    """
    return module in _instrumented


def observe() -> None:
    """Instrument the frameworks that are imported, and the others once they are; each once."""
    global _first_run_dir  # noqa: PLW0603 - the process has one
    _first_run_dir = run_dir()
    for name, target in INSTRUMENTATION.items():
        if name not in _instrumented:
            import_hooks.after_import(name, _instrumenter(name, target))


def _instrumenter(name: str, target: str) -> import_hooks.Hook:
    """The import hook that calls `target` for a module."""

    def instrument(module: ModuleType) -> None:
        if RUN_DIR_VARIABLE not in os.environ or name in _instrumented:
            return  # the watched block has ended; the next one will instrument the module
        _instrumented.add(name)
        under_own_name(lambda: _instrument(module, target))

    return instrument


def _instrument(module: ModuleType, target: str) -> None:
    """Call a function of `INSTRUMENTATION` for a module."""
    # Let the launcher's sampler read this process, where the kernel requires permission.
    if SAMPLER_VARIABLE in os.environ:
        from stepwhy.record.sampling import ptrace

        ptrace.allow_sampler()
    _module("stepwhy.record.watchers.garbage").observe_garbage(run_dir())
    _module("stepwhy.record.watchers.disk_syncs").observe_syncs(run_dir())
    _module("stepwhy.record.core.process.losses").attempt(
        "waits for child processes that save",
        lambda: _module("stepwhy.record.watchers.child_waits").observe_waits(run_dir()),
    )
    home, _, function = target.partition(":")
    try:
        getattr(_module(f"stepwhy.record.{home}"), function)(module, run_dir())
    except Exception as error:
        names = _module("stepwhy.record.framework_names")
        _module("stepwhy.record.core.process.losses").add(names.lost_with(module.__name__), error)


def give_name_back() -> None:
    """Let the program import a module of its own as `stepwhy`.

    This package gets the name only while it instruments a framework. Later, observers find each
    other in `stepwhy.record`, which stays loaded.
    """
    global _nameless  # noqa: PLW0603 - the name is one for the process
    _nameless = sys.modules.pop("stepwhy")


def under_own_name(work: Callable[[], None]) -> None:
    """Run a part of the instrumentation, in which `stepwhy` is this package.

    Args:
        work: The part.
    """
    if _nameless is None:
        work()
        return
    theirs = sys.modules.get("stepwhy")
    sys.modules["stepwhy"] = _nameless
    try:
        for name in OBSERVERS_NEED:
            _module(name)
        work()
    finally:
        del sys.modules["stepwhy"]
        if theirs is not None:
            sys.modules["stepwhy"] = theirs


def _module(name: str) -> Any:
    """Import a module, without `importlib`, which imports modules that the program may replace."""
    # With a list of names, the module is returned, and what is above it not asked for.
    return __import__(name, fromlist=("__name__",))


def attach() -> None:
    """Wait for the frameworks that can be observed; without a run directory, do nothing."""
    directory = os.environ.get(RUN_DIR_VARIABLE)
    if not directory:
        return
    # Before the observers, so that these see the program with the fix that is tried.
    if not _begin_trial(directory):
        observe()
    registry.register(directory)
    # Registered first, so called last: by then everything has been counted.
    atexit.register(registry.report_exit, directory)


def _begin_trial(directory: str) -> bool:
    """Apply the fix that `stepwhy try` tries, if this is such a run.

    Returns:
        Whether the trial times the steps itself, so that nothing is observed.
    """
    if TRIAL_VARIABLE not in os.environ:
        return False
    return bool(_module("stepwhy.record.trials").begin(directory))
