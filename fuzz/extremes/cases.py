"""Every extreme input, by format and name."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING

from fuzz.extremes import (
    databases,
    json_files,
    json_of_ranks,
    protobuf_files,
    protobuf_of_sums,
    stored,
)
from fuzz.formats import TABLE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from fuzz.formats import Files


@dataclass(frozen=True, slots=True)
class Case:
    """An input of one format, as large as asked for.

    Args:
        format: Name of the importer's module.
        name: What there is much of.
        build: From a size in bytes to a file of about that size, or to several by name.
        suffix: End of the file's name.
    """

    format: str
    name: str
    build: Callable[[int], bytes | Files]
    suffix: str = ".json"

    def files(self, size: int) -> Files:
        """The input by the names of its files, the one to explain first."""
        built = self.build(size)
        return {f"trace{self.suffix}": built} if isinstance(built, bytes) else built


_TABLES = {
    "kineto": json_files.KINETO,
    "chrome_trace": json_files.CHROME,
    "tf_timeline": json_files.TF_TIMELINE,
    "horovod": json_of_ranks.HOROVOD,
    "megascan": json_of_ranks.MEGASCAN,
    "rocprof": json_of_ranks.ROCPROF,
    "memory_timeline": json_of_ranks.MEMORY_TIMELINE,
    "xplane": protobuf_files.XPLANE,
    "run_metadata": protobuf_files.RUN_METADATA,
    "tfprof": protobuf_of_sums.TFPROF,
    "tensorboard": protobuf_of_sums.TENSORBOARD,
    "nsys": databases.NSYS,
    "nvprof": databases.NVPROF,
    "store": stored.STORE,
    "exported": stored.EXPORTED,
}
_SUFFIXES = {
    "xplane": ".xplane.pb",
    "run_metadata": ".pb",
    "tfprof": ".pb",
    "tensorboard": ".tfevents",
    "nsys": ".sqlite",
    "nvprof": ".sql",
    "store": ".stepwhy",
}


def _declared() -> Iterator[Case]:
    """The cases of formats that name a table of their own."""
    for one in TABLE:
        module, _, name = one.extremes.partition(":")
        table = getattr(import_module(module), name) if module else {}
        yield from (Case(one.name, what, build, one.suffix) for what, build in table.items())


CASES = (
    *(
        Case(format_name, name, build, _SUFFIXES.get(format_name, ".json"))
        for format_name, table in _TABLES.items()
        for name, build in table.items()
    ),
    *_declared(),
)
