"""Check the space for the run directory, and for batches in shared memory."""

from __future__ import annotations

import tempfile
from typing import TYPE_CHECKING

from stepwhy.base import units
from stepwhy.base.redaction.commands import shorten_path
from stepwhy.record.checks.item import Item

if TYPE_CHECKING:
    from pathlib import Path

    from stepwhy.record.checks.machine import Machine

# A million steps at up to 300 bytes of log, and windows of 20 steps at up to 1 MB each (the
# heaviest that a step of torch.profiler was seen to weigh), in each of eight processes.
_NEEDED_BYTES = 1_000_000 * 300 + 8 * 20 * 1_000_000
# Below, not even one process can keep one window.
_LEAST_BYTES = 32_000_000
# Four workers that hold two batches each of 256 images of 224 x 224 x 3 in float32.
_NEEDED_SHARED_BYTES = 4 * 2 * 256 * 224 * 224 * 3 * 4


def run_directory(machine: Machine, folder: Path) -> Item:
    """Whether a run directory can be created and filled.

    Args:
        machine: Source of the free space.
        folder: The run directory, or the folder for it; neither needs to exist.
    """
    parent = _first_existing(folder.absolute())
    shown = shorten_path(str(folder))
    reason = "" if parent.is_dir() else "a file is in the way"
    try:
        with tempfile.TemporaryFile(dir=parent) as file:
            file.write(b"\0" * 4096)
    except OSError as error:
        reason = error.strerror or type(error).__name__
    if reason:
        return Item(
            "run-directory",
            "missing",
            f"{shown} cannot be written: {reason}",
            "nothing can be stored",
            "Name a writable directory with --out",
            need="must",
        )
    return _space(machine, parent, shown)


def _first_existing(folder: Path) -> Path:
    """The folder itself or the nearest one above it that exists."""
    return next(path for path in (folder, *folder.parents) if path.exists())


def _space(machine: Machine, parent: Path, shown: str) -> Item:
    """Whether the free space is enough for a long run."""
    state = machine.file_system(parent)
    free = state.f_bavail * state.f_frsize
    # File systems without a fixed number of files report 0 of 0.
    no_files_left = state.f_files > 0 and state.f_favail == 0
    found = f"{shown} can be written, {units.format_bytes(free)} free"
    if free < _LEAST_BYTES or no_files_left:
        what = "no file can be added" if no_files_left else found
        return Item(
            "run-directory",
            "missing",
            what,
            "the log and the windows of steps do not fit",
            "Make room, or name another disk with --out",
            need="must",
        )
    if free < _NEEDED_BYTES:
        needed = units.format_bytes(_NEEDED_BYTES)
        return Item(
            "run-directory",
            "limited",
            found,
            f"a long run of eight processes may write {needed}; if it fills up, the rest is lost",
            "Make room, or name another disk with --out",
            need="must",
        )
    return Item(
        "run-directory",
        "ok",
        found,
        "logs and traces of a long run fit",
        need="must",
    )


def shared_memory(machine: Machine) -> Item:
    """Whether /dev/shm, which DataLoader workers use for batches, is large enough."""
    try:
        state = machine.file_system(machine.path("dev/shm"))
    except OSError:
        return Item(
            "shared-memory",
            "limited",
            "there is no /dev/shm",
            "DataLoader workers pass batches through files instead, or fail",
            "Mount one if the training uses workers (container: --shm-size 8g)",
        )
    free = state.f_bavail * state.f_frsize
    found = f"{units.format_bytes(free)} free in /dev/shm"
    if free < _NEEDED_SHARED_BYTES:
        return Item(
            "shared-memory",
            "limited",
            found,
            "large batches of several DataLoader workers do not fit and end with a bus error",
            "Enlarge it (container: --shm-size 8g), or use fewer workers",
        )
    return Item("shared-memory", "ok", found, "DataLoader workers have room for their batches")
