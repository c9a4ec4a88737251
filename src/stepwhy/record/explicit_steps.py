"""Steps that the training marks itself: `stepwhy.step()`.

Each call is a step boundary: it ends the previous step and begins the next one. As a context
manager it also marks the end of the step's work, so that the last step has an end::

    for batch in data:                  for batch in data:
        with stepwhy.step():                train(batch)
            train(batch)                    stepwhy.step()

Marked steps replace those that an observer would find, starting at the line of kind 'explicit' in
the log. Windows are still those of the framework that computes. Without an observation, a call does
nothing.
"""

from __future__ import annotations

import os
import threading

from stepwhy.record import RUN_DIR_VARIABLE
from stepwhy.record.core import registry
from stepwhy.record.core.clock import now_ns
from stepwhy.record.core.process import lifetime
from stepwhy.record.steps.step_marks import marks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType

    from stepwhy.record.explicit_drivers import Driver


class Step:
    """The result of `step()`; it may be ignored, or used in a `with` statement."""

    __slots__ = ()

    def __enter__(self) -> None:
        """Begin the work of the step."""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End the work of the step; exceptions pass through."""


_UNOBSERVED = Step()


class _ObservedStep(Step):
    """A step of an observed loop."""

    __slots__ = ("_steps",)

    def __init__(self, steps: ExplicitSteps) -> None:
        self._steps = steps

    def __enter__(self) -> None:
        self._steps.work_begins()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._steps.work_ends(aborted=kind is not None)


class ExplicitSteps:
    """The marked steps of this process."""

    def __init__(self) -> None:
        self._step = _ObservedStep(self)
        self._ends_with_process = False
        self.forget()
        lifetime.on_begin(self.forget)
        registry.count("marked_steps", lambda: int(marks.marker is not None))

    def forget(self) -> None:
        """Start over, as in a process that has marked nothing (after a fork)."""
        marks.marker = None
        self._driver: Driver | None = None
        self._thread = 0
        self._inside = False
        self._start_ns = self._work_end_ns = 0

    def call(self) -> Step:
        """Mark a step boundary; never raises."""
        if self._inside or self._thread not in {0, threading.get_ident()}:
            return _UNOBSERVED  # a step within a step, or in a thread that drives no loop
        try:
            self._boundary()
        except Exception as error:
            if self._driver is not None:
                self._driver.recorder.stop(error)
        return self._step

    def _boundary(self) -> None:
        """End the previous step, if there is one, and begin the next."""
        start_ns, end_ns = self._start_ns, now_ns()
        self._thread = threading.get_ident()
        marks.marker = self
        if self._driver is not None:
            self._advance(self._driver, start_ns)
        elif start_ns:
            # The framework that computes is known only after a whole iteration.
            self._driver = self._choose_driver(start_ns)
            self._log(self._driver, start_ns, end_ns, profiled=self._driver.touched())
            self._driver.begin()
        # The driver's own work belongs to neither step.
        self._start_ns, self._work_end_ns = now_ns(), 0

    def _advance(self, driver: Driver, start_ns: int) -> None:
        """Pass the boundary to the driver."""
        if not driver.recorder.alive:
            return
        if start_ns:
            driver.boundary()
        else:
            driver.begin()

    def _choose_driver(self, start_ns: int) -> Driver:
        """Choose the driver, and log that steps are marked from here on."""
        from stepwhy.record.explicit_drivers import choose

        driver = choose()
        registry.began("marked_steps")
        driver.recorder.step(f'{{"kind":"explicit","start_ns":{start_ns},"end_ns":{start_ns}}}')
        if not self._ends_with_process:
            # Registered after the recorder's callbacks, so called before them.
            self._ends_with_process = True
            lifetime.on_end(self.finish)
            lifetime.on_flush(self.finish)
        return driver

    def _log(self, driver: Driver, start_ns: int, end_ns: int, *, profiled: bool) -> None:
        """Log a step whose start or end the driver does not see."""
        driver.recorder.step(
            f'{{"kind":"step","start_ns":{start_ns},"end_ns":{end_ns},"profiled":{int(profiled)}}}'
        )

    def work_begins(self) -> None:
        """The body of a `with` statement begins."""
        self._inside = True

    def work_ends(self, *, aborted: bool) -> None:
        """The body of a `with` statement has ended.

        Args:
            aborted: Whether an exception ended it; the step is then incomplete, and none follows.
        """
        self._inside = False
        self._work_end_ns = now_ns()
        if aborted:
            self._start_ns = 0

    def finish(self) -> None:
        """No further step comes: log the last one if its work has ended."""
        start_ns, end_ns, driver = self._start_ns, self._work_end_ns, self._driver
        self._start_ns = 0
        if driver is not None and start_ns and end_ns and driver.recorder.alive:
            profiled = driver.touched()
            driver.end()  # the log has its steps in order
            self._log(driver, start_ns, end_ns, profiled=profiled)


_steps: ExplicitSteps | None = None
_is_observed = False


def begin() -> None:
    """Observe marked steps from here on."""
    global _steps, _is_observed  # noqa: PLW0603 - the process has one state
    if _steps is None:
        _steps = ExplicitSteps()
    _steps.forget()
    _is_observed = True


def end() -> None:
    """Observe no further marked steps."""
    global _is_observed  # noqa: PLW0603
    if _steps is not None and _is_observed:
        _steps.finish()
        _steps.forget()
    _is_observed = False


def step() -> Step:
    """Mark a step boundary of the training loop, once per iteration.

    Use it in a loop that stepwhy does not recognise (a custom optimizer, plain NumPy), or in which
    it finds the wrong steps. Under `stepwhy run`, and in a block of `stepwhy.watch`, the call ends
    a step and begins the next one; elsewhere it does nothing.

    Returns:
        A context manager for the work of the step; a plain call works as well.
    """
    if _steps is None or not _is_observed:
        return _UNOBSERVED
    return _steps.call()


if RUN_DIR_VARIABLE in os.environ:
    begin()
