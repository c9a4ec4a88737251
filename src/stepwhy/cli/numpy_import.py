"""Import NumPy without the threads of its linear algebra."""

from __future__ import annotations

import os
import sys

_THREADS = "OPENBLAS_NUM_THREADS"


def import_numpy_alone() -> None:
    """Import NumPy, but have OpenBLAS start no threads: nothing here multiplies matrices.

    They take 0.03 s of CPU time on two cores, more on more. What stepwhy starts has them: the
    variable is only set meanwhile.
    """
    if "numpy" in sys.modules or _THREADS in os.environ:
        return
    os.environ[_THREADS] = "1"
    try:
        import numpy as np  # noqa: F401 - for what it does
    finally:
        del os.environ[_THREADS]
