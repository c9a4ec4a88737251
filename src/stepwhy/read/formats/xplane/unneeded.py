"""Work of compiled programs that is not needed, by instruction."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from stepwhy.read.formats.xplane.argument_use import argument_uses
from stepwhy.read.formats.xplane.discards import discards_of
from stepwhy.read.formats.xplane.hlo import read_module
from stepwhy.read.formats.xplane.loops import loop_work_of
from stepwhy.read.formats.xplane.rewrites import rewrites_of
from stepwhy.read.formats.xplane.table_updates import updates_of
from stepwhy.trace import NULL

if TYPE_CHECKING:
    from stepwhy.read.formats.xplane.argument_use import ArgumentUse
    from stepwhy.read.formats.xplane.discards import Discard
    from stepwhy.read.formats.xplane.loops import LoopWork
    from stepwhy.read.formats.xplane.rewrites import Rewrite
    from stepwhy.read.formats.xplane.table_updates import TableUpdate
    from stepwhy.trace import TraceBuilder

SEPARATOR = "\n"
"""Between the names of arguments in a table."""


class Unneeded(NamedTuple):
    """Why an instruction is not needed.

    Args:
        rewrite: The buffer that it copies, if it does.
        discard: When its result is read, if not always.
        update: The table that it works on for some of its rows, if it does.
        use: What it computes from, if that tells anything.
        loop: The loop that it is in, if it could run outside of it.
        program: Name of the jitted function.
    """

    rewrite: Rewrite | None
    discard: Discard | None
    update: TableUpdate | None
    use: ArgumentUse | None
    loop: LoopWork | None
    program: str

    def add_to(self, builder: TraceBuilder, row: int) -> None:
        """Add what is known of a slice of the instruction.

        Args:
            builder: Receives it.
            row: The slice.
        """
        if self.rewrite is not None:
            builder.add(
                "rewrites",
                slice=row,
                copied_bytes=self.rewrite.copied_bytes,
                changed_bytes=self.rewrite.changed_bytes,
                operation=builder.intern(self.rewrite.operation),
                of_argument=int(self.rewrite.of_argument),
            )
        if self.discard is not None:
            builder.add(
                "discards",
                slice=row,
                condition=builder.intern(self.discard.condition),
                holds=int(self.discard.holds),
                one_in=self.discard.one_in,
            )
        if self.update is not None:
            builder.add(
                "table_updates",
                slice=row,
                table_bytes=self.update.table_bytes,
                used_bytes=self.update.used_bytes,
            )
        if self.use is not None or self.loop is not None:
            names = self.use.arguments if self.use else None
            factors = self.use.factors if self.use else ()
            builder.add(
                "argument_uses",
                slice=row,
                program=builder.intern(self.program),
                arguments=NULL if names is None else builder.intern(SEPARATOR.join(names)),
                compares_pairs=0 if self.use is None else self.use.compares_pairs,
                factors=builder.intern(SEPARATOR.join(factors)) if factors else NULL,
                loop=NULL if self.loop is None else builder.intern(self.loop.loop),
                trips=NULL if self.loop is None else self.loop.trips,
                independent=NULL if self.loop is None else int(self.loop.is_independent),
            )


def unneeded_of(data: bytes, program: str) -> dict[str, Unneeded] | None:
    """The instructions by name; None if the program is damaged or too large to look at.

    Args:
        data: A serialised `HloProto`.
        program: Name of the jitted function.
    """
    module = read_module(data)
    if module is None:
        return None
    try:
        rewrites, discards, updates = rewrites_of(module), discards_of(module), updates_of(module)
        uses, loops = argument_uses(module), loop_work_of(module)
    except (KeyError, IndexError):  # it refers to what it lacks
        return None
    names = rewrites.keys() | discards.keys() | updates.keys() | uses.keys() | loops.keys()
    return {
        name: Unneeded(
            rewrites.get(name),
            discards.get(name),
            updates.get(name),
            uses.get(name),
            loops.get(name),
            program,
        )
        for name in names
    }
