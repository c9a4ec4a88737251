"""Keep Dynamo, the compiler behind `torch.compile`, away from the observer's own code.

A wrapper that Dynamo meets while it traces is traced as the training's own code is, and must do
nothing while `torch.compiler.is_compiling`. One that is called as a function of its own, after what
cannot be traced, would be compiled alone.

Source: torch/_dynamo/eval_frame.py, `skip_code`; torch/csrc/dynamo/eval_frame_cpp.cpp.
"""

from __future__ import annotations

import contextlib
import functools
from typing import TYPE_CHECKING

from stepwhy.record.core.compiled_code import exclude_by

if TYPE_CHECKING:
    from types import CodeType
    from typing import Any


@functools.cache
def leave_observer_alone() -> None:
    """Let Dynamo leave the code alone that `compiled_code` has marked."""
    exclude_by(_exclude)


def _exclude(code: CodeType, deep: bool) -> None:
    """Let Dynamo run a function as it is, and if `deep` all that it calls."""
    # Versions before 2.1 have no Dynamo like this.
    with contextlib.suppress(ImportError, AttributeError, TypeError):
        from torch._C._dynamo import eval_frame

        core: Any = eval_frame
        if hasattr(core, "set_code_exec_strategy"):
            skip, default = core._FrameAction.SKIP, core._FrameAction.DEFAULT
            strategy = core._FrameExecStrategy(skip, skip if deep else default)
            core.set_code_exec_strategy(code, strategy)
        else:  # versions before 2.7
            core.skip_code(code)
