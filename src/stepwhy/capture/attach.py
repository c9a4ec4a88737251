"""The observer's entry: which imports of the job it waits for.

Runs in every Python process of the job, also in those that never train, so it imports next to
nothing and leaves one line in one file: the proof that the job can be observed.
"""

from __future__ import annotations

import atexit
import os

from stepwhy.capture import import_hooks
from stepwhy.capture.process import registry

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType

RUN_DIR_VARIABLE = "STEPWHY_RUN_DIR"
LOOKER_VARIABLE = "STEPWHY_LOOKER"


def run_dir() -> str:
    """The run directory of the first observation in this process: the key of all that is shared.

    Recorders follow the later ones by themselves.
    """
    return _first or os.environ[RUN_DIR_VARIABLE]


def _observe_sessions(module: ModuleType) -> None:
    """`tensorflow.python.client.session` has been imported."""
    from stepwhy.capture.tf1 import sessions

    sessions.install(module, run_dir())


def _observe_optimizers(module: ModuleType) -> None:
    """`torch.optim.optimizer` has been imported."""
    from stepwhy.capture.torch import observer

    observer.install_optimizer(module, run_dir())


def _observe_loaders(module: ModuleType) -> None:
    """`torch.utils.data.dataloader` has been imported."""
    from stepwhy.capture.torch import observer

    observer.install_loader(module, run_dir())


def _observe_scalers(module: ModuleType) -> None:
    """`torch.amp.grad_scaler` has been imported."""
    from stepwhy.capture.torch import observer

    observer.install_scaler(module, run_dir())


def _observe_compiler(module: ModuleType) -> None:
    """`torch._dynamo.utils` has been imported."""
    from stepwhy.capture.torch import observer

    observer.install_compiler(module, run_dir())


def _observe_checkpoints(module: ModuleType) -> None:
    """`torch.serialization` has been imported."""
    from stepwhy.capture.torch import observer

    observer.install_serialization(module)


def _observe_functions(module: ModuleType) -> None:
    """`tensorflow.python.eager.polymorphic_function.polymorphic_function` has been imported."""
    from stepwhy.capture.tf2 import functions

    functions.install_functions(module, run_dir())


def _observe_tracing(module: ModuleType) -> None:
    """`tensorflow.python.eager.polymorphic_function.tracing_compilation` has been imported."""
    from stepwhy.capture.tf2 import functions

    functions.install_tracing(module, run_dir())


def _observe_iterators(module: ModuleType) -> None:
    """`tensorflow.python.data.ops.iterator_ops` has been imported."""
    from stepwhy.capture.tf2 import functions

    functions.install_iterators(module, run_dir())


def _observe_updates(module: ModuleType) -> None:
    """`keras.src.optimizers.base_optimizer`, or that of legacy Keras, has been imported."""
    from stepwhy.capture.keras import fit
    from stepwhy.capture.tf2 import functions

    if fit.backend() == "tensorflow":
        functions.install_optimizers(module, run_dir())


def _observe_fit(module: ModuleType) -> None:
    """`keras.src.callbacks.callback_list`, or that of legacy Keras, has been imported."""
    from stepwhy.capture.keras import fit

    fit.install(module, run_dir())


def _observe_jit(module: ModuleType) -> None:
    """`jax._src.api` has been imported."""
    from stepwhy.capture.jax import functions

    functions.install_calls(module, run_dir())


def _observe_annotations(module: ModuleType) -> None:
    """`jax._src.profiler` has been imported."""
    from stepwhy.capture.jax import functions

    functions.install_annotations(module, run_dir())


def _observe_workers(module: ModuleType) -> None:
    """`multiprocessing.util` has been imported."""
    from stepwhy.capture.process import workers

    workers.install_util(module)


def _observe_pools(module: ModuleType) -> None:
    """`multiprocessing.pool` has been imported."""
    from stepwhy.capture.process import workers

    workers.install_pool(module)


_POLYMORPHIC = "tensorflow.python.eager.polymorphic_function"
_HOOKS = {
    "tensorflow.python.client.session": _observe_sessions,
    "torch.optim.optimizer": _observe_optimizers,
    "torch.utils.data.dataloader": _observe_loaders,
    "torch.amp.grad_scaler": _observe_scalers,
    "torch._dynamo.utils": _observe_compiler,
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
    "multiprocessing.util": _observe_workers,
    "multiprocessing.pool": _observe_pools,
}


_hooked: set[str] = set()
_first = ""


def observe() -> None:
    """Hook into the frameworks that are imported, and into the others once they are; each once."""
    global _first  # noqa: PLW0603 - of the process
    _first = run_dir()
    for name, hook in _HOOKS.items():
        if name not in _hooked:
            import_hooks.after_import(name, _once(name, hook))


def is_hooked(module: str) -> bool:
    """Whether a module has been hooked into, so that its framework is there.

    Args:
        module: Its full name.
    """
    return module in _hooked


def _once(name: str, hook: import_hooks.Hook) -> import_hooks.Hook:
    """A hook that keeps account of having been called."""

    def hooked(module: ModuleType) -> None:
        # After the end of a watched block nobody asks; the next block will find the module.
        if RUN_DIR_VARIABLE in os.environ:
            _hooked.add(name)
            _let_look()
            hook(module)

    return hooked


def _let_look() -> None:
    """Let the launcher's sampler look at this process, where the kernel asks for that."""
    if LOOKER_VARIABLE in os.environ:
        from stepwhy.capture.sampling import ptrace

        ptrace.permit()


def attach() -> None:
    """Wait for the frameworks that can be observed; without a run directory, do nothing."""
    directory = os.environ.get(RUN_DIR_VARIABLE)
    if not directory:
        return
    observe()
    registry.sign_in(directory)
    # The first to register is the last to be called: all that was seen has been counted by then.
    atexit.register(registry.sign_out, directory)
