"""A run as event files of TensorBoard: curves by step number, verdict and report as text.

A folder with one file, or with a folder per rank, which TensorBoard shows as one run each. The
records are written by TensorBoard's own library. The file's name holds no host name, unlike that
of TensorBoard's writers.

Source: `event.proto` and `summary.proto` of TensorBoard; its `plugins/text/metadata.py`.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import numpy as np

from stepwhy.base.errors import OutputError
from stepwhy.base.optional import needs_extra
from stepwhy.base.text import plain, utf8
from stepwhy.base.whole_files import output_folder
from stepwhy.show.export.curves import curves_of, mean_of, thinned

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from typing import BinaryIO

    from stepwhy.show.export.curves import TaggedCurve
    from stepwhy.show.export.explained import Explained
    from stepwhy.show.export.series import RunSeries

_VERSION = "brain.Event:2"
_NS_PER_S = 1e9


def write_tensorboard(run: Explained, path: Path) -> None:
    """Write a folder for `tensorboard --logdir`, completely or not at all.

    Args:
        run: The run.
        path: The folder, which must not exist or be empty.

    Raises:
        OutputError: The folder is not empty, or cannot be written.
        MissingPackageError: TensorBoard is not installed.
    """
    with needs_extra("tensorboard", "Event files of TensorBoard"):
        import tensorboard.summary.writer.record_writer  # noqa: F401, PLC0415 - optional
    written_s = time.time()
    # TensorBoard reads files with 'tfevents' in their name, in the order of their names.
    file_name = f"events.out.tfevents.{int(written_s)}.stepwhy"
    try:
        with output_folder(path) as create:
            for number, series in enumerate(run.series):
                name = f"{_subfolder(run, number)}{file_name}"
                events = _Events(create, name, written_s)
                with events:
                    if number == 0:
                        for tag, text in (
                            ("stepwhy/verdict", run.verdict),
                            ("stepwhy/report", run.report),
                        ):
                            events.text(tag, text, series.last_step)
                    _write_curves(events, run, series, is_first=number == 0)
    except OSError as error:
        raise OutputError(
            f"{path.name} cannot be written ({error.strerror or 'unknown error'})",
            "Choose a folder that does not exist yet, where you may write",
        ) from None


def _subfolder(run: Explained, number: int) -> str:
    """Where the file of a rank is: in a folder of its own, if there are several."""
    return "" if len(run.series) == 1 else f"rank-{run.series[number].rank}/"


def _write_curves(events: _Events, run: Explained, series: RunSeries, *, is_first: bool) -> None:
    """The curves of a rank; the first one has those of the whole run, too."""
    for tagged in curves_of(series):
        events.curve(tagged, is_dated=series.is_dated)
    for tagged in mean_of(run.result, series) if is_first else ():
        events.curve(tagged, is_dated=series.is_dated)


class _Events:
    """An event file.

    Args:
        create: Creates a file by its name.
        name: Its name.
        written_s: The time, for values whose time is unknown, s since the epoch.
    """

    def __init__(self, create: Callable[[str], BinaryIO], name: str, written_s: float) -> None:
        self._file, self._written_s = create(name), written_s

    def __enter__(self) -> None:
        from tensorboard.summary.writer.record_writer import RecordWriter  # noqa: PLC0415

        self._records = RecordWriter(self._file)
        self._write(self._event(None, 0, file_version=_VERSION))

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def curve(self, tagged: TaggedCurve, *, is_dated: bool) -> None:
        """Write the points of a curve; the first one describes it.

        Args:
            tagged: The curve.
            is_dated: Whether its times are nanoseconds since the epoch.
        """
        curve, note = thinned(tagged.curve)
        values = (curve.values.astype(np.float64) * tagged.scale).tolist()
        points = zip(curve.steps.tolist(), curve.times_ns.tolist(), values, strict=True)
        about = {"metadata": {"summary_description": tagged.help + note}}
        for step, time_ns, number in points:
            event = self._event(time_ns if is_dated else None, step)
            event.summary.value.add(tag=tagged.tag, simple_value=number, **about)
            self._write(event)
            about = {}

    def text(self, tag: str, text: str, step: int) -> None:
        """Write a text, as Markdown."""
        from tensorboard.compat.proto import tensor_pb2, types_pb2  # noqa: PLC0415 - optional
        from tensorboard.plugins.text import metadata  # noqa: PLC0415

        tensor = tensor_pb2.TensorProto(
            dtype=types_pb2.DT_STRING, tensor_shape={}, string_val=[utf8(plain(text))]
        )
        event = self._event(None, step)
        about = metadata.create_summary_metadata("", "")
        event.summary.value.add(tag=tag, tensor=tensor, metadata=about)
        self._write(event)

    def _event(self, time_ns: int | None, step: int, **values: Any) -> Any:
        from tensorboard.compat.proto import event_pb2  # noqa: PLC0415 - optional

        wall_time = self._written_s if time_ns is None else time_ns / _NS_PER_S
        return event_pb2.Event(wall_time=wall_time, step=step, **values)

    def _write(self, event: Any) -> None:
        self._records.write(event.SerializeToString())
