"""Compiled HLO programs: the operation and the line that each instruction was compiled from.

The profiler stores every program that ran in the plane '/host:metadata'. It has the operation names
of instructions on a CPU, and of kernels whose events do not record them, and the lines of both.

Source: xla/service/hlo.proto.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from stepwhy.base.patterns import regex
from stepwhy.read.formats.xplane.instructions import Instructions
from stepwhy.read.formats.xplane.layout import DamagedError, as_int64, inside
from stepwhy.read.formats.xplane.unneeded import unneeded_of
from stepwhy.read.shared.tensorflow.graphs import text
from stepwhy.read.shared.tensorflow.messages import parse_message
from stepwhy.read.shared.tensorflow.ops import phase_of
from stepwhy.trace import Kind, Phase

if TYPE_CHECKING:
    from stepwhy.read.formats.xplane.layout import Part
    from stepwhy.read.formats.xplane.unneeded import Unneeded

PLANE = "/host:metadata"
"""Name of the plane with the programs."""

# Field numbers, by message.
_PLANE_ENTRIES, _ENTRY_KEY, _ENTRY_VALUE = 4, 1, 2
_VALUE_NAME, _VALUE_STATS, _STAT_BYTES = 2, 5, 6

_JITTED = "jit_"
_NAMED_WITH_ID = regex(rb"\((\d{1,20})\)$")


class Programs:
    """Operations and lines by program and instruction.

    Args:
        plane: Bytes of the plane with the programs; empty for none.

    Attributes:
        scopes: Operation that an instruction was compiled from, by its name and line, of those that
            `note` was called with.
        unread: Number of programs in which `unneeded` could not look for anything.
    """

    def __init__(self, plane: bytes = b"") -> None:
        self._plane = plane
        self.scopes: dict[tuple[str, str], str] = {}
        self.unread = 0
        self._places: dict[int, Part] = {}
        self._named: dict[str, list[int]] = {}
        self._names: dict[int, str] = {}
        self._known: dict[int, Instructions | None] = {}
        self._unneeded: dict[int, dict[str, Unneeded]] = {}
        try:
            self._places = dict(self._find())
        except DamagedError:
            self._places = {}

    def __bool__(self) -> bool:
        """Whether any program is known."""
        return bool(self._places)

    def op_name(self, program: int, instruction: str) -> str:
        """Name of the operation that an instruction was compiled from, '' if unknown.

        Args:
            program: Id of the program, `MISSING` for none.
            instruction: Name of the instruction, e.g. 'loop_fusion.3'.
        """
        known = self._instructions(program)
        return known.op_name(instruction) if known else ""

    def line(self, program: int, instruction: str) -> str:
        """Line of the program that an instruction comes from, '' if unknown.

        Args:
            program: As for `op_name`.
            instruction: As for `op_name`.
        """
        known = self._instructions(program)
        return known.line(instruction) if known else ""

    def note(self, name: str, line: str, op_name: str) -> None:
        """Remember what an instruction was compiled from.

        Args:
            name: Name of its slices.
            line: Its line; '' if unknown.
            op_name: As `op_name` returns it.
        """
        if line and op_name:
            self.scopes.setdefault((name, line), op_name)

    def calling_line(self, function: str) -> str:
        """Line of the program that called a jitted function, '' if unknown.

        Args:
            function: Its name; '' if programs of this name were called from several lines.
        """
        programs = map(self._instructions, self._named.get(function, ()))
        lines = {line for known in programs if known and (line := known.common_line())}
        return lines.pop() if len(lines) == 1 else ""

    def _instructions(self, program: int) -> Instructions | None:
        """The instructions of a program; None if it is unknown or damaged."""
        if program not in self._known:
            place = self._places.get(program)
            self._known[program] = self._read(place) if place else None
        return self._known[program]

    def unneeded(self, program: int, instruction: str) -> Unneeded | None:
        """Why an instruction is not needed; None if nothing is known against it.

        Args:
            program: Id of the program, `MISSING` for none.
            instruction: Name of the instruction, e.g. 'copy.1'.
        """
        if program not in self._unneeded:
            place = self._places.get(program)
            name = self._names.get(program, "")
            found = unneeded_of(self._plane[place.value : place.end], name) if place else {}
            self.unread += found is None
            self._unneeded[program] = found or {}
        return self._unneeded[program].get(instruction)

    def _find(self) -> list[tuple[int, Part]]:
        """Ids and byte ranges of the programs."""
        data = self._plane
        found: list[tuple[int, Part]] = []
        for entry in inside(data, 0, len(data), _PLANE_ENTRIES):
            path = (_ENTRY_VALUE, _VALUE_STATS, _STAT_BYTES)
            programs = inside(data, entry.value, entry.end, *path)
            key, name = self._id_and_name(entry)
            self._named.setdefault(name, []).append(key)
            self._names[key] = name
            found += [(key, program) for program in programs]
        return found

    def _id_and_name(self, entry: Part) -> tuple[int, str]:
        """Id of a program, and the name of the jitted function.

        The id is the suffix of the program's name; in older profiles, the key of the entry.
        """
        data, name = self._plane, ""
        for part in inside(data, entry.value, entry.end, _ENTRY_VALUE, _VALUE_NAME):
            shown = data[part.value : part.end]
            named = _NAMED_WITH_ID.search(shown)
            name = text(_NAMED_WITH_ID.sub(b"", shown)).removeprefix(_JITTED)
            if named:
                return as_int64(int(named[1])), name
        keys = inside(data, entry.value, entry.end, _ENTRY_KEY)
        return as_int64(next((part.value for part in keys), 0)), name

    def _read(self, place: Part) -> Instructions | None:
        message = parse_message("HloProto", self._plane[place.value : place.end])
        return None if message is None else Instructions(message.hlo_module)


@lru_cache(maxsize=1 << 14)
def phase_of_primitive(name: str) -> Phase:
    """The phase of a JAX operation from its stack of transformations.

    Args:
        name: E.g. 'jit(step)/transpose(jvp(loss))/dot_general'.
    """
    if "transpose(" in name:
        return Phase.BACKWARD
    if "jvp(" in name:
        return Phase.FORWARD
    # TensorFlow's own functions are compiled under their name scopes.
    phase = phase_of("", name, Kind.KERNEL)
    return phase if phase in {Phase.BACKWARD, Phase.OPTIMIZER} else Phase.UNKNOWN
