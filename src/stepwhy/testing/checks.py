"""Checks of a step time; one that the runs cannot answer fails, with the reason."""

from __future__ import annotations

import json
import os
import shlex
import sys
from typing import TYPE_CHECKING, Any

from stepwhy.base.errors import MeasurementError
from stepwhy.testing.call import PATH_VARIABLE

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

_SLOWER, _UNKNOWN = 1, 7  # exit codes of `stepwhy compare --fail-if-slower`
_NS_PER_MS = 1e6


class TooSlow(AssertionError):  # noqa: N818 - pytest shows the name: it says what happened
    """The step takes longer than the test allows."""


class Unsure(AssertionError):  # noqa: N818 - as above
    """The runs cannot tell whether the step takes longer than the test allows."""


class StepTime:
    """The step time of a program, which is measured when a check first needs it.

    Args:
        words: The command.
        options: Options of `stepwhy bench` and `stepwhy compare`.
        folder: An empty folder for the runs.
    """

    def __init__(self, words: Sequence[str], options: Sequence[str], folder: Path) -> None:
        self._words, self._options, self._folder = list(words), list(options), folder
        self._comparisons = 0
        self._result: dict[str, Any] | None = None

    @property
    def result(self) -> dict[str, Any]:
        """What `stepwhy bench --json` prints.

        Raises:
            MeasurementError: The program failed, or ran no step that can be measured.
        """
        if self._result is None:
            out = str(self._folder / "bench")
            command = ["bench", "--json", *self._options, "--out", out, "--", *self._words]
            self._result = _run(command)[0]
        return self._result

    @property
    def ms(self) -> float:
        """The step time, in ms: the median of the median steps of all valid runs."""
        return float(self.result["measurement"]["step_ns"]) / _NS_PER_MS

    @property
    def interval_ms(self) -> tuple[float, float]:
        """The 95 % confidence interval of the step time, in ms."""
        found = self.result["measurement"]
        return found["low_ns"] / _NS_PER_MS, found["high_ns"] / _NS_PER_MS

    def at_most_ms(self, limit: float) -> bool:
        """Check that a step takes at most this time.

        Args:
            limit: The longest step time that passes, in ms.

        Returns:
            True, so that it can stand behind `assert`.

        Raises:
            TooSlow: It takes longer: the whole confidence interval is above the limit.
            Unsure: The limit lies within the interval, or the runs do not count.
            MeasurementError: The program failed, or ran no step that can be measured.
        """
        __tracebackhide__ = True  # pytest shows the line of the test
        low, high = self.interval_ms
        reason = _unusable(self.result)
        if reason:
            raise Unsure(f"Cannot tell whether a step takes at most {limit:g} ms: {reason}.")
        if low > limit:
            raise TooSlow(f"A step may take {limit:g} ms. {self.result['sentence']}")
        if high > limit:
            raise Unsure(f"{limit:g} ms is within the interval. {self.result['sentence']}")
        return True

    def not_slower_than(
        self, baseline: str | os.PathLike[str] | Sequence[str], *, by_percent: float = 3
    ) -> bool:
        """Check that a step does not take longer than that of another program or of stored runs.

        Another program runs in turns with this one, which shows small differences. Stored runs may
        be of a slower or faster hour of the machine, so only differences above about 16 % count.

        Args:
            baseline: A script, the words of a command, or a folder of `stepwhy bench`.
            by_percent: The largest slowdown that passes.

        Returns:
            True, so that it can stand behind `assert`.

        Raises:
            TooSlow: It takes longer by more than that.
            Unsure: The runs cannot tell, or were made in unlike environments.
            MeasurementError: A program failed, or ran no step that can be measured.
        """
        __tracebackhide__ = True  # as above
        self._comparisons += 1
        out = str(self._folder / f"compare-{self._comparisons}")
        if isinstance(baseline, str | os.PathLike):
            other = os.fspath(baseline)
        else:
            other = shlex.join(baseline)
        limit = ["--fail-if-slower", str(by_percent), "--out", out]
        words = [*self._options, *limit, "--", other, shlex.join(self._words)]
        result, code = _run(["compare", "--json", *words], _SLOWER, _UNKNOWN)
        said = " ".join([result["sentence"], *result["notes"]])
        if code == _SLOWER:
            raise TooSlow(f"At most {by_percent:g} % slower is allowed. {said}")
        if code == _UNKNOWN:
            raise Unsure(f"Cannot tell whether B is more than {by_percent:g} % slower. {said}")
        return True


def _unusable(result: dict[str, Any]) -> str:
    """Why runs cannot answer a question; '' if they can."""
    if result["quiet"] is False:
        return "other programs kept the machine busy"
    if sum(not run["void"] for run in result["measurement"]["runs"]) < 2:
        return "a single run does not show the variation between runs"
    return ""


def _run(words: Sequence[str], *expected: int) -> tuple[dict[str, Any], int]:
    """Run a command of stepwhy that prints JSON.

    Args:
        words: The command.
        expected: Exit codes besides 0 with which it prints a result.

    Returns:
        The result and the exit code.

    Raises:
        MeasurementError: It printed none.
    """
    import subprocess  # noqa: PLC0415 - pytest imports this module at its start

    done = subprocess.run(  # noqa: S603 - the test's own program
        # With -P, files in the current folder are not imported in place of packages.
        [sys.executable, "-P", "-m", "stepwhy", *words],
        env={**os.environ, PATH_VARIABLE: json.dumps(sys.path)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    try:
        if done.returncode in (0, *expected):
            return json.loads(done.stdout), done.returncode
    except ValueError:
        pass
    lines = done.stderr.strip().splitlines() or ["stepwhy printed nothing"]
    raise MeasurementError(
        f"the step time was not measured: {lines[-1].removeprefix('stepwhy: ').rstrip('.')}",
        f"Run it by hand to see more: stepwhy {words[0]}",
    )
