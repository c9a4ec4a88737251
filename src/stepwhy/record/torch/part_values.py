"""Values that are followed through a step, and the operations that make and read them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from stepwhy.record.torch.part_masks import Mask
    from stepwhy.record.torch.part_plans import Plan
    from stepwhy.record.torch.provenance import Storage

NOWHERE = -1
"""Place of no operation."""


class Value:
    """A value of the step: what an operation has made, or a view of it.

    Attributes:
        storage: Its storage.
        shape: Its shape.
        is_whole: Whether something may read all of it.
        is_reduced: Whether it has one number for each row.
        of_table: Whether its rows are made of those of a parameter.
        read: What is read of it by the operations that were judged; None if none reads it.
        choice: Place of the operation that chooses what is read.
    """

    __slots__ = ("choice", "is_reduced", "is_whole", "of_table", "read", "shape", "storage")

    def __init__(
        self, storage: Storage, shape: tuple[int, ...], *, is_reduced: bool, of_table: bool
    ) -> None:
        self.storage = storage
        self.shape = shape
        self.is_whole = False
        self.is_reduced = is_reduced
        self.of_table = of_table
        self.forget()

    def forget(self) -> None:
        """Forget what is read of it."""
        self.read: Mask | None = None
        self.choice = NOWHERE

    def add(self, mask: Mask, choice: int) -> int:
        """Something reads a part of it; returns the elements of the mask."""
        self.read = mask if self.read is None else self.read | mask
        self.choice = choice if self.choice == NOWHERE else self.choice
        return self.read.size


class Op(NamedTuple):
    """An operation of the forward pass.

    Args:
        place: Its number in the step.
        inputs: The values that it reads in part; None for those from before the step.
        outputs: The values that it makes.
        plan: What it reads; None if that is all of its arguments.
        axis: The dimension in which it takes its input apart, or -1.
        line: Line of the program that calls it, if its size matters, or if it chooses a part.
        group: What calls have in common whose work counts together; None for small ones.
        work: Elements that it makes, or reads of its first input.
    """

    place: int
    inputs: Sequence[Value | None]
    outputs: Sequence[Value]
    plan: Plan | None
    axis: int = -1
    line: str = ""
    group: Any = None
    work: int = 0


class Choice(NamedTuple):
    """An operation that reads a part of a result.

    Args:
        line: Line of the program that calls it.
        how: How it chooses, a constant of `part_rules`.
        of_table: Whether it chooses among rows that are made of those of a parameter.
    """

    line: str
    how: str
    of_table: bool


class Unused(NamedTuple):
    """What nothing reads.

    Args:
        shares: Of the result of each operation of the step, 0..1.
        places: For each of them, the place among `choices` of what chooses its part; -1 for none.
        choices: What chooses.
        storages: Numbers of the storages whose values are read in part.
    """

    shares: list[float]
    places: list[int]
    choices: list[Choice]
    storages: set[int]
