"""The kernels that there are: where each is written, and how many arguments it takes."""

from __future__ import annotations

from typing import NamedTuple


class Entry(NamedTuple):
    """One kernel.

    Args:
        module: Module below `stepwhy.native.kernels` that holds it, under its own name.
        arguments: How many arguments it takes; they and the result are int64, addresses too.
    """

    module: str
    arguments: int


KERNELS: dict[str, Entry] = {
    "scan_records": Entry("json_records", 1),
    "scan_events": Entry("xplane_events", 1),
    "walk_fields": Entry("xplane_events", 1),
    "enclose_events": Entry("xplane_rows", 5),
    "nearest_events": Entry("xplane_rows", 4),
    "group_rows": Entry("xplane_rows", 1),
    "merge_rows": Entry("slice_rows", 1),
    "hang_slices": Entry("slice_rows", 1),
    "without_children": Entry("slice_rows", 3),
    "innermost_time": Entry("innermost", 1),
    "inherit_halves": Entry("slice_rows", 4),
    "inherit_bytes": Entry("slice_rows", 4),
}
