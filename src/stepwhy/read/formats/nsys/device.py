"""Device activity: kernels, copies, fills and CUDA graphs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepwhy.read.shared.cuda import COPY_KINDS, copy_direction
from stepwhy.read.shared.cuda_activity import TIMES, each
from stepwhy.trace import NULL, Kind

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np
    from numpy.typing import NDArray

    from stepwhy.read.formats.nsys.export import Export
    from stepwhy.read.shared.database import Rows

_PLACE = (*TIMES, "globalPid", "deviceId", "streamId", "correlationId")
_NAMES = ("demangledName", "shortName", "mangledName")
# Numbers of ENUM_CUDA_MEM_KIND, for exports without that table.
_MEMORY = {0: "PAGEABLE", 1: "PINNED"}


def add_device_activity(export: Export) -> None:
    """Add the activity of the devices."""
    has_graph_nodes = _add_kernels(export)
    _add_copies(export)
    for rows in _chunks(export, "MEMSET", "bytes"):
        export.activity.add_fills(rows, **_place(export, rows))
    _add_graphs(export, has_nodes=has_graph_nodes)
    _add_waits(export)


def _chunks(export: Export, table: str, *columns: str) -> Iterator[Rows]:
    """The records of a table of device activity, in chunks."""
    name = f"CUPTI_ACTIVITY_KIND_{table}"
    return export.activity.timed_chunks(name, (*_PLACE, *columns), on_device=True)


def _place(export: Export, rows: Rows) -> dict[str, NDArray[np.int64]]:
    """Track and correlation of device activity."""
    return {"track": export.streams(rows), "correlation": export.correlations(rows)}


def _add_kernels(export: Export) -> bool:
    """Add kernels; returns whether some of them are nodes of graphs."""

    def name(*candidates: int) -> str:
        return next(filter(None, map(export.strings.get, candidates)), "unknown kernel")

    has_graph_nodes = False
    for rows in _chunks(export, "KERNEL", *_NAMES, "graphNodeId"):
        ids = [rows[column] for column in _NAMES]
        export.activity.add_kernels(rows, ids, name, **_place(export, rows))
        has_graph_nodes |= bool((rows["graphNodeId"] > 0).any())
    return has_graph_nodes


def _add_copies(export: Export) -> None:
    names = export.enum("ENUM_CUDA_MEMCPY_OPER")
    memory = {**_MEMORY, **export.enum("ENUM_CUDA_MEM_KIND")}

    def direction(kind: int) -> int:
        return int(copy_direction(names.get(kind, "")) or copy_direction(COPY_KINDS.get(kind, "")))

    def is_pageable(kind: int) -> int:
        name = memory.get(kind, "").upper()
        return 1 if name.endswith("PAGEABLE") else 0 if name.endswith("PINNED") else NULL

    for rows in _chunks(export, "MEMCPY", "bytes", "copyKind", "srcKind", "dstKind"):
        directions = each(direction, rows["copyKind"])
        export.activity.add_copies(rows, directions, is_pageable, **_place(export, rows))


def _add_graphs(export: Export, *, has_nodes: bool) -> None:
    """Add runs of whole CUDA graphs: as annotations if their nodes were traced, else as kernels.

    Args:
        export: The export.
        has_nodes: Whether the nodes of graphs were traced.
    """
    count = 0
    for rows in _chunks(export, "GRAPH_TRACE", "graphId"):
        export.activity.add(
            rows,
            name=export.activity.names(rows["graphId"], lambda i: f"CUDA graph {max(i, 0)}"),
            kind=int(Kind.DEVICE_ANNOTATION if has_nodes else Kind.KERNEL),
            **_place(export, rows),
        )
        count += len(rows)
    if not has_nodes:
        export.activity.health.count(
            "guessed-device-time",
            "warning",
            "CUDA graphs were traced as a whole: all of their time counts as computation, although "
            "they may contain copies and collectives. Trace with --cuda-graph-trace=node.",
            count=count,
            dropped=False,
        )


def _add_waits(export: Export) -> None:
    # Which stream an event was recorded on is in no table, except with --cuda-event-trace.
    for rows in _chunks(export, "SYNCHRONIZATION", "syncType"):
        correlation = export.correlations(rows)
        export.activity.add_waits(rows, rows["syncType"], correlation, export.awaited_streams)
