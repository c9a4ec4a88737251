"""Observing PyTorch: a step ends when the optimizer has stepped; a few steps are profiled.

The clock of the loop is the first optimizer that is seen to step, until another one steps again and
again without it; others (a GAN's second one) only count as work within its steps. So with gradient
accumulation a step holds several batches. A step that a `GradScaler` skips, as its gradients are
not finite, counts.

What runs in every step does as little as possible, see `pytorch_log`.
"""

from __future__ import annotations

import functools
import threading
import time
import weakref
from typing import TYPE_CHECKING

from stepwhy.capture import explicit_steps
from stepwhy.capture.clock import now_ns
from stepwhy.capture.pacing import is_light
from stepwhy.capture.process import lifetime, registry
from stepwhy.capture.recorder import Recorder
from stepwhy.capture.run_times import Rhythm
from stepwhy.capture.torch import compilations, loaders
from stepwhy.capture.torch.compilations import Compilations
from stepwhy.capture.torch.existing_optimizers import observe_existing
from stepwhy.capture.torch.guard import Aside
from stepwhy.capture.torch.input_wait import InputWait
from stepwhy.capture.torch.loaders import Loaders
from stepwhy.capture.torch.step_log import BATCH_STEPS, UNKNOWN, StepLog
from stepwhy.capture.torch.window import ProfilerWindow

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import ModuleType
    from typing import Any

    Call = Callable[..., Any]

# Steps to leave alone: the first ones pay for memory and kernel selection.
_EARLIEST_STEP = 4
# After a compilation, steps until the loop counts as warm; one that never ends compiling is
# profiled all the same.
_STEPS_AFTER_COMPILING = 2
_COMPILING_FOR_EVER = 50
# When one other optimizer has stepped this often, the one that has not no longer drives the loop.
_SILENT_STEPS = 4
# Where that one comes back after so few steps of the other, they were inside of its own: a critic
# that is trained several times for each step of a generator. From then on it may be silent longer.
_MOST_INSIDE = 16
_LONG_SILENCE = 50
# A light step waits this much longer for an observed one to pay for the writing.
_GRACE_NS = 100_000_000


class StepObserver:
    """Notes the steps and opens the profiler's window when the loop has settled.

    Args:
        recorder: Where steps go.
        window: The profiler's windows.
        waits: The waits for batches.
        compilations: What torch.compile does.
    """

    def __init__(
        self,
        recorder: Recorder,
        window: ProfilerWindow,
        waits: InputWait,
        compilations: Compilations,
    ) -> None:
        self._recorder = recorder
        self._window = window
        self._waits = waits
        self._compilations = compilations
        self._log = StepLog(recorder)
        self.forget()

    def forget(self) -> None:
        """Begin as in a process that has seen no step (after a fork)."""
        self._log.forget()
        self._clock: weakref.ref[Any] | None = None
        self._others: dict[int, list[int]] = {}
        self._former: weakref.ref[Any] | None = None
        self._taken_over_at = 0
        self._silence = _SILENT_STEPS
        self._rhythm = Rhythm()
        self._light = self._waits.light = False
        self._steps = 0
        self._last_end_ns = 0
        self._compiled_at = 0
        self._thread = self._cpu_ns = 0
        self.calls = 0

    def stepped(self, optimizer: Any) -> None:
        """An optimizer has stepped."""
        self.calls += 1
        if not self._recorder.alive:
            self._window.abandon()
            return
        try:
            if self._clock is None or self._clock() is not optimizer:
                if self._takes_over(optimizer):
                    self._take_over(optimizer)
            elif self._light:
                self._end_light_step()
            else:
                self._end_step()
        except Exception as error:
            self._recorder.step_aside(error)

    def _takes_over(self, optimizer: Any) -> bool:
        """Whether the steps of an optimizer that is not the clock are the loop's from here on.

        Each one is counted for itself: a program may have one optimizer for each parameter.
        """
        if explicit_steps.telling():
            return False
        if self._clock is None or self._clock() is None:
            return True
        if self._former is not None and self._former() is optimizer:
            return True
        ends = self._others.setdefault(id(optimizer), [])
        ends.append(now_ns())
        return len(ends) >= self._silence

    def _take_over(self, optimizer: Any) -> None:
        """This optimizer is the clock from here on; steps of it that were seen are logged."""
        clock = self._clock and self._clock()
        returns = self._former is not None and self._former() is optimizer
        if returns and self._steps - self._taken_over_at <= _MOST_INSIDE:
            self._silence = _LONG_SILENCE
        self._former = weakref.ref(clock) if clock is not None and not returns else None
        self._taken_over_at = self._steps
        self.begin(optimizer, self._others.get(id(optimizer), ()))

    def begin(self, clock: Any, ends: Sequence[int] = ()) -> None:
        """The first step of a new clock has no known start: what came before it was no loop.

        Args:
            clock: The optimizer, or what stands for the steps that the training tells.
            ends: When it has stepped before, in a row, and now; these steps were only timed.
        """
        self._clock = weakref.ref(clock)
        self._others = {}
        self._compilations.take()
        self._observe_from_here()
        self._log.begin(ends[0] if ends else self._last_end_ns)
        if len(ends) > 1:
            self._log.notes += [*ends[1:-1], self._last_end_ns]
            self._steps += len(ends) - 1
        self._window.next_step(self._steps, start=False, step_ns=0)

    def _observe_from_here(self) -> None:
        """The step that begins is observed; what was not does not leak into it."""
        self._light = self._waits.light = False
        self._waits.take()
        self._thread, self._cpu_ns = threading.get_ident(), time.thread_time_ns()
        self._last_end_ns = now_ns()

    def _end_light_step(self) -> None:
        """Note when a step ended, and nothing else about it."""
        end_ns, log = now_ns(), self._log
        log.notes.append(end_ns)
        self._steps += 1
        if self._compilations.fresh:
            log.compiled(self._compilations.take())
        if end_ns > log.due_ns + _GRACE_NS:
            log.write()
        if self._others:
            self._others = {}
        if not is_light(self._steps):
            self._observe_from_here()

    def _end_step(self) -> None:
        """Note a step that was observed.

        The clock is read after the other work, so that it falls into the step that caused it.
        """
        log, window = self._log, self._window
        if len(log.notes) >= BATCH_STEPS or now_ns() > log.due_ns:
            log.write()
        start_ns, profiled = self._last_end_ns, int(window.touched)
        wait_ns, cpu_ns = self._waits.take(), self._cpu_time()
        self._others = {}
        self._last_end_ns = end_ns = now_ns()
        log.notes.append((end_ns, profiled, wait_ns, cpu_ns))
        self._steps += 1
        if self._compilations.fresh:
            self._compiled_at = self._steps
            log.compiled(self._compilations.take())
        if log.changed:
            log.changed = False
            window.again()
        if window.needs(self._steps):
            self._advance_window(end_ns - start_ns, profiled=bool(profiled))
        elif is_light(self._steps):
            self._light = self._waits.light = True

    def _cpu_time(self) -> int:
        """The driving thread's CPU time since the last call, ns; -1 when another called last."""
        thread, cpu_ns = threading.get_ident(), time.thread_time_ns()
        used_ns = cpu_ns - self._cpu_ns if thread == self._thread else UNKNOWN
        self._thread, self._cpu_ns = thread, cpu_ns
        return used_ns

    def _advance_window(self, step_ns: int, *, profiled: bool) -> None:
        """Let the profiler take its turn."""
        if not profiled:
            self._rhythm.add(step_ns)
        self._window.next_step(self._steps, start=self._is_warm(), step_ns=step_ns)

    def _is_warm(self) -> bool:
        """Whether the loop has warmed up."""
        compiling = self._compiled_at and self._steps - self._compiled_at < _STEPS_AFTER_COMPILING
        if compiling and self._steps < _COMPILING_FOR_EVER:
            return False
        return self._steps >= _EARLIEST_STEP and self._rhythm.settled()


class _Observation:
    """What observes PyTorch in this process."""

    def __init__(self, run_dir: str) -> None:
        from torch.version import __version__

        self.recorder = Recorder(run_dir, "pytorch", str(__version__), "torch-optimizer")
        self.window = ProfilerWindow(self.recorder)
        self.waits = InputWait()
        self.loaders = Loaders(self.recorder)
        self.compilations = Compilations(self.recorder)
        self.steps = StepObserver(self.recorder, self.window, self.waits, self.compilations)
        for part in (self.window, self.loaders, self.compilations, self.steps):
            lifetime.on_begin(part.forget)
        registry.count("optimizer_steps", lambda: self.steps.calls)


_observation = functools.cache(_Observation)


def install_optimizer(module: ModuleType, run_dir: str) -> None:
    """Observe the optimizers of a freshly imported `torch.optim.optimizer`.

    Args:
        module: That module.
        run_dir: The run directory, absolute.
    """
    _observe_steps(module.Optimizer, _observation(run_dir).steps)


def _observe_steps(base: Any, observer: StepObserver) -> None:
    """Call the observer after each `step` of any optimizer.

    Each optimizer class has its `step` wrapped once by `profile_hook_step`, which records it under
    the profiler. The observer goes around that: the global post-hook of optimizers runs inside,
    where a step boundary would cut the recorded range in two.
    """
    wrap, stepped = base.profile_hook_step, observer.stepped

    def around(step: Call) -> Call:
        # Called when an optimizer is made: by then torch has been imported as a whole.
        from torch.compiler import is_compiling

        @functools.wraps(step)
        def observed(*args: Any, **kwargs: Any) -> Any:
            result = step(*args, **kwargs)
            # A compiled step must come out as it would without us: nothing of this is traced.
            if args and not is_compiling():
                stepped(args[0])
            return result

        return observed

    @functools.wraps(wrap)
    def profile_hook_step(func: Call) -> Call:
        return around(wrap(func))

    base.profile_hook_step = staticmethod(profile_hook_step)
    observe_existing(base, around, stepped)


def install_scaler(module: ModuleType, run_dir: str) -> None:
    """Count the steps that a scaler of a freshly imported `torch.amp.grad_scaler` skips.

    Args:
        module: That module.
        run_dir: The run directory, absolute.
    """
    observer = _observation(run_dir).steps
    original = module.GradScaler._maybe_opt_step

    @functools.wraps(original)
    def maybe_step(self: Any, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        before = observer.calls
        result = original(self, optimizer, *args, **kwargs)
        if observer.calls == before:
            observer.stepped(optimizer)
        return result

    module.GradScaler._maybe_opt_step = maybe_step


def install_loader(module: ModuleType, run_dir: str) -> None:
    """Observe the loaders of a freshly imported `torch.utils.data.dataloader`.

    Args:
        module: That module.
        run_dir: The run directory, absolute.
    """
    seen = _observation(run_dir)
    aside = Aside(seen.recorder, "Loaders of batches")
    loaders.install(module, aside, seen.loaders, seen.waits)


def install_compiler(module: ModuleType, run_dir: str) -> None:
    """Observe the compilations of a freshly imported `torch._dynamo.utils`.

    Args:
        module: That module.
        run_dir: The run directory, absolute.
    """
    seen = _observation(run_dir)
    aside = Aside(seen.recorder, "torch.compile")
    compilations.install(module, seen.compilations, aside)


def _recorded(original: Call, name: str) -> Call:
    """A function whose calls a running profiler records under this name."""

    @functools.wraps(original)
    def recorded(*args: Any, **kwargs: Any) -> Any:
        from torch import autograd

        if not autograd._profiler_enabled():  # type: ignore[attr-defined]
            return original(*args, **kwargs)
        with autograd.profiler.record_function(name):
            return original(*args, **kwargs)

    return recorded


def install_serialization(module: ModuleType) -> None:
    """Have the window show the checkpoints that a fresh `torch.serialization` saves.

    Args:
        module: That module.
    """
    functions: Any = module
    functions.save = _recorded(functions.save, "torch.save")
