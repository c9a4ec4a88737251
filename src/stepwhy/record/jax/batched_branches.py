"""Note conditions that `vmap` turns into selections, for which all branches are computed.

`lax.cond` and `lax.switch` run one branch. If each example of a mapped function has a condition of
its own, JAX traces all branches for all examples and selects from the results. The rule that does
so is called while a function is traced, with the branches as they were traced before.
"""

from __future__ import annotations

import contextlib
import functools
from typing import TYPE_CHECKING

from stepwhy.record.core.clock import now_ns
from stepwhy.record.core.process.losses import attempt
from stepwhy.record.core.user_code import user_file
from stepwhy.record.jax.loop import loop_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType
    from typing import Any

    # File, number and function.
    _Line = tuple[str, int, str]

KIND = "batched-branches"
"""Kind of the event with the lines of each branch, and how many branches there are.

Branches are separated by semicolons. Behind a plus are the lines of functions that a branch calls,
as others may do: 'train.py(3,7-12) + net.py(5); train.py(15) + '.
"""
# More take longer to look at than they take to trace.
_MOST_OPERATIONS = 5000
_MOST_EVENTS = 64
_LONGEST = 400  # characters of the reason of an event; without inner functions if it is longer
_DEEPEST = 16
# A platform is the same for all examples.
_OF_PLATFORMS = "branches_platforms"


def observe_branches(module: ModuleType, run_dir: str) -> None:
    """Note the conditions that `jax._src.lax.control_flow.conditionals` makes selections of."""
    seen: set[str] = set()

    def note(branches: Any) -> None:
        stacks = [list(_stacks(branch.jaxpr)) for branch in branches]
        lines = [
            [
                {stack[0] for stack in each if is_own == (len(stack) == 1)}
                for is_own in (True, False)
            ]
            for each in stacks
        ]
        text = "; ".join(f"{_shortened(own)} + {_shortened(inner)}" for own, inner in lines)
        if len(text) > _LONGEST:
            text = "; ".join(f"{_shortened(own)} + " for own, _ in lines)
        now = now_ns()
        if text in seen or len(seen) >= _MOST_EVENTS or len(text) > _LONGEST:
            return
        seen.add(text)
        # A condition in a function that is traced before is called from another line.
        file, number, function = next(
            iter(_stack(module.source_info_util.current().traceback)), ("", 0, "")
        )
        loop_of(run_dir).recorder.event(
            KIND, name="vmap", start_ns=now, end_ns=now, reason=text, count=len(lines),
            source=f"{file}({number}): {function}" if file else "",
        )  # fmt: skip

    def observe() -> None:
        rules = module.batching.fancy_primitive_batchers
        original = rules[module.cond_p]

        @functools.wraps(original)
        def batched(*args: Any, **params: Any) -> Any:
            with contextlib.suppress(Exception):
                if args[-1][0] is not None and not params.get(_OF_PLATFORMS):
                    note(params["branches"])
            return original(*args, **params)

        rules[module.cond_p] = batched

    attempt("conditions under vmap of JAX", observe)


def _shortened(lines: set[_Line]) -> str:
    """The lines, with those that follow each other as one: 'train.py(3,7-12)net.py(5)'."""
    numbers: dict[str, list[int]] = {}
    for file, number, _ in sorted(lines):
        numbers.setdefault(file, []).append(number)
    found = ""
    for file, each in numbers.items():
        starts = [number for number in each if number - 1 not in each]
        ends = [number for number in each if number + 1 not in each]
        ranges = [f"{a}-{b}" if a < b else f"{a}" for a, b in zip(starts, ends, strict=True)]
        found += f"{file}({','.join(ranges)})"
    return found


def _stacks(jaxpr: Any, depth: int = 0) -> Iterator[list[_Line]]:
    """Lines at which the operations were traced, those of inner functions as well.

    Each with the lines that called it, innermost first. JAX traces a branch on its own, so that the
    outermost line is one of the branch.
    """
    for equation in jaxpr.eqns[:_MOST_OPERATIONS]:
        if stack := _stack(equation.source_info.traceback):
            yield stack
        if depth < _DEEPEST:
            for value in equation.params.values():
                for one in value if isinstance(value, (list, tuple)) else (value,):
                    inner = getattr(one, "jaxpr", one)
                    if hasattr(inner, "eqns"):
                        yield from _stacks(inner, depth + 1)


def _stack(traceback: Any) -> list[_Line]:
    """The lines of the program, innermost first."""
    return [
        (file, frame.line_num, frame.function_name.rpartition(".")[2])
        for frame in (traceback.frames if traceback is not None else ())
        if (file := user_file(frame.file_name))
    ]
