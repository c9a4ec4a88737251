"""The results that a session of the GPU lab wrote, one per file."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from stepwhy.base.errors import NotFoundError, StepwhyError
from stepwhy.read.inputs.side_files import MOST_RECORD_BYTES, read_side_file
from stepwhy.result.gpu import LivePoint  # noqa: TC001 - msgspec reads it

if TYPE_CHECKING:
    from pathlib import Path


class Clocks(msgspec.Struct, frozen=True):
    """The GPU during one measurement: lowest, median and highest values.

    Args:
        samples: Number of samples.
        missing: Why there is none.
        sm_mhz: Clock of the multiprocessors; empty if unknown, as the others.
        power_w: Power.
        temperature_c: Temperature.
        reasons: Share of the samples in which clocks were reduced, by reason; null if unknown.
    """

    samples: int = 0
    missing: str = ""
    sm_mhz: tuple[float, ...] = ()
    power_w: tuple[float, ...] = ()
    temperature_c: tuple[float, ...] = ()
    reasons: dict[str, float] | None = None


class Item(msgspec.Struct, frozen=True):
    """One result; each kind has some of these.

    Args:
        name: Its name.
        error: Why it could not be measured; '' if it was.
        card: Model of the GPU.
        step_ms: Steps in some blocks, by the program's own clock.
        planned: What was computed for the size of the program.
        clocks: The GPU meanwhile.
        left_out: Recorded windows that were not kept.
        points: The live points.
        driver: Version of the driver.
        versions: Frameworks and their versions.
        python: Version of Python.
        date: Day of the session, ISO 8601.
        tiny: Whether the programs ran in their smallest size.
    """

    name: str
    error: str = ""
    card: str = ""
    step_ms: tuple[float, ...] = ()
    planned: dict[str, float] = {}
    clocks: Clocks = Clocks()
    left_out: tuple[str, ...] = ()
    points: tuple[LivePoint, ...] = ()
    driver: str = ""
    versions: tuple[str, ...] = ()
    python: str = ""
    date: str = ""
    tiny: bool | None = None


def read_items(folder: Path) -> tuple[dict[str, Item], list[str]]:
    """All results by name, and a remark about each file that is none.

    Args:
        folder: Folder that `scripts/gpu-lab` wrote.

    Raises:
        NotFoundError: If the folder holds no results.
    """
    found, damaged = {}, []
    for file in sorted((folder / "items").glob("*.json")):
        try:
            item = msgspec.json.decode(
                read_side_file(folder, file, MOST_RECORD_BYTES) or b"", type=Item
            )
            found[item.name] = item
        except (StepwhyError, msgspec.MsgspecError, UnicodeDecodeError):
            damaged.append(f"items/{file.name}, which is damaged")
    if not found:
        raise NotFoundError(
            f"{folder} holds no results of the GPU lab", "Name the folder that gpu-lab wrote"
        )
    return found, damaged
