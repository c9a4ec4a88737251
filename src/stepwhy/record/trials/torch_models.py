"""Changes of how models of PyTorch run: layout, precision, compilation, gradient exchange."""

from __future__ import annotations

import functools
import threading
import weakref
from typing import TYPE_CHECKING

from stepwhy.record.core import import_hooks

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from stepwhy.record.trials.reports import Trial

# Optimizer steps whose backward passes are counted before any exchange is left out.
_COUNTED_STEPS = 3


def use_channels_last(nn: Any, trial: Trial) -> None:
    """Keep the weights and inputs of two-dimensional convolutions channels last."""
    from torch.nn.modules.module import register_module_forward_pre_hook

    converted: set[int] = set()

    def convert(module: Any, inputs: Any) -> Any:
        import torch

        if not isinstance(module, nn.Conv2d) or not inputs or inputs[0].dim() != 4:
            return None
        if id(module) not in converted:
            converted.add(id(module))
            layout = torch.channels_last
            module.weight.data = module.weight.data.contiguous(memory_format=layout)
            trial.changed("Conv2d: channels last")
        return (inputs[0].contiguous(memory_format=torch.channels_last), *inputs[1:])

    register_module_forward_pre_hook(convert)


def use_autocast(nn: Any, trial: Trial) -> None:
    """Run each model under `torch.autocast`, in bfloat16 or `value`."""

    def under_autocast(model: Any, call: Callable[[], Any]) -> Any:
        import torch

        parameter = next(model.parameters(), None)
        if not trial.on or parameter is None:
            return call()
        dtype = getattr(torch, trial.spec.value or "bfloat16")
        trial.changed(f"{type(model).__name__}: autocast to {dtype}")
        with torch.autocast(parameter.device.type, dtype):
            return call()

    _around_models(nn, under_autocast)


def compile_models(nn: Any, trial: Trial) -> None:
    """Compile each model by `torch.compile` when it is first called; `value` is the backend."""
    seen: dict[int, Any] = {}
    compiled: set[int] = set()
    backend = trial.spec.value or "inductor"

    def compile_(model: Any) -> None:
        name = type(model).__name__
        if name == "OptimizedModule" or model._compiled_call_impl is not None:
            trial.left("a model that is compiled already")
            return
        model.compile(backend=backend)
        compiled.add(id(model))
        trial.changed(f"{name}: torch.compile, backend {backend}")

    def compile_once(model: Any, call: Callable[[], Any]) -> Any:
        if id(model) not in seen:
            seen[id(model)] = model
            trial.guard(lambda: compile_(model))
        try:
            return call()
        except Exception as error:
            if id(model) not in compiled:
                raise
            compiled.remove(id(model))
            model._compiled_call_impl = None
            trial.refuse(f"the model failed when compiled ({type(error).__name__})")
            return call()

    _around_models(nn, compile_once)


def _around_models(nn: Any, around: Callable[[Any, Callable[[], Any]], Any]) -> None:
    """Wrap the outermost calls of modules."""
    original = nn.Module.__call__
    inside = threading.local()

    @functools.wraps(original)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        if getattr(inside, "model", False) or isinstance(self, nn.modules.loss._Loss):
            return original(self, *args, **kwargs)
        inside.model = True
        try:
            return around(self, lambda: original(self, *args, **kwargs))
        finally:
            inside.model = False

    nn.Module.__call__ = call


def compile_dynamic(torch: Any, trial: Trial) -> None:
    """Let `torch.compile` compile for inputs of any size."""
    original = torch.compile

    @functools.wraps(original)
    def compile_(*args: Any, **kwargs: Any) -> Any:
        before = kwargs.get("dynamic")
        if before is True:
            trial.left("torch.compile with dynamic=True already")
        else:
            trial.changed(f"torch.compile: dynamic=True instead of {before}")
        return original(*args, **{**kwargs, "dynamic": True})

    torch.compile = compile_


class _Passes:
    """Passes of the only `DistributedDataParallel` model per optimizer step.

    Args:
        trial: The trial, which is refused if the replicas would differ.
    """

    def __init__(self, trial: Trial) -> None:
        self._trial = trial
        self._model: weakref.ref[Any] | None = None
        self._per_step: list[int] = []
        self._count = 0
        self._is_pending = self._ended = False

    def stepped(self, *_: Any) -> None:
        """An optimizer has stepped."""
        if self._is_pending and not self._ended:
            self._end(
                "an optimizer stepped before the gradients were exchanged, so that replicas differ"
            )
        if self._count and len(self._per_step) < _COUNTED_STEPS:
            self._per_step.append(self._count)
        self._count = 0

    def leaves_out(self, model: Any) -> bool:
        """Whether the exchange after the pass that begins is left out."""
        if self._model is None:
            self._model = weakref.ref(model)
        if self._model() is not model and not self._ended:
            self._end("the program trains several DistributedDataParallel models")
        self._count += 1
        counts = set(self._per_step)
        known = len(self._per_step) == _COUNTED_STEPS and len(counts) == 1
        self._is_pending = known and not self._ended and self._count < max(counts)
        if self._is_pending:
            self._trial.changed(f"DistributedDataParallel: one exchange in {max(counts)} passes")
        return self._is_pending

    def _end(self, why: str) -> None:
        """Leave nothing out from here on."""
        self._ended = True
        self._trial.refuse(why)


def synchronise_once(module: Any, trial: Trial) -> None:
    """Exchange gradients only in the last backward pass of each optimizer step."""
    from torch import is_grad_enabled

    passes = _Passes(trial)
    import_hooks.after_import(
        "torch.optim.optimizer",
        lambda optimizers: optimizers.register_optimizer_step_post_hook(passes.stepped),
    )
    original = module.DistributedDataParallel.forward

    @functools.wraps(original)
    def forward(self: Any, *args: Any, **kwargs: Any) -> Any:
        exchanges = self.require_backward_grad_sync and self.training and is_grad_enabled()
        if not exchanges or not passes.leaves_out(self):
            return original(self, *args, **kwargs)
        self.require_backward_grad_sync = False
        try:
            return original(self, *args, **kwargs)
        finally:
            self.require_backward_grad_sync = True

    module.DistributedDataParallel.forward = forward
