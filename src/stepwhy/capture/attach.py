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


_HOOKS = {
    "tensorflow.python.client.session": _observe_sessions,
    "torch.optim.optimizer": _observe_optimizers,
    "torch.utils.data.dataloader": _observe_loaders,
    "torch.serialization": _observe_checkpoints,
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
