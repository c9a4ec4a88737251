"""Turn py-spy's stacks into counts of program lines, by the role of the thread.

Source: py-spy's `record --format raw`: per distinct stack one line of semicolon-separated frames,
outermost first, with a count. With `--subprocesses` its ancestor processes come first, each with
its command, which may contain anything, including line breaks.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NamedTuple

from stepwhy.record.core.user_code import OBSERVER
from stepwhy.record.sampling.source_lines import SourceLine, source_lines

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from stepwhy.record.core.user_code import UserFiles

Role = Literal["driver", "worker", "thread", "startup"]

_PROCESS = re.compile(r'\bprocess (\d+):"')
# A thread has a name once the program has imported `threading`.
_STACK = re.compile(r"(?:^|;)thread \((?P<id>\d+)\)(?:: [^;]*)?;(?P<frames>.*) (?P<count>\d+)$")
_FRAME = re.compile(r"^(?P<function>.*) \((?P<path>.*):(?P<line>\d+)\)$")
# What Inductor has compiled calls its kernels from a file of its own.
_COMPILED = re.compile(r"[/\\]torchinductor_[^/\\]*[/\\]")
_PACKAGE = re.compile(r"[/\\](?:site|dist)-packages[/\\]([^/\\]+)")
_START_OF_CHILD = "multiprocessing/process.py"
_LOADER = "torch/utils/data/_utils/worker.py"
# Files in which a framework's input pipeline calls the program, to prepare batches.
_ENTRIES = {
    "torch/utils/data/_utils/fetch.py": "DataLoader",
    "torch/utils/data/dataloader.py": "DataLoader",
    "tensorflow/python/ops/script_ops.py": "py_func",
    "trainers/data_adapters/py_dataset_adapter.py": "PyDataset",
    # In these, compiled code calls the program.
    "jax/_src/callback.py": "jax callback",
    "jax/_src/debugging.py": "jax callback",
}
_AUTOGRAD = "torch/autograd/function.py"
WAITING = "threading"
"""Leaf of a line of the program that waits for another thread or process."""

# A thread in these files waits for another thread or process.
_WAITS = (
    "/threading.py", "/queue.py", "/multiprocessing/connection.py", "/multiprocessing/queues.py",
    "/multiprocessing/popen_fork.py", "/selectors.py", "/concurrent/futures/_base.py",
)  # fmt: skip
# Functions in C that wait, by the name that a line calls, and whom for. A line that sleeps waits
# for nothing else: it is what to change.
_WAITS_IN_C = {"block_until_ready": "jax", "acquire": WAITING}
# Files of libraries that log, and what the samples in them are counted for.
_LOGGERS = {
    "/torch/utils/tensorboard/": "tensorboard",
    "/tensorflow/python/summary/": "tensorboard",
    "/tensorflow/python/ops/summary_ops_v2.py": "tensorboard",
    "/keras/src/callbacks/tensorboard.py": "tensorboard",
    "/site-packages/tensorboard/": "tensorboard",
    "/site-packages/tensorboardX/": "tensorboardX",
    "/site-packages/wandb/": "wandb",
    "/site-packages/mlflow/": "mlflow",
    "/logging/__init__.py": "logging",
}
# Where the observer's own code is innermost, it has called a function in C of a framework.
_OBSERVED = {
    "jax": "jax", "tf1": "tensorflow", "tf2": "tensorflow", "keras": "keras", "torch": "torch",
}  # fmt: skip
_SESSION = "tensorflow/python/client/session.py"
_IMPORTING = "<frozen importlib."

IMPORT = "import"
"""Entry of samples before the first step in which the program's line imports something."""


class Place(NamedTuple):
    """Position of a thread in the code.

    Args:
        role: Role of the thread.
        line: Innermost line of the program, '' if there is none.
        leaf: Package that ran there, '' for the program itself. What a library that logs has called
            counts for that library, such as 'tensorboard' or 'logging', and a wait for another
            thread or process for 'threading'.
        entry: Part of an input pipeline that called the line: 'DataLoader', 'py_func', 'PyDataset',
            'feed' for a thread of the program that runs a session to fill a queue, or 'generator'
            for a generator function of the program and what it calls; or what runs callbacks:
            'jax callback', 'autograd.Function' with a class of the program; '' if none. At
            start-up: 'import' if something is imported.
        called: Package and function that the line has called, as in 'numpy: interp'; '' if the line
            itself ran, or a function in C that it called.
        loop: Whether the line is in a loop (`SourceLine`).
        names: Names of the functions that the line calls, separated by spaces.
    """

    role: Role
    line: str
    leaf: str
    entry: str = ""
    called: str = ""
    loop: str = ""
    names: str = ""


@dataclass(frozen=True, slots=True)
class _Frame:
    """One frame of a stack."""

    function: str
    path: str
    line: int

    def starts_child(self) -> bool:
        """Whether a child process begins here; a fork has its parent's frames below."""
        name = self.function.rpartition(".")[2]
        return name == "_bootstrap" and self.path.replace("\\", "/").endswith(_START_OF_CHILD)


class _At(NamedTuple):
    """The innermost line of the program on a stack, '' if there is none.

    Args:
        line, entry, called: As in `Place`.
        source: What its source says of it.
    """

    line: str = ""
    entry: str = ""
    called: str = ""
    source: SourceLine = SourceLine()


@dataclass(slots=True)
class _Thread:
    """Positions of one thread, and whether it runs code of the program."""

    counts: Counter[tuple[_At, str]] = field(default_factory=Counter)
    is_of_program: bool = False
    feeds: bool = False

    def places(self, role: Role) -> Iterator[tuple[Place, int]]:
        """Its places with their counts."""
        feed = "feed" if self.feeds and role == "thread" else ""
        for (at, leaf), count in self.counts.items():
            entry = at.entry or (feed if at.line else "")
            about = at.source
            yield (
                Place(role, at.line, leaf, entry, at.called, about.loop, " ".join(about.names)),
                count,
            )


def count_samples(
    text: str, pid: int, files: UserFiles, observed: Collection[int] = ()
) -> Counter[Place]:
    """Count samples by place.

    The main thread of the process is its driver. The main thread of a child process that runs code
    of the program, or loads data for PyTorch, is a worker; other children are ignored. Of the other
    threads of the process, those that run code of the program count.

    Args:
        text: Output of py-spy.
        pid: The process; its main thread has the same id.
        files: Identifies the program's files.
        observed: Processes that are sampled separately, and so are no workers.
    """
    threads: defaultdict[tuple[int, int], _Thread] = defaultdict(_Thread)
    for process, thread, frames, count in _stacks(text, pid):
        if process == pid or process not in observed:
            at = _innermost(frames, files)
            seen = threads[process, thread]
            leaf = (_logger(frames, files) or _awaited(frames, at)) if at.line else ""
            leaf = leaf or _leaf(frames[-1].path, files)
            seen.counts[at, leaf] += count
            seen.is_of_program |= bool(at.line) or any(f.path.endswith(_LOADER) for f in frames)
            seen.feeds |= bool(at.line) and any(f.path.endswith(_SESSION) for f in frames)
    totals: Counter[Place] = Counter()
    for (process, thread), seen in threads.items():
        role = _role(process, thread, pid)
        if role is not None and (seen.is_of_program or role == "driver"):
            totals.update(dict(seen.places(role)))
    return totals


def count_startup(text: str, pid: int, files: UserFiles) -> Counter[Place]:
    """Count samples of the main thread before the first step, by place.

    The package of an import is the one that the program's line imports or calls, not the one that
    this imports in turn.

    Args:
        text: Output of py-spy.
        pid: The process; its main thread has the same id.
        files: Identifies the program's files.
    """
    counts: Counter[Place] = Counter()
    for process, thread, frames, count in _stacks(text, pid):
        if process == thread == pid:
            counts[_startup_place(frames, files)] += count
    return counts


def _startup_place(frames: list[_Frame], files: UserFiles) -> Place:
    line = _innermost(frames, files).line
    depth = max((i for i, f in enumerate(frames) if files.user_name(f.path)), default=-1)
    called = frames[depth + 1 :]
    if not line or not any(f.path.startswith(_IMPORTING) for f in called):
        return Place("startup", line, _leaf(frames[-1].path, files))
    code = next((f for f in called if not f.path.startswith(_IMPORTING)), called[0])
    return Place("startup", line, _leaf(code.path, files), IMPORT)


def _stacks(text: str, pid: int) -> Iterator[tuple[int, int, list[_Frame], int]]:
    """Process, thread, frames and count of each stack."""
    process = pid
    for line in text.split("\n"):
        # In a record of several lines, an earlier line names the process.
        named = _PROCESS.findall(line)
        process = int(named[-1]) if named else process
        match = _STACK.search(line)
        frames = _frames(match["frames"]) if match is not None else []
        if match is not None and frames:
            yield process, int(match["id"]), frames, int(match["count"])


def _frames(text: str) -> list[_Frame]:
    """The frames of a stack that belong to its own process, outermost first."""
    found = [m for m in map(_FRAME.match, text.split(";")) if m is not None]
    frames = [_Frame(m["function"], m["path"], int(m["line"])) for m in found]
    begins = [i for i, frame in enumerate(frames) if frame.starts_child()]
    return frames[begins[-1] :] if begins else frames


def _role(process: int, thread: int, pid: int) -> Role | None:
    if process == pid:
        return "driver" if thread == pid else "thread"
    return "worker" if thread == process else None


def _innermost(frames: list[_Frame], files: UserFiles) -> _At:
    """The innermost line of the program, with its entry and what it has called."""
    for depth, frame in reversed(list(enumerate(frames))):
        name = files.user_name(frame.path)
        if name is not None:
            entry = _entry(frames[: depth + 1], files) or _generator(frames, files)
            inner = next(iter(frames[depth + 1 :]), None)
            called = f"{_leaf(inner.path, files)}: {inner.function}" if inner else ""
            source = source_lines(frame.path).get(frame.line, SourceLine())
            return _At(f"{name}({frame.line}): {frame.function}", entry, called, source)
    return _At()


def _entry(frames: list[_Frame], files: UserFiles) -> str:
    """What called the program last, of what has a name, for frames that end in the program."""
    for inner, frame in zip(reversed(frames), reversed(frames[:-1]), strict=False):
        path = frame.path.replace("\\", "/")
        if path.endswith(_AUTOGRAD) and files.user_name(inner.path) is not None:
            # 'Rank' for 'main.<locals>.Rank.forward'.
            class_of = inner.function.rpartition(".")[0].rpartition(".")[2]
            return f"autograd.Function {class_of}"
        for end, entry in _ENTRIES.items():
            if path.endswith(end):
                return entry
    return ""


def _generator(frames: list[_Frame], files: UserFiles) -> str:
    """'generator' if a generator function of the program is at work in some frames, else ''."""
    if frames[-1].path.replace("\\", "/").endswith(_WAITS):
        return ""
    own = (f for f in frames if files.user_name(f.path) is not None)
    at = (source_lines(f.path).get(f.line, SourceLine()) for f in own)
    return "generator" if any(one.in_generator for one in at) else ""


def _logger(frames: list[_Frame], files: UserFiles) -> str:
    """The library that logs among those that the program has called; '' if none does."""
    for frame in reversed(frames):
        if files.user_name(frame.path) is not None:
            return ""
        path = frame.path.replace("\\", "/")
        found = next((name for part, name in _LOGGERS.items() if part in path), "")
        if found:
            return found
    return ""


def _awaited(frames: list[_Frame], at: _At) -> str:
    """What a line of the program waits for: another thread, or a framework; '' if it does not."""
    if at.called:
        return WAITING if frames[-1].path.replace("\\", "/").endswith(_WAITS) else ""
    return next((_WAITS_IN_C[name] for name in at.source.names if name in _WAITS_IN_C), "")


def _leaf(path: str, files: UserFiles) -> str:
    if files.user_name(path) is not None:
        return ""
    if path.startswith(OBSERVER):
        part = path[len(OBSERVER) :].replace("\\", "/").split("/")
        return _OBSERVED.get(part[1], "python")
    found = _PACKAGE.search(path)
    if found:
        return found[1].removesuffix(".py")
    return "torch" if _COMPILED.search(path) else "python"
