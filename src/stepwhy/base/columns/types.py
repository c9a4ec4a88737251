"""Types of columns, for annotations."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
AnyInts = NDArray[np.signedinteger[Any]]
"""Integers of any width."""

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]

Rows = NDArray[np.int64]
"""Positions in a table."""
AnyRows = NDArray[np.signedinteger[Any]]
"""Positions in a table, of any width."""

Times = NDArray[np.int64]
"""Times or durations, ns."""
