"""Metadata of the run, derived from all planes."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from stepwhy.base.columns.groups import distinct
from stepwhy.base.patterns import regex
from stepwhy.read.formats.xplane.devices import device_name
from stepwhy.trace import NULL, Kind, Meta

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from stepwhy.read.formats.xplane.planes import Plane, Space
    from stepwhy.read.formats.xplane.table import SliceTable
    from stepwhy.read.inputs.source import Source
    from stepwhy.trace import Health

FORMAT = "xplane"

_SIGNALS = {
    "host-ops": {Kind.OP, Kind.FRAMEWORK},
    "device-activity": {Kind.KERNEL, Kind.MEMCPY, Kind.MEMSET, Kind.COLLECTIVE},
    "runtime-calls": {Kind.LAUNCH, Kind.RUNTIME},
    "python-stacks": {Kind.PYTHON},
    "input": {Kind.INPUT},
}
_NONE = np.empty(0, dtype=np.int64)
_JAX = regex(r"PjitFunction\(|cpp_pjit_|\$(?:pjit|pxla)\.py:")
_ALLOCATOR = regex(r"(?P<type>GPU|TPU)_(?P<number>\d+)_bfc")
# Earlier than 2001: not a time since the epoch.
_EARLIEST_EPOCH_NS = 10**18
_LATEST_EPOCH_NS = 1 << 61


def session_start_ns(planes: Iterable[Plane]) -> int:
    """Start of the profiling session, ns since the epoch; 0 if event times are absolute."""
    planes = list(planes)
    found = [p.stats.get("profile_start_time") for p in planes if p.name == "Task Environment"]
    start = next((v for v in found if isinstance(v, int)), 0)
    on_epoch = any((p.events.start_ns > _EARLIEST_EPOCH_NS).any() for p in planes)
    return start if _EARLIEST_EPOCH_NS < start < _LATEST_EPOCH_NS and not on_epoch else 0


def used_devices(space: Space) -> set[str]:
    """Devices with events or with allocated memory; a device plane can also be empty."""
    used = set()
    for plane in space.planes:
        name = device_name(plane.name)
        if name and len(plane.events):
            used.add(name)
        if not name:
            codes = plane.events.labels.texts.get("allocator_name", _NONE)
            names = [space.texts[code] for code in distinct(codes).tolist()]
            matches = [_ALLOCATOR.fullmatch(name) for name in names]
            used.update(f"{m['type']}:{m['number']}" for m in matches if m)
    return used


class Session(msgspec.Struct, frozen=True):
    """Properties of the session, computed before the events are released.

    Args:
        start_ns: Start of the profiling session; see `session_start_ns`.
        used: The `used_devices`.
        is_jax: Whether the framework is JAX; otherwise it is TensorFlow.
        version: Version of the framework, '' if unknown.
        has_programs: Whether the file has the compiled programs that ran.
    """

    start_ns: int
    used: frozenset[str]
    is_jax: bool
    version: str
    has_programs: bool


def session_of(space: Space) -> Session:
    """Properties of the session; of its own notes, only versions and the start are read."""
    versions = (str(p.stats["jax_version"]) for p in space.planes if "jax_version" in p.stats)
    version = next(versions, "")
    return Session(
        session_start_ns(space.planes),
        frozenset(used_devices(space)),
        bool(version) or _mentions_jax(space),
        version if re.fullmatch(r"[\w.+-]{1,40}", version) else "",
        bool(space.programs),
    )


def meta_of(source: Source, session: Session, table: SliceTable, missing: frozenset[str]) -> Meta:
    """Metadata of the run.

    Args:
        source: The file.
        session: Properties of the session.
        table: The slices.
        missing: Devices without a kernel, if others have kernels.
    """
    signals = {s for s, kinds in _SIGNALS.items() if kinds & table.kinds}
    if table.copies_with_bytes:
        signals.add("copy-bytes")
    if session.has_programs:
        signals.add("programs")
    return Meta(
        format=FORMAT,
        framework="jax" if session.is_jax else "tensorflow",
        framework_version=session.version,
        rank=rank_of(source.path),
        signals=frozenset(signals),
        device_expected=bool(session.used) or bool({Kind.LAUNCH, Kind.RUNTIME} & table.kinds),
        notes=_notes(missing),
    )


def count_missing(health: Health, missing: frozenset[str]) -> None:
    """Count devices without kernels."""
    health.count(
        "device-without-kernels",
        "error",
        "These devices were used, but none of their kernels is in the file: the profiler was "
        "started within a step, or recorded some devices only. Record a few whole steps.",
        count=len(missing),
        dropped=False,
    )


def count_unread(health: Health, programs: int) -> None:
    """Count compiled programs in which nothing could be looked for."""
    health.count(
        "program-unread",
        "info",
        "Compiled programs that are damaged, or too large to look for work in them that is not "
        "needed.",
        count=programs,
        dropped=False,
    )


def rank_of(path: Path | None) -> int:
    """Rank of a file among the files of a run, one per host; `NULL` for a single file.

    The frameworks write '<folder>/plugins/profile/<run>/<host>.xplane.pb'. Hosts are numbered in
    the order of their names, because their ranks are not recorded.
    """
    if path is None or path.absolute().parts[-4:-2] != ("plugins", "profile"):
        return NULL
    hosts = sorted(p.name for p in path.parent.glob("*.xplane.pb"))
    return hosts.index(path.name) if len(hosts) > 1 and path.name in hosts else NULL


def _mentions_jax(space: Space) -> bool:
    names = [p.events.labels.name for p in space.planes if p.name.startswith("/host")]
    codes = {code for column in names for code in distinct(column).tolist()}
    return any(_JAX.match(space.texts[code]) for code in codes)


def _notes(missing: frozenset[str]) -> tuple[str, ...]:
    if not missing:
        return ()
    names = ", ".join(sorted(missing))
    note = f"No kernel was recorded of devices that the run used ({names}): what is missing may be"
    return (f"{note} most of the step.",)
