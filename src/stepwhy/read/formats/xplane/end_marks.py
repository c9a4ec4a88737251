"""Ends of asynchronous instructions, by the marks that XLA writes on another thread.

On the CPU, the thread that ends an instruction first runs what waited for it, in a call of
`ThunkExecutor::Execute`, and writes the mark after that. So the instruction ended where such a call
began: otherwise a product would last as long as the all-reduce after it, in which a rank waits for
the others.

Source: `xla/backends/cpu/runtime/thunk_executor.cc`, and recorded traces, whose marks follow the
call after 2 us.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stepwhy.read.formats.xplane.groups import equal_rows
from stepwhy.read.formats.xplane.names import CONTINUATION, END_MARK
from stepwhy.trace import NULL

if TYPE_CHECKING:
    from stepwhy.base.columns.types import AnyInts
    from stepwhy.read.formats.xplane.events import Events, Texts


# Longest time from the end of the call to the mark, on a machine whose cores are busy.
_LONGEST_GAP_NS = 20_000


def marked_ends(events: Events, marks: Events, texts: Texts) -> AnyInts | None:
    """Ends of the events by their marks, NULL for those without one; (events,).

    Args:
        events: All events, ordered by thread and start.
        marks: The marks.
        texts: The texts that codes stand for.

    Returns:
        None without marks.
    """
    if not len(marks):
        return None
    ended = [texts.code(texts[n].removeprefix(END_MARK)) for n in marks.name.tolist()]
    ids = np.concatenate([marks.id("_c"), events.id("_p")])
    pair = equal_rows(np.concatenate([np.array(ended), events.name]), ids)[1]
    noted, begun = np.full((2, int(pair.max()) + 1), NULL)
    noted[pair[: len(marks)]] = marks.start_ns
    begun[pair[: len(marks)]] = _begun_ns(events, marks, texts.code(CONTINUATION))
    of_event = pair[len(marks) :]
    found: AnyInts = np.where(begun[of_event] >= events.start_ns, begun[of_event], noted[of_event])
    return found


def _begun_ns(events: Events, marks: Events, name: int) -> AnyInts:
    """Starts of the calls that ended right before each mark on its thread, else NULL; (marks,)."""
    rows = np.flatnonzero(events.name == name)
    found = np.full(len(marks), NULL)
    if not len(rows):
        return found
    ends = events.start_ns[rows] + events.dur_ns[rows]
    first = min(int(ends.min()), int(marks.start_ns.min()))
    span = max(int(ends.max()), int(marks.start_ns.max())) - first + 1
    line = events.line.astype(np.int64)  # times a span of seconds, in ns
    keys = line[rows] * span + (ends - first)
    order = np.argsort(keys, kind="stable")
    mine = marks.line.astype(np.int64) * span + (marks.start_ns - first)
    place = np.searchsorted(keys[order], mine, side="right") - 1
    row = order[np.maximum(place, 0)]
    is_next = (place >= 0) & (mine - keys[row] <= _LONGEST_GAP_NS)
    is_next &= line[rows[row]] == marks.line
    found[is_next] = events.start_ns[rows[row[is_next]]]
    return found
