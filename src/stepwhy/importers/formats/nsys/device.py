"""Kernels, copies, fills and graphs: what the devices did."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stepwhy.importers.shared.cuda import COPY_KINDS, copy_direction, kernel_kind
from stepwhy.importers.shared.cuda_rows import TIMES, each, known
from stepwhy.trace import NULL, Copy, Kind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from stepwhy.importers.formats.nsys.export import Export
    from stepwhy.importers.shared.database import Rows

_PLACE = (*TIMES, "globalPid", "deviceId", "streamId", "correlationId")
_NAMES = ("demangledName", "shortName", "mangledName")
# Numbers of ENUM_CUDA_MEM_KIND, for exports without that table.
_MEMORY = {0: "PAGEABLE", 1: "PINNED"}


def add_device_activity(export: Export) -> None:
    """Add all that the devices did."""
    nodes = _add_kernels(export)
    _add_copies(export)
    _add_fills(export)
    _add_graphs(export, with_nodes=nodes)


def _pieces(export: Export, table: str, *columns: str) -> Iterator[Rows]:
    name = f"CUPTI_ACTIVITY_KIND_{table}"
    return export.rows.pieces(name, (*_PLACE, *columns), on_device=True)


def _add_kernels(export: Export) -> bool:
    """Add kernels; whether some of them are nodes of graphs."""

    def name(*candidates: int) -> str:
        return next(filter(None, map(export.strings.get, candidates)), "unknown kernel")

    in_graphs = False
    for rows in _pieces(export, "KERNEL", *_NAMES, "graphNodeId"):
        ids = [rows[column] for column in _NAMES]
        export.rows.add(
            rows,
            track=export.streams(rows),
            name=each(lambda *c: export.rows.intern(name(*c)), *ids),
            kind=each(lambda *c: int(kernel_kind(name(*c))), *ids),
            correlation=export.correlations(rows),
        )
        in_graphs |= bool((rows["graphNodeId"] > 0).any())
    return in_graphs


def _add_copies(export: Export) -> None:
    names = export.enum("ENUM_CUDA_MEMCPY_OPER")
    memory = {**_MEMORY, **export.enum("ENUM_CUDA_MEM_KIND")}

    def direction(kind: int) -> int:
        return int(copy_direction(names.get(kind, "")) or copy_direction(COPY_KINDS.get(kind, "")))

    for rows in _pieces(export, "MEMCPY", "bytes", "copyKind", "srcKind", "dstKind"):
        directions = each(direction, rows["copyKind"])
        export.rows.add_copies(
            rows,
            directions,
            _pageable(memory, rows, directions),
            track=export.streams(rows),
            correlation=export.correlations(rows),
        )


def _pageable(
    names: dict[int, str], rows: Rows, directions: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Whether the host side of each copy is pageable memory; (rows,).

    Args:
        names: Names of the kinds of memory.
        rows: The copies.
        directions: Their `Copy`; (rows,).
    """

    def judge(kind: int) -> int:
        name = names.get(kind, "").upper()
        return 1 if name.endswith("PAGEABLE") else 0 if name.endswith("PINNED") else NULL

    outward, inward = directions == Copy.D2H, directions == Copy.H2D
    host = np.where(outward, rows["dstKind"], rows["srcKind"])
    return np.where(outward | inward, each(judge, host), NULL)


def _add_fills(export: Export) -> None:
    for rows in _pieces(export, "MEMSET", "bytes"):
        export.rows.add(
            rows,
            track=export.streams(rows),
            name=export.rows.intern("Memset"),
            kind=int(Kind.MEMSET),
            bytes=known(rows["bytes"]),
            correlation=export.correlations(rows),
        )


def _add_graphs(export: Export, *, with_nodes: bool) -> None:
    """Add CUDA graphs that were traced as wholes; where their nodes are, too, they only frame them.

    Args:
        export: The export.
        with_nodes: Whether the nodes of graphs were traced.
    """
    count = 0
    for rows in _pieces(export, "GRAPH_TRACE", "graphId"):
        export.rows.add(
            rows,
            track=export.streams(rows),
            name=export.rows.names(rows["graphId"], lambda i: f"CUDA graph {max(i, 0)}"),
            kind=int(Kind.DEVICE_ANNOTATION if with_nodes else Kind.KERNEL),
            correlation=export.correlations(rows),
        )
        count += len(rows)
    if not with_nodes:
        export.rows.health.count(
            "guessed-device-time",
            "warning",
            "CUDA graphs were traced as wholes: all of their time counts as computation, although "
            "copies and collectives may be in it. Trace with --cuda-graph-trace=node.",
            count=count,
            dropped=False,
        )
