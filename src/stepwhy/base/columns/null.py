"""The one value that means 'absent' in a column of indexes, counts or times."""

from __future__ import annotations

from typing import Final

NULL: Final = -1
"""Not recorded, or no such row; never zero."""
