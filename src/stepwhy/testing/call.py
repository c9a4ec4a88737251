"""Call a function of a test module in this process: `python -m stepwhy.testing.call FILE NAME`.

The module is imported from its file, with the search path of pytest's own process.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys

PATH_VARIABLE = "STEPWHY_TEST_PATH"
"""The search path of modules, as a JSON list."""


def main(file: str, name: str) -> None:
    """Import a module from its file and call one of its functions.

    Args:
        file: The module.
        name: The function.
    """
    sys.path[:] = json.loads(os.environ.get(PATH_VARIABLE, "null")) or sys.path
    spec = importlib.util.spec_from_file_location("stepwhy_measured", file)
    if spec is None or spec.loader is None:
        raise ImportError(f"{file} is not a module of Python")
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    getattr(module, name)()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
