"""Import NumPy without the threads of its linear algebra."""

from __future__ import annotations

import os
import sys

_THREADS = "OPENBLAS_NUM_THREADS"


def import_numpy_without_threads() -> None:
    """Import NumPy without the threads of OpenBLAS, as stepwhy multiplies no matrices.

    The threads take 0.03 s of CPU time on two cores, and more on more cores. The variable is set
    only during the import, so child processes are not affected.
    """
    if "numpy" in sys.modules or _THREADS in os.environ:
        return
    os.environ[_THREADS] = "1"
    try:
        import numpy as np  # noqa: F401 - imported for its side effect
    finally:
        del os.environ[_THREADS]
