"""Which line of the user's program is under way: the source of a trace or a compilation."""

from __future__ import annotations

import functools
import sys
from typing import TYPE_CHECKING

from stepwhy.capture.tf1_sources import UserFiles

if TYPE_CHECKING:
    from types import FrameType


@functools.cache
def _files() -> UserFiles:
    """The answers of this process; the script is known once its first line runs."""
    return UserFiles()


def user_line(frame: FrameType | None = None) -> str:
    """The innermost frame of the user's code: 'train.py(41): step'; '' without any.

    Args:
        frame: Where to begin; the caller by default.
    """
    at: FrameType | None = frame or sys._getframe(1)
    while at is not None:
        code = at.f_code
        name = _files().user_name(code.co_filename)
        if name is not None:
            return f"{name}({at.f_lineno}): {code.co_name}"
        at = at.f_back
    return ""
