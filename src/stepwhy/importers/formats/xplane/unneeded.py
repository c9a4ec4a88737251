"""Work of compiled programs that is not needed, by instruction."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from stepwhy.importers.formats.xplane.discards import discards_of
from stepwhy.importers.formats.xplane.hlo import read_module
from stepwhy.importers.formats.xplane.rewrites import rewrites_of

if TYPE_CHECKING:
    from stepwhy.importers.formats.xplane.discards import Discard
    from stepwhy.importers.formats.xplane.rewrites import Rewrite
    from stepwhy.trace import TraceBuilder

# Opcodes without which there is none of it.
_OPCODES = (b"dynamic-update-slice", b"scatter", b"concatenate", b"select")


class Unneeded(NamedTuple):
    """Why an instruction is not needed.

    Args:
        rewrite: The buffer that it copies, if it does.
        discard: When its result is read, if not always.
    """

    rewrite: Rewrite | None
    discard: Discard | None

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


def unneeded_of(data: bytes) -> dict[str, Unneeded] | None:
    """The instructions by name; None if the program is damaged or too large to look at.

    Args:
        data: A serialised `HloProto`.
    """
    if not any(opcode in data for opcode in _OPCODES):
        return {}
    module = read_module(data)
    try:
        rewrites, discards = (rewrites_of(module), discards_of(module)) if module else ({}, {})
    except (KeyError, IndexError):  # it refers to what it lacks
        return None
    names = rewrites.keys() | discards.keys()
    found = {name: Unneeded(rewrites.get(name), discards.get(name)) for name in names}
    return found if module else None


__all__ = ["Unneeded", "unneeded_of"]
