"""What `stepwhy explain --json` makes of an input, and whether it may.

An input is explained or refused. It fails when anything but a `StepwhyError` comes out, when what
comes out breaks a promise, or when it takes more time or memory than its size allows. What is said
of a trace depends on nothing but the trace: one that equals an earlier one is not explained again.
"""

from __future__ import annotations

import pickle
import time
import traceback
import warnings
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import TYPE_CHECKING
from zlib import crc32

from fuzz.memory import Meter
from fuzz.promises import broken_promises
from fuzz.ways import TORN, differences, is_damaged, taken, ways_of
from stepwhy.base.errors import StepwhyError
from stepwhy.read.inputs.reading import read_source
from stepwhy.read.registry import read_trace

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from fuzz.formats import Files
    from stepwhy.read.inputs.source import Source
    from stepwhy.trace import Trace

    Verdict = tuple[str, str, str]
    """Kind, what and details of an outcome."""

MIB = 1 << 20
SECONDS_PER_MIB = 10
"""CPU seconds that an input may take per MiB, and at least."""
_MEMORY_FACTOR, _MEMORY_FREE_BYTES = 4, 200_000_000


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of an input.

    Args:
        kind: 'explained', 'refused' or 'failed'.
        what: Name of the format; slug of the error; or what failed and where, the same for inputs
            that fail alike.
        details: For people: a message, a traceback.
        cpu_s: CPU time, s.
        memory_bytes: By how much the resident memory grew at most.
        size_bytes: Size of the input, decompressed.
        is_known: Its trace equals one that was explained before.
    """

    kind: str
    what: str
    details: str = ""
    cpu_s: float = 0.0
    memory_bytes: int = 0
    size_bytes: int = 0
    is_known: bool = False


def size_of(files: Files) -> int:
    """Bytes of an input as they are on disk."""
    return sum(map(len, files.values()))


def seconds_for(size_bytes: int) -> float:
    """CPU seconds that an input of this size may take."""
    return SECONDS_PER_MIB * max(1.0, size_bytes / MIB)


def judged(work: Callable[[], Verdict], size: Callable[[], int]) -> Outcome:
    """The outcome of some work on an input: what it says, unless it fails or takes too much.

    Args:
        work: Explains the input.
        size: Size of the input in bytes, decompressed, as far as it is known after the work.
    """
    meter, start_s = Meter(), time.process_time()
    kind, what, details = _guarded(work)
    cpu_s, memory_bytes, size_bytes = time.process_time() - start_s, meter.grown_bytes(), size()
    if kind != "failed" and cpu_s > seconds_for(size_bytes):
        kind, what, details = "failed", "time", f"{cpu_s:.1f} s for {size_bytes} bytes"
    if kind != "failed" and memory_bytes > _MEMORY_FACTOR * size_bytes + _MEMORY_FREE_BYTES:
        kind, what, details = "failed", "memory", f"{memory_bytes} bytes for {size_bytes}"
    return Outcome(kind, what, details, cpu_s, memory_bytes, size_bytes)


def _guarded(work: Callable[[], Verdict]) -> Verdict:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            return work()
    except StepwhyError as error:
        return _refusal(error)
    except Exception as error:  # noqa: BLE001 - whatever else comes out is what is looked for
        return failure(error)


def failure(error: BaseException) -> Verdict:
    """What is said of an error that is none of ours."""
    return "failed", _place(error), "".join(traceback.format_exception(error))


class Judge:
    """Explains inputs and checks what comes out, in the process that calls it."""

    def __init__(self) -> None:
        self._known: set[bytes] = set()

    def __call__(self, files: Files, folder: Path) -> Outcome:
        """The outcome of one input. Raises only what ends a process.

        Args:
            files: The input.
            folder: An empty folder for its files.
        """
        paths = [folder / name for name in files]
        for path, data in zip(paths, files.values(), strict=True):
            path.write_bytes(data)
        try:
            return self._measured(paths[0], size_of(files))
        finally:
            for path in paths:
                path.unlink()

    def _measured(self, path: Path, stored_bytes: int) -> Outcome:
        known, sizes = len(self._known), [stored_bytes]

        def explained() -> Verdict:
            source = read_source(path)
            sizes.append(source.size)
            return self._explained(source, path)

        outcome = judged(explained, lambda: max(sizes))
        is_known = outcome.kind == "explained" and len(self._known) == known
        return replace(outcome, is_known=is_known)

    def _explained(self, source: Source, path: Path) -> Verdict:
        """Kind, what and details of a file that could be opened."""
        try:
            trace, name = read_trace(source)
        except StepwhyError as error:
            kind, what, details = _refusal(error)
            broken = _other_way(path, error.slug) if kind == "refused" else ""
        else:
            kind, what, details = "explained", name, ""
            broken = self._broken_promise(trace, path, name) or _other_way(path, trace)
        return ("failed", broken.partition(":")[0], broken) if broken else (kind, what, details)

    def _broken_promise(self, trace: Trace, path: Path, name: str) -> str:
        """The first promise that is not kept, or ''."""
        digest = blake2b(pickle.dumps(trace), digest_size=16).digest()
        broken = "" if digest in self._known else next(broken_promises(trace, str(path), name), "")
        if not broken:
            self._known.add(digest)
        return broken


def _other_way(path: Path, expected: Trace | str) -> str:
    """How another way to read the file does not agree, or ''; each file goes one.

    Of damaged JSON one way may save more than another: it only must not fail.

    Args:
        path: The file.
        expected: What was read from it, or the slug of why it was refused.
    """
    # Forced through the reader of torn text, JSON of another structure gives more than it should.
    ways = [way for way in ways_of(read_source(path)) if way.name != TORN]
    if not ways:
        return ""
    way = ways[crc32(path.read_bytes()) % len(ways)]
    try:
        with taken(way):
            read: Trace | str = read_trace(read_source(path))[0]
    except StepwhyError as error:
        read = error.slug
    found = _difference(expected, read)
    return f"{way.importer} {way.name} differs in {found}" if found and not is_damaged(path) else ""


def _difference(expected: Trace | str, read: Trace | str) -> str:
    if isinstance(expected, str) or isinstance(read, str):
        said = [v if isinstance(v, str) else "a trace" for v in (expected, read)]
        return "" if expected == read else f"what it is: {said[0]} or {said[1]}"
    return next(differences(expected, read), "")


def _refusal(error: StepwhyError) -> Verdict:
    message = str(error)
    is_fit = message.endswith(".") and message.isprintable() and len(message) < 1000
    if not is_fit:
        return "failed", f"message of {error.slug}", repr(message)[:2000]
    return "refused", error.slug, message


def _place(error: BaseException) -> str:
    """Type of an error and the innermost place of stepwhy's that it came through."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [f for f in frames if "/stepwhy/" in f.filename] or frames
    file = own[-1].filename.rpartition("/stepwhy/")[2]
    return f"{type(error).__name__} in {file}:{own[-1].lineno} {own[-1].name}"
