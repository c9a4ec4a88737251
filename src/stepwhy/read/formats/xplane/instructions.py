"""The instructions of a compiled program: the operation and the line that each comes from.

The compiler adds instructions that come from no operation: copies, changes of layout, fusions.
These are of the line of what they contain, of what they are next to, or of what calls them.

Source: xla/service/hlo.proto; `OpMetadata` of xla/xla_data.proto.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from typing import TYPE_CHECKING, Any, NamedTuple

from stepwhy.read.formats.xplane.stack_frames import StackFrames
from stepwhy.read.shared.program_files import is_program_file
from stepwhy.read.shared.tensorflow.graphs import text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    _Edges = tuple[defaultdict[int, list[int]], defaultdict[int, list[int]]]

# Calls are not nested as deeply; those of damaged files may be circular.
_DEEPEST_CALLS = 16
# Neighbours that are looked at; what is farther away says nothing.
_MOST_NEIGHBOURS = 64
# Instructions that have much in common with what uses them, and nothing with one another.
_TUPLE, _CONSTANT = b"tuple", b"constant"


class _Instruction(NamedTuple):
    """An instruction; the fields are those of its message, and the number of its computation."""

    id: int
    opcode: bytes
    op_name: str
    frame: int
    place: tuple[str, int]
    operands: Sequence[int]
    called: Sequence[int]
    computation: int


class Instructions:
    """The instructions of one program, by name.

    Args:
        module: The message of the program.
    """

    def __init__(self, module: Any) -> None:
        self._frames = StackFrames(module.stack_frame_index)
        self._numbers: dict[str, int] = {}
        self._all: list[_Instruction] = []
        self._roots: dict[int, int] = {}
        self._members: dict[int, list[int]] = {}
        for computation in module.computations:
            self._add(computation)
        self._lines: dict[int, str] = {}
        self._edges: dict[int, _Edges] = {}
        self._callers: dict[int, int] | None = None
        self._common: str | None = None

    def _add(self, computation: Any) -> None:
        first = len(self._all)
        for message in computation.instructions:
            self._numbers[text(message.name)] = len(self._all)
            self._all.append(_instruction(message, computation.id))
        members = range(first, len(self._all))
        self._members[computation.id] = list(members)
        roots = [n for n in members if self._all[n].id == computation.root_id]
        if roots:
            self._roots[computation.id] = roots[0]

    def op_name(self, name: str) -> str:
        """Name of the operation that an instruction was compiled from, '' if unknown."""
        number = self._numbers.get(name)
        return "" if number is None else self._all[number].op_name

    def line(self, name: str) -> str:
        """Line of the program that an instruction comes from, '' if unknown.

        It is of the program's own code, never of a library.
        """
        number = self._numbers.get(name)
        if number is None:
            return ""
        if number not in self._lines:
            self._lines[number] = self._find(number, _DEEPEST_CALLS)
        return self._lines[number]

    def _find(self, number: int, depth: int) -> str:
        found = self._recorded(number, depth) or self._nearest_line(number)
        if found or depth == 0:
            return found
        caller = self._calls().get(self._all[number].computation)
        return self.common_line() if caller is None else self._find(caller, depth - 1)

    def _recorded(self, number: int, depth: int) -> str:
        """Line of an instruction itself, or of those that it calls."""
        return self._own(number) or self._called(number, depth)

    def _own(self, number: int) -> str:
        one = self._all[number]
        if one.frame:
            return self._frames.line(one.frame)
        # Before frames were recorded, there was the innermost line outside of JAX.
        file, line = one.place
        return self._frames.shown((file, line, "")) if is_program_file(file) else ""

    def _called(self, number: int, depth: int) -> str:
        """Line of the result of what an instruction calls, else the most frequent one there."""
        for computation in self._all[number].called if depth else ():
            root = self._roots.get(computation)
            found = self._recorded(root, depth - 1) if root is not None else ""
            counts = Counter(map(self._own, self._members.get(computation, ())))
            del counts[""]
            found = found or next((line for line, _ in counts.most_common(1)), "")
            if found:
                return found
        return ""

    def _nearest_line(self, number: int) -> str:
        """Line of the nearest instruction that uses an instruction's result, or that it uses."""
        computation = self._all[number].computation
        seen, waiting = {number}, deque(self._neighbours(number, computation))
        while waiting and len(seen) <= _MOST_NEIGHBOURS:
            one = waiting.popleft()
            if one in seen:
                continue
            seen.add(one)
            found = self._recorded(one, 1)
            if found:
                return found
            waiting.extend(self._neighbours(one, computation))
        return ""

    def _neighbours(self, number: int, computation: int) -> list[int]:
        """Users and then operands of an instruction, as far as they have to do with each other."""
        users, operands = self._edges_of(computation)
        opcode = self._all[number].opcode
        if opcode == _CONSTANT:
            return []
        return users[number] + (operands[number] if opcode != _TUPLE else [])

    def _edges_of(self, computation: int) -> _Edges:
        """The users and the operands of each instruction of a computation."""
        if computation not in self._edges:
            members = self._members.get(computation, [])
            numbers = {self._all[n].id: n for n in members}
            users, operands = defaultdict(list), defaultdict(list)
            for number, producer in self._reads(members, numbers):
                users[producer].append(number)
                operands[number].append(producer)
            self._edges[computation] = users, operands
        return self._edges[computation]

    def _reads(self, members: list[int], numbers: dict[int, int]) -> Iterator[tuple[int, int]]:
        """Pairs of an instruction and one whose result it uses."""
        for number in members:
            for operand in self._all[number].operands:
                if operand in numbers:
                    yield number, numbers[operand]

    def _calls(self) -> dict[int, int]:
        """The first instruction that calls each computation."""
        if self._callers is None:
            self._callers = {}
            for number, one in enumerate(self._all):
                for computation in one.called:
                    self._callers.setdefault(computation, number)
        return self._callers

    def common_line(self) -> str:
        """The line from which the program was called: that which all of its stacks share."""
        if self._common is None:
            frames = [one.frame for one in self._all if one.frame]
            self._common = self._frames.common_line(frames)
        return self._common


def _instruction(message: Any, computation: int) -> _Instruction:
    about = message.metadata
    return _Instruction(
        message.id,
        message.opcode,
        text(about.op_name),
        about.stack_frame_id,
        (text(about.source_file), about.source_line),
        tuple(message.operand_ids),
        tuple(message.called_computation_ids),
        computation,
    )
