"""Run directories of which members are damaged, missing, or something else than files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fuzz.mutate import mutate
from fuzz.run_seeds import run_directories as seeds
from fuzz.trees import FOLDER, HUGE, LINK, PIPE

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

    from fuzz.formats import Files

    Change = Callable[[Files, str, Random], None]

_MOST_CHANGES = 4
_TARGETS = (
    *("../outside.txt", "..", ".", "/", "/dev/zero", "/dev/stdin", "/proc/self/environ"),
    *("/proc/self/fd/0", "nowhere", "run.json", "process-7", "process.json", "steps.jsonl"),
    *("../run.json", "../process-7", "windows", "000", "../../..", "/dev/tty", "/dev/full"),
)
_OTHER_NAMES = (
    *("process-7/windows/001/trace.json", "process-7/windows/999999999999999999999/trace.json"),
    *("process-7/windows/000/trace.json.gz", "process-7/windows/000/run_metadata.pb", ".hidden"),
    *("process-7.2/steps.jsonl", "process-/steps.jsonl", "process-x/process.json", "process-9"),
    *("process-7/steps-999999999999999999999.jsonl", "process-7/steps--1.jsonl", "trace.json"),
    *("process-7/steps-000000000003.jsonl", "process-7/run.json", "process-7/process-7/run.json"),
    *("process-7/steps-\u0661.jsonl", "process-7/windows/000/sub/trace.json", "run.json/run.json"),
)


def damage(files: Files, random: Random) -> Files:
    """Change some members; what comes out need not be a run directory any more."""
    for _ in range(1 + random.randrange(_MOST_CHANGES)):
        if files:
            random.choice(_CHANGES)(files, random.choice(list(files)), random)
    return files


def _content(files: Files, name: str, random: Random) -> None:
    files[name] = mutate(name, files[name], [], random)


def _remove(files: Files, name: str, _random: Random) -> None:
    del files[name]


def _remove_folder(files: Files, name: str, _random: Random) -> None:
    folder = name.rpartition("/")[0]
    for other in [n for n in files if n.startswith(f"{folder}/")]:
        del files[other]


def _replace(files: Files, name: str, random: Random) -> None:
    """Put a link, a pipe, a folder or an endless file in the place of a member or its folder."""
    path = name.partition("\0")[0]
    if "/" in path and random.random() < 0.3:
        path = path.rpartition("/")[0]
        for other in [n for n in files if n.startswith(f"{path}/")]:
            del files[other]
    files.pop(name, None)
    files[path + random.choice((LINK, LINK, PIPE, FOLDER, HUGE))] = random.choice(_TARGETS).encode()


def _add(files: Files, name: str, random: Random) -> None:
    """Add a member under another name."""
    files.setdefault(random.choice(_OTHER_NAMES), files[name])


def _exchange(files: Files, name: str, random: Random) -> None:
    other = random.choice(list(files))
    files[name], files[other] = files[other], files[name]


_CHANGES: tuple[Change, ...] = (
    *(_content, _content, _remove, _remove_folder),
    *(_replace, _replace, _replace, _add, _add, _exchange),
)

__all__ = ["damage", "seeds"]
