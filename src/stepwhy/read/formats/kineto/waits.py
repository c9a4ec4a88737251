"""Waits of the host and of streams, from the records of synchronisations.

libkineto writes them where the profiler was started with `enable_cuda_sync_events` (PyTorch 2.1 and
later); MTIA's profiler writes the waits of its streams.

Source: `CuptiActivity.cpp` of libkineto (`syncTypeString`, `metadataJson`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from stepwhy.read.formats.kineto.arguments import KinetoArgs, args_of, column
from stepwhy.read.shared.waits import Waits
from stepwhy.trace import NULL, WaitKind

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numpy.typing import NDArray

    from stepwhy.read.formats.kineto.tracks import Tracks
    from stepwhy.read.shared.chrome_json import Event
    from stepwhy.trace import TraceBuilder

_KINDS: Final = {
    "Event Sync": WaitKind.EVENT,
    "Stream Wait Event": WaitKind.STREAM_EVENT,
    "event_wait": WaitKind.STREAM_EVENT,  # MTIA
    "Stream Sync": WaitKind.STREAM,
    "Context Sync": WaitKind.DEVICE,
}


class StreamWaits:
    """Collects the waits that device records show.

    Args:
        tracks: The tracks of streams.
    """

    def __init__(self, tracks: Tracks) -> None:
        self._tracks = tracks
        self._batches: list[dict[str, NDArray[Any]]] = []

    def add(
        self,
        events: list[Event[KinetoArgs]],
        slices: NDArray[np.int64],
        start_ns: NDArray[np.int64],
        track: NDArray[Any],
    ) -> None:
        """Add the waits among some records.

        Args:
            events: Records of device waits.
            slices: Their slices; (events,).
            start_ns: Their starts; (events,).
            track: Their tracks; (events,).
        """
        args = list(map(args_of, events))
        kind = np.asarray([_KINDS.get(event.name, WaitKind.UNKNOWN) for event in events])
        columns = {
            "kind": kind,
            "slice": slices,
            "time_ns": start_ns,
            "track": track,
            "stream": column(args, "awaited"),
            "correlation": column(args, "correlation"),
            "recorded_by": column(args, "event"),
        }
        known = kind != WaitKind.UNKNOWN
        self._batches.append({name: values[known] for name, values in columns.items()})

    def add_to(self, builder: TraceBuilder, blocks: Iterable[Mapping[str, NDArray[Any]]]) -> None:
        """Add the waits to a trace; see `Waits.add_to`."""
        waits = Waits()
        for batch in self._batches:
            kind, track = batch["kind"], batch.pop("track")
            found = map(self._tracks.stream_beside, track.tolist(), batch.pop("stream").tolist())
            awaited = np.fromiter(found, dtype=np.int64, count=len(track))
            batch["waiting"] = np.where(kind == WaitKind.STREAM_EVENT, track, NULL)
            batch["awaited"] = np.where(kind == WaitKind.STREAM, track, awaited)
            waits.add(**batch)
        waits.add_to(builder, blocks)
