"""Read a packed timeline back, as the page's script does."""

import zlib
from dataclasses import dataclass

import msgspec


@dataclass(frozen=True)
class Slice:
    row: str
    lane: int
    start: int
    end: int
    category: int
    label: list[str] | str
    merged: int
    size: int | None
    launch: int | None


def varints(data):
    values, value, shift = [], 0, 0
    for byte in zlib.decompress(data):
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            values.append(value)
            value, shift = 0, 0
    return values


def unpacked(timeline):
    """All slices of a timeline, in order."""
    columns = {n: varints(c) for n, c in timeline.columns.items() if n != "labels"}
    labels = msgspec.json.decode(zlib.decompress(timeline.columns["labels"]))
    found, known = [], 0
    for row in timeline.rows:
        for lane, count in enumerate(row.lanes):
            time = 0
            for _ in range(count):
                i = len(found)
                start = time + columns["gap"][i]
                time = start + columns["duration"][i]
                launch = columns["launch"][i] - 1
                if launch >= 0:
                    known += -(launch + 1) // 2 if launch % 2 else launch // 2
                found.append(
                    Slice(
                        f"{row.group}/{row.title}" if row.group else row.title,
                        lane,
                        start,
                        time,
                        columns["category"][i],
                        labels[columns["label"][i]],
                        columns["merged"][i],
                        columns["bytes"][i] - 1 if columns["bytes"][i] else None,
                        known if launch >= 0 else None,
                    )
                )
    assert all(len(column) == len(found) for column in columns.values())
    return found
