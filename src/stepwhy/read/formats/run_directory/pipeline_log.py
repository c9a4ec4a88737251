"""Converts the recorded stages of an input pipeline to rows of a trace."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from stepwhy.read.formats.run_directory.records import DAMAGED, Int, bounded
from stepwhy.trace import NULL

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepwhy.trace import TraceBuilder


# TensorFlow adds it to every pipeline; it produces nothing itself.
_TOP = "Root"


class _Stage(msgspec.Struct):
    """A stage of pipeline.json; missing properties are None."""

    id: Int
    name: str
    inputs: list[Int] = []
    asynchronous: bool = False
    elements: Int | None = None
    processing_ns: Int | None = None
    buffer_size: Int | None = None
    parallelism: Int | None = None
    tuned: bool | None = None
    random: bool | None = None
    line: str | None = None
    epochs: Int | None = None


class _Pipeline(msgspec.Struct):
    """pipeline.json: the stages of a `tf.data` pipeline, each after its consumer."""

    stages: list[_Stage]


# Source: torch/utils/data/dataloader.py: the sampler of a loader over an `IterableDataset`.
_OF_ITERABLES = "_InfiniteConstantSampler"


class _Loader(msgspec.Struct):
    """One line of loaders.jsonl: how a PyTorch DataLoader is set up."""

    name: str
    time_ns: Int = 0
    sampler: str | None = None
    batch_size: Int | None = None
    workers: Int = 0
    prefetch_factor: Int | None = None
    persistent_workers: bool | None = None


def add_pipeline(data: bytes, builder: TraceBuilder) -> None:
    """Add the stages of `pipeline.json` to `stages`; a damaged file adds none.

    Args:
        data: The file.
        builder: Takes the rows.
    """
    try:
        pipeline = msgspec.json.decode(data, type=_Pipeline)
    except DAMAGED:
        return
    epochs = pipeline.stages[0].epochs if pipeline.stages else None
    stages = [stage for stage in pipeline.stages if stage.name != _TOP]
    names = {stage.id: f"{stage.name}[{stage.id}]" for stage in stages}
    consumers = {input_id: names[stage.id] for stage in stages for input_id in stage.inputs}
    for stage in stages:
        builder.add(
            "stages",
            name=builder.intern(names[stage.id]),
            kind=builder.intern("tf.data"),
            consumer=builder.intern(consumers[stage.id]) if stage.id in consumers else NULL,
            buffered=int(stage.asynchronous),
            parallelism=_known(stage.parallelism),
            tuned=_known(stage.tuned),
            buffer_size=_known(stage.buffer_size),
            elements=_known(stage.elements),
            processing_ns=_known(stage.processing_ns),
            random=_known(stage.random),
            epochs=_known(epochs),
            source=NULL if stage.line is None else builder.intern(stage.line),
        )


def add_loaders(lines: Sequence[bytes], builder: TraceBuilder) -> None:
    """Add DataLoaders to `stages`, each as one stage, and what their batches are to `events`.

    Torn lines are skipped.

    Args:
        lines: The lines of `loaders.jsonl`.
        builder: Takes the rows.
    """
    for line in lines:
        try:
            loader = msgspec.json.decode(line, type=_Loader)
        except DAMAGED:
            continue
        builder.add(
            "stages",
            name=builder.intern(loader.name),
            kind=builder.intern("dataloader"),
            buffered=int(loader.workers > 0),
            parallelism=loader.workers,
            persistent=_known(loader.persistent_workers),
            buffer_size=bounded(loader.workers * (loader.prefetch_factor or 0)),
        )
        _add_batch(loader, builder)
        if loader.sampler == _OF_ITERABLES:
            builder.add(
                "events",
                kind=builder.intern("iterable"),
                start_ns=loader.time_ns,
                dur_ns=0,
                name=builder.intern(loader.name),
            )


def _add_batch(loader: _Loader, builder: TraceBuilder) -> None:
    if loader.batch_size:
        builder.add(
            "events",
            kind=builder.intern("batch"),
            start_ns=loader.time_ns,
            dur_ns=0,
            name=builder.intern(loader.name),
            count=loader.batch_size,
        )


def _known(value: int | None) -> int:
    """A column's value."""
    return NULL if value is None else value
