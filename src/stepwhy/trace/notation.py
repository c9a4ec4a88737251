r"""A trace drawn as text: the fixtures of literate tests.

::

    unit: 1 ms
    framework: pytorch
    main   step   |[--------][--------]|
    main   input  |ddd       ddd       |  d=DataLoader.__next__
    main   launch |   l         l      |  l=cudaLaunchKernel
    GPU:0  kernel |    [gemm]    [gemm]|
    arrows: l -> gemm

- **A timeline** is ``track kind |cells|``: one column is one `unit`, the left bar is time 0. A run
  of one letter is a slice; so is ``[name--]``, from bracket to bracket, named by the text in it
  without dashes. Dots and blanks are idle time. Several rows may draw on one track.
- **The legend** behind the right bar names letters: ``d=DataLoader.__next__``. Attributes follow in
  braces, entries are two blanks apart: ``c=Memcpy HtoD {copy: h2d; bytes: 4 MiB; pageable: yes}``.
  Attributes are `copy`, `bytes`, `pageable`, `phase`, `scope`, `source`, `sequence`.
- **A track** ``GPU:0`` is a stream of that accelerator (``GPU:0/7``: its stream 7), ``CPU:0`` the
  op executor of that CPU (``CPU:0/1``: a second lane of it), anything else a host thread. A device
  may have a task in front: ``/job:ps/task:0 CPU:0``.
- **A kind** is a `kinds.Kind` in lower case.
- **Arrows** ``call -> work``: the n-th slice with the first name or letter launched the n-th with
  the second. Several are separated by commas; a call may have several, as that of a graph does.
- **Tables** are ``nodes:``, ``copies:``, ``waits:``, ``counters:``, ``marks:``, ``events:``,
  ``levels:``, ``allocations:``, ``samples:``, ``stages:``, ``line_times:``, ``positions:`` or
  ``collective_calls:`` with their columns, then one row per line until a blank line; ``-`` is the
  null, an empty cell the empty string. Copies and counters name nodes and devices, allocations
  tracks. ``session_values:`` and ``flows:`` are tables, too; they name slices, of several with the
  same name or letter the first; ``operands:``, ``rewrites:``, ``discards:``,
  ``table_updates:`` and ``argument_uses:`` name all of them. Quantities take a unit: ``3 ms``.
- **Facts about the run**: ``unit``, ``format``, ``framework``, ``rank``, its pipeline ``stage``
  (``1``, or ``1 of 4``), ``world_size``, ``signals`` (default: those for which something is drawn;
  ``+x`` and ``-x`` change that), ``expects: accelerator``, ``model`` (of the accelerators below
  it), ``idle`` (model of an accelerator without work), ``run`` (start and end of the command:
  ``0 s .. 90 s``), ``settings`` (environment variables: ``NAME=VALUE ...``).
  Lines that begin with ``#`` are comments.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import msgspec

from stepwhy.base.columns.null import NULL
from stepwhy.base.patterns import regex
from stepwhy.trace.builder import TraceBuilder
from stepwhy.trace.kinds import (
    Copy,
    Dependence,
    DeviceKind,
    FlowKind,
    Kind,
    Phase,
    Role,
    SampleRole,
    WaitKind,
)
from stepwhy.trace.model import Meta, Trace
from stepwhy.trace.schema import Table, columns_of

if TYPE_CHECKING:
    from collections.abc import Iterator

_UNITS = {
    "ns": 1, "us": 10**3, "µs": 10**3, "ms": 10**6, "s": 10**9,
    "B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30,
}  # fmt: skip
_TIMELINE = regex(r"(?P<track>\S.*?)\s+(?P<kind>\w+)\s*\|(?P<cells>[^|]*)\|\s*(?P<legend>.*)")
_DEVICE = regex(r"(?P<name>(?:/\S+ )?(?P<type>CPU|GPU|TPU|MTIA):\d+)(?:/(?P<lane>\d+))?")
_SLICE = regex(r"\[(?P<name>[^\[\]]*)\]|(?P<letter>[^\s.\[\]])(?P=letter)*")
_ENTRY = regex(r"(?P<letter>\S)=(?P<name>[^{]*?)\s*(?:\{(?P<attributes>[^}]*)\})?")
_TABLES: dict[str, Table] = {
    "session_values": "session_values", "flows": "flows",
    "nodes": "nodes", "copies": "copies", "counters": "counters", "marks": "marks",
    "events": "events", "levels": "levels", "samples": "samples",
    "visits": "visits",
    "stages": "stages",
    "allocations": "allocations",
    "waits": "waits",
    "collectives": "collectives",
    "operands": "operands",
    "line_times": "line_times",
    "rewrites": "rewrites",
    "step_ops": "step_ops",
    "index_inputs": "index_inputs",
    "discards": "discards",
    "table_updates": "table_updates",
    "argument_uses": "argument_uses",
    "collective_calls": "collective_calls",
    "positions": "positions",
}  # fmt: skip
_OF_SLICES = frozenset(
    {"collectives", "operands", "rewrites", "discards", "table_updates", "argument_uses"}
)
_FACTS = (
    "unit", "format", "framework", "rank", "stage", "world_size", "signals", "expects", "arrows",
    "model", "run", "idle", "settings",
)  # fmt: skip
_DEVICE_KINDS = {"CPU": DeviceKind.CPU, "GPU": DeviceKind.GPU, "TPU": DeviceKind.TPU}
_SIGNALS = {
    "host-ops": {Kind.OP, Kind.FRAMEWORK},
    "device-activity": {Kind.KERNEL, Kind.COLLECTIVE, Kind.MEMCPY, Kind.MEMSET},
    "runtime-calls": {Kind.LAUNCH, Kind.RUNTIME, Kind.SYNC},
    "python-stacks": {Kind.PYTHON},
    "input": {Kind.INPUT},
}


class NotationError(ValueError):
    """A drawing that cannot be read; the message names the line and what is wrong with it."""


def parse(text: str) -> Trace:
    """The trace that a text draws.

    Args:
        text: The notation described above.

    Raises:
        NotationError: A line is not in the notation, or uses an unknown name.
    """
    drawing = _Drawing()
    for number, line in _lines(text):
        try:
            drawing.read(line)
        except (ValueError, KeyError) as error:
            raise NotationError(f"Line {number}: {line.strip()!r}: {error}") from error
    return drawing.finish()


def parse_quantity(text: str) -> int:
    """An integer with a unit of time or size: '3 ms', '4 MiB', '17'.

    Raises:
        ValueError: It is not such a quantity.
    """
    match = re.fullmatch(r"(-?\d+(?:\.\d+)?)\s*(\S*)", text.strip())
    if match is None or (match[2] and match[2] not in _UNITS):
        raise ValueError(f"{text.strip()!r} is not a quantity such as '3 ms' or '4 MiB'")
    return round(float(match[1]) * _UNITS.get(match[2], 1))


def _lines(text: str) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(text.splitlines(), 1):
        if not line.lstrip().startswith("#"):
            yield number, line


class _Drawing(msgspec.Struct):
    """The contents of the lines read so far."""

    builder: TraceBuilder = msgspec.field(default_factory=TraceBuilder)
    facts: dict[str, str] = msgspec.field(default_factory=dict)
    kinds: set[Kind] = msgspec.field(default_factory=set)
    slices: list[dict[str, int]] = msgspec.field(default_factory=list)
    drawn: dict[str, list[int]] = msgspec.field(default_factory=dict)
    table: Table = "nodes"
    columns: list[str] = msgspec.field(default_factory=list)
    nodes: dict[str, int] = msgspec.field(default_factory=dict)
    threads: dict[str, int] = msgspec.field(default_factory=dict)
    accelerator: bool = False

    def read(self, line: str) -> None:
        """Read one line."""
        key, colon, rest = line.strip().partition(":")
        if not line.strip():
            self.columns = []
        elif self.columns:
            self._row(line)
        elif colon and key in _TABLES:
            self.table, self.columns = _TABLES[key], _cells(rest)
        elif colon and key in _FACTS:
            self.facts[key] = rest.strip()
        else:
            self._timeline(line)

    def finish(self) -> Trace:
        """The trace, when all lines are read."""
        self._connect(self.facts.get("arrows", ""))
        for row in self.slices:
            self.builder.add("slices", **row)
        self.builder.health.events_read = self.builder.health.events_kept = len(self.slices)
        rank = int(self.facts.get("rank", NULL))
        # Environment variables, each as NAME=VALUE, without spaces in them.
        pairs = (word.partition("=") for word in self.facts.get("settings", "").split())
        settings = tuple((name, value) for name, _, value in pairs)
        return self.builder.finish(
            Meta(
                format=self.facts.get("format", "drawing"),
                framework=self.facts.get("framework", ""),
                rank=rank,
                stages=self._stages(rank),
                world_size=int(self.facts.get("world_size", NULL)),
                signals=self._signals(),
                run_ns=self._run(),
                device_expected=self.accelerator or self.facts.get("expects") == "accelerator",
                idle_accelerator=self.facts.get("idle", ""),
                settings=settings,
            )
        )

    def _run(self) -> tuple[int, int] | None:
        """Start and end of the command."""
        if "run" not in self.facts:
            return None
        start, _, end = self.facts["run"].partition("..")
        return parse_quantity(start), parse_quantity(end)

    def _stages(self, rank: int) -> tuple[tuple[int, int], ...]:
        """The stage of the rank, and of its neighbours if their number is given."""
        if "stage" not in self.facts:
            return ()
        own, _, count = self.facts["stage"].partition(" of ")
        stages = range(int(count)) if count else [int(own)]
        return tuple((rank + stage - int(own), stage) for stage in stages)

    def _signals(self) -> frozenset[str]:
        words = self.facts.get("signals", "").split()
        if not all(w[0] in "+-" for w in words):
            return frozenset(words)
        drawn = {name for name, kinds in _SIGNALS.items() if kinds & self.kinds}
        drawn |= {"placement", "copies"} if self.nodes else set()
        added = {w[1:] for w in words if w[0] == "+"}
        return frozenset((drawn | added) - {w[1:] for w in words if w[0] == "-"})

    def _timeline(self, line: str) -> None:
        match = _TIMELINE.fullmatch(line.strip())
        if match is None:
            raise ValueError("neither a fact, a table nor 'track kind |cells|'")
        kind = Kind[match["kind"].upper()]
        self.kinds.add(kind)
        track = self._track(match["track"])
        legend = dict(self._entry(e) for e in re.split(r"\s{2,}", match["legend"]) if e)
        unit = parse_quantity(self.facts.get("unit", "1 ms"))
        for cell in _SLICE.finditer(match["cells"]):
            letter = cell["letter"] or ""
            plain = letter or cell["name"].strip("-") or kind.name.lower()
            name, values = legend.get(letter, (plain, {}))
            self.drawn.setdefault(letter or name, []).append(len(self.slices))
            place = {"start_ns": cell.start() * unit, "dur_ns": (cell.end() - cell.start()) * unit}
            named = {"name": self.builder.intern(name), "kind": int(kind), "track": track}
            self.slices.append(place | named | values)

    def _track(self, name: str) -> int:
        match = _DEVICE.fullmatch(name)
        if match is None:
            thread = self.threads.setdefault(name, len(self.threads))
            return self.builder.track(Role.HOST_THREAD, name, process=1, thread=thread)
        lane = int(match["lane"] or 0)
        kind = _DEVICE_KINDS.get(match["type"], DeviceKind.OTHER)
        is_cpu = kind is DeviceKind.CPU
        self.accelerator |= not is_cpu
        role = Role.EXECUTOR if is_cpu else Role.STREAM
        model = "" if is_cpu else self.facts.get("model", "")
        device = self.builder.device(match["name"], kind, model)
        return self.builder.track(role, f"{role.name.lower()} {lane}", thread=lane, device=device)

    def _entry(self, text: str) -> tuple[str, tuple[str, dict[str, int]]]:
        """One entry of a legend: its letter, name and attributes."""
        match = _ENTRY.fullmatch(text)
        if match is None:
            raise ValueError(f"{text!r} is not an entry such as 'k=Conv2D {{bytes: 4 MiB}}'")
        pairs = [p.split(":", 1) for p in (match["attributes"] or "").split(";") if p.strip()]
        values = {pair[0].strip(): self._attribute(*pair) for pair in pairs}
        return match["letter"], (match["name"], values)

    def _attribute(self, key: str, text: str = "") -> int:
        key, text = key.strip(), text.strip()
        if key in {"copy", "phase"}:
            return int((Copy if key == "copy" else Phase)[text.upper()])
        if key in {"scope", "source"}:
            return self.builder.intern(text)
        if key in {"bytes", "sequence"}:
            return parse_quantity(text)
        if key == "pageable":
            return int(text == "yes")
        raise ValueError(f"{key!r} is not an attribute of a slice")

    def _connect(self, arrows: str) -> None:
        """Give the slices at both ends of every arrow the same correlation id."""
        correlation = 0
        for arrow in filter(None, arrows.split(",")):
            ends = [self.drawn.get(end.strip(), []) for end in arrow.split("->")]
            if len(ends) != 2 or not ends[0] or len(ends[0]) != len(ends[1]):
                raise NotationError(f"Arrow {arrow.strip()!r} does not join equally many slices")
            for call, work in zip(*ends, strict=True):
                correlation += 1
                id_ = self.slices[call].setdefault("correlation", correlation)
                self.slices[work]["correlation"] = id_

    def _row(self, line: str) -> None:
        cells = _cells(line)
        if len(cells) != len(self.columns):
            raise ValueError(f"{len(cells)} cells under {len(self.columns)} columns")
        texts = {name: text for name, text in zip(self.columns, cells, strict=True) if text != "-"}
        row = {name: self._cell(name, text) for name, text in texts.items()}
        if self.table in _OF_SLICES:
            for number in self.drawn[texts["slice"]]:
                self.builder.add(self.table, **row | {"slice": number})
            return
        number = self.builder.add(self.table, **row)
        if self.table == "nodes":
            self.nodes[texts["name"]] = number

    def _cell(self, column: str, text: str) -> int:
        unit = next((c.unit for c in columns_of(self.table) if c.name == column), None)
        if unit is None:
            raise ValueError(f"{self.table} has no column {column!r}")
        if unit == "string":
            return self.builder.intern(text)
        if unit == "SampleRole":
            return int(SampleRole[text.upper()])
        if unit == "Dependence":
            return int(Dependence[text.upper()])
        if unit == "FlowKind":
            return int(FlowKind[text.upper()])
        if unit == "WaitKind":
            return int(WaitKind[text.upper()])
        if unit == "row of slices":
            return self.drawn[text][0]
        if unit == "row of nodes":
            return self.nodes[text]
        if unit == "row of tracks":
            return self._track(text)
        if unit == "row of devices":
            return self.builder.device(text, DeviceKind.CPU)
        return parse_quantity(text)


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.split("|")]
