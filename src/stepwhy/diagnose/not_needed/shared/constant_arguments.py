"""Instructions of compiled programs that compute from arguments which are the same in each call."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stepwhy.analyse.steps.stalls import rows_of_kinds
from stepwhy.base.patterns import regex
from stepwhy.trace import NULL

if TYPE_CHECKING:
    from stepwhy.analyse.facts import Facts
    from stepwhy.diagnose.shared.slices import Rows

_KIND = "same-arguments"
_FEWEST_STEPS = 3  # between the first and the last call that were compared
# Source: `sanitize_name` of jax/_src/interpreters/mlir.py, by which it names a program.
_NO_LETTER = regex(r"[^\w.-]")


def same_arguments(facts: Facts) -> dict[str, set[str]]:
    """Arguments that were the same array in several steps, by the name of the function.

    Empty if no function was called in enough steps to tell.
    """
    events, text = facts.trace.events, facts.trace.string
    found: dict[str, set[str]] = {}
    for row in rows_of_kinds(facts.trace, _KIND).tolist():
        if events.count[row] < _FEWEST_STEPS:
            continue
        reason = int(events.reason[row])
        names = set() if reason == NULL else set(text(reason).split("\n"))
        function = _NO_LETTER.sub("_", text(int(events.name[row])))
        found[function] = found.get(function, names) & names
    return found


def constant_instructions(facts: Facts) -> Rows:
    """Slices of the steady steps whose instruction reads nothing but such arguments, ascending."""
    table, text, same = facts.trace.argument_uses, facts.trace.string, same_arguments(facts)
    known = (table.arguments != NULL) & facts.is_steady[table.slice]
    keys = np.stack([table.program, table.arguments], axis=1)[known]
    used, place = np.unique(keys, axis=0, return_inverse=True)
    is_constant = [
        set(filter(None, text(arguments).split("\n"))) <= same.get(text(program), set())
        and text(program) in same
        for program, arguments in used.tolist()
    ]
    chosen = np.array(is_constant, dtype=np.bool_)[place.reshape(-1)]
    rows: Rows = np.sort(table.slice[known][chosen])
    return rows


__all__ = ["constant_instructions", "same_arguments"]
