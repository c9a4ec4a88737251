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
    others = {"labels", "sample_time", "sample_value"}
    columns = {n: varints(c) for n, c in timeline.columns.items() if n not in others}
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


def samples_of(timeline):
    """(time, value) of each row of samples, by its title; the value is None where it is unknown."""
    times, folded = (iter(varints(timeline.columns[n])) for n in ("sample_time", "sample_value"))
    found = {}
    for row in timeline.rows:
        if row.series is None:
            continue
        time, values = 0, found.setdefault(f"{row.group}/{row.title}", [])
        for _ in range(row.series.values):
            time, value = time + next(times), next(folded) - 1
            known = -(value + 1) // 2 if value % 2 else value // 2
            values.append((time, None if value < 0 else known))
    assert [*times, *folded] == []
    return found
