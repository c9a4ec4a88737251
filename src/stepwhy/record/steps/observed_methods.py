"""Log the calls of a method of a framework's class."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepwhy.record.core.wrappers import wraps

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from stepwhy.record.steps.call_log import CallLog

_NONE = -1


def observe_method(
    owner: Any,
    name: str,
    calls: CallLog,
    number_of: Callable[[Any], int],
    computes: Callable[[], bool],
) -> None:
    """Log the outermost calls of a method, by the kind of its object.

    Args:
        owner: Class of the method.
        name: Name of the method.
        calls: Log of the calls.
        number_of: Returns the number of an object's kind.
        computes: Whether a call would compute; otherwise it is being traced.
    """
    original = getattr(owner, name)

    def begin(self: Any) -> int | None:
        try:
            if not computes():
                return None
            number = number_of(self)
            return number if calls.begin(number) else None
        except Exception as error:
            calls.loop.stop(error)
            return None

    def begin_note(self: Any) -> tuple[int, int]:
        """Number and start of a call that is only noted; its start is 0 for others."""
        try:
            number = number_of(self) if computes() else _NONE
            return number, calls.begin_note() if number >= 0 else 0
        except Exception:
            return _NONE, 0  # `begin` meets it, too, and reports it

    def noted(self: Any, number: int, start_ns: int, args: Any, kwargs: Any) -> Any:
        failed = True
        try:
            result = original(self, *args, **kwargs)
            failed = False
            return result
        finally:
            calls.end_note(number, start_ns, failed=failed)

    @wraps(original)
    def observed(self: Any, *args: Any, **kwargs: Any) -> Any:
        loop = calls.loop
        if calls.light.until_ns:
            kind, start_ns = begin_note(self)
            if start_ns:
                return noted(self, kind, start_ns, args, kwargs)
        number = begin(self) if not loop.only_notes and calls.may_begin() else None
        if number is None:
            return original(self, *args, **kwargs)
        failed = True
        try:
            result = original(self, *args, **kwargs)
            failed = False
            calls.launched(result)
            return result
        finally:
            calls.end(number, failed=failed)

    setattr(owner, name, observed)
