"""Lines of a step that compute from the batch alone, not from weights or random numbers."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING

from stepwhy.record.core.user_code import line_of
from stepwhy.record.torch.provenance import DATA, RANDOM, RECORDED, REDUCED, STATE, sources_in

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import FrameType
    from typing import Any

_NEW_EACH_STEP = STATE | RANDOM | RECORDED | REDUCED
_LEAST_WORK = 4096  # elements of a result; what computes only smaller ones takes microseconds
# They choose, move or convert, which making a batch consists of, too.
_MOVES = re.compile(
    r"aten::_?(?:to_copy|copy_?|clone|contiguous|cat|stack|concat\w*|index\w*|gather|take\w*|select"
    r"|slice|narrow|view\w*|unsafe_view|reshape\w*|permute|t|transpose\w*|movedim|expand\w*|repeat\w*"
    r"|unsqueeze|squeeze|split\w*|chunk|unbind|lift_fresh\w*|detach|alias|as_strided|empty\w*|zeros\w*"
    r"|ones\w*|full\w*|fill_?|new_\w+|arange|constant_pad_nd|pad\w*|one_hot|scatter\w*|flip|roll"
    r"|unfold|im2col|embedding|nonzero|masked_select|pin_memory|local_scalar_dense)"
)
_LOOKUP = "aten::embedding"  # of weights, whose gradient takes longer than what is beside it
# Names by which code draws random numbers; what it then computes is new in each epoch.
_DRAWS = re.compile(
    r"rand|shuffle|choice|permut|normal_?$|uniform|bernoulli|sample$|jitter|augment|noise|rng",
    re.IGNORECASE,
)


class BatchLines:
    """Follows what the operations of a line compute from."""

    def __init__(self) -> None:
        self._lines: dict[str, int] = {}
        self._draws: dict[Any, bool] = {}

    def note(self, name: str, origins: int, made: Sequence[Any]) -> None:
        """Note an operation of the forward pass.

        Args:
            name: Its name.
            origins: Where its results come from.
            made: Its results.
        """
        is_new = bool(origins & _NEW_EACH_STEP)
        if _MOVES.fullmatch(name) and not (is_new and name == _LOOKUP):
            return
        if not is_new and all(tensor.numel() < _LEAST_WORK for tensor in made):
            return
        frame: FrameType | None = sys._getframe(1)
        while frame is not None and not (line := line_of(frame)):
            frame = frame.f_back
        if frame is None:
            return
        code = frame.f_code
        if code not in self._draws:
            self._draws[code] = any(map(_DRAWS.search, code.co_names))
        origins = STATE if is_new or self._draws[code] else origins
        self._lines[line] = self._lines.get(line, 0) | origins

    def found(self, lasting: int, earlier: int) -> list[str]:
        """The lines that compute from the batch, and from nothing else but constants.

        Args:
            lasting: The sources that are constants, as bits.
            earlier: Those that were there before the step, such as a result of the one before.
        """
        return [
            line
            for line, origins in self._lines.items()
            if not origins & STATE
            and not sources_in(origins) & ~lasting & earlier
            and (origins & DATA or sources_in(origins) & ~lasting)
        ]
