"""Log the generators that a `tf.data` pipeline reads: TensorFlow calls them from its own threads.

What TensorFlow does with each element takes longer than most generators, so that stack samples
rarely show their lines.

Source: `tensorflow/python/data/ops/dataset_ops.py`, versions 2.9 to 2.21.
"""

from __future__ import annotations

import dis
import functools
from typing import TYPE_CHECKING

from stepwhy.record.core.clock import now_ns
from stepwhy.record.core.user_chains import user_chain
from stepwhy.record.core.user_code import UserFiles
from stepwhy.record.core.wrappers import wraps
from stepwhy.record.tf2.datasets import made_at
from stepwhy.record.tf2.loop import loop_of

if TYPE_CHECKING:
    from types import CodeType, ModuleType
    from typing import Any

EVENT = "generator"
"""Kind of the event; its source is the line that yields."""
_MOST_EVENTS = 16


def observe_generators(module: ModuleType, run_dir: str) -> None:
    """Log generators of `dataset_ops.DatasetV2`, and note how the program makes each data set."""
    owner: Any = module.DatasetV2
    original, loop, left = owner.from_generator, loop_of(run_dir), [_MOST_EVENTS]

    def note(generator: Any) -> None:
        if left[0] > 0:
            left[0] -= 1
            line, now = yielding_line(generator), now_ns()
            if line:
                name = line.rpartition(": ")[2]
                loop.recorder.event(EVENT, name=name, start_ns=now, end_ns=now, source=line)

    @wraps(original)
    def from_generator(generator: Any, *args: Any, **kwargs: Any) -> Any:
        loop.guard(lambda: note(generator))
        return original(generator, *args, **kwargs)

    def note_made(dataset: Any) -> None:
        chained = user_chain()
        made_at(dataset, chained.line)
        loop.recorder.made(f"tf.data[{chained.place}]", chained[:2])

    owner.from_generator = staticmethod(from_generator)
    make = owner.__init__

    @wraps(make)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        make(self, *args, **kwargs)
        loop.guard(lambda: note_made(self))

    owner.__init__ = init


def yielding_line(generator: Any) -> str:
    """The line at which a generator of the program yields: 'data.py(9): rows'; '' if unknown."""
    function = generator.func if isinstance(generator, functools.partial) else generator
    if not hasattr(function, "__code__"):
        function = vars(type(function)).get("__call__")
    code: CodeType | None = getattr(function, "__code__", None)
    name = None if code is None else UserFiles().user_name(code.co_filename)
    if code is None or name is None:
        return ""
    line = code.co_firstlineno
    for instruction in dis.get_instructions(code):
        line = instruction.starts_line or line
        if instruction.opname == "YIELD_VALUE":
            break
    else:
        line = code.co_firstlineno
    return f"{name}({line}): {code.co_name}"
