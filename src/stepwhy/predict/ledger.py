"""The user's own measured fixes, a file that later predictions on this machine learn from.

Only `append` writes it; explaining a run never does.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from stepwhy.base.regular_files import open_regular, read_regular
from stepwhy.predict.calibration import Measured, Record, Structure, score, shipped_record
from stepwhy.result.edits import Family  # noqa: TC001 - the JSON decoder reads it

if TYPE_CHECKING:
    from stepwhy.result.predictions import Prediction

LEDGER = "STEPWHY_LEDGER"
"""Environment variable with the path of the file; an empty path means no file."""
_MOST_BYTES = 1 << 22


class LedgerEntry(msgspec.Struct, frozen=True):
    """One line of the ledger: a fix that was predicted, made and measured.

    Args:
        name: The program, such as 'train.py'.
        edit: The edit as text.
        family: Kind of the edit.
        step_ns: The step before the fix.
        remaining_ns: The step that was predicted.
        structural_low_ns, structural_high_ns: The interval of the model alone.
        low_ns, high_ns: The predicted interval.
        measured_ns: The step after the fix.
        date: Day of the measurement, ISO 8601.
    """

    name: str
    edit: str
    family: Family
    step_ns: int
    remaining_ns: int
    structural_low_ns: int
    structural_high_ns: int
    low_ns: int
    high_ns: int
    measured_ns: int
    date: str = ""


def ledger_path() -> Path | None:
    """The file: `STEPWHY_LEDGER`, else in the platform's folder for data; None for no file."""
    chosen = os.environ.get(LEDGER)
    if chosen is not None:
        return Path(chosen) if chosen else None
    base = os.environ.get("LOCALAPPDATA") or os.environ.get("XDG_DATA_HOME") or ""
    # Relative paths must be ignored (XDG Base Directory Specification).
    if not Path(base).is_absolute():
        base = "~/Library/Application Support" if sys.platform == "darwin" else "~/.local/share"
    try:
        return Path(base).expanduser() / "stepwhy" / "ledger.jsonl"
    except RuntimeError:  # a container whose user has no name
        return None


def entry_of(name: str, prediction: Prediction, measured_ns: int, date: str) -> LedgerEntry:
    """The line for a measured fix.

    Args:
        name: The program.
        prediction: What was predicted.
        measured_ns: The step after the fix, on the scale of `prediction.step_ns`.
        date: Day of the measurement, ISO 8601.
    """
    return LedgerEntry(
        name=name,
        edit=" ".join(map(str, prediction.edits)),
        family=prediction.family,
        step_ns=prediction.step_ns,
        remaining_ns=prediction.remaining_ns,
        structural_low_ns=prediction.structural_low_ns,
        structural_high_ns=prediction.structural_high_ns,
        low_ns=prediction.low_ns,
        high_ns=prediction.high_ns,
        measured_ns=measured_ns,
        date=date,
    )


def append(entry: LedgerEntry) -> Path | None:
    """Add a measured fix to the ledger.

    Args:
        entry: The fix.

    Returns:
        The file; None if there is none.

    Raises:
        OSError: It cannot be written.
    """
    path = ledger_path()
    if path is None:
        return None
    path.parent.mkdir(parents=True, exist_ok=True)
    handle = open_regular(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    with os.fdopen(handle, "ab") as file:
        file.write(msgspec.json.encode(entry) + b"\n")
    return path


def read() -> tuple[LedgerEntry, ...]:
    """The measured fixes; lines that cannot be read are left out, and so is a file that is large.

    Returns:
        Oldest first; () without a file.
    """
    path = ledger_path()
    try:
        if path is None or path.stat().st_size > _MOST_BYTES:
            return ()
        lines = read_regular(path, _MOST_BYTES).splitlines()
    except OSError:
        return ()
    return tuple(entry for line in lines if (entry := _entry(line)) is not None)


def _entry(line: bytes) -> LedgerEntry | None:
    try:
        entry = msgspec.json.decode(line, type=LedgerEntry)
    except msgspec.MsgspecError:
        return None
    return entry if entry.step_ns > 0 and entry.remaining_ns >= 0 else None


def measured_fix(entry: LedgerEntry) -> Measured:
    """A line as a fix to calibrate with."""
    model = Structure(entry.remaining_ns, entry.structural_low_ns, entry.structural_high_ns)
    return Measured(
        name=entry.name,
        family=entry.family,
        score=score(model, entry.measured_ns),
        error=(entry.remaining_ns - entry.measured_ns) / entry.step_ns,
        inside=entry.low_ns <= entry.measured_ns <= entry.high_ns,
        on_this_machine=True,
    )


def whole_record() -> Record:
    """The fixes of the lab and those of this user."""
    shipped = shipped_record()
    return Record((*shipped.fixes, *map(measured_fix, read())), shipped.on_gpu)
