"""Names of operations in sentences."""

from __future__ import annotations

from stepwhy.read.kernel_names.short import short_name

# Characters of a name that a sentence has room for.
_LONGEST = 80


def shown_name(name: str) -> str:
    """A name that is short enough for a sentence."""
    short = short_name(name)
    return short if len(short) <= _LONGEST else f"{short[:_LONGEST]}..."
