"""Make what observers put in the place of a function look like that function."""

from __future__ import annotations

import contextlib
import functools

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeVar

    Call = Callable[..., Any]
    Function = TypeVar("Function", bound=Call)


def wraps(original: Call) -> Callable[[Function], Function]:
    """Decorate a wrapper like `functools.wraps`, and let it have the signature of the original.

    `inspect.getfullargspec`, by which programs and Keras choose arguments, does not look behind a
    wrapper.
    """

    def decorate(function: Function) -> Function:
        import inspect  # not while Python starts

        functools.update_wrapper(function, original)
        # Behind a wrapper, it would find the arguments of the wrapper without stepwhy, too.
        if not hasattr(original, "__wrapped__"):
            with contextlib.suppress(TypeError, ValueError):
                function.__signature__ = inspect.signature(original)  # type: ignore[attr-defined]
        return function

    return decorate


class Builtin:
    """A logged function in C: unlike one in Python, it does not become a method in a class.

    It pickles by the name under which programs find it, and has the type and all attributes of the
    original.

    Args:
        logged: The function, with the original as its `__wrapped__`.
        module: The module that has it.
        name: Its name there.
    """

    def __init__(self, logged: Any, module: str, name: str) -> None:
        functools.update_wrapper(self, logged)
        self.__wrapped__ = logged.__wrapped__
        self.__module__ = module
        self._logged, self._name = logged, name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the logged function."""
        return self._logged(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__wrapped__, name)

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return type(self.__wrapped__)

    def __repr__(self) -> str:
        return repr(self.__wrapped__)

    def __reduce_ex__(self, _: object) -> str:
        return self._name
