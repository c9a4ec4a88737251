"""Engines by name: what `stepwhy explain --engine` reads the files of a run with."""

from __future__ import annotations

import io
from contextlib import contextmanager, redirect_stdout
from typing import TYPE_CHECKING

from stepwhy.base.errors import EngineError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from concurrent.futures import Executor

_NAMES = "processes, processes:N, ray or ray:ADDRESS"


@contextmanager
def engine_of(name: str) -> Iterator[Executor | None]:
    """The executor of an engine; None for the default.

    Args:
        name: 'processes', 'ray', or '' for the default; after a colon, the number of processes or
            the address of the cluster.

    Raises:
        EngineError: There is no such engine, or it cannot be used.
        MissingPackageError: Its package is not installed.
    """
    kind, _, detail = name.partition(":")
    if not name:
        yield None
    elif kind == "processes" and (not detail or (detail.isdecimal() and int(detail))):
        from stepwhy.engine.executors.local_processes import LocalProcesses  # noqa: PLC0415 - when it is used

        with LocalProcesses(int(detail or 0)) as executor:
            yield executor
    elif kind == "ray":
        from stepwhy.engine.executors.ray_cluster import RayCluster  # noqa: PLC0415 - likewise

        # Ray prints what happens to its workers, which is not part of any report.
        with redirect_stdout(io.StringIO()), RayCluster(detail or None) as cluster:
            yield cluster
    else:
        raise EngineError(f"there is no engine {name}", f"Choose {_NAMES}")
