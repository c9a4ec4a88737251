"""Arguments of Kineto records, whose JSON types differ between generations of the profiler."""

from __future__ import annotations

from contextlib import suppress
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from stepwhy.trace import NULL

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from stepwhy.read.shared.chrome_json import Event

# Any JSON type is accepted, so that a record is not lost because of one argument; see `as_int`.
Loose = Any
# Larger integers are damage.
_LARGEST = 2**62
_NOTHING = msgspec.Raw(b"")


class KinetoArgs(msgspec.Struct, gc=False):
    """The arguments that stepwhy reads; everything else is skipped while decoding."""

    device: Loose = None
    stream: Loose = None
    correlation: Loose = NULL
    bytes: Loose = None
    size: Loose = None
    name: Loose = None
    sequence: Loose = msgspec.field(default=NULL, name="Sequence number")
    forward_thread: Loose = msgspec.field(default=NULL, name="Fwd thread id")
    call_stack: Loose = msgspec.field(default=None, name="Call stack")
    device_type: Loose = msgspec.field(default=None, name="Device Type")
    device_id: Loose = msgspec.field(default=None, name="Device Id")
    change: Loose = msgspec.field(default=None, name="Bytes")
    address: Loose = msgspec.field(default=None, name="Addr")
    allocated: Loose = msgspec.field(default=None, name="Total Allocated")
    reserved: Loose = msgspec.field(default=None, name="Total Reserved")
    awaited: Loose = msgspec.field(default=None, name="wait_on_stream")
    event: Loose = msgspec.field(default=None, name="wait_on_cuda_event_record_corr_id")
    operation: Loose = msgspec.field(default=None, name="Collective name")
    group: Loose = msgspec.field(default=None, name="Process Group Name")
    ranks: Loose = msgspec.field(default=None, name="Group size")
    members: Loose = msgspec.field(default=None, name="Process Group Ranks")
    description: Loose = msgspec.field(default=None, name="Process Group Description")
    received: Loose = msgspec.field(default=None, name="In msg nelems")
    sent: Loose = msgspec.field(default=None, name="Out msg nelems")
    dtype: Loose = None
    # Lists, which most files do not have and of which only distinct ones are decoded.
    types: msgspec.Raw = msgspec.field(default=_NOTHING, name="Input type")
    dims: msgspec.Raw = msgspec.field(default=_NOTHING, name="Input Dims")


NO_ARGS = KinetoArgs()


def args_of(event: Event[KinetoArgs]) -> KinetoArgs:
    """The arguments of a record, all null where it has none."""
    return event.args or NO_ARGS


def as_int(value: Loose, default: int = NULL) -> int:
    """A JSON value as an integer; the default where it is not a number."""
    if isinstance(value, bool) or value is None:
        return default
    if isinstance(value, int):
        return value if -_LARGEST < value < _LARGEST else default
    try:
        number = float(value)
    except (TypeError, ValueError):
        return default
    return int(number) if abs(number) < _LARGEST else default


def column(args: Sequence[KinetoArgs], name: str, default: int = NULL) -> NDArray[np.int64]:
    """One argument of many records, converted by `as_int`; (records,)."""
    return integers(list(map(attrgetter(name), args)), default)


def sizes(args: Sequence[KinetoArgs]) -> NDArray[np.int64]:
    """Bytes that records move, NULL where absent; (records,)."""
    return integers([a.size if a.bytes is None else a.bytes for a in args])


def integers(values: Sequence[Loose], default: int = NULL) -> NDArray[np.int64]:
    """JSON values converted by `as_int`; (values,)."""
    kinds = set(map(type, values))
    if kinds == {int, type(None)}:
        values, kinds = [default if v is None else v for v in values], {int}
    if kinds == {int}:
        with suppress(OverflowError):
            read = np.asarray(values, dtype=np.int64)
            return np.where((read > -_LARGEST) & (read < _LARGEST), read, default)
    if kinds <= {type(None)}:
        return np.full(len(values), default, dtype=np.int64)
    return np.asarray([as_int(v, default) for v in values], dtype=np.int64)
