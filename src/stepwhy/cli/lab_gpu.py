"""Read what a session of the GPU lab left, for `stepwhy lab grade --gpu`."""

from __future__ import annotations

import gzip
import tomllib
import zlib
from collections import Counter
from datetime import date, datetime
from io import BytesIO
from statistics import fmean, median
from textwrap import shorten
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from stepwhy import __version__
from stepwhy.base.errors import InputError, StepwhyError
from stepwhy.cli.lab_gpu_items import Item, read_items
from stepwhy.cli.lab_pairs import GPU_PREFIX, PAIR_FILE, pairs
from stepwhy.engine import explain
from stepwhy.measure.gpu import gpu_pair, overhead
from stepwhy.measure.gpu_bounds import bounds
from stepwhy.predict.calibration import shipped_record
from stepwhy.predict.gpu_gains import reach
from stepwhy.read.inputs.side_files import read_side_file
from stepwhy.result import Result, current_id, stored_result
from stepwhy.result.gpu import GpuClocks, GpuGrade, GpuPair, Overhead

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from stepwhy.cli.lab_pairs import Pair

_SIDES = ("faulty", "fixed")
_MOST_BYTES = 64 * 2**20  # of an explanation; usual ones have less than one MiB
_ERROR = 100  # characters of an error that are shown
_OF_START = "slow-startup"
_HELD_BACK = 0.1  # share of the samples of a measurement; clocks also change for a moment

Items = dict[str, Item]


def gpu_grade(folder: Path, *, again: bool = False) -> GpuGrade:
    """Grade a folder of results.

    Args:
        folder: Folder that `scripts/gpu-lab` wrote.
        again: Whether to explain the recorded runs again where their windows were kept.

    Raises:
        NotFoundError: If the folder holds no results.
    """
    every, left_out = read_items(folder)
    about = every.get("environment") or Item("environment")
    card = about.card or _usual_card(every)
    items = {name: item for name, item in every.items() if item.card in ("", card)}
    day = _day(about.date)
    planned = [pair for pair in pairs(gpu=True) if pair.name.startswith(GPU_PREFIX)]
    graded = [_pair(pair, folder, items, day=day, again=again) for pair in planned]
    found = tuple(pair for pair in graded if pair is not None)
    points = items["points"].points if "points" in items else ()
    tiny = about.tiny is not False
    return GpuGrade(
        pairs=found,
        points=points,
        overhead=tuple(filter(None, (_overhead(items, name) for name in ("short", "long")))),
        bounds=bounds(
            found,
            points,
            planned=len(planned),
            faults=sum(bool(pair.diagnosis) for pair in planned),
            is_gpu=bool(card) and not tiny,
        ),
        clocks=_clocks(items),
        left_out=(*left_out, *_count_others(every, card), *_windows_left_out(items)),
        card=card,
        driver=about.driver,
        versions=about.versions,
        python=about.python,
        date=day.isoformat(),
        tiny=tiny,
        stepwhy=__version__,
        reach=reach(shipped_record().on_gpu),
    )


def _usual_card(items: Items) -> str:
    """The card of most results."""
    cards = Counter(item.card for item in items.values() if item.card)
    return cards.most_common(1)[0][0] if cards else ""


def _count_others(items: Items, card: str) -> list[str]:
    """Results of other cards, which are not compared with those of this one."""
    cards = Counter(item.card for item in items.values() if item.card not in ("", card))
    return [
        f"{count} {'result' if count == 1 else 'results'} of another card, {other}"
        for other, count in cards.items()
    ]


def _windows_left_out(items: Items) -> list[str]:
    names = [name for name, item in items.items() if item.left_out]
    count = sum(len(item.left_out) for item in items.values())
    windows = "recorded window" if count == 1 else "recorded windows"
    return [f"{count} large {windows}, of {', '.join(names)}"] if names else []


def _day(text: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError:
        return datetime.now().astimezone().date()


def _pair(pair: Pair, folder: Path, items: Items, *, day: date, again: bool) -> GpuPair | None:
    """What is known of a pair; None if none of its programs was run."""
    short = pair.name.removeprefix(GPU_PREFIX)
    results: dict[str, list[Result]] = {side: [] for side in _SIDES}
    runs: dict[str, list[Item]] = {side: [] for side in _SIDES}
    errors = []
    for name, item in items.items():
        kind, _, rest = name.partition("/")
        words = rest.split("/")
        if kind != "pair" or words[0] != short or len(words) != 3 or words[1] not in _SIDES:
            continue
        side = words[1]
        runs[side].append(item)
        if item.error:
            errors.append(
                f"{side}: {shorten(item.error.splitlines()[0], _ERROR, placeholder='...')}"
            )
            continue
        try:
            # The start does not count: these programs are short, and take turns.
            result = _result(folder, item, again=again)
            results[side].append(
                replace(result, findings=tuple(f for f in result.findings if f.id != _OF_START))
            )
        except StepwhyError as error:
            errors.append(f"{side}: {error.what}")
    every = [*runs["faulty"], *runs["fixed"]]
    if not every:
        return None
    about = tomllib.loads((pair.folder / PAIR_FILE).read_text(encoding="utf-8"))
    accepted = tuple(map(current_id, about.get("also", ())))
    return gpu_pair(
        short,
        (pair.diagnosis, *accepted),
        results["faulty"],
        results["fixed"],
        {side: [ms for item in runs[side] for ms in item.step_ms] for side in _SIDES},
        day=day,
        planned_share=next((i.planned["share"] for i in every if "share" in i.planned), None),
        clocks_mhz=_clocks_of(runs),
        error="; ".join(dict.fromkeys(errors)),
    )


def _clocks_of(runs: Mapping[str, list[Item]]) -> tuple[float, float] | None:
    """Median clock of the GPU during the faulty and the fixed program; None if not sampled."""
    faulty, fixed = (
        [item.clocks.sm_mhz[1] for item in runs[side] if len(item.clocks.sm_mhz) == 3]
        for side in _SIDES
    )
    return (median(faulty), median(fixed)) if faulty and fixed else None


def _result(folder: Path, item: Item, *, again: bool) -> Result:
    """The explanation of a run: the stored one, or a new one of what was recorded.

    Raises:
        StepwhyError: It cannot be explained; InputError if too little of it was kept.
    """
    flat = item.name.replace("/", ".")
    run, stored = folder / "runs" / flat, folder / "explained" / f"{flat}.json.gz"
    has_window = any(run.glob("process-*/windows/*/*trace.*")) or any(
        run.glob("process-*/windows/*/*.xplane.pb")
    )
    if not (again and has_window):
        try:
            packed = read_side_file(folder, stored, _MOST_BYTES)
            if packed is not None:
                with gzip.open(BytesIO(packed)) as file:
                    return stored_result(file.read(_MOST_BYTES))
        except (StepwhyError, OSError, EOFError, zlib.error, msgspec.MsgspecError):
            pass  # damaged, or of another version: explain it again
    if item.left_out and not has_window:
        raise InputError("its windows were not kept, and its explanation cannot be read",
                         "Measure it again with --missing")  # fmt: skip
    return explain([str(run)])


def _overhead(items: Items, name: str) -> Overhead | None:
    """What observing costs a program; None if it was not measured."""
    sides = [
        [
            fmean(item.step_ms)
            for key, item in items.items()
            if key.startswith(f"overhead/{name}/{side}/") and item.step_ms
        ]
        for side in ("plain", "observed")
    ]
    return overhead(name, *sides) if all(sides) else None


def _clocks(items: Items) -> GpuClocks:
    """The state of the GPU during the measurements."""
    sampled = {name: item.clocks for name, item in items.items() if item.clocks.samples}
    missing = {item.clocks.missing for item in items.values()} - {""}
    reasons: dict[str, tuple[str, ...]] = {}
    for name, clocks in sampled.items():
        for reason, share in (clocks.reasons or {}).items():
            if share >= _HELD_BACK:
                reasons[reason] = (*reasons.get(reason, ()), name)
    mhz = [clocks.sm_mhz[1] for clocks in sampled.values() if len(clocks.sm_mhz) == 3]
    if sampled:
        missing = {
            what for what, has in (
                ("clocks", mhz),
                ("reasons of reduced clocks", any(c.reasons is not None for c in sampled.values())),
            ) if not has
        }  # fmt: skip
    return GpuClocks(
        samples=sum(clocks.samples for clocks in sampled.values()),
        low_mhz=min(mhz, default=None),
        high_mhz=max(mhz, default=None),
        power_w=max((c.power_w[-1] for c in sampled.values() if c.power_w), default=None),
        temperature_c=max(
            (c.temperature_c[-1] for c in sampled.values() if c.temperature_c), default=None
        ),
        reasons=reasons,
        missing="; ".join(sorted(missing)) or ("" if sampled else "nothing was measured"),
    )
