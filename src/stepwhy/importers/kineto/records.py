"""From Kineto records to rows of a trace."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec

from stepwhy.importers.chrome_json import count_untimed
from stepwhy.importers.kineto.names import (
    Meaning,
    category_of,
    meaning_of,
    shorten_path,
    without_addresses,
)
from stepwhy.trace import NULL, Copy, DeviceKind, Kind, Phase, Role, TraceBuilder

if TYPE_CHECKING:
    from stepwhy.importers.chrome_json import Event, Records

# One generation writes a field as a number, another as text, a third as a list: `as_int` decides,
# so that no record is lost for the type of an argument.
_Loose = Any


class KinetoArgs(msgspec.Struct, gc=False):
    """The arguments that stepwhy reads; everything else is skipped while decoding."""

    device: _Loose = None
    stream: _Loose = None
    correlation: _Loose = None
    bytes: _Loose = None
    size: _Loose = None
    name: _Loose = None
    sequence: _Loose = msgspec.field(default=None, name="Sequence number")
    forward_thread: _Loose = msgspec.field(default=None, name="Fwd thread id")
    call_stack: _Loose = msgspec.field(default=None, name="Call stack")
    device_type: _Loose = msgspec.field(default=None, name="Device Type")
    device_id: _Loose = msgspec.field(default=None, name="Device Id")
    change: _Loose = msgspec.field(default=None, name="Bytes")
    address: _Loose = msgspec.field(default=None, name="Addr")
    allocated: _Loose = msgspec.field(default=None, name="Total Allocated")
    reserved: _Loose = msgspec.field(default=None, name="Total Reserved")


@dataclass(slots=True)
class Facts:
    """What the records say about the run as a whole.

    Args:
        kinds: Kinds that occur.
        device_hints: Host records that only exist where an accelerator is used.
        profiler_ranges: Kernels recorded by the range profiler, whose times are distorted.
        accelerator: Name prefix of the accelerator's records ('GPU', 'MTIA', ...).
        complete: False when the file ended early.
        copies_with_bytes: Whether copies carry their size.
    """

    kinds: set[Kind] = field(default_factory=set)
    device_hints: bool = False
    profiler_ranges: int = 0
    accelerator: str = "GPU"
    complete: bool = True
    copies_with_bytes: bool = False
    memory: bool = False


# Host records that cannot come from a CPU: collectives of ProcessGroupNCCL, and operations that
# have kernels for accelerators alone. Most names prove nothing: recurrent layers ask
# aten::cudnn_is_acceptable, and loaders aten::is_pinned, on a CPU as well.
# Source: the dispatch of each operation in PyTorch's native_functions.yaml.
_ON_DEVICE_ONLY = re.compile(
    r"nccl:|aten::(record_stream|_?cudnn_(rnn|ctc_loss|convolution\w*|batch_norm(_backward)?)"
    r"|miopen_(rnn|convolution\w*|depthwise_convolution|batch_norm(_backward)?))$"
)

# No operating system numbers its processes this high.
_FIRST_NAMED_PROCESS = 2**48
# Arrows from a launch to its device work, in newer and older traces.
_LAUNCH_ARROWS = frozenset({"ac2g", "async_gpu"})


def as_int(value: _Loose, default: int = NULL) -> int:
    """An integer from a loosely typed field; the default for anything that is none."""
    if isinstance(value, bool) or value is None:
        return default
    if isinstance(value, int):
        return value if -(2**62) < value < 2**62 else default
    try:
        number = float(value)
    except (TypeError, ValueError):
        return default
    return int(number) if abs(number) < 2**62 else default


def _plain(value: _Loose) -> int | float | str | None:
    """The value of an argument that should be a number, None for a list or an object."""
    return value if isinstance(value, (int, float, str)) else None


def add_records(
    builder: TraceBuilder, records: Records[KinetoArgs], offset_ns: int, model: str
) -> Facts:
    """Add every record to the builder, or count why it is not there.

    Args:
        builder: Takes devices, tracks, slices and counters.
        records: The file's records.
        offset_ns: Clock offset of the file (`baseTimeNanoseconds`).
        model: Model name of the accelerators, '' when not recorded.
    """
    facts = Facts(complete=records.complete)
    rows = _Rows(builder, facts, model)
    starts = (records.start_ns + offset_ns).tolist()
    durations = records.dur_ns.tolist()
    timed = records.timed.tolist()
    other: dict[str, int] = {}
    untimed = 0
    for i, event in enumerate(records.events):
        phase = event.ph
        if phase == "X":
            if timed[i]:
                rows.add(event, starts[i], durations[i])
            else:
                untimed += 1
        elif phase in {"i", "I"} and event.name == "[memory]" and timed[i]:
            rows.add_memory(event, starts[i])
        else:
            other[phase] = other.get(phase, 0) + 1
            facts.device_hints |= _hints_at_device(event)
    count_untimed(builder.health, untimed)
    rows.finish()
    _count_others(builder, other, facts)
    return facts


def _hints_at_device(event: Event[KinetoArgs]) -> bool:
    """Arrows from launches to device work, and names of device streams, outlive both."""
    if event.ph == "M":
        name = event.args.name if event.args and event.name == "thread_name" else None
        return isinstance(name, str) and name.startswith("stream ")
    return event.cat in _LAUNCH_ARROWS


def _count_others(builder: TraceBuilder, other: dict[str, int], facts: Facts) -> None:
    health = builder.health
    flows = sum(other.pop(p, 0) for p in ("s", "t", "f"))
    health.count(
        "flow-arrow", "info", "Arrows repeat what correlation ids say.", count=flows, dropped=True
    )
    health.count(
        "metadata-record",
        "info",
        "Names of processes and threads.",
        count=other.pop("M", 0),
        dropped=True,
    )
    health.count(
        "other-record",
        "info",
        "Instants and records of kinds that carry no time.",
        count=sum(other.values()),
        dropped=True,
    )
    health.count(
        "profiler-range",
        "warning",
        "Kernels were recorded by the range profiler, which runs them one by one: their times "
        "say nothing about a normal run. Record again without performance counters.",
        count=facts.profiler_ranges,
        dropped=True,
    )


class _Rows:
    """Collects slices as columns; one method call per record is the importer's inner loop."""

    def __init__(self, builder: TraceBuilder, facts: Facts, model: str) -> None:
        self.builder = builder
        self.model = model
        self.facts = facts
        self.columns: dict[str, list[int]] = {
            name: []
            for name in (
                "start_ns",
                "dur_ns",
                "track",
                "kind",
                "name",
                "source",
                "phase",
                "correlation",
                "sequence",
                "copy",
                "pageable",
                "bytes",
            )
        }
        self._tracks: dict[tuple[Any, ...], int] = {}
        self._devices: dict[tuple[int, int], int] = {}
        self._named_processes: dict[str, int] = {}
        self._names: dict[tuple[str, str], tuple[Meaning, int, int]] = {}
        self._no_args = KinetoArgs()

    def add(self, event: Event[KinetoArgs], start_ns: int, dur_ns: int) -> None:
        """Add one slice, or count why it is none."""
        meaning, name, source = self._named(event.cat, event.name)
        if meaning.kind is None:
            self._leave_out(event)
            return
        args = event.args or self._no_args
        columns = self.columns
        columns["start_ns"].append(start_ns)
        columns["dur_ns"].append(dur_ns)
        columns["track"].append(self._track(event, args, meaning.on_device))
        columns["kind"].append(int(meaning.kind))
        columns["name"].append(name)
        if args.call_stack:
            source = self._call_site(str(args.call_stack))
        columns["source"].append(source)
        backward = args.forward_thread is not None and as_int(args.forward_thread) > 0
        columns["phase"].append(int(Phase.BACKWARD if backward else meaning.phase))
        columns["correlation"].append(as_int(args.correlation))
        columns["sequence"].append(as_int(args.sequence))
        columns["copy"].append(int(meaning.copy))
        columns["pageable"].append(meaning.pageable)
        size = as_int(args.bytes if args.bytes is not None else args.size)
        if meaning.copy is not Copy.NONE and size != NULL:
            self.facts.copies_with_bytes = True
        columns["bytes"].append(size if size >= 0 else NULL)

    def add_memory(self, event: Event[KinetoArgs], time_ns: int) -> None:
        """Add an allocation or release; only newer traces carry the allocator's totals."""
        args = event.args or self._no_args
        builder, change = self.builder, as_int(args.change, 0)
        allocated, reserved = as_int(args.allocated), as_int(args.reserved)
        on_host = as_int(args.device_type, 0) == 0
        if not change and (allocated == NULL or on_host):
            builder.health.count(
                "allocation-without-size",
                "info",
                "Allocations that say neither their size nor the allocator's total.",
                dropped=True,
            )
            return
        self.facts.memory = True
        builder.add(
            "allocations",
            time_ns=time_ns,
            # The allocator numbers devices on its own (0 where activity rows say 2).
            pool=builder.intern("CPU" if on_host else f"GPU:{as_int(args.device_id, 0)}"),
            host=int(on_host),
            change=change,
            block=as_int(args.address),
            track=self._track(event, args, on_device=False),
            # On the host it counts from the start of the profiler.
            total=NULL if on_host else allocated,
            reserved=NULL if on_host else reserved,
        )
        if not on_host:
            self._sample("memory allocated", time_ns, allocated)
            self._sample("memory reserved", time_ns, reserved)
        builder.health.events_kept += 1

    def _sample(self, name: str, time_ns: int, value: int) -> None:
        if value != NULL:
            row = self.builder.intern(name)
            self.builder.add("counters", time_ns=time_ns, name=row, value=value)

    def finish(self) -> None:
        """Hand the slices over; copies that lack a size take that of the call that made them."""
        self._sizes_from_calls()
        self.builder.slices_from(self.columns)
        self.builder.health.events_kept += len(self.columns["start_ns"])

    def _sizes_from_calls(self) -> None:
        """ROCm writes the size beside the runtime call only."""
        columns = self.columns
        calls = zip(columns["kind"], columns["correlation"], columns["bytes"], strict=True)
        by_call = {
            correlation: size
            for kind, correlation, size in calls
            if kind < Kind.KERNEL and size > 0 and correlation > 0
        }
        if not by_call:
            return
        for row, (kind, correlation) in enumerate(
            zip(columns["kind"], columns["correlation"], strict=True)
        ):
            if kind == Kind.MEMCPY and columns["bytes"][row] == NULL and correlation in by_call:
                columns["bytes"][row] = by_call[correlation]
                self.facts.copies_with_bytes = True

    def _named(self, raw_category: str, raw_name: str) -> tuple[Meaning, int, int]:
        key = (raw_category, raw_name)
        known = self._names.get(key)
        if known is None:
            known = self._names[key] = self._name(raw_category, raw_name)
        return known

    def _name(self, raw_category: str, raw_name: str) -> tuple[Meaning, int, int]:
        category = category_of(raw_category)
        name = without_addresses(raw_name) if category == "python_function" else raw_name
        meaning = meaning_of(category, name)
        if meaning.kind is not None:
            self.facts.kinds.add(meaning.kind)
        if category in {"cpu_op", "user_annotation"} and _ON_DEVICE_ONLY.match(name):
            self.facts.device_hints = True
        if category.startswith("mtia"):
            self.facts.accelerator = "MTIA"
        shown = shorten_path(name) if meaning.source else name
        row = self.builder.intern(shown)
        return meaning, row, row if meaning.source else NULL

    def _call_site(self, stack: str) -> int:
        """The innermost frame of a call stack that is not the framework's."""
        frames = stack.split(";")
        own = next((f for f in frames if f and "site-packages" not in f and "torch/" not in f), "")
        return self.builder.intern(shorten_path(own)) if own else NULL

    def _leave_out(self, event: Event[KinetoArgs]) -> None:
        if event.cat == "cuda_profiler_range":
            self.facts.profiler_ranges += 1
            return
        self.builder.health.count(
            "profiler-span",
            "info",
            "Spans of the profiler itself, and event records.",
            dropped=True,
        )

    def _track(self, event: Event[KinetoArgs], args: KinetoArgs, on_device: bool) -> int:
        key: tuple[Any, ...] = (False, event.pid, event.tid)
        if on_device:
            key = (True, event.pid, event.tid, _plain(args.device), _plain(args.stream))
        row = self._tracks.get(key)
        if row is None:
            make = self._stream if on_device else self._thread
            row = self._tracks[key] = make(event, args)
        return row

    def _stream(self, event: Event[KinetoArgs], args: KinetoArgs) -> int:
        row = self._process(event.pid)
        number = as_int(args.device, as_int(event.pid))
        written = args.stream if args.stream is not None else event.tid
        stream = as_int(
            str(written).removeprefix("stream ").strip() if written is not None else None
        )
        return self.builder.track(
            Role.STREAM,
            f"stream {stream}",
            process=row,
            thread=stream,
            device=self._device(number, row, event.pid),
        )

    def _process(self, pid: int | str | None) -> int:
        """A process id; those that are names ('rank 3') get numbers beyond all process ids."""
        number = as_int(pid)
        if number == NULL and isinstance(pid, str):
            return self._named_processes.setdefault(
                pid, _FIRST_NAMED_PROCESS + len(self._named_processes)
            )
        return number

    def _thread(self, event: Event[KinetoArgs], _args: KinetoArgs) -> int:
        process, thread = self._process(event.pid), as_int(event.tid)
        return self.builder.track(
            Role.HOST_THREAD, f"thread {event.tid}", process=process, thread=thread
        )

    def _device(self, number: int, row: int, label: int | str | None) -> int:
        """The device with this number on this process row of the file.

        A GPU has one row, so a second row with the same number is another rank's GPU, in a file
        that several ranks were merged into.
        """
        key = (number, row)
        if key not in self._devices:
            kind = DeviceKind.GPU if self.facts.accelerator == "GPU" else DeviceKind.OTHER
            name = f"{self.facts.accelerator}:{max(number, 0)}"
            if any(known == number for known, _ in self._devices):
                name = f"{name} (row {label})"
            self._devices[key] = self.builder.device(name, kind, self.model)
        return self._devices[key]
