"""Compiled HLO programs: the operation that each instruction was compiled from.

The profiler stores every program that ran in the plane '/host:metadata'. It has the operation names
of instructions on a CPU, and of kernels whose events do not record them.

Source: xla/service/hlo.proto; `OpMetadata` of xla/xla_data.proto.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from stepwhy.importers.formats.xplane.layout import DamagedError, as_int64, inside, parts
from stepwhy.importers.formats.xplane.unneeded import unneeded_of
from stepwhy.importers.shared.tensorflow.graphs import text
from stepwhy.importers.shared.tensorflow.ops import phase_of
from stepwhy.patterns import regex
from stepwhy.trace import Kind, Phase

if TYPE_CHECKING:
    from stepwhy.importers.formats.xplane.layout import Part
    from stepwhy.importers.formats.xplane.unneeded import Unneeded

PLANE = "/host:metadata"
"""Name of the plane with the programs."""

# Field numbers, by message.
_PLANE_ENTRIES, _ENTRY_KEY, _ENTRY_VALUE = 4, 1, 2
_VALUE_NAME, _VALUE_STATS, _STAT_BYTES = 2, 5, 6
_PROTO_MODULE, _MODULE_COMPUTATIONS, _COMPUTATION_INSTRUCTIONS = 1, 3, 2
_INSTRUCTION_NAME, _INSTRUCTION_METADATA, _METADATA_OP_NAME = 1, 7, 2

_NAMED_WITH_ID = regex(rb"\((\d{1,20})\)$")


class Programs:
    """Names of operations by program and instruction.

    Args:
        plane: Bytes of the plane with the programs; empty for none.

    Attributes:
        unread: Number of programs in which `unneeded` could not look for anything.
    """

    def __init__(self, plane: bytes = b"") -> None:
        self._plane = plane
        self.unread = 0
        self._places: dict[int, Part] = {}
        self._names: dict[int, dict[str, str]] = {}
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
        if program not in self._names:
            place = self._places.get(program)
            self._names[program] = self._read(place) if place else {}
        return self._names[program].get(instruction, "")

    def unneeded(self, program: int, instruction: str) -> Unneeded | None:
        """Why an instruction is not needed; None if nothing is known against it.

        Args:
            program: Id of the program, `MISSING` for none.
            instruction: Name of the instruction, e.g. 'copy.1'.
        """
        if program not in self._unneeded:
            place = self._places.get(program)
            found = unneeded_of(self._plane[place.value : place.end]) if place else {}
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
            found += [(self._id(entry), program) for program in programs]
        return found

    def _id(self, entry: Part) -> int:
        """Id of a program: the suffix of its name; in older profiles, the key of the entry."""
        data = self._plane
        for part in inside(data, entry.value, entry.end, _ENTRY_VALUE, _VALUE_NAME):
            named = _NAMED_WITH_ID.search(data[part.value : part.end])
            if named:
                return as_int64(int(named[1]))
        keys = inside(data, entry.value, entry.end, _ENTRY_KEY)
        return as_int64(next((part.value for part in keys), 0))

    def _read(self, place: Part) -> dict[str, str]:
        data = self._plane
        path = (_PROTO_MODULE, _MODULE_COMPUTATIONS, _COMPUTATION_INSTRUCTIONS)
        try:
            instructions = list(inside(data, place.value, place.end, *path))
            return dict(self._instruction(part) for part in instructions)
        except DamagedError:
            return {}

    def _instruction(self, place: Part) -> tuple[str, str]:
        """Name of an instruction and of its operation."""
        data, name, op_name = self._plane, "", ""
        for part in parts(data, place.value, place.end):
            if part.number == _INSTRUCTION_NAME:
                name = text(data[part.value : part.end])
            elif part.number == _INSTRUCTION_METADATA:
                for found in inside(data, part.value, part.end, _METADATA_OP_NAME):
                    op_name = text(data[found.value : found.end])
                break  # none of the many fields after it is used
        return name, op_name


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
