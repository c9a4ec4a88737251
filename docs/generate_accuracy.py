"""The page of predicted and measured gains, from the record in the lab."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from stepwhy.base.units import format_fraction
from stepwhy.result import Accuracy, current_id
from stepwhy.show.accuracy import (
    error_of,
    fit,
    fit_cells,
    naive_error,
    sentences,
    why_left_out,
    width_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from stepwhy.result import PairAccuracy

    Table = Callable[[Sequence[str], Iterable[Sequence[str]]], str]

_ROOT = Path(__file__).resolve().parent.parent
RECORD = _ROOT / "lab" / "accuracy.json"
TRIALS = _ROOT / "benchmarks" / "results" / "trials.json"

INTRODUCTION = """\
For each pair of the [lab](../how-to/use-the-lab.md), the step after the fix is predicted from runs
of the faulty program and measured in runs of the fixed one ([how](../explanation/predictions.md)).
`stepwhy lab grade --predict` makes this record. The interval of each pair is calibrated with all
other pairs, never with itself. All numbers are shares of the step before the fix.

- *Inside*: how many intervals held the measured step. They should hold 85 %.
- *Error*: how far the predicted step is off, in the median and in 9 of 10 pairs.
- *Width*: median width of the interval.
- *Naive*: the same errors if the cost of the finding is simply subtracted.
- *Noise*: how uncertain the measured steps are (half of a 95 % interval). Pairs above 5 %, and
  those that were measured while the machine was busy, are left out.
"""
TRIED = """\
## Fixes applied by `stepwhy try`

`benchmarks/trials.py` lets [`stepwhy try`](../how-to/try-a-fix.md) apply fixes to the unmodified
programs, with 150 s for each, and to their fixed twins, where it should find no gain. Gains are
shares of the step before the fix.

`constant-batch` makes input free. It gains more than the fix of the lab where that only makes input
cheaper: in the twin of `torch/cold_files`, whose workers still read from the disk, the gain is
real. Where rare steps are long, `stepwhy try` compares mean steps and the lab usual ones
(`torch/own_profiler`).
"""
NOTHING = "No pair has been measured since predictions are recorded in this way.\n"
KINDS = {
    "removed": "work that disappears",
    "overlapped": "work that moves beside the step",
    "replaced": "work that is replaced or moved to another device",
    "device": "replayed on a graph of the device",
}
_NUMBERS = ("inside", "error", "9 of 10", "width", "naive", "naive, 9 of 10", "noise")
_PAIR = ("pair", "planted", "edit", "predicted step", "measured", "inside", "error", "width",
         "naive", "noise")  # fmt: skip
_LEFT_OUT = ("pair", "planted", "why")
_TRIAL = ("pair", "fix", "verdict", "gain in the trial", "in the lab", "in the fixed twin")


def parts(table: Table) -> Iterator[str]:
    """The page in order.

    Args:
        table: Makes a table of a head and rows.
    """
    yield INTRODUCTION
    pairs = record().pairs
    if not pairs:
        yield NOTHING
        return
    kinds, diagnoses = (
        _grouped(pairs, _kind),
        _grouped(pairs, lambda pair: f"`{current_id(pair.diagnosis)}`"),
    )
    yield "\n".join(f"- {sentence}" for sentence in sentences(record())) + "\n"
    yield "## By kind of edit\n"
    yield table(("kind", *_NUMBERS), [*kinds, *_row("all", pairs)])
    yield "## By diagnosis\n"
    yield table(("diagnosis", *_NUMBERS), diagnoses)
    yield "## Every pair\n"
    yield table(_PAIR, [_cells(pair) for pair in pairs if not why_left_out(pair)])
    yield "## Left out\n"
    yield table(_LEFT_OUT, [_reason(pair) for pair in pairs if why_left_out(pair)])
    yield _versions(pairs)
    trials = json.loads(TRIALS.read_text(encoding="utf-8"))
    yield TRIED
    yield table(_TRIAL, [_tried(name, each) for name, each in trials["trials"].items()])
    yield f"Measured {trials['date']}.\n"


def record() -> Accuracy:
    """The record; an empty one if there is none."""
    if not RECORD.is_file():
        return Accuracy(())
    return msgspec.json.decode(RECORD.read_bytes(), type=Accuracy)


def _kind(pair: PairAccuracy) -> str:
    return KINDS[pair.inputs.family] if pair.inputs else ""


def _grouped(
    pairs: Sequence[PairAccuracy], key: Callable[[PairAccuracy], str]
) -> Iterator[tuple[str, ...]]:
    groups: defaultdict[str, list[PairAccuracy]] = defaultdict(list)
    for pair in pairs:
        groups[key(pair)].append(pair)
    for name in sorted(groups):
        yield from _row(name, groups[name])


def _row(name: str, pairs: Sequence[PairAccuracy]) -> Iterator[tuple[str, ...]]:
    found = fit(pairs)
    if found is not None:
        yield (name, *fit_cells(found))


def _cells(pair: PairAccuracy) -> tuple[str, ...]:
    interval = f"{_share(pair, pair.low_ns)} to {_share(pair, pair.high_ns)}"
    numbers = (error_of(pair), width_of(pair), naive_error(pair), pair.noise)
    return (
        f"`{pair.name}`",
        f"`{current_id(pair.diagnosis)}`",
        f"`{pair.edit}`",
        f"{_share(pair, pair.remaining_ns)} ({interval})",
        _share(pair, pair.measured_ns),
        "yes" if pair.is_inside else "no",
        *("-" if number is None else format_fraction(number) for number in numbers),
    )


def _share(pair: PairAccuracy, time_ns: int | None) -> str:
    return "-" if time_ns is None else format_fraction(time_ns / max(pair.step_ns, 1))


def _reason(pair: PairAccuracy) -> tuple[str, ...]:
    return f"`{pair.name}`", f"`{current_id(pair.diagnosis)}`", why_left_out(pair)


def _tried(name: str, each: dict[str, Any]) -> tuple[str, ...]:
    """A row of the fix that was applied to a faulty program and to its twin."""
    trial, lab = each["faulty"], each["lab"]
    step, gains = trial["step_ns"], [trial[key] for key in ("gain_ns", "low_ns", "high_ns")]
    gain, low, high = (f"{100 * one / step:.0f} %" for one in gains)
    in_lab = f"{100 * (1 - lab['fixed'] / lab['faulty']):.0f} %"
    shown = f"{gain} ({low} to {high})"
    return (
        f"`{name}`",
        f"`{each['fix']}`",
        trial["verdict"],
        shown,
        in_lab,
        each["fixed"]["verdict"],
    )


def _versions(pairs: Sequence[PairAccuracy]) -> str:
    known = {
        f"{key} {value}" if key == "python" else value
        for pair in pairs
        for key, value in pair.versions.items()
    }
    machines = sorted({pair.machine for pair in pairs if pair.machine})
    dates = sorted({pair.date for pair in pairs if pair.date})
    when = " to ".join(dict.fromkeys((dates[0], dates[-1]))) if dates else ""
    return f"Measured {when} on {', '.join(machines)}, with {', '.join(sorted(known))}.\n"


__all__ = ["parts", "record"]
