"""Read what a session of the GPU lab left, for `stepwhy lab grade --gpu`."""

from __future__ import annotations

import gzip
import json
import tomllib
import zlib
from datetime import date, datetime
from io import BytesIO
from statistics import fmean
from typing import TYPE_CHECKING, Any

import msgspec

from stepwhy import __version__
from stepwhy.bench.gpu import gpu_pair, overhead
from stepwhy.cli.lab_pairs import GPU_PREFIX, PAIR_FILE, pairs
from stepwhy.engine import explain
from stepwhy.errors import InputError, NotFoundError, StepwhyError
from stepwhy.findings import Result
from stepwhy.findings.gpu import GpuGrade, GpuPair, LivePoint, Overhead
from stepwhy.inputs.side_files import MOST_RECORD_BYTES, read_side_file

if TYPE_CHECKING:
    from pathlib import Path

    from stepwhy.cli.lab_pairs import Pair

GPU_GRADE_FILE = "gpu-grade.json"
_SIDES = ("faulty", "fixed")
_MOST_BYTES = 64 * 2**20  # of an explanation; usual ones have less than one MiB

Items = dict[str, dict[str, Any]]


def gpu_grade(folder: Path, *, again: bool = False) -> GpuGrade:
    """Grade a folder of results.

    Args:
        folder: Folder that `scripts/gpu-lab` wrote.
        again: Whether to explain the recorded runs again where their windows were kept.

    Raises:
        NotFoundError: If the folder holds no results.
        InputError: If a result cannot be read.
    """
    items = _items(folder)
    about = items.get("environment", {})
    day = _day(about.get("date", ""))
    graded = [_pair(pair, folder, items, day=day, again=again) for pair in pairs(gpu=True)
              if pair.name.startswith(GPU_PREFIX)]  # fmt: skip
    return GpuGrade(
        pairs=tuple(pair for pair in graded if pair is not None),
        points=tuple(
            msgspec.convert(point, LivePoint) for point in items.get("points", {}).get("points", [])
        ),
        overhead=tuple(filter(None, (_overhead(items, name) for name in ("short", "long")))),
        card=str(about.get("card", "")),
        driver=str(about.get("driver", "")),
        versions=tuple(map(str, about.get("versions", ()))),
        python=str(about.get("python", "")),
        date=day.isoformat(),
        tiny=bool(about.get("tiny", True)),
        stepwhy=__version__,
    )


def _items(folder: Path) -> Items:
    """All results by name."""
    found: Items = {}
    for file in sorted((folder / "items").glob("*.json")):
        try:
            item = json.loads(read_side_file(folder, file, MOST_RECORD_BYTES) or b"")
            found[str(item["name"])] = item
        except (StepwhyError, ValueError, KeyError, TypeError) as error:
            raise InputError(f"{file} is not a result of the GPU lab", "Remove it") from error
    if not found:
        raise NotFoundError(
            f"{folder} holds no results of the GPU lab", "Name the folder that gpu-lab wrote"
        )
    return found


def _day(text: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError:
        return datetime.now().astimezone().date()


def _pair(pair: Pair, folder: Path, items: Items, *, day: date, again: bool) -> GpuPair | None:
    """What is known of a pair; None if none of its programs was run."""
    short = pair.name.removeprefix(GPU_PREFIX)
    results: dict[str, list[Result]] = {side: [] for side in _SIDES}
    steps: dict[str, list[float]] = {side: [] for side in _SIDES}
    planned, errors, seen = None, [], False
    for name, item in items.items():
        kind, _, rest = name.partition("/")
        words = rest.split("/")
        if kind != "pair" or words[0] != short or len(words) != 3 or words[1] not in _SIDES:
            continue
        seen, side = True, words[1]
        if item.get("error"):
            errors.append(f"{side}: {str(item['error']).splitlines()[0]}")
            continue
        steps[side] += [float(each) for each in item.get("step_ms", ())]
        planned = item.get("planned", {}).get("share", planned)
        try:
            results[side].append(_result(folder, name, again=again))
        except StepwhyError as error:
            errors.append(f"{side}: {error.what}")
    if not seen:
        return None
    return gpu_pair(
        short,
        (pair.diagnosis, *_also(pair)),
        results["faulty"],
        results["fixed"],
        steps,
        day=day,
        planned_share=planned,
        error="; ".join(dict.fromkeys(errors)),
    )


def _also(pair: Pair) -> tuple[str, ...]:
    """Other diagnoses that are right as well."""
    about = tomllib.loads((pair.folder / PAIR_FILE).read_text(encoding="utf-8"))
    return tuple(about.get("also", ()))


def _result(folder: Path, name: str, *, again: bool) -> Result:
    """The explanation of a run: the stored one, or a new one of what was recorded."""
    flat = name.replace("/", ".")
    run, stored = folder / "runs" / flat, folder / "explained" / f"{flat}.json.gz"
    has_window = any(run.glob("process-*/windows/*/trace.*"))
    if not (again and has_window):
        try:
            packed = read_side_file(folder, stored, _MOST_BYTES)
            if packed is not None:
                with gzip.open(BytesIO(packed)) as file:
                    return msgspec.json.decode(file.read(_MOST_BYTES), type=Result)
        except (StepwhyError, OSError, EOFError, zlib.error, msgspec.MsgspecError):
            pass  # damaged, or of another version: explain it again
    return explain([str(run)])


def _overhead(items: Items, name: str) -> Overhead | None:
    """What observing costs a program; None if it was not measured."""
    sides = [
        [
            fmean(item["step_ms"])
            for key, item in items.items()
            if key.startswith(f"overhead/{name}/{side}/") and item.get("step_ms")
        ]
        for side in ("plain", "observed")
    ]
    return overhead(name, *sides) if all(sides) else None


__all__ = ["GPU_GRADE_FILE", "gpu_grade"]
