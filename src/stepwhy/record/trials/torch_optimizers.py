"""Let optimizers update all parameters in few operations (`foreach`) or in one (`fused`).

Source: `torch/optim/optimizer.py` and `torch/optim/adam.py`, versions 2.0 to 2.13.
"""

from __future__ import annotations

import functools
import weakref
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any

    from stepwhy.record.trials.reports import Trial

_BOTH = ("foreach", "fused")
_BEFORE = "_stepwhy_before"


def use_foreach(module: Any, trial: Trial) -> None:
    """Set `foreach` for each optimizer that has it."""
    _set_for_all(module, trial, {"foreach": True, "fused": False})


def use_fused(module: Any, trial: Trial) -> None:
    """Set `fused` for each optimizer that has it and whose parameters allow it."""
    _set_for_all(module, trial, {"foreach": False, "fused": True})


def _set_for_all(module: Any, trial: Trial, wanted: dict[str, bool]) -> None:
    made: list[weakref.ref[Any]] = []
    original = module.Optimizer.__init__

    @functools.wraps(original)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        trial.guard(lambda: prepare(self))

    def prepare(optimizer: Any) -> None:
        if _allows(optimizer, wanted, trial) and _can_switch(optimizer, trial):
            made.append(weakref.ref(optimizer))
            optimizer.__dict__[_BEFORE] = _set_in(optimizer.param_groups)
            switch(trial.on)
            chosen = next(name for name, value in wanted.items() if value)
            trial.changed(f"{type(optimizer).__name__}: {chosen}=True")

    def switch(on: bool) -> None:
        for reference in made:
            optimizer = reference()
            if optimizer is not None:
                for group, before in zip(
                    optimizer.param_groups, optimizer.__dict__[_BEFORE], strict=False
                ):
                    group.update(wanted if on else before)

    module.Optimizer.__init__ = init
    module.Optimizer.load_state_dict = _loading(module.Optimizer.load_state_dict, wanted, trial)
    trial.switches.append(switch)


def _set_in(groups: Any) -> list[dict[str, Any]]:
    """The options of parameter groups as they are."""
    return [{name: group.get(name) for name in _BOTH} for group in groups]


def _loading(original: Any, wanted: dict[str, bool], trial: Trial) -> Any:
    """`load_state_dict`, which would replace the options by those that were saved.

    They are replaced before the state is loaded, as its place depends on them.
    """

    def replaced(state: Any) -> dict[str, Any]:
        groups = state["param_groups"]
        return {**state, "param_groups": [{**group, **wanted} for group in groups]}

    @functools.wraps(original)
    def load_state_dict(self: Any, state_dict: Any) -> Any:
        try:
            if _BEFORE in vars(self):
                before = _set_in(state_dict["param_groups"])
                vars(self)[_BEFORE] = before
                state_dict = replaced(state_dict) if trial.on else state_dict
        except Exception as error:
            trial.failed(error)
        return original(self, state_dict)

    return load_state_dict


def _allows(optimizer: Any, wanted: dict[str, bool], trial: Trial) -> bool:
    """Whether an optimizer and all of its parameters can be updated so."""
    name = type(optimizer).__name__
    chosen = next(option for option, value in wanted.items() if value)
    groups = optimizer.param_groups
    if not all(chosen in group for group in groups):
        trial.left(f"{name}, which has no {chosen} implementation")
    elif any(group.get("differentiable") for group in groups):
        trial.left(f"{name}, which is differentiable")
    elif all(group.get(chosen) for group in groups):
        trial.left(f"{name}, which uses {chosen} already")
    elif chosen == "fused" and not all(_can_be_fused(p) for g in groups for p in g["params"]):
        trial.left(f"{name}, whose parameters cannot be updated by a fused kernel")
    else:
        return True
    return False


def _can_switch(optimizer: Any, trial: Trial) -> bool:
    """Whether the state of an optimizer suits both settings, if it is switched.

    On an accelerator, fused kernels keep the number of the step on the device, others do not.
    """
    if not trial.spec.block_steps:
        return True
    on_cpu = all(
        p.device.type == "cpu" for group in optimizer.param_groups for p in group["params"]
    )
    if not on_cpu:
        trial.left(f"{type(optimizer).__name__}, which cannot be switched on an accelerator")
    return on_cpu


def _can_be_fused(parameter: Any) -> bool:
    import torch

    on_device = parameter.device.type in {"cuda", "cpu", "xpu", "mps"}
    return bool(torch.is_floating_point(parameter)) and on_device
