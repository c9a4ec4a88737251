"""Log the evaluations and predictions that interrupt a training with PyTorch.

Those of trainers are calls of their methods. In a loop of the program, it is what a model does from
its `eval()` to its `train()`, if no optimizer steps meanwhile; the importer tells by the names of
the program's functions whether that is an evaluation.

Only the outermost call counts, as `Trainer.evaluate` of transformers calls itself for each of
several data sets, and only in the thread that trains, after its first step.
"""

from __future__ import annotations

import contextlib
import functools
from threading import get_ident
from typing import TYPE_CHECKING

from stepwhy.record.core.clock import now_ns
from stepwhy.record.core.compiled_code import never_compiled, wrapper
from stepwhy.record.core.observation_guard import ObservationGuard
from stepwhy.record.core.process import lifetime
from stepwhy.record.core.process.losses import attempt
from stepwhy.record.core.user_code import user_line
from stepwhy.record.core.wrappers import wraps
from stepwhy.record.torch.observer import observer_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType
    from typing import Any

    Call = Callable[..., Any]

# A call per step must not fill the event log.
_MOST_EVENTS = 400
# No stable name of Lightning is called for the validations of `fit`.
_LIGHTNING_LOOP = "_EvaluationLoop"


class EvaluationLog:
    """The calls of this process.

    Args:
        run_dir: The run directory, absolute.
    """

    def __init__(self, run_dir: str) -> None:
        observer = observer_of(run_dir)
        self._steps, self._recorder = observer.steps, observer.recorder
        self._guard = ObservationGuard(self._recorder, "Evaluations")
        self.forget()
        lifetime.on_begin(self.forget)

    def forget(self) -> None:
        """Start over, as in a process that evaluates nothing (after a fork)."""
        self._is_inside = False
        self._events = 0
        self.model = 0
        self._mode_steps = self._mode_ns = 0
        self._mode_line = ""

    @never_compiled
    def enter_mode(self, model: Any) -> None:
        """A model enters the mode for evaluations; never raises.

        Args:
            model: The outermost module.
        """
        if self._is_inside or not self._may_log() or self._is_open():
            return
        self._guard.guard(lambda: self._note_mode(id(model)))

    def _note_mode(self, model: int) -> None:
        self._mode_line = user_line()
        self.model, self._mode_steps, self._mode_ns = model, self._steps.calls, now_ns()

    @never_compiled
    def leave_mode(self) -> None:
        """The model has left it; never raises."""
        is_open, self.model = self._is_open(), 0
        if is_open and not self._is_inside and self._may_log():
            self._guard.guard(
                lambda: self._log("eval()", self._mode_ns, self._mode_line, "evaluation-mode")
            )

    def _is_open(self) -> bool:
        """Whether a model has entered the mode, and nothing was trained since."""
        return bool(self.model) and self._mode_steps == self._steps.calls

    def _may_log(self) -> bool:
        return self._steps.driver == get_ident() and self._events < _MOST_EVENTS

    @never_compiled
    def begin(self) -> bool:
        """A call begins; whether it is logged."""
        if self._is_inside or not self._may_log():
            return False
        self._is_inside = True
        return True

    @never_compiled
    def end(self, name: str, start_ns: int) -> None:
        """The call that `begin` let through has ended; never raises."""
        self._is_inside = False
        self._guard.guard(lambda: self._log(name, start_ns, user_line()))

    def _log(self, name: str, start_ns: int, line: str, kind: str = "evaluation") -> None:
        self._events += 1
        self._recorder.event(kind, name=name, start_ns=start_ns, end_ns=now_ns(), source=line)


@functools.cache
def log_of(run_dir: str) -> EvaluationLog:
    """The log of this process."""
    return EvaluationLog(run_dir)


def observe_trainer(module: ModuleType, run_dir: str) -> None:
    """Log the calls of `Trainer.evaluate` and `Trainer.predict` of `transformers.trainer`."""

    def observe(name: str) -> None:
        kind, log = module.Trainer, log_of(run_dir)
        setattr(kind, name, _timed(getattr(kind, name), f"Trainer.{name}", log))

    for name in ("evaluate", "predict"):
        attempt("evaluations by transformers", functools.partial(observe, name))


def observe_lightning(module: ModuleType, run_dir: str) -> None:
    """Log the evaluations of Lightning, except for the check before each training.

    Args:
        module: `lightning.pytorch.loops.evaluation_loop`, or that of `pytorch_lightning`.
        run_dir: The run directory, absolute.
    """

    def observe() -> None:
        kind: Any = getattr(module, _LIGHTNING_LOOP)
        kind.run = _timed(kind.run, "validation loop", log_of(run_dir), _is_training)

    attempt("evaluations by Lightning", observe)


def observe_modes(module: ModuleType, run_dir: str) -> None:
    """Log from when to when a model is in the mode for evaluations.

    Args:
        module: `torch.nn.modules.module`.
        run_dir: The run directory, absolute.
    """
    import torch  # still being imported; it will have a compiler

    kind: Any = module.Module
    enters, leaves = kind.eval, kind.train
    logs: list[EvaluationLog] = []

    @wrapper
    @wraps(enters)
    def eval(self: Any) -> Any:  # noqa: A001 - its name
        # A compiled function that calls it must be the same as without the observer.
        if torch.compiler.is_compiling():
            return enters(self)
        if not logs:
            logs.append(log_of(run_dir))
        logs[0].enter_mode(self)
        return enters(self)

    @wrapper
    @wraps(leaves)
    def train(self: Any, mode: bool = True) -> Any:
        result = leaves(self, mode)
        # Modules call this for each of theirs.
        if mode and not torch.compiler.is_compiling() and logs and logs[0].model == id(self):
            logs[0].leave_mode()
        return result

    kind.eval, kind.train = eval, train


def _is_training(loop: Any) -> bool:
    """Whether a loop of Lightning does more than to check that the validation works."""
    with contextlib.suppress(Exception):
        return not loop.trainer.sanity_checking
    return True


def _timed(original: Call, name: str, log: EvaluationLog, counts: Call | None = None) -> Call:
    """A method whose calls are logged.

    Args:
        original: The method.
        name: What reports call it.
        log: Logs its calls.
        counts: Tells by the object whether its call is logged.
    """

    @wrapper
    @wraps(original)
    def timed(self: Any, *args: Any, **kwargs: Any) -> Any:
        if (counts and not counts(self)) or not log.begin():
            return original(self, *args, **kwargs)
        start_ns = now_ns()
        try:
            return original(self, *args, **kwargs)
        finally:
            log.end(name, start_ns)

    return timed
