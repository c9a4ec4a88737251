"""What the list shows of a run, read from its files.

The files may come from someone else: each is read with a limit, links must not lead out of the
served folder, and what is damaged is shown as such.
"""

from __future__ import annotations

import hashlib
import html
import os
from typing import TYPE_CHECKING, Literal

import msgspec

from stepwhy.apps.serve.notes import Note, read_note
from stepwhy.apps.serve.scan import PAGE_FILE, RESULT_FILE, Found, Kind
from stepwhy.base.errors import InputError
from stepwhy.base.patterns import regex
from stepwhy.base.text import visible
from stepwhy.read.formats.run_directory.files import ProcessFile, read_record, read_run_file
from stepwhy.read.formats.run_directory.records import DAMAGED, Amount
from stepwhy.read.inputs.folders import RunFolder
from stepwhy.read.inputs.side_files import read_side_file
from stepwhy.read.inputs.within import open_within
from stepwhy.result import current_id

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

State = Literal["explained", "unexplained", "unfinished", "damaged"]

MOST_RESULT_BYTES = 1 << 26
"""Maximum size of a result, bytes; large graphs take some megabytes."""

# Fields of a result are written in a fixed order; traces, which may be large, begin otherwise.
_BEGINS_RESULT = regex(r'\s*\{\s*"verdict"\s*:')
_TITLE = regex(r"<title>([^<]*) – stepwhy</title>")  # noqa: RUF001 - en dash intended
_HEAD_BYTES = 1 << 13
_LONGEST = 400  # characters of a text in the list
_MOST_FINDINGS = 20
_INTERPRETER = regex(r"(python|pypy)[\d.]*$")


class Summary(msgspec.Struct, frozen=True):
    """What the list shows.

    Args:
        kind: What it is.
        state: 'unfinished': no result, and the run has no recorded end; 'damaged': see `reason`.
        time_ns: Start of the run, or the last change of a file, in ns since the epoch.
        sentence: The verdict in words, or the title of a page.
        reason: Why it is damaged.
        program: Name of the script or program.
        command: The recorded command, redacted.
        framework, version: As recorded; '' if unknown.
        devices: Models of its devices.
        bound_by: Verdict; '' if it is not explained.
        median_ns, p10_ns, p90_ns: Percentiles of its steps; None if unknown, or without steps.
        wall_ns: Mean step.
        categories: ns per category of the mean step.
        findings: Id and title of each problem found, highest cost first.
        commit, branch: Of the checkout in which it was started; '' if unknown.
        exit_code: Exit code of the run; None if unknown.
        has_page: Whether there is a page to open.
        note: Note and tags.
    """

    kind: Kind
    state: State
    time_ns: int
    sentence: str = ""
    reason: str = ""
    program: str = ""
    command: str = ""
    framework: str = ""
    version: str = ""
    devices: tuple[str, ...] = ()
    bound_by: str = ""
    median_ns: int | None = None
    p10_ns: int | None = None
    p90_ns: int | None = None
    wall_ns: int = 0
    categories: dict[str, int] = msgspec.field(default_factory=dict)
    findings: tuple[tuple[str, str], ...] = ()
    commit: str = ""
    branch: str = ""
    exit_code: int | None = None
    has_page: bool = False
    note: Note = msgspec.field(default_factory=Note)


class Entry(msgspec.Struct, frozen=True):
    """A row of the list.

    Args:
        path: Path relative to the served folder.
        summary: What the list shows of it.
    """

    path: str
    summary: Summary

    @property
    def id(self) -> str:
        """Its name in addresses, which is no path."""
        return entry_id(self.path)

    @property
    def name(self) -> str:
        """Its path, safe to show."""
        return visible(self.path, _LONGEST)


def copies(entries: Iterable[Entry]) -> dict[str, Entry]:
    """The original of each entry that is a copy of another one, by the path of the copy.

    Steps and breakdown of two runs are never equal to the nanosecond. Of equal ones, the original
    is the one with the earliest start and the first path.
    """
    originals: dict[object, Entry] = {}
    copied: dict[str, Entry] = {}
    for entry in sorted(entries, key=lambda e: (e.summary.time_ns, e.path)):
        summary = entry.summary
        times = (summary.median_ns, summary.p10_ns, summary.p90_ns, summary.wall_ns)
        if None in times or not summary.wall_ns:
            continue
        original = originals.setdefault((times, *sorted(summary.categories.items())), entry)
        if original is not entry:
            copied[entry.path] = original
    return copied


def entry_id(path: str) -> str:
    """The name of a path in addresses: 16 hexadecimal digits."""
    return hashlib.sha256(os.fsencode(path)).hexdigest()[:16]


class _Verdict(msgspec.Struct):
    bound_by: str
    sentence: str


class _Run(msgspec.Struct):
    framework: str = ""
    framework_version: str = ""
    devices: list[str] = []
    command: str = ""


class _Steps(msgspec.Struct):
    median_ns: Amount
    p10_ns: Amount
    p90_ns: Amount
    source: str = ""


class _Breakdown(msgspec.Struct):
    wall_ns: Amount
    categories: dict[str, Amount] = {}


class _Finding(msgspec.Struct):
    id: str
    verdict: str
    title: str = ""


class _Stored(msgspec.Struct):
    """The part of a stored result that the list shows."""

    verdict: _Verdict
    run: _Run
    steps: _Steps
    breakdown: _Breakdown
    schema: Literal["stepwhy.result/1"]
    findings: list[_Finding] = []


def summarise(root: Path, found: Found) -> Summary | None:
    """What the list shows of something that was found.

    Args:
        root: The served folder.
        found: What was found.

    Returns:
        None if it is neither a run nor a result nor a page.
    """
    try:
        return _READERS[found.kind](root, found)
    except InputError as error:
        if found.kind != "run":
            return None
        reason = visible(error.what, _LONGEST)
        return Summary(found.kind, "damaged", found.time_ns, reason=reason)
    except OSError:
        return None  # it has gone meanwhile


def _run(root: Path, found: Found) -> Summary:
    folder = root / found.path
    run = read_run_file(folder)
    data = read_side_file(root, folder / RESULT_FILE, MOST_RESULT_BYTES)
    finished = run.ended_ns is not None
    summary = Summary(
        "run",
        "unexplained" if finished else "unfinished",
        run.started_ns or found.time_ns,
        program=_short(program_of(run.command)),
        command=_short(" ".join(run.command)),
        commit=_short(run.commit),
        branch=_short(run.branch),
        exit_code=run.exit_code,
        has_page=_is_there(root, folder / PAGE_FILE),
        note=read_note(root, folder),
    )
    if data is None:
        # The framework of an unexplained run, from its first process.
        processes = RunFolder(folder).folders("process-*")
        record = read_record(processes[0], "process.json", ProcessFile) if processes else None
        framework = _short(record.framework) if record is not None else ""
        return msgspec.structs.replace(summary, framework=framework)
    try:
        return with_result(summary, data)
    except DAMAGED as error:
        reason = _short(f"{RESULT_FILE} is damaged: {error}")
        return msgspec.structs.replace(summary, state="damaged", reason=reason)


def _result(root: Path, found: Found) -> Summary | None:
    path = root / found.path
    if not _BEGINS_RESULT.match(_head(root, path)):
        return None
    data = read_side_file(root, path, MOST_RESULT_BYTES) or b""
    try:
        return with_result(Summary("result", "explained", found.time_ns), data)
    except DAMAGED:
        return None


def _page(root: Path, found: Found) -> Summary | None:
    title = _TITLE.search(_head(root, root / found.path))
    if title is None:
        return None
    # People who search for "14 ms" do not type a no-break space.
    sentence = _short(html.unescape(title[1]).replace("\xa0", " "))
    return Summary("page", "explained", found.time_ns, sentence=sentence, has_page=True)


_READERS = {"run": _run, "result": _result, "page": _page}


def with_result(summary: Summary, data: bytes) -> Summary:
    """A summary with the figures of a result.

    Args:
        summary: What is known without it.
        data: The result as JSON.

    Raises:
        msgspec.DecodeError: It is damaged.
    """
    stored = msgspec.json.decode(data, type=_Stored)
    steps, run = stored.steps, stored.run
    has_steps = steps.source != "whole-trace" and steps.median_ns > 0
    problems = [(current_id(f.id), f.title) for f in stored.findings if f.verdict == "found"]
    return msgspec.structs.replace(
        summary,
        state="explained",
        sentence=_short(stored.verdict.sentence),
        program=summary.program or _short(program_of(run.command.split())),
        command=summary.command or _short(run.command),
        framework=_short(run.framework),
        version=_short(run.framework_version),
        devices=tuple(map(_short, dict.fromkeys(run.devices[:_MOST_FINDINGS]))),
        bound_by=_short(stored.verdict.bound_by),
        median_ns=steps.median_ns if has_steps else None,
        p10_ns=steps.p10_ns if has_steps else None,
        p90_ns=steps.p90_ns if has_steps else None,
        wall_ns=stored.breakdown.wall_ns,
        categories=dict(stored.breakdown.categories),
        findings=tuple((_short(i), _short(t)) for i, t in problems[:_MOST_FINDINGS]),
    )


def program_of(words: list[str]) -> str:
    """The script, module or program of a command.

    Args:
        words: The command.
    """
    scripts = [word for word in words if word.endswith(".py")]
    if scripts:
        return os.path.basename(scripts[0])  # noqa: PTH119 - a recorded text, not a path here
    if "-m" in words[:-1]:
        return words[words.index("-m") + 1]
    names = [os.path.basename(word) for word in words if not word.startswith("-")]  # noqa: PTH119
    return next((name for name in names if not _INTERPRETER.match(name)), "")


def _is_there(root: Path, path: Path) -> bool:
    """Whether there is a regular file in the served folder that can be opened."""
    try:
        open_within(root, path).close()
    except (InputError, OSError):
        return False
    return True


def _head(root: Path, path: Path) -> str:
    with open_within(root, path) as file:
        return file.read(_HEAD_BYTES).decode(errors="replace")


def _short(text: str) -> str:
    return visible(text, _LONGEST)
