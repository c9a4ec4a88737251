"""Run pairs of the GPU lab in their smallest size, and compare the losses of both programs.

    python lab/gpu/harness/twins.py [NAME]...

Works on a CPU. Exits with 1 if programs fail, or if the twins of a pair train differently.
"""

from __future__ import annotations

import sys

from children import run
from pairs import SIDES, Pair, pairs, printed

_LIMIT_S = 240.0


def difference(first: list[float], second: list[float]) -> float:
    """Largest relative difference of two lists of losses."""
    pairs_of = zip(first, second, strict=True)
    return max(abs(a - b) / max(abs(a), abs(b), 1e-12) for a, b in pairs_of)


def compare(pair: Pair) -> str:
    """Run both programs; returns what is wrong with them, '' for nothing.

    Args:
        pair: The pair.
    """
    losses = {}
    for side in SIDES:
        ended = run(pair.command(side, pair.tiny), _LIMIT_S, pair.variables[side])
        losses[side] = printed(ended.output)["losses"]
        if ended.failure or not losses[side]:
            return f"{side}: {ended.failure or 'printed no loss'}"
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
    failed = 0
    for name in names:
        wrong = compare(every[name])
        failed += bool(wrong)
        print(f"{name:<22} {wrong or 'same training'}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
