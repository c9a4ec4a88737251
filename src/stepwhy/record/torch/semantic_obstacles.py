"""What may keep a step from being looked at: where a mode, or a read of values, could change it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from stepwhy.record.torch import cuda_graphs, device
from stepwhy.record.torch.dispatch_modes import is_special
from stepwhy.record.torch.function_modes import has_active_mode
from stepwhy.record.torch.provenance import has_lasting_storages

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

COMPILED = "torch.compile is in use"
LACKING = "this version of PyTorch lacks what it takes"


def obstacles(state: list[Any]) -> Iterator[tuple[str, bool]]:
    """What may keep a step from being looked at, each with whether it is so."""
    import torch

    core: Any = torch._C
    task = getattr(core, "_current_graph_task_id", None)
    yield "a mode for functions of torch is active", has_active_mode()
    yield LACKING, not (task and _has_modes(torch))
    yield "the optimizer steps inside the backward pass", bool(task and task() >= 0)
    yield COMPILED, is_compiled()
    yield cuda_graphs.CAPTURED, cuda_graphs.were_captured() or cuda_graphs.is_any_captured()
    yield (
        "the program reports waits for the device",
        device.is_in_use() and bool(torch.cuda.get_sync_debug_mode()),
    )
    yield "another dispatch mode is active", current_mode() is not None
    yield "a transform of torch.func is active", _is_transformed()
    yield "torch.distributed is in use, and other processes would wait", _is_distributed(torch)
    yield "the parameters are of a subclass of tensors", any(map(is_special, state))
    yield "the parameters are quantised", any(one.is_quantized for one in state)


def _has_modes(torch: Any) -> bool:
    from torch.utils import _python_dispatch

    mode = getattr(_python_dispatch, "TorchDispatchMode", None)
    return hasattr(mode, "supports_higher_order_operators") and has_lasting_storages(
        torch.empty(1, device="cpu")
    )


def current_mode() -> Any:
    """The dispatch mode on top of those of this thread; None for none."""
    from torch.utils._python_dispatch import _get_current_dispatch_mode

    return _get_current_dispatch_mode()


def is_compiled() -> bool:
    """Whether `torch.compile` was called with a backend in this process."""
    module: Any = sys.modules.get("torch._dynamo.eval_frame")
    # Functions that are left out of compilation have a backend that is none.
    return module is not None and any(bool(one) for one in module.cached_backends.values())


def _is_transformed() -> bool:
    from torch import _C

    # The other calls of functorch make a state of this thread, which each later node of the
    # backward pass copies.
    return bool(_C._are_functorch_transforms_active())


def _is_distributed(torch: Any) -> bool:
    module = torch.distributed
    return bool(module.is_available() and module.is_initialized())
