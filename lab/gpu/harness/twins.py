"""Run pairs of the GPU lab in their smallest size, and compare the losses of both programs.

    python lab/gpu/harness/twins.py [NAME]...

Works on a CPU. Exits with 1 if programs fail, or if the twins of a pair train differently.
"""

from __future__ import annotations

import importlib
import os
import runpy
import signal
import sys
import tempfile
import traceback
from contextlib import suppress

from children import variables
from pairs import SIDES, Pair, pairs, printed

_LIMIT_S = 240


def difference(first: list[float], second: list[float]) -> float:
    """Largest relative difference of two lists of losses."""
    pairs_of = zip(first, second, strict=True)
    return max(abs(a - b) / max(abs(a), abs(b), 1e-12) for a, b in pairs_of)


def forked(words: list[str], more: dict[str, str]) -> tuple[int, str]:
    """Run a program in a fork, which need not import the frameworks; returns its code and output.

    Args:
        words: Path of the program, and its arguments.
        more: Environment variables.
    """
    with tempfile.TemporaryFile("w+", encoding="utf-8") as output:
        child = os.fork()
        if not child:
            signal.alarm(_LIMIT_S)
            os.dup2(output.fileno(), sys.stdout.fileno())
            os._exit(_become(words, more))
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        output.seek(0)
        return code, output.read()


def _become(words: list[str], more: dict[str, str]) -> int:
    """Run a program in this process; returns its exit code."""
    try:
        os.environ.update(more)
        sys.argv = words
        sys.path.insert(0, os.path.dirname(words[0]))  # noqa: PTH120 - as Python does
        runpy.run_path(words[0], run_name="__main__")
    except BaseException:  # noqa: BLE001 - nothing may return from the fork
        traceback.print_exc()
        return 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
    return 0


def compare(pair: Pair) -> str:
    """Run both programs; returns what is wrong with them, '' for nothing.

    Args:
        pair: The pair.
    """
    losses = {}
    for side in SIDES:
        status, output = forked(pair.command(side, pair.tiny)[1:], pair.variables[side])
        losses[side] = printed(output)["losses"]
        if status or not losses[side]:
            return f"{side}: {f'exit code {status}' if status else 'printed no loss'}"
    differs = difference(losses["faulty"], losses["fixed"])
    if not differs <= pair.tolerance:
        return f"losses differ by {differs:.2g}: {losses}"
    return ""


def main() -> int:
    every = pairs()
    names = sys.argv[1:] or list(every)
    if unknown := [name for name in names if name not in every]:
        print(f"No such pair: {', '.join(unknown)}. There are: {', '.join(every)}")
        return 2
    os.environ.update(variables())
    # Once for all programs; optimizers import the compiler. None of these starts the GPU yet.
    uses_jax = {every[name].uses_jax for name in names}
    for module in (*["jax"] * (True in uses_jax), *["torch._dynamo"] * (False in uses_jax)):
        with suppress(ImportError):
            importlib.import_module(module)
    failed = 0
    for name in names:
        wrong = compare(every[name])
        failed += bool(wrong)
        print(f"{name:<22} {wrong or 'same training'}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
