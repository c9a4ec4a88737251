"""Types of the columns that diagnoses work on."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.signedinteger[Any]]
"""Rows of slices; (any,)."""

Mask = NDArray[np.bool_]
"""Whether something is true of each row; (any,)."""

Ints = NDArray[np.int64]
"""Numbers, such as positions or strings; (any,)."""

Times = NDArray[np.int64]
"""Times, ns; (any,)."""
