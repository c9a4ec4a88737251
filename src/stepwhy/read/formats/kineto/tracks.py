"""Threads, streams and devices of Kineto records."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from stepwhy.base.patterns import regex
from stepwhy.read.formats.kineto.arguments import KinetoArgs, Loose, args_of, as_int
from stepwhy.trace import NULL, DeviceKind, Role

if TYPE_CHECKING:
    from collections.abc import Hashable

    from stepwhy.read.formats.kineto.facts import Facts
    from stepwhy.read.formats.kineto.track_codes import SharedTrack
    from stepwhy.read.shared.chrome_json import Event
    from stepwhy.trace import TraceBuilder

_NO_PROCESS = -1
_OTHERS = "other tracks"
# Paddle splits a thread into two rows, one for Python calls and one for C++.
_LANGUAGE = regex(r"\((?:Python|C\+\+)\)$")
# No operating system numbers its processes this high.
_FIRST_NAMED_PROCESS = 2**48


def plain(value: Loose) -> int | float | str | None:
    """The value of an argument if it is a scalar, None for a list or an object."""
    return value if isinstance(value, (int, float, str)) else None


def thread_key(event: Event[KinetoArgs]) -> tuple[Hashable, Hashable]:
    """Key of the thread that a host record belongs to."""
    tid = event.tid
    return event.pid, _LANGUAGE.sub("", tid) if isinstance(tid, str) else tid


def stream_key(event: Event[KinetoArgs]) -> Hashable:
    """Key of the stream that a device record belongs to; differs from all thread keys."""
    args = args_of(event)
    return event.pid, event.tid, plain(args.device), plain(args.stream)


class Tracks:
    """Adds the tracks of records to a trace.

    Args:
        builder: Receives devices and tracks.
        facts: Holds the accelerator's name.
        model: Model name of the accelerators, '' when not recorded.
    """

    def __init__(self, builder: TraceBuilder, facts: Facts, model: str) -> None:
        self._builder, self._facts, self._model = builder, facts, model
        self._rows: dict[Hashable, int] = {}
        self._by_number: dict[Hashable, tuple[Hashable, Hashable]] = {}
        self._numbers: Counter[int] = Counter()
        self._devices: dict[tuple[int, int], int] = {}
        # By process row: its first device, and its number while that is only that of the process.
        self._of_row: dict[int, int] = {}
        self._guessed: dict[int, int] = {}
        self._named_processes: dict[str, int] = {}
        # Process and device of every stream's track, and the track of every stream on a device.
        self._places: dict[int, tuple[int, int]] = {}
        self._streams: dict[tuple[int, int], int] = {}

    def thread(self, event: Event[KinetoArgs]) -> int:
        """Track of the host thread of a record."""
        key = self._add_process(thread_key(event))
        if key not in self._rows:
            process, thread = self._process(event.pid), as_int(key[1])
            self._by_number.setdefault(key[1], key)
            self._rows[key] = self._builder.track(
                Role.HOST_THREAD, f"thread {key[1]}", process=process, thread=thread
            )
        return self._rows[key]

    def _add_process(self, key: tuple[Hashable, Hashable]) -> tuple[Hashable, Hashable]:
        """Key with its process, for records that name only a thread (waits on XPUs)."""
        if key[0] != _NO_PROCESS:
            return key
        return self._by_number.get(key[1], key)

    def stream(self, event: Event[KinetoArgs]) -> int:
        """Track of the device stream of a record."""
        key = stream_key(event)
        if key not in self._rows:
            args = args_of(event)
            written = args.stream if args.stream is not None else event.tid
            stream = as_int(
                str(written).removeprefix("stream ").strip() if written is not None else None
            )
            self._rows[key] = self._stream_on(
                self._process(event.pid), self._device_of(event, args), stream
            )
        return self._rows[key]

    def shared(self, shared: SharedTrack, event: Event[KinetoArgs]) -> int:
        """Track that threads or streams beyond the limit share, see `TrackCodes`.

        Args:
            shared: The shared track.
            event: One of its records.
        """
        if shared.role == "thread":
            return self._builder.track(Role.HOST_THREAD, _OTHERS)
        if shared.device is None:
            kind = self._device_kind()
            device = self._builder.device(f"{self._facts.accelerator}:others", kind, self._model)
        else:
            device = self._device_of(event, args_of(event))
        return self._builder.track(Role.STREAM, _OTHERS, device=device)

    def _stream_on(self, process: int, device: int, stream: int) -> int:
        track = self._builder.track(
            Role.STREAM, f"stream {stream}", process=process, thread=stream, device=device
        )
        self._places[track] = process, device
        self._streams[device, stream] = track
        return track

    def stream_beside(self, track: int, stream: int) -> int:
        """Track of the stream with this number on the device of a stream's track, or NULL.

        It is added if the file has no other record of the stream.
        """
        place = self._places.get(track)
        if place is None or stream < 0:
            return NULL
        known = self._streams.get((place[1], stream))
        return self._stream_on(*place, stream) if known is None else known

    def _device_of(self, event: Event[KinetoArgs], args: KinetoArgs) -> int:
        row, number = self._process(event.pid), as_int(args.device)
        if number == NULL and row in self._of_row:
            return self._of_row[row]
        if number == NULL:
            number = self._guessed[row] = max(as_int(event.pid), 0)
        elif row in self._guessed:
            self._correct(row, number, event.pid)
        return self._device(number, row, event.pid)

    def _device_kind(self) -> DeviceKind:
        return DeviceKind.GPU if self._facts.accelerator == "GPU" else DeviceKind.OTHER

    def _process(self, pid: int | str | None) -> int:
        """A process id; names ('rank 3') get numbers above all real process ids."""
        number = as_int(pid)
        if number == NULL and isinstance(pid, str):
            return self._named_processes.setdefault(
                pid, _FIRST_NAMED_PROCESS + len(self._named_processes)
            )
        return number

    def _device(self, number: int, row: int, label: int | str | None) -> int:
        """The device with this number in this process row of the file.

        A GPU has one process row, so a second row with the same number is the GPU of another rank
        in a merged file.
        """
        key = (number, row)
        if key not in self._devices:
            name = self._device_name(number, label)
            self._devices[key] = self._builder.device(name, self._device_kind(), self._model)
            self._of_row.setdefault(row, self._devices[key])
        return self._devices[key]

    def _device_name(self, number: int, label: int | str | None) -> str:
        """Name of a device that has none yet."""
        name = f"{self._facts.accelerator}:{max(number, 0)}"
        if self._numbers[number]:
            name = f"{name} (row {label})"
        self._numbers[number] += 1
        return name

    def _correct(self, row: int, number: int, label: int | str | None) -> None:
        """Number the device of a process row as its work does, not as its process.

        Annotations do not say on which device they are, and programs that merge the files of
        several ranks number the processes anew.
        """
        guess = self._guessed.pop(row)
        if guess != number:
            self._numbers[guess] -= 1
            self._devices[number, row] = device = self._devices.pop((guess, row))
            self._builder.rename_device(device, self._device_name(number, label))
