"""Mutations of logs with one JSON object per line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fuzz.mutate.json_tree import mutate_json

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

    Change = Callable[[list[bytes], Random], None]

_MOST_CHANGES = 4
_LONGEST_REPEAT = 200


def mutate_lines(data: bytes, random: Random) -> bytes:
    """Some lines changed, left out, repeated, exchanged or torn."""
    lines = data.splitlines(keepends=True)
    for _ in range(1 + random.randrange(_MOST_CHANGES)):
        if lines:
            random.choice(_CHANGES)(lines, random)
    return b"".join(lines)


def _change(lines: list[bytes], random: Random) -> None:
    at = random.randrange(len(lines))
    lines[at] = mutate_json(lines[at], random).replace(b"\n", b" ") + b"\n"


def _remove(lines: list[bytes], random: Random) -> None:
    start = random.randrange(len(lines))
    del lines[start : start + 1 + random.randrange(len(lines))]


def _repeat(lines: list[bytes], random: Random) -> None:
    at = random.randrange(len(lines))
    lines[at:at] = [lines[at]] * (1 + random.randrange(_LONGEST_REPEAT))


def _exchange(lines: list[bytes], random: Random) -> None:
    a, b = random.randrange(len(lines)), random.randrange(len(lines))
    lines[a], lines[b] = lines[b], lines[a]


def _tear(lines: list[bytes], random: Random) -> None:
    at = random.randrange(len(lines))
    lines[at] = lines[at][: random.randrange(len(lines[at]) + 1)]


_CHANGES: tuple[Change, ...] = (_change, _change, _change, _remove, _repeat, _exchange, _tear)
