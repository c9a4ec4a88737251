"""Look up names of a framework, which this interpreter has installed.

Reads a JSON list of `[module, expression]` from its standard input, and writes a list of true,
false, or null for a module that is missing, as its last line.
"""

import importlib
import json
import sys


def look_up(module, expression):
    """Whether the expression is true, in which `m` is the module; None without the module."""
    try:
        found = importlib.import_module(module)
    except ModuleNotFoundError:
        return None
    try:
        return bool(eval(expression, {"m": found}))  # noqa: S307 - the table is ours
    except Exception:  # noqa: BLE001
        return False


if __name__ == "__main__":
    print(json.dumps([look_up(*row) for row in json.load(sys.stdin)]), flush=True)
