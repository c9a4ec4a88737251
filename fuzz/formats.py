"""Which formats are damaged, and where the valid files come from.

A format is named after its importer. Its seeds are files as generators of the tests write them, and
where `STEPWHY_TRACES` names a folder, short versions of the traces in it.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from fuzz.shorten import shorten
from stepwhy.read.registry import all_formats

if TYPE_CHECKING:
    from collections.abc import Iterator

Files = dict[str, bytes]
"""An input: the file to explain first, then those beside it; by name."""


@dataclass(frozen=True, slots=True)
class Format:
    """One importer's format.

    Args:
        name: The importer's module.
        generator: Function without arguments that returns the seeds, as 'module:function': names
            and contents of valid files, or whole `Files`.
        recorded: Which files below `STEPWHY_TRACES` are of this format, as glob patterns.
        suffix: End of the name that tells `mutate` how these are built.
        extremes: Table of extreme inputs, as 'module:name': what there is much of, and a function
            from a size in bytes to a file of about that size. Those of `fuzz.extremes.cases` need
            none.
    """

    name: str
    generator: str
    recorded: tuple[str, ...] = ()
    suffix: str = ""
    extremes: str = ""


TABLE: tuple[Format, ...] = (
    Format("store", "fuzz.seeds:store"),
    Format("exported", "fuzz.seeds:exported"),
    Format("rocprof", "fuzz.seeds:rocprof", ("other/rocprof*.json*",), ".json"),
    Format("megascan", "fuzz.seeds:megascan", ("megatron/pp4*.json",), ".json"),
    Format("nsys", "fuzz.seeds:nsys", ("nsys/*.sqlite",), ".sqlite"),
    Format("nvprof", "fuzz.seeds:nvprof", ("nvprof/*.sql",), ".sqlite"),
    Format("kineto", "fuzz.seeds:kineto", ("kineto/*.json*",), ".json"),
    Format("xplane", "fuzz.seeds:xplane", ("xplane/*.xplane.pb",), ".pb"),
    Format("tf_timeline", "fuzz.seeds:tf_timeline", ("tf_timeline/*.json",), ".json"),
    Format("tensorboard", "fuzz.seeds:tensorboard"),
    Format("run_metadata", "fuzz.seeds:run_metadata", ("generated_cpu/*metadata*.pb",), ".pb"),
    Format("tfprof", "tests.read.tfprof_samples:seeds", ("generated_cpu/tfprof*",), ".pb"),
    Format("horovod", "fuzz.seeds:horovod"),
    Format(
        "sagemaker",
        "tests.read.sagemaker_samples:seeds",
        suffix=".json",
        extremes="tests.read.sagemaker_samples:EXTREMES",
    ),
    Format(
        "flight_recorder",
        "tests.read.flight_recorder_samples:seeds",
        extremes="tests.read.flight_recorder_samples:EXTREMES",
    ),
    Format(
        "nccl_log",
        "tests.read.nccl_log_samples:seeds",
        extremes="tests.read.nccl_log_samples:EXTREMES",
    ),
    Format(
        "nccl_inspector",
        "tests.read.nccl_inspector_samples:seeds",
        extremes="tests.read.nccl_inspector_samples:EXTREMES",
    ),
    Format("memory_timeline", "tests.read.memory_timeline_samples:seeds"),
    Format(
        "operation_table",
        "tests.read.operation_table_samples:seeds",
        suffix=".parquet",
        extremes="tests.read.operation_table_samples:EXTREMES",
    ),
    Format(
        "pipeline_schedule",
        "tests.read.pipeline_schedule_samples:seeds",
        suffix=".json",
        extremes="tests.read.pipeline_schedule_samples:EXTREMES",
    ),
    Format(
        "nsys_recipe",
        "tests.read.nsys_recipe_samples:seeds",
        suffix=".parquet",
        extremes="tests.read.nsys_recipe_samples:EXTREMES",
    ),
    Format("chrome_trace", "fuzz.seeds:chrome_trace", ("other/ibm*.json",), ".json"),
)
"""All formats of files."""

BY_NAME = {f.name: f for f in TABLE if f.name in all_formats()}


def seeds(name: str) -> tuple[Files, ...]:
    """The valid inputs of a format, generated ones first.

    Args:
        name: Name of the format.
    """
    return seeds_with(name, os.environ.get("STEPWHY_TRACES", ""))


@cache
def seeds_with(name: str, folder: str) -> tuple[Files, ...]:
    """The same with the recorded traces of a folder; '' means none."""
    chosen = BY_NAME[name]
    module, _, function = chosen.generator.partition(":")
    generated = getattr(import_module(module), function)()
    return (*map(_files, generated), *_recorded(chosen, folder))


def _files(seed: Files | tuple[str, bytes]) -> Files:
    return seed if isinstance(seed, dict) else dict([seed])


def _recorded(chosen: Format, folder: str) -> Iterator[Files]:
    for pattern in chosen.recorded if folder else ():
        for path in sorted(Path(folder).glob(pattern)):
            short = shorten(path.read_bytes(), chosen.suffix)
            if short is not None:
                yield {f"{path.name.partition('.')[0]}{chosen.suffix}": short}
