"""The lines of the program that make tensors: an operation, an attribute, or a data set's items.

Files are only looked at: for what sets an attribute, what a function returns, and where it pads.
"""

from __future__ import annotations

import ast
import functools
import linecache
import re
import sys
from inspect import CO_OPTIMIZED, unwrap
from pathlib import PurePath
from types import FunctionType
from typing import TYPE_CHECKING, NamedTuple

from stepwhy.record.core.user_code import line_of, program_files, user_file
from stepwhy.record.torch.item_functions import unwrapped
from stepwhy.record.torch.provenance import STATE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from types import CodeType, FrameType
    from typing import Any

    from stepwhy.record.torch.provenance import Storage

    Wanted = Callable[[ast.AST], bool]
    _Tensors = Sequence[tuple[Any, Storage]]

EVENT = "tensor-maker"
"""Kind of the event for a line that makes a tensor."""
# Loads the batches of a `DataLoader` without workers.
_FETCH = "torch/utils/data/_utils/fetch.py"
_MAKES = frozenset(
    f"aten::{name}"
    for name in (
        *("full", "new_full", "full_like", "zeros", "new_zeros", "zeros_like", "ones"),
        *("constant_pad_nd", "pad_sequence", "_pad_sequence", "lift_fresh"),
    )
)
_STACK = "aten::stack"
_WRITTEN = {"aten::lift_fresh": "data that becomes a tensor"}  # by torch.tensor, from_numpy, ...
# Names by which a function may use the dictionary of its locals.
_READS_LOCALS = frozenset({"locals", "vars", "f_locals", "exec", "eval"})
_MOST_LINES = 3  # that set one attribute, or pad; of more, none is the line
_MOST_BYTES = 1 << 17
_PADS = re.compile(r"(?:new_)?(?:zeros|full|empty)|pad\w*|constant_pad_nd|ljust")
_LENGTH = re.compile(r"len|pad|seq|tokens|ctx|context|block_?size", re.IGNORECASE)


class Made(NamedTuple):
    """A line that makes a tensor.

    Args:
        by: What makes it there.
        line: The line: 'train.py(41): collate'.
    """

    by: str
    line: str


class Makers:
    """What makes the integers and the float64 tensors that the operations of a step read.

    Attributes:
        doubles: What makes float64 of a step that began without, the first of it.
    """

    def __init__(self) -> None:
        import torch

        self._double = torch.float64
        self._kept = {torch.float64, torch.int64, torch.int32}
        self.doubles: list[Made] = []

    def note(self, name: str, read: _Tensors, made: _Tensors) -> None:
        """Note an operation that is not of the backward pass.

        Args:
            name: Its name.
            read: Its arguments, with their storages.
            made: Its results, with theirs.
        """
        for tensor, storage in made:
            if storage.maker is None and tensor.dtype in self._kept and tensor.dim():
                known = (each.maker for _, each in read if each.maker is not None)
                passed = None if name in _MAKES else next(known, None)
                is_new = name in _MAKES or not read or name == _STACK
                made_now = _maker(name, sys._getframe(1)) if is_new and not passed else None
                # A stack of rows that were made elsewhere only shows where a loader got them.
                is_rows = name == _STACK and isinstance(made_now, Made)
                storage.maker = passed or (None if is_rows else made_now)
        if len(self.doubles) < _MOST_LINES:
            self._note_doubles(name, read, made)

    def _note_doubles(self, name: str, read: _Tensors, made: _Tensors) -> None:
        """Note what makes float64: this operation, or what made a tensor from before the step."""
        found, frame = [], sys._getframe(1)
        is_read = False
        for tensor, storage in read:
            if tensor.dtype is self._double and tensor.dim():
                is_read = True
                if storage.is_outside and not storage.origins & STATE and not storage.is_named:
                    storage.is_named = True
                    maker = _maker(name, frame)
                    found += _set_before(tensor, frame) or lines_of(maker, _returns)
        if not is_read and any(t.dtype is self._double and t.dim() for t, _ in made):
            found += lines_of(_maker(name, frame), _returns)
        self.doubles += [each for each in dict.fromkeys(found) if each not in self.doubles]


def _maker(operation: str, frame: FrameType) -> Made | type | None:
    """The line of an operation; the class of a data set, where a loader puts its items together."""
    at: FrameType | None = frame
    while at is not None:
        if line := line_of(at):
            return Made(_WRITTEN.get(operation, operation), line)
        if PurePath(at.f_code.co_filename).as_posix().endswith(_FETCH):
            return type(unwrapped(getattr(_self_of(at), "dataset", None)))
        at = at.f_back
    return None


def lines_of(maker: Made | type | None, wanted: Wanted) -> list[Made]:
    """The lines of what makes a tensor.

    Args:
        maker: An operation, or a data set.
        wanted: Which parts of the code of `__getitem__` make an item what it is.
    """
    if not isinstance(maker, type):
        return [] if maker is None else [maker]
    read = getattr(maker, "__getitem__", None)
    return [Made(f"items of {maker.__name__}", line) for line in _lines_in(read, wanted)]


def padding_lines(maker: Made | type | None, columns: int) -> list[Made]:
    """The lines that pad a batch, or say how far.

    Args:
        maker: What makes its indices.
        columns: Of the batch.
    """
    return [*lines_of(maker, _pads), *_length_lines(columns)][:_MOST_LINES]


def forget_code() -> None:
    """Forget the code that was read: each search for garbage would visit its nodes."""
    _tree.cache_clear()


def _returns(node: ast.AST) -> bool:
    """Whether code returns a value."""
    return isinstance(node, ast.Return)


def _pads(node: ast.AST) -> bool:
    """Whether code pads, or makes what values are written into."""
    if not isinstance(node, ast.Call):
        return False
    name = ast.unparse(node.func).split(".")[-1]
    return _PADS.fullmatch(name) is not None


def _set_before(tensor: Any, frame: FrameType) -> list[Made]:
    """What sets the attribute that holds a tensor, of the object whose method reads it.

    Args:
        tensor: The tensor, from before the step.
        frame: Innermost frame to consider.
    """
    at: FrameType | None = frame
    while at is not None:
        if line_of(at):
            owner = _self_of(at)
            for name in _names_in(owner, tensor):
                by = f"attribute {name} of {type(owner).__name__}"
                wanted = functools.partial(_sets, name)
                lines = [
                    line
                    for kind in type(owner).__mro__
                    for method in vars(kind).values()
                    for line in _lines_in(method, wanted)
                ]
                return [Made(by, line) for line in lines[:_MOST_LINES]]
        at = at.f_back
    return []


def _self_of(frame: FrameType) -> Any:
    """The object whose method a frame runs; None for another function.

    Up to Python 3.12, a frame keeps the dictionary of its locals, and all that is in it alive.
    """
    code = frame.f_code
    is_method = code.co_varnames[:1] == ("self",) and code.co_flags & CO_OPTIMIZED
    if not is_method or not _READS_LOCALS.isdisjoint(code.co_names) or sys.gettrace() is not None:
        return None
    values = frame.f_locals
    owner = values.get("self")
    if sys.version_info < (3, 13):
        values.clear()
    return owner


def _names_in(owner: Any, tensor: Any) -> Iterator[str]:
    """Attributes of an object, or buffers of a module, that are a tensor."""
    own = getattr(owner, "__dict__", {})
    for values in (own, own.get("_buffers") or {}):
        yield from [name for name, value in values.items() if value is tensor]


def _sets(name: str, node: ast.AST) -> bool:
    """Whether code sets an attribute of `self`, or registers a buffer of this name."""
    match node:
        case ast.Assign(targets=targets):
            return any(_is_own(target, name) for target in targets)
        case ast.AnnAssign(target=target, value=ast.AST()):
            return _is_own(target, name)
        case ast.Call(
            func=ast.Attribute(attr="register_buffer"), args=[ast.Constant(value=first), *_]
        ):
            return bool(first == name)
    return False


def _is_own(target: ast.AST, name: str) -> bool:
    match target:
        case ast.Attribute(value=ast.Name(id="self"), attr=attribute):
            return attribute == name
        case ast.Tuple(elts=parts):
            return any(_is_own(part, name) for part in parts)
    return False


def _lines_in(function: Any, wanted: Wanted) -> list[str]:
    """The lines of a function of the program that have some code; none if they are many."""
    function = unwrap(function) if callable(function) else None
    if not isinstance(function, FunctionType):
        return []
    code = function.__code__
    file = user_file(code.co_filename)  # asked first: to read those of PyTorch takes 0.3 s
    node = _node_of(code) if file else None
    if node is None:
        return []
    numbers = [getattr(each, "lineno", 0) for each in ast.walk(node) if wanted(each)]
    found = [f"{file}({number}): {code.co_name}" for number in dict.fromkeys(numbers)]
    return found if len(found) <= _MOST_LINES else []


def _node_of(code: CodeType) -> ast.AST | None:
    """The definition of a function in its file."""
    for node in ast.walk(_tree(code.co_filename)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            first = min([node.lineno, *(each.lineno for each in node.decorator_list)])
            if (node.name, first) == (code.co_name, code.co_firstlineno):
                return node
    return None


@functools.cache
def _tree(path: str) -> ast.Module:
    try:
        return ast.parse("".join(linecache.getlines(path)))
    except (SyntaxError, ValueError):
        return ast.Module([], [])


def _length_lines(columns: int) -> list[Made]:
    """Lines of the program that give a length this number, by the name of what they set.

    Args:
        columns: Of a batch. Some programs pass all but the last one.
    """
    found: dict[int, list[Made]] = {}
    left = _MOST_BYTES
    for path, short in program_files():
        text = "".join(linecache.getlines(path))
        left -= len(text)
        if left < 0:
            break
        for node in ast.walk(_tree(path)):
            for name, value in _named_values(node):
                is_number = isinstance(value, ast.Constant) and value.value in {
                    columns,
                    columns + 1,
                }
                if is_number and _LENGTH.search(name):
                    line = f"{short}({value.lineno})"
                    found.setdefault(value.value, []).append(Made(f"{name} = {value.value}", line))
    lines = list(dict.fromkeys(found.get(columns) or found.get(columns + 1, [])))
    return lines if len(lines) <= _MOST_LINES else []


def _named_values(node: ast.AST) -> Iterator[tuple[str, Any]]:
    """What code sets, passes, or has as a default, by name."""
    match node:
        case ast.Assign(targets=targets, value=value):
            yield from ((ast.unparse(target).split(".")[-1], value) for target in targets)
        case ast.AnnAssign(target=target, value=value):
            yield ast.unparse(target).split(".")[-1], value
        case ast.keyword(arg=str(name), value=value):
            yield name, value
        case ast.arguments(
            posonlyargs=first,
            args=others,
            defaults=defaults,
            kwonlyargs=keyed,
            kw_defaults=keyed_defaults,
        ):
            names = [each.arg for each in (*first, *others)][-len(defaults) :] if defaults else []
            yield from zip(names, defaults, strict=True)
            yield from (
                (each.arg, value) for each, value in zip(keyed, keyed_defaults, strict=True)
            )
        case ast.Dict(keys=keys, values=values):
            pairs = zip(keys, values, strict=True)
            yield from ((str(k.value), v) for k, v in pairs if isinstance(k, ast.Constant))
        case ast.Call(args=[ast.Constant(value=str(option)), *_], keywords=keywords):
            yield from ((option, each.value) for each in keywords if each.arg == "default")
