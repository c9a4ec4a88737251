"""Functions of a data set that return the same for an element in each epoch, as their code shows.

An element comes from `__getitem__`, and from what that calls. A function counts if neither it nor
what it calls names random numbers, and if nothing before it in its caller does: then its arguments
are the same in each epoch, too. Code is only looked at; nothing is called.
"""

from __future__ import annotations

import dis
import re
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import TYPE_CHECKING

from stepwhy.record.core.user_code import UserFiles

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

EVENT = "stable-functions"
"""Kind of the event with these functions, one per line, as 'data.py: decode'."""
CHANGING = "changing-lines"
"""Kind of the event with the others: the first line of each at which something changes."""
# Names by which code draws random numbers, or reads what changes; source: `random`, NumPy, PyTorch,
# torchvision, Albumentations.
_CHANGING = re.compile(
    r"rand|shuffle|choice|normal_?$|uniform|permut|bernoulli|jitter|augment|noise|\brng|_rng|mixup"
    r"|cutout|epoch|time$|counter",
    re.IGNORECASE,
)
_MOST_FUNCTIONS = 200
_DEEPEST = 8  # calls within each other
_MOST_WRAPPERS = 4  # subsets of subsets


def stable_functions(dataset: Any) -> list[str]:
    """The functions of the program, as 'data.py: decode'; empty if none is sure to be stable.

    Args:
        dataset: A data set with `__getitem__`.
    """
    return sorted(_walked(dataset).stable)


def changing_lines(dataset: Any) -> list[str]:
    """The lines from which on functions of the program change: 'data.py(14): __getitem__'.

    Args:
        dataset: A data set with `__getitem__`.
    """
    return sorted(_walked(dataset).changing)


def _walked(dataset: Any) -> _Walk:
    dataset = unwrapped(dataset)
    walk = _Walk(dataset)
    read = getattr(type(dataset), "__getitem__", None)
    if isinstance(read, FunctionType):
        walk.visit(read, depth=0)
    return walk


def unwrapped(dataset: Any) -> Any:
    """The program's data set within those of PyTorch, such as a `Subset`."""
    for _ in range(_MOST_WRAPPERS):
        if not type(dataset).__module__.startswith("torch.utils.data"):
            break
        dataset = getattr(dataset, "dataset", dataset)
    return dataset


class _Walk:
    """Visits the functions of the program that an element comes from.

    Args:
        dataset: The data set.

    Attributes:
        stable: Those that return the same in each epoch.
        changing: Lines at which others begin to change.
    """

    def __init__(self, dataset: Any) -> None:
        self.stable: set[str] = set()
        self.changing: set[str] = set()
        self._dataset = dataset
        self._files = UserFiles()
        self._changing: dict[CodeType, bool] = {}

    def visit(self, function: FunctionType, depth: int) -> None:
        """Note a function whose arguments are stable, or what it calls before anything changes."""
        name = self._files.user_name(function.__code__.co_filename)
        if name is None or depth > _DEEPEST:
            return
        code = function.__code__
        if not self._is_changing(function, depth):
            self.stable.add(f"{name}: {code.co_name}")
        for each, (called, is_changing) in zip(
            _names(code), self._calls(function, depth), strict=True
        ):
            if is_changing:
                self.changing.add(f"{name}({_first_line(code, each)}): {code.co_name}")
                return
            if called is not None:
                self.visit(called, depth + 1)

    def _is_changing(self, function: FunctionType, depth: int) -> bool:
        code = function.__code__
        if code not in self._changing:
            self._changing[code] = True  # one that calls itself, and those beyond the limits
            if depth <= _DEEPEST and len(self._changing) <= _MOST_FUNCTIONS:
                self._changing[code] = any(is_so for _, is_so in self._calls(function, depth))
        return self._changing[code]

    def _calls(
        self, function: FunctionType, depth: int
    ) -> Iterator[tuple[FunctionType | None, bool]]:
        """What a function names, in this order: its functions, and whether it changes."""
        for name in _names(function.__code__):
            value = self._value(function, name)
            if isinstance(value, FunctionType):
                is_program = self._files.user_name(value.__code__.co_filename) is not None
                is_so = _is_changing_name(name)
                if is_program and not is_so:
                    is_so = self._is_changing(value, depth + 1)
                yield (value if is_program else None), is_so
            else:
                yield None, _is_changing_name(name) or _is_changing_object(value)

    def _value(self, function: FunctionType, name: str) -> Any:
        """What a name stands for: an attribute of the data set, or a global of the function."""
        own = vars(self._dataset) if hasattr(self._dataset, "__dict__") else {}
        for found in (
            own.get(name),
            getattr(type(self._dataset), name, None),
            function.__globals__.get(name),
            self._of_modules(function, name),
        ):
            if found is not None:
                return found.__func__ if isinstance(found, MethodType) else found
        return None

    def _of_modules(self, function: FunctionType, name: str) -> Any:
        """A function of a module of the program that the function names."""
        for each in function.__code__.co_names:
            module = function.__globals__.get(each)
            if isinstance(module, ModuleType):
                found = vars(module).get(name)
                file = vars(module).get("__file__") or ""  # none for built-in modules
                if isinstance(found, FunctionType) and self._files.user_name(file):
                    return found
        return None


def _names(code: CodeType) -> Iterator[str]:
    """The names that code uses, in the order of their first use; then those of functions in it."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


def _first_line(code: CodeType, name: str) -> int:
    """The first line of code that uses a name."""
    starts, line = dict(dis.findlinestarts(code)), code.co_firstlineno
    for each in dis.get_instructions(code):
        line = starts.get(each.offset) or line
        if each.argval == name:
            return line
    inner = (one for one in code.co_consts if isinstance(one, CodeType))
    return next((_first_line(one, name) for one in inner if name in _names(one)), line)


def _is_changing_name(name: str) -> bool:
    return _CHANGING.search(name) is not None


def _is_changing_object(value: Any) -> bool:
    """Whether an object that the data set calls changes: a transform of a library, or several."""
    if not callable(value) or isinstance(value, type | ModuleType):
        return False
    parts = getattr(value, "__dict__", {}).get("transforms")
    inner = parts if isinstance(parts, list | tuple) else ()
    return any(_is_changing_name(type(one).__name__) for one in (value, *inner))
