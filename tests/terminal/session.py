"""Run many command lines in one process: `python -m tests.terminal.session CASES` in a terminal.

A line before each names the case, and a line after it gives the exit code.
"""

from __future__ import annotations

import json
import os
import sys
from contextlib import ExitStack
from datetime import date
from pathlib import Path
from typing import Any
from unittest import mock

from stepwhy.base import errors, output
from stepwhy.cli import cli, explain_aside
from stepwhy.measure import Trial, compare, judge_pair, sample, summarise
from stepwhy.record import Launch, checks
from tests.answers.test_placement import DRAWING, placement
from tests.measure.results import MS, result, steady
from tests.show.conftest import SAMPLES
from tests.terminal.hostile import NAME, poisoned

DAY = date(2024, 1, 31)


def main(path: str) -> None:
    output.guard()
    # Before anything starts a thread, which a fork would lose.
    cases = sorted(json.loads(Path(path).read_text()), key=lambda case: not is_apart(case))
    for case in cases:
        sys.stdout.write(f"@@ {case['id']}\n")
        sys.stdout.flush()
        code = run_apart(case) if is_apart(case) else run_planted(case)
        sys.stderr.flush()
        sys.stdout.write(f"\n@= {code}\n")
        sys.stdout.flush()


def is_apart(case: dict[str, Any]) -> bool:
    """Whether a command replaces its process by another one, or limits its memory."""
    return case["args"][:1] in (["run"], ["aside"])


def run_apart(case: dict[str, Any]) -> int:
    child = os.fork()
    if not child:
        sys.exit(run_planted(case))
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def run_planted(case: dict[str, Any]) -> int | str:
    with ExitStack() as plants:
        for name, value in case["plants"].items():
            PLANTS[name](plants, value)
        return run(case["args"])


def run(args: list[str]) -> int | str:
    if args[:1] == ["aside"]:
        explain_aside.main(args[1:])
        return 0
    try:
        cli.main(args, prog_name=f"stepwhy{NAME}")
    except SystemExit as done:
        return done.code or 0
    except Exception as error:  # noqa: BLE001 - as the interpreter would
        sys.excepthook(type(error), error, error.__traceback__)
        return type(error).__name__
    return "no exit"


# --- What a case plants ---


def plant(target, value):
    return lambda plants, case: plants.enter_context(mock.patch(target, value(case)))


def raising(slug):
    (leaf,) = [c for c in vars(errors).values() if getattr(c, "slug", None) == slug]
    return mock.Mock(side_effect=leaf(f"{NAME} is not there", f"Look at {NAME}"))


def a_sample(name):
    return mock.Mock(return_value=poisoned(SAMPLES[name]()))


def some_samples():
    return [sample(result(steady(n * MS)), f"r{n}") for n in (10, 11, 12)]


def a_bench(_):
    return lambda *_args, **_options: poisoned(summarise("program", some_samples(), 3, None))


def a_comparison(_):
    pairs = (some_samples(), some_samples())
    return lambda *_args, **_options: poisoned(compare(("a", "b"), *pairs, margin=0.03))


def a_judgement(_):
    pairs = (some_samples(), some_samples())
    judged = judge_pair("tf1/slow", "title", "graph-growth", *pairs, requested=3, day=DAY)
    return lambda *_args, **_options: poisoned(judged)


def no_runs(_):
    """Runs that cost no time, with the progress of real ones."""

    def measure(program, repeats, *, allow_busy, progress):
        del allow_busy
        if progress:
            progress(program.label, 0, repeats)
        return some_samples()

    return measure


def no_pairs(_):
    def measure(programs, pairs, **options):
        return tuple(no_runs(None)(program, pairs, **options) for program in programs)

    return measure


def no_precise_runs(_):
    def measure(program, _budget, **options):
        return no_runs(None)(program, 3, **options)

    return measure


def no_trial(_):
    def measure(programs, _budget, *, margin, after_pair, **options):
        del margin
        trial = Trial(*no_pairs(None)(programs, 3, **options), level=0.98, answered=False)
        after_pair(Trial(trial.a[:1], trial.b[:1], 0.98, answered=False), 1)
        return trial

    return measure


def a_placement(_):
    moved = DRAWING.replace("| Conv3D     | GPU:0 | CPU:0", "| Conv3D | GPU:0 | GPU:0")
    return mock.Mock(side_effect=[poisoned(placement()), poisoned(placement(moved))])


def a_check(_):
    item = checks.Item("name", "ok", "found", "meaning", "todo", need="must")
    fields = {f: getattr(item, f) + NAME for f in ("name", "found", "meaning", "todo")}
    items = tuple(
        checks.Item(**fields, state=state, need="must")
        for state in ("ok", "limited", "missing", "conflict")
    )
    return lambda command, _: checks.Report(tuple(command), items)


def a_launch(run_dir):
    return lambda *_args, **_options: Launch(0, Path(run_dir), (f"message{NAME}",))


PLANTS = {
    "error": plant("stepwhy.engine.explain", raising),
    "bug": plant("stepwhy.engine.explain", lambda _: mock.Mock(side_effect=ValueError(NAME))),
    "sample": plant("stepwhy.engine.explain", a_sample),
    "measure": plant("stepwhy.measure.measure_until_precise", no_precise_runs),
    "trial": plant("stepwhy.measure.measure_until_answered", no_trial),
    "measure_pairs": plant("stepwhy.measure.measure_pairs", no_pairs),
    "bench": plant("stepwhy.measure.summarise", a_bench),
    "compare": plant("stepwhy.measure.compare", a_comparison),
    "judge": plant("stepwhy.measure.judge_pair", a_judgement),
    "placement": plant("stepwhy.engine.explain.read_placement", a_placement),
    "check": plant("stepwhy.record.checks.check", a_check),
    "launch": plant("stepwhy.record.launch", a_launch),
    "lab": plant(
        "stepwhy.cli.lab_pairs.lab_folder", lambda folder: lambda: Path(folder).absolute()
    ),
}

if __name__ == "__main__":
    main(*sys.argv[1:])
