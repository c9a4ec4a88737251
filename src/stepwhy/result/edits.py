"""Edits: typed changes of a program whose effect on the step can be predicted.

In text, an edit is `WHAT[:PATTERN]=CHANGE`::

    input=free                 the next batch is always ready
    input=workers:4            four workers prepare batches beside the step
    input=prefetch             one thread prepares the next batch beside the step
    kernels:*gemm*=2x          kernels whose name matches are twice as fast
    ops:aten::dropout=gone     operations whose name matches do not run
    kernels:*norm*=fused       runs of matching kernels become one launch each
    ops:MatMul=on:GPU:0        operations move to another device
    copies:h2d=25GB/s          copies at another bandwidth (directions: h2d, d2h, peer)
    copies=pinned              copies do not pass through pageable memory
    copies=overlapped          copies run beside the computation
    launches=0.5x              half as many launches
    syncs:cudaStreamSynchronize=gone   the host does not wait there
    communication=overlapped   exchanges run beside the computation
    communication=bucketed     exchanges of one kind become one
    communication=balanced     no rank waits for another one that has more work
    ops:Transpose=replaced     other operations do the same, such as those of another layout
    python=gone                the host's time in this category of the breakdown disappears
    python=replaced            operations of the framework do the same
    memory=gone                no operation waits for memory from the system
    profiler=gone              no profiler of the program itself runs
    threads=2                  each operation uses two threads
    stage:3=even               work of a pipeline stage takes as long as that of all on average
    rank:5=even                the same for a rank
    link:6-7=even              exchanges of two ranks alone take as long as usual
    group:dp=2x                exchanges of a kind of process group are twice as fast
    variance=gone              each operation of a rank takes as long in every step
    ranks=2x                   twice as many ranks
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import msgspec

from stepwhy.base.errors import EditError
from stepwhy.base.patterns import regex

if TYPE_CHECKING:
    import re

What = Literal[
    "input",
    "ops",
    "kernels",
    "copies",
    "launches",
    "syncs",
    "communication",
    "compile",
    "dispatch",
    "python",
    "storage",
    "memory",
    "profiler",
    "threads",
    "stage",
    "rank",
    "link",
    "group",
    "variance",
    "ranks",
]
Change = Literal[
    "gone", "faster", "fused", "moved", "overlapped", "bandwidth", "pinned", "bucketed",
    "free", "workers", "prefetch", "balanced", "replaced", "count",
    "even",
]  # fmt: skip
Family = Literal["removed", "overlapped", "replaced", "device"]

ALLOWED: dict[What, tuple[Change, ...]] = {
    "input": ("free", "workers", "prefetch", "gone"),
    "ops": ("gone", "faster", "fused", "moved", "replaced"),
    "kernels": ("gone", "faster", "fused", "replaced"),
    "copies": ("gone", "faster", "overlapped", "bandwidth", "pinned"),
    "launches": ("gone", "faster"),
    "syncs": ("gone",),
    "communication": ("gone", "faster", "overlapped", "bucketed", "balanced"),
    "compile": ("gone", "faster"),
    "dispatch": ("gone", "faster"),
    "python": ("gone", "faster", "overlapped", "replaced"),
    "storage": ("gone", "faster", "overlapped"),
    "memory": ("gone", "faster"),
    "profiler": ("gone",),
    "threads": ("count",),
    "stage": ("even",),
    "rank": ("even",),
    "link": ("even", "faster", "gone"),
    "group": ("even", "faster", "gone"),
    "variance": ("gone",),
    "ranks": ("faster",),
}
"""The changes that each part of a step can undergo."""

OF_RANKS: tuple[What, ...] = ("stage", "rank", "link", "group", "variance", "ranks")
"""Parts of a job of several ranks: only a record of all ranks shows what changing them does."""

_REMOVED: tuple[Change, ...] = ("gone", "free")
_OVERLAPPED: tuple[Change, ...] = ("workers", "prefetch", "overlapped")
_PARTLY_REMOVED: tuple[What, ...] = ("compile", "dispatch", "python", "storage", "memory")
"""The host's time in these becomes shorter when there is less of it to do."""

_EDIT = regex(r"(?P<what>[a-z]+)(?::(?P<pattern>[\s\S]+))?=(?P<change>[^=]+)")
_FACTOR = regex(r"(\d+(?:\.\d+)?)x")
_RATE = regex(r"(\d+(?:\.\d+)?) ?([KMGT]?)B/s")
_WORKERS = regex(r"workers:(\d+)")
_COUNT = regex(r"(\d+)")
_DEVICE = regex(r"on:(.+)")
# Parts of which each is named, what the name stands for, and an example.
_NAMED: dict[What, tuple[re.Pattern[str], str, str]] = {
    "link": (regex(r"\d+-\d+"), "two ranks", "link:6-7=even"),
    "group": (regex(r"[\s\S]+"), "a kind of process group", "group:dp=2x"),
}
_PREFIXES = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
_PLAIN: tuple[Change, ...] = (
    "gone", "fused", "overlapped", "pinned", "bucketed", "free", "prefetch", "balanced", "replaced",
    "even",
)  # fmt: skip


class Edit(msgspec.Struct, frozen=True):
    """One change of a program.

    Args:
        what: The part of the step.
        change: What happens to it.
        pattern: Which of them, as a shell pattern of names; '' for all. For copies also a
            direction.
        factor: How many times faster ('faster'). For launches, the share that remains is its
            inverse.
        count: Number of workers ('workers'), or of threads ('count').
        bytes_per_s: Bandwidth of copies ('bandwidth').
        device: Where operations move to ('moved').
        cost_ns: Time per mean steady step that the change is about, where it is less than all of
            the part; None for all of it.
        host_ns: Time per mean steady step in which the host runs the operations that disappear
            with that time, launches included; None if the part says which operations they are.
        sure: Share of that time that the fix removes for certain, 0..1; the rest depends on the
            program.
    """

    what: What
    change: Change
    pattern: str = ""
    factor: float | None = None
    count: int | None = None
    bytes_per_s: float | None = None
    device: str = ""
    cost_ns: int | None = None
    host_ns: int | None = None
    sure: float = 1.0

    def __str__(self) -> str:
        """The edit as text, which `parse_edit` reads; without its cost."""
        where = f":{self.pattern}" if self.pattern else ""
        return f"{self.what}{where}={self._change()}"

    def _change(self) -> str:
        match self.change:
            case "faster" if self.what == "launches":
                return f"{1 / (self.factor or 1):g}x"
            case "faster":
                return f"{self.factor:g}x"
            case "bandwidth":
                return f"{(self.bytes_per_s or 0) / 1e9:g}GB/s"
            case "workers":
                return f"workers:{self.count}"
            case "count":
                return f"{self.count}"
            case "moved":
                return f"on:{self.device}"
            case _:
                return self.change


def family_of(edit: Edit) -> Family:
    """The kind of an edit, on a CPU.

    Returns:
        'removed' if work disappears, 'overlapped' if it runs beside the rest of the step,
        'replaced' if other work takes its place.
    """
    if edit.change in _OVERLAPPED:
        return "overlapped"
    is_shorter = edit.change == "faster" and edit.what in _PARTLY_REMOVED
    return "removed" if is_shorter or edit.change in _REMOVED else "replaced"


def parse_edit(text: str) -> Edit:
    """The edit that a text describes.

    Args:
        text: `WHAT[:PATTERN]=CHANGE`, as above.

    Raises:
        EditError: It is not such a text, or this part of a step cannot be changed so.
    """
    match = _EDIT.fullmatch(text.strip())
    if match is None:
        raise EditError(
            f"{text!r} is not an edit", "Write WHAT[:PATTERN]=CHANGE, such as input=free"
        )
    name, change = match["what"], match["change"].strip()
    what = next((part for part in ALLOWED if part == name), None)
    if what is None:
        raise EditError(f"{name!r} is no part of a step", f"Use one of {', '.join(ALLOWED)}")
    values = _values(what, change)
    if values is None or values["change"] not in ALLOWED[what]:
        raise EditError(
            f"{what} cannot be changed to {change!r}",
            f"Of {what}, these can be predicted: {', '.join(_examples(what))}",
        )
    pattern = match["pattern"] or ""
    named = _NAMED.get(what)
    if named is not None and not named[0].fullmatch(pattern):
        raise EditError(f"{text.strip()!r} does not name {named[1]}", f"Write {named[2]}")
    return msgspec.convert({"what": what, "pattern": pattern, **values}, Edit)


def is_edit(text: str) -> bool:
    """Whether a text is meant as an edit, valid or not.

    Args:
        text: An argument that may as well be the name of a file.
    """
    match = _EDIT.fullmatch(text.strip())
    if match is None:
        return False
    return match["what"] in ALLOWED or ("/" not in text and "." not in text)


def _values(what: str, text: str) -> dict[str, object] | None:
    """The fields that describe a change; None if it is none."""
    if text in _PLAIN:
        return {"change": text}
    if (match := _FACTOR.fullmatch(text)) and float(match[1]) > 0:
        factor = float(match[1])
        if what == "launches":
            factor = 1 / factor
        return {"change": "faster", "factor": factor} if factor >= 1 else None
    if (match := _RATE.fullmatch(text)) and float(match[1]) > 0:
        return {"change": "bandwidth", "bytes_per_s": float(match[1]) * _PREFIXES[match[2]]}
    if (match := _WORKERS.fullmatch(text)) and int(match[1]) > 0:
        return {"change": "workers", "count": int(match[1])}
    if (match := _COUNT.fullmatch(text)) and int(match[1]) > 0:
        return {"change": "count", "count": int(match[1])}
    if match := _DEVICE.fullmatch(text):
        return {"change": "moved", "device": match[1]}
    return None


_EXAMPLES: dict[Change, str] = {
    "faster": "2x", "bandwidth": "25GB/s", "workers": "workers:2", "moved": "on:GPU:0",
    "count": "2",
}  # fmt: skip


def _examples(what: What) -> list[str]:
    changes = [_EXAMPLES.get(change, change) for change in ALLOWED[what]]
    halved = {("launches", "2x"): "0.5x"}
    where = {"link": ":6-7", "group": ":dp"}.get(what, "")
    return [f"{what}{where}={halved.get((what, change), change)}" for change in changes]
