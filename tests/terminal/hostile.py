"""Names that attack a terminal, and files and results that carry them."""

from __future__ import annotations

import functools
import json
import os
from typing import TYPE_CHECKING, Any, Literal, get_origin

import msgspec

from tests.cli.test_lab import PAIR
from tests.cli.test_measuring import PROGRAM
from tests.engine.test_explain import kineto

if TYPE_CHECKING:
    from pathlib import Path

# Would name the window, add a link, fill the clipboard, blink, clear the screen, do so in C1, turn
# the line around, open and close markup, begin lines of their own, and overwrite what was printed.
ATTACKS = (
    "\x1b]0;P\x07",
    "\x1b]8;;P:P\x1b\\",
    "\x1b]52;c;UA==\x07",
    "\x1b[7;5;31m",
    "\x1b[2J",
    "\x9b7;5m\x9d0;P\x9c\x85",
    "\u202eP\u2066\u200f\u061c\u200b",
    "\u2028FORGED\u2029",
    "[red][link=P:P]:smile:",
    "\nFORGED\r\nFORGED",
    "\rFORGED\x08\x0b\x0c\x7f",
)
NAME = "]" + "".join(ATTACKS)
# A path that begins with it closes the markup that the name opens: '[/]'.
FOLDER = f"{NAME}["
# The same with bytes that are not UTF-8.
BYTES = "]" + os.fsdecode(b"caf\xe9\xff") + NAME

# What no file name can hold, but a trace.
TEXT = f"{NAME}\ud800\x00\ufeff/[/]"

BAD_FILES = {
    "empty": b"",
    "text": b"\x1b]0;P\x07hello",
    "torn.gz": b"\x1f\x8b\x08\x00",
    "sqlite": b"SQLite format 3\x00",
    "nsys": b"NVIDIA Tegra Profiler Report 1.\n",
    "json": b'{"traceEvents": [{"ph": "X", "name": "\x1b]0;P\x07"',
}


def write_inputs(root: Path) -> None:
    """Write files and folders of hostile names, which hold hostile names."""
    folder = root / FOLDER
    folder.mkdir()
    for name in (NAME, BYTES):
        (folder / f"{name}.json").write_text(hostile_trace())
        (folder / f"{name}.py").write_text(PROGRAM)
    for name, content in BAD_FILES.items():
        (folder / f"]{name}{NAME}").write_bytes(content)
    ranks, others = root / f"ranks{NAME}", root / f"others{NAME}"
    ranks.mkdir()
    others.mkdir()
    for rank in range(2):
        (ranks / f"{NAME}{rank}.json").write_text(kineto(rank=rank))
        (others / f"{NAME}{rank}.json").write_text(kineto(slow=1 + rank))
    (ranks / f"text{NAME}").write_text("hello")
    long = json.loads(kineto())
    for event in long["traceEvents"]:
        event["name"] += "x" * 100_000 * (event["cat"] in ("cpu_op", "kernel"))
    (root / "long.json").write_text(json.dumps(long))
    pair = root / "lab" / FOLDER / NAME
    pair.mkdir(parents=True)
    (pair / "train.py").write_text(PROGRAM)
    title = json.dumps(NAME).replace("\x7f", r"\u007f")
    (pair / "pair.toml").write_text(PAIR.replace('"A slow program"', title))


def hostile_trace() -> str:
    """A trace of PyTorch's in which every operation, thread and device has a hostile name."""
    document = json.loads(kineto())
    events = document["traceEvents"]
    for event in events:
        if not event["name"].startswith(("ProfilerStep", "cuda")):
            event["name"] += TEXT
    for pid, kind in ((10, "python"), (0, "GPU 0")):
        for what in ("process_name", "process_labels", "thread_name"):
            label = {"name": kind + TEXT, "labels": kind + TEXT}
            events.append({"ph": "M", "pid": pid, "tid": 7, "name": what, "args": label})
    document["deviceProperties"] = [{"id": 0, "name": f"GPU{TEXT}", "totalGlobalMem": 10**9}]
    return json.dumps(document)


@functools.singledispatch
def poisoned(value: Any) -> Any:
    """The same value, in which every text that is not one of a few words ends in an attack."""
    if not isinstance(value, msgspec.Struct):
        return value
    free = {
        field.name: poisoned(getattr(value, field.name))
        for field in msgspec.structs.fields(value)
        if field.name not in NOT_FREE and get_origin(field.type) is not Literal
    }
    return msgspec.structs.replace(value, **free)


# A unit says how to format; the keys of other mappings are categories.
NOT_FREE = ("schema", "unit", "categories")


@poisoned.register
def _(value: str) -> str:
    return value + TEXT


@poisoned.register
def _(value: tuple) -> tuple[Any, ...]:
    return tuple(map(poisoned, value))


@poisoned.register
def _(value: dict) -> dict[str, Any]:
    return {key + NAME: number for key, number in value.items()}
