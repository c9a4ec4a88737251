"""The small files of a run directory, as records."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import msgspec

from stepwhy.base.errors import CorruptInputError, NewerFormatError, NotFoundError
from stepwhy.read.formats.run_directory.records import DAMAGED, Int
from stepwhy.read.inputs.side_files import MOST_RECORD_BYTES, read_side_file
from stepwhy.trace import NULL

if TYPE_CHECKING:
    from pathlib import Path

    from stepwhy.read.inputs.folders import RunFolder

SCHEMA = "stepwhy.run/1"

T = TypeVar("T")


class ProcessEnd(msgspec.Struct):
    """What a process of a run left word of: how it ended, and what it had seen by then."""

    exception: str = ""
    stopped: str = ""
    steps: Int = 0
    optimizer_steps: Int = 0


class RunFile(msgspec.Struct):
    """run.json; no end: it was killed, or it is still going."""

    schema: str
    command: list[str] = []
    started_ns: Int | None = None
    ended_ns: Int | None = None
    exit_code: Int | None = None
    oom_kills: Int | None = None
    processes: dict[str, ProcessEnd] = {}
    why_no_step: str = ""
    python: str = ""
    cpu: str = ""
    commit: str = ""
    branch: str = ""


class ProcessFile(msgspec.Struct):
    """process.json; no end: the observation ended before the process did, or both at once."""

    pid: Int | None = None
    framework: str = ""
    framework_version: str = ""
    rank: Int | None = None
    world_size: Int | None = None
    observer: str = ""
    intra_op_threads: Int | None = None
    usable_cores: Int | None = None
    python: str = ""
    settings: dict[str, str] = {}
    ended_ns: Int | msgspec.UnsetType | None = msgspec.UNSET


class WindowFile(msgspec.Struct):
    """window.json."""

    end_ns: Int
    start_ns: Int = NULL
    kind: str = ""
    clock_set_ns: Int = 0
    ran_ahead: bool = False
    drained: bool = False
    annotated: bool = False
    kernels_missing: bool = False


class Message(msgspec.Struct):
    """One line of messages.jsonl."""

    text: str
    level: str = "info"
    slug: str = ""


def read_run_file(folder: Path) -> RunFile:
    """The `run.json` of a run directory.

    Raises:
        CorruptInputError: It is damaged.
        NewerFormatError: A later version of stepwhy wrote it.
        InputError: It is no file of the folder, or too large.
    """
    data = read_side_file(folder, folder / "run.json", MOST_RECORD_BYTES)
    if data is None:
        raise NotFoundError(f"{folder.name}/run.json does not exist", "Check the path")
    try:
        run = msgspec.json.decode(data, type=RunFile)
    except DAMAGED as error:
        raise CorruptInputError(
            f"{folder.name}/run.json is damaged ({error})", "Run again"
        ) from None
    if run.schema != SCHEMA:
        raise NewerFormatError(
            f"{folder.name} is a run directory of version {run.schema:.40}", "Update stepwhy"
        )
    return run


def read_record(folder: RunFolder, name: str, kind: type[T]) -> T | None:
    """A small file as a record; None where it is missing, damaged or refused."""
    try:
        return msgspec.json.decode(folder.read(name, MOST_RECORD_BYTES), type=kind)
    except DAMAGED:
        return None


# Why a window could not be opened at some time; where there is one, it was opened later.
_WAITED = {"profiler-in-use", "forks"}


def read_messages(folder: RunFolder) -> list[Message]:
    """What the observer of a process had to say, without what no longer matters.

    The torn last line of a killed process is dropped, and so is that a window had to wait where
    there is one.

    Args:
        folder: The folder of the process.
    """
    traced = bool(folder.inside("windows").names("[0-9]*"))
    return [m for m in _messages(folder) if not (traced and m.slug in _WAITED)]


def _messages(folder: RunFolder) -> list[Message]:
    messages = []
    for line in folder.read("messages.jsonl", MOST_RECORD_BYTES).splitlines():
        try:
            messages.append(msgspec.json.decode(line, type=Message))
        except DAMAGED:
            continue
    return messages
