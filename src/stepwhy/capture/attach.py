"""The observer's entry: which imports of the job it waits for.

Runs in every Python process of the job, also in those that never train, so it imports next to
nothing and leaves one line in one file: the proof that the job can be observed.
"""

from __future__ import annotations

import os

from stepwhy.capture import imports

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType

RUN_DIR_VARIABLE = "STEPWHY_RUN_DIR"
ATTACHED_FILE = "attached"


def _observe_sessions(module: ModuleType) -> None:
    """`tensorflow.python.client.session` has been imported."""
    from stepwhy.capture import tf1

    tf1.install(module, os.environ[RUN_DIR_VARIABLE])


def _observe_optimizers(module: ModuleType) -> None:
    """`torch.optim.optimizer` has been imported."""
    from stepwhy.capture import pytorch

    pytorch.install_optimizer(module, os.environ[RUN_DIR_VARIABLE])


def _observe_loaders(module: ModuleType) -> None:
    """`torch.utils.data.dataloader` has been imported."""
    from stepwhy.capture import pytorch

    pytorch.install_loader(module)


def _observe_checkpoints(module: ModuleType) -> None:
    """`torch.serialization` has been imported."""
    from stepwhy.capture import pytorch

    pytorch.install_serialization(module)


def _observe_functions(module: ModuleType) -> None:
    """`tensorflow.python.eager.polymorphic_function.polymorphic_function` has been imported."""
    from stepwhy.capture import tf2

    tf2.install_functions(module, os.environ[RUN_DIR_VARIABLE])


def _observe_tracing(module: ModuleType) -> None:
    """`tensorflow.python.eager.polymorphic_function.tracing_compilation` has been imported."""
    from stepwhy.capture import tf2

    tf2.install_tracing(module, os.environ[RUN_DIR_VARIABLE])


def _observe_iterators(module: ModuleType) -> None:
    """`tensorflow.python.data.ops.iterator_ops` has been imported."""
    from stepwhy.capture import tf2

    tf2.install_iterators(module, os.environ[RUN_DIR_VARIABLE])


def _observe_updates(module: ModuleType) -> None:
    """`keras.src.optimizers.base_optimizer`, or that of legacy Keras, has been imported."""
    from stepwhy.capture import keras, tf2

    if keras.backend() == "tensorflow":
        tf2.install_optimizers(module, os.environ[RUN_DIR_VARIABLE])


def _observe_fit(module: ModuleType) -> None:
    """`keras.src.callbacks.callback_list`, or that of legacy Keras, has been imported."""
    from stepwhy.capture import keras

    keras.install(module, os.environ[RUN_DIR_VARIABLE])


def _observe_jit(module: ModuleType) -> None:
    """`jax._src.api` has been imported."""
    from stepwhy.capture import jax

    jax.install_calls(module, os.environ[RUN_DIR_VARIABLE])


def _observe_annotations(module: ModuleType) -> None:
    """`jax._src.profiler` has been imported."""
    from stepwhy.capture import jax

    jax.install_annotations(module, os.environ[RUN_DIR_VARIABLE])


_POLYMORPHIC = "tensorflow.python.eager.polymorphic_function"
_HOOKS = {
    "tensorflow.python.client.session": _observe_sessions,
    "torch.optim.optimizer": _observe_optimizers,
    "torch.utils.data.dataloader": _observe_loaders,
    "torch.serialization": _observe_checkpoints,
    f"{_POLYMORPHIC}.polymorphic_function": _observe_functions,
    f"{_POLYMORPHIC}.tracing_compilation": _observe_tracing,
    "tensorflow.python.data.ops.iterator_ops": _observe_iterators,
    "keras.src.optimizers.base_optimizer": _observe_updates,
    "tf_keras.src.optimizers.optimizer": _observe_updates,
    "keras.src.callbacks.callback_list": _observe_fit,
    "tf_keras.src.callbacks": _observe_fit,
    "jax._src.api": _observe_jit,
    "jax._src.profiler": _observe_annotations,
}


def _sign_in(run_dir: str) -> None:
    """Leave this process's id in the launcher's file; an append this small is atomic."""
    handle = os.open(f"{run_dir}/{ATTACHED_FILE}", os.O_WRONLY | os.O_APPEND)
    try:
        os.write(handle, b"%d\n" % os.getpid())
    finally:
        os.close(handle)


def attach() -> None:
    """Wait for the frameworks that can be observed; without a run directory, do nothing."""
    run_dir = os.environ.get(RUN_DIR_VARIABLE)
    if not run_dir:
        return
    for name, hook in _HOOKS.items():
        imports.after_import(name, hook)
    _sign_in(run_dir)
