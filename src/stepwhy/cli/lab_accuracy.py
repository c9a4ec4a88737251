"""Measure the gains of the lab's fixes, and keep what was predicted for them."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

import msgspec

from stepwhy.base.errors import OutputError, StepwhyError
from stepwhy.base.whole_files import write_whole
from stepwhy.cli.lab_pairs import find, lab_folder, pairs, programs_of
from stepwhy.cli.measuring import save_result
from stepwhy.engine.priced import explain_priced
from stepwhy.measure import accuracy_of, failed, judge_pair, measure_pairs, valid_pairs
from stepwhy.predict.accuracy import recomputed, record_of
from stepwhy.predict.calibration import CALIBRATION_FILE
from stepwhy.result import Accuracy, PairAccuracy
from stepwhy.result.gpu import GpuGrade

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import date
    from pathlib import Path

    from stepwhy.cli.lab_pairs import Pair
    from stepwhy.engine.priced import Priced
    from stepwhy.predict.calibration import GpuGain, Measured
    from stepwhy.result import Result

ACCURACY_FILE = "accuracy.json"
GPU_GRADE_FILE = "gpu-grade.json"


def stored_accuracy() -> Accuracy:
    """The record that the lab holds; an empty one if there is none."""
    place = lab_folder() / ACCURACY_FILE
    if not place.is_file():
        return Accuracy(())
    return msgspec.json.decode(place.read_bytes(), type=Accuracy)


def stored_gpu_grade() -> GpuGrade | None:
    """What the lab holds of a session on a GPU; None if there was none."""
    place = lab_folder() / GPU_GRADE_FILE
    return msgspec.json.decode(place.read_bytes(), type=GpuGrade) if place.is_file() else None


def to_measure(names: Sequence[str], *, again: bool) -> list[Pair]:
    """The pairs that were not measured today.

    Args:
        names: Names of pairs; () for all.
        again: Whether to measure those of today as well.
    """
    today = _today().isoformat()
    done = {p.name for p in stored_accuracy().pairs if p.date == today and not p.error}
    chosen = [find(name) for name in names] or pairs()
    return [pair for pair in chosen if again or pair.name not in done]


def measure_accuracy(
    chosen: Sequence[Pair],
    size: str,
    repeats: int,
    folder: Path,
    progress: Callable[[str, int, int], None] | None,
) -> None:
    """Run both programs of each pair alternately, and store the result of each when it is done.

    Args:
        chosen: The pairs.
        size: Size of their programs.
        repeats: Number of valid pairs of runs.
        folder: Folder for the runs.
        progress: Called before each pair with (its name, pairs done, pairs in all).
    """
    for done, pair in enumerate(chosen):
        if progress:
            progress(pair.name, done, len(chosen))
        try:
            measured = _measured(pair, size, repeats, folder / pair.name)
        except StepwhyError as error:
            measured = failed(pair.name, pair.diagnosis, error.what, day=_today())
        # Store one pair; what is stored of others stays.
        latest = {one.name: one for one in (*stored_accuracy().pairs, measured)}
        ordered = tuple(latest[name] for name in sorted(latest))
        save_result(lab_folder() / ACCURACY_FILE, Accuracy(ordered))


def recompute() -> Accuracy:
    """Predict again from what is stored, store that, and calibrate later predictions with it.

    The calibration is part of the package, so it is only written in a clone of the repository.
    """
    found = recomputed(stored_accuracy())
    if not found.pairs:
        return found
    save_result(lab_folder() / ACCURACY_FILE, found)
    package = lab_folder().parent / "src" / "stepwhy" / "predict"
    if package.is_dir():
        path = package / CALIBRATION_FILE
        try:
            write_whole(path, calibration(found, stored_gpu_grade()))
        except OSError as error:
            raise OutputError(
                f"{path} cannot be written: {error.strerror}", "Free space"
            ) from error
    return found


def calibration(accuracy: Accuracy, grade: GpuGrade | None = None) -> bytes:
    """The content of the package's calibration, one fix a line.

    Args:
        accuracy: The measured pairs.
        grade: What was measured on a GPU; None for nothing.
    """
    record = record_of(accuracy, grade)
    groups = (f'"{name}": [\n{_lines(getattr(record, name))}\n]' for name in ("fixes", "on_gpu"))
    return ("{" + ",\n".join(groups) + "}\n").encode()


def _lines(fixes: Sequence[Measured] | Sequence[GpuGain]) -> str:
    return ",\n".join(msgspec.json.encode(fix).decode() for fix in fixes)


def _measured(pair: Pair, size: str, repeats: int, folder: Path) -> PairAccuracy:
    priced: list[Priced] = []

    def explain_faulty(names: Sequence[str]) -> Result:
        result, found = explain_priced(names, pair.diagnosis)
        priced.append(found)
        return result

    sides = programs_of(pair, size, folder, explain_faulty)
    faulty, fixed = measure_pairs(sides, repeats)
    about = (pair.name, pair.title, pair.diagnosis)
    judged = judge_pair(*about, faulty, fixed, requested=repeats, day=_today())
    valid = [one for one, run in zip(priced, faulty, strict=True) if run.is_valid] or priced
    known = [one for one in valid if one.inputs is not None]
    return accuracy_of(
        judged,
        valid_pairs(faulty, fixed),
        [one.inputs for one in known if one.inputs is not None],
        edit=next((one.edit for one in valid if one.edit), ""),
        refusal=next((one.refusal for one in valid if one.refusal), ""),
        size=size,
    )


def _today() -> date:
    return datetime.now().astimezone().date()
