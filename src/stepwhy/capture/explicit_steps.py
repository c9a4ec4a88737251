"""Steps that the training tells of: `stepwhy.step()`.

Each call is a step boundary: it ends the step before it and begins the next one. As a context
manager it also says where the work of the step ends, so that the last step has an end::

    for batch in data:                  for batch in data:
        with stepwhy.step():                train(batch)
            train(batch)                    stepwhy.step()

Told steps take the place of those that an observer would find by itself, from the line of kind
'told' in the log on; the windows are still those of the framework that computes. Where nobody
observes, a call does nothing.
"""

from __future__ import annotations

import os
import threading

from stepwhy.capture.attach import RUN_DIR_VARIABLE
from stepwhy.capture.clock import now_ns
from stepwhy.capture.process import lifetime, registry

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType

    from stepwhy.capture.explicit_drivers import Driver


class Step:
    """What `step()` returns: nothing has to be done with it, but it may be used with `with`."""

    __slots__ = ()

    def __enter__(self) -> None:
        """The work of the step begins."""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """The work of the step ends; what it raises passes through."""


_UNSEEN = Step()


class _Observed(Step):
    """The step of a loop that is observed."""

    __slots__ = ("_steps",)

    def __init__(self, steps: ToldSteps) -> None:
        self._steps = steps

    def __enter__(self) -> None:
        self._steps.work_begins()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._steps.work_ends(broke_off=kind is not None)


class ToldSteps:
    """The told steps of this process.

    Attributes:
        telling: Whether any was told: nobody has to find steps then.
    """

    def __init__(self) -> None:
        self._observed = _Observed(self)
        self._ends_with_process = False
        self.forget()
        lifetime.on_begin(self.forget)
        registry.count("marked_steps", lambda: int(self.telling))

    def forget(self) -> None:
        """Begin as in a process that has told nothing (after a fork)."""
        self.telling = False
        self._driver: Driver | None = None
        self._thread = 0
        self._inside = False
        self._start_ns = self._work_end_ns = 0

    def call(self) -> Step:
        """`step()` was called; never raises."""
        if self._inside or self._thread not in {0, threading.get_ident()}:
            return _UNSEEN  # a step within a step, or of a thread that drives no loop
        try:
            self._boundary()
        except Exception as error:
            if self._driver is not None:
                self._driver.recorder.step_aside(error)
        return self._observed

    def _boundary(self) -> None:
        """The step before ends, unless there is none, and the next one begins."""
        start_ns, end_ns = self._start_ns, now_ns()
        self._thread = threading.get_ident()
        self.telling = True
        if self._driver is not None:
            self._drive(self._driver, start_ns)
        elif start_ns:
            # After a whole iteration it is known which framework computes.
            self._driver = self._choose(start_ns)
            self._log(self._driver, start_ns, end_ns)
            self._driver.begin()
        # What the driver has just done belongs to neither step.
        self._start_ns, self._work_end_ns = now_ns(), 0

    def _drive(self, driver: Driver, start_ns: int) -> None:
        """Pass the boundary on."""
        if not driver.recorder.alive:
            return
        if start_ns:
            driver.boundary()
        else:
            driver.begin()

    def _choose(self, start_ns: int) -> Driver:
        """What drives the loop; the log says from where on its steps are told."""
        from stepwhy.capture.explicit_drivers import choose

        driver = choose()
        driver.recorder.step(f'{{"kind":"told","start_ns":{start_ns},"end_ns":{start_ns}}}')
        if not self._ends_with_process:
            # Later than the recorder's, and so before it at the end.
            self._ends_with_process = True
            lifetime.on_end(self.finish)
            lifetime.on_flush(self.finish)
        return driver

    def _log(self, driver: Driver, start_ns: int, end_ns: int) -> None:
        """Log a step that the driver has not seen begin or will not see end."""
        driver.recorder.step(
            f'{{"kind":"step","start_ns":{start_ns},"end_ns":{end_ns},'
            f'"profiled":{int(driver.touched())}}}'
        )

    def work_begins(self) -> None:
        """The body of a `with` begins."""
        self._inside = True

    def work_ends(self, *, broke_off: bool) -> None:
        """The body of a `with` has ended.

        Args:
            broke_off: By an exception: the step is not complete, and none follows it.
        """
        self._inside = False
        self._work_end_ns = now_ns()
        if broke_off:
            self._start_ns = 0

    def finish(self) -> None:
        """No step follows: the last one is complete if its work has ended."""
        start_ns, end_ns, driver = self._start_ns, self._work_end_ns, self._driver
        self._start_ns = 0
        if driver is not None and start_ns and end_ns and driver.recorder.alive:
            self._log(driver, start_ns, end_ns)


_steps: ToldSteps | None = None
_is_watched = False


def begin() -> None:
    """Told steps are observed from here on."""
    global _steps, _is_watched  # noqa: PLW0603 - whether the process is watched is one fact
    if _steps is None:
        _steps = ToldSteps()
    _steps.forget()
    _is_watched = True


def end() -> None:
    """No step is told any more."""
    global _is_watched  # noqa: PLW0603
    if _steps is not None and _is_watched:
        _steps.finish()
        _steps.forget()
    _is_watched = False


def telling() -> bool:
    """Whether the training tells its steps: then nobody has to find them."""
    return _is_watched and _steps is not None and _steps.telling


def teller() -> object:
    """The `told` of a `Loop`: not None while the training tells its steps."""
    return _steps if telling() else None


def step() -> Step:
    """Mark a step boundary of the training loop, once per iteration.

    A loop that stepwhy does not know (an optimizer of its own, plain NumPy) tells its steps with
    it, and one of which stepwhy would find the wrong steps. Under `stepwhy run`, and in a block of
    `stepwhy.watch`, the call ends a step and begins the next one; elsewhere it does nothing.

    Returns:
        A context manager around the work of the step; a plain call is as good.
    """
    if _steps is None or not _is_watched:
        return _UNSEEN
    return _steps.call()


if RUN_DIR_VARIABLE in os.environ:
    begin()
