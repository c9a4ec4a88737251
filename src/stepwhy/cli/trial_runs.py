"""Run the program of a trial, with its fix and without."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from stepwhy.base.errors import InputError, MeasurementError, NotFoundError
from stepwhy.base.redaction import Redactor
from stepwhy.cli.programs import OUTPUT_FILE
from stepwhy.engine import explain
from stepwhy.measure.trial import TrialRun
from stepwhy.read.inputs.side_files import MOST_RECORD_BYTES, read_side_file
from stepwhy.record import TRIAL_VARIABLE, launch
from stepwhy.record.trials.reports import trial_reports
from stepwhy.record.trials.spec import Spec

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from stepwhy.measure.fixes import FixAbout
    from stepwhy.result import Result

RUN_FILE = "run.json"
# What `redact_command` writes in place of what it hides.
_HIDDEN = ("[redacted]", "[code]")
_LONGEST_LINE = 160
# Secrets of several lines are recognised by their first line.
_LAST_LINES = 100
_WHAT = {
    "on": "with the fix", "off": "without the fix", "switched": "with the fix switched on and off",
}  # fmt: skip
# The trial and the observer count the same steps if they differ by no more: the first step begins
# at the first end of one, and a step may be ended from another thread.
_SAME_STEPS = 0.05
# Memory is allocated and kernels are selected in the first steps.
_FEWEST_WARM_UP = 5


class ProgramRunner:
    """Runs one program, each time with a run directory of its own.

    Args:
        command: Program and arguments.
        folder: Folder for the run directories.
        steps: End each run after so many steps; 0 for never.
        progress: Called before each run with what it is.

    Attributes:
        about: The fix; None before one is chosen.
        value: Its argument.
        is_timed: Whether the trial times the steps itself, without observation.
        counts_steps: Whether the process itself saw steps end.
    """

    def __init__(
        self,
        command: Sequence[str],
        folder: Path,
        steps: int = 0,
        progress: Callable[[str], object] = str,
    ) -> None:
        self._command, self._folder, self._steps = command, folder, steps
        self._progress = progress
        self._count = 0
        self._start_s = time.monotonic()
        self.about: FixAbout | None = None
        self.value = ""
        self.is_timed = self.counts_steps = False
        self._warm_up = 0

    def elapsed_s(self) -> float:
        """Seconds since the first run began."""
        return time.monotonic() - self._start_s

    def observe(self, *, fix: bool) -> tuple[TrialRun, Result]:
        """Run and explain it once.

        Args:
            fix: Whether to apply the fix.

        Raises:
            MeasurementError: It failed, or no step was seen.
        """
        run_dir = self._run(self._spec(fix=fix), _WHAT["on" if fix else "off"])
        try:
            result = explain([str(run_dir)])
        except InputError as error:
            raise MeasurementError(f"no step was seen: {error.what}", error.todo) from error
        steps = result.steps
        durations = tuple(steps.durations_ns[steps.warm_up :])
        if not durations or steps.source == "whole-trace":
            raise MeasurementError(
                "no step was seen", "Check with 'stepwhy check', or mark steps by stepwhy.step()"
            )
        cores = result.host.background_cores if result.host is not None else None
        ticks = max((about.get("ticks", 0) for about in trial_reports(run_dir)), default=0)
        self.counts_steps = ticks > 0
        count = steps.count + sum(traced.steps for traced in steps.traced)
        self.is_timed = abs(ticks - count) <= _SAME_STEPS * count
        self._warm_up = max(steps.warm_up + 1, _FEWEST_WARM_UP)
        reported = _reported(run_dir)
        where = self._relative(run_dir)
        return TrialRun(where, "on" if fix else "off", durations, background_cores=cores,
                        **reported), result  # fmt: skip

    def run(self, *, fix: bool) -> TrialRun:
        """Run it once, as `measure.trial` asks for."""
        if not self.is_timed:
            return self.observe(fix=fix)[0]
        return self._timed("on" if fix else "off", 0, self._warm_up)

    def run_switched(self, block_steps: int, warm_up: int) -> TrialRun:
        """Run it once and switch the fix, as `measure.trial` asks for."""
        return self._timed("switched", block_steps, warm_up)

    def _timed(self, fix: str, block_steps: int, warm_up: int) -> TrialRun:
        """Run it once without observation; the trial times the steps."""
        spec = self._spec(fix=fix != "off", block_steps=block_steps, warm_up=warm_up, timed=True)
        run_dir = self._run(spec, _WHAT[fix])
        # Of several ranks, the one that ended first: they step together.
        timed = (about["steps"] for about in trial_reports(run_dir) if "steps" in about)
        steps: list[list[int]] = next(timed, [])
        kept = [(end - start, block) for start, end, block in steps if block >= 0]
        if not kept:
            raise MeasurementError(f"no step was seen {_WHAT[fix]}", "Let it run more steps")
        return TrialRun(
            self._relative(run_dir),
            fix,
            tuple(duration for duration, _ in kept),
            tuple(block for _, block in kept) if block_steps else (),
            **_reported(run_dir),
        )

    def _spec(
        self, *, fix: bool, block_steps: int = 0, warm_up: int = 0, timed: bool = False
    ) -> Spec:
        """What a run with the fix, or one without it, asks of the process."""
        about = self.about if fix else None
        added = about.variables.items() if about is not None else ()
        return Spec(
            fix=about.name if about is not None else "",
            value=self.value if about is not None else "",
            block_steps=block_steps,
            warm_up=warm_up,
            steps=self._steps,
            timed=timed,
            variables={name: text.format(value=self.value) for name, text in added},
        )

    def _run(self, spec: Spec, what: str) -> Path:
        """Run the program to its end.

        Returns:
            Its run directory.

        Raises:
            MeasurementError: It failed.
        """
        self._progress(what)
        run_dir = self._folder / f"{self._count:03d}"
        self._count += 1
        run_dir.mkdir(parents=True)
        output = run_dir / OUTPUT_FILE
        variables = {**spec.variables, TRIAL_VARIABLE: spec.as_variable()}
        ended = launch(self._command, run_dir, output=output, variables=variables)
        if ended.exit_code:
            data = read_side_file(run_dir, run_dir / OUTPUT_FILE, MOST_RECORD_BYTES) or b""
            end = "\n".join(data.decode(errors="replace").strip().splitlines()[-_LAST_LINES:])
            lines = Redactor.of_process().text(end).splitlines()
            last_line = f" ({lines[-1].strip()[:_LONGEST_LINE]})" if lines else ""
            raise MeasurementError(
                f"{what}, the program ended with exit code {ended.exit_code}{last_line}",
                f"See its output in {output}",
            )
        return run_dir

    def path_of(self, run: TrialRun) -> Path:
        """The run directory of a run."""
        return self._folder / run.path

    def _relative(self, run_dir: Path) -> str:
        return str(run_dir.relative_to(self._folder))


def _reported(run_dir: Path) -> dict[str, Any]:
    """What the trial reported in a run, as arguments of `TrialRun`."""
    found = trial_reports(run_dir)

    def texts(kind: str) -> tuple[str, ...]:
        return tuple(dict.fromkeys(str(about[kind]) for about in found if kind in about))

    return {
        "changed": texts("changed"),
        "left": texts("left"),
        "refused": texts("refused"),
        "losses": next((tuple(about["losses"]) for about in found if "losses" in about), ()),
    }  # fmt: skip


def recorded_command(folder: Path) -> list[str] | None:
    """The command that a run directory recorded; None if the folder is none.

    Raises:
        NotFoundError: Its script is not there, or part of the command is hidden.
    """
    data = read_side_file(folder, folder / RUN_FILE, MOST_RECORD_BYTES)
    if data is None:
        return None
    try:
        about: Mapping[str, Any] = json.loads(data)
        words = [str(word) for word in about["command"]]
    except (ValueError, KeyError, TypeError):
        return None
    if any(hidden in word for word in words for hidden in _HIDDEN):
        raise NotFoundError(
            "the recorded command does not show its secrets", "Name the script and its arguments"
        )
    script = next((word for word in words[1:] if word.endswith(".py")), None)
    if script is not None and not Path(script).is_file():
        raise NotFoundError(
            f"{script}, which was run, is not in this folder",
            "Change to the folder in which it was run, or name the script and its arguments",
        )
    # The record keeps the last parts of an absolute path, so the interpreter is this one.
    if words and Path(words[0]).name.startswith("python"):
        words[0] = sys.executable
    return words
