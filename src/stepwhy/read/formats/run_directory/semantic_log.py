"""Converts the notes of the semantic step, in which all operations were looked at, to rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import msgspec

from stepwhy.read.formats.run_directory.records import DAMAGED, LARGEST, Amount, is_later
from stepwhy.trace import NULL

if TYPE_CHECKING:
    from stepwhy.trace import TraceBuilder

_SCHEMA = "stepwhy.semantic/1"
_DAMAGED = "The notes of the semantic step are damaged and were left out."
_DAMAGED_INPUTS = "Some index inputs of the semantic step are damaged and were left out."
_DAMAGED_CONSTANTS = "The constants of the semantic step are damaged and were left out."
_DAMAGED_RESULTS = "The use of results in the semantic step is damaged and was left out."
_DAMAGED_PARTS = "The parts of results in the semantic step are damaged and were left out."
_DAMAGED_SHARES = "The shares of padding of the semantic step are damaged and were left out."
_DAMAGED_SUBNORMALS = "The subnormal numbers of the semantic step are damaged and were left out."
_DAMAGED_ZEROS = "The operands of zeros of the semantic step are damaged and were left out."
_DAMAGED_REPEATS = "The repeated results of the semantic step are damaged and were left out."
_NEWER = "The notes of the semantic step are of a later version of stepwhy and were left out."
_Share = Annotated[int, msgspec.Meta(ge=0, le=1000)]
_Use = Annotated[int, msgspec.Meta(ge=0, le=2)]
_Bit = Annotated[int, msgspec.Meta(ge=0, le=1)]
_Place = Annotated[int, msgspec.Meta(ge=-1, le=LARGEST)]
_MOST_OPS = 1 << 17
_MOST_INPUTS = 1 << 10


class _Input(msgspec.Struct):
    op: str
    rows: Amount
    columns: Amount
    padded: Amount
    line: str = ""
    at_start: bool = False


class _Choice(msgspec.Struct):
    line: str
    how: str
    of_table: bool = False


class _Subnormal(msgspec.Struct, array_like=True):
    op: Amount
    share: _Share
    time_ns: Amount
    usual_ns: Amount


class _Zeros(msgspec.Struct, array_like=True):
    op: Amount
    share: _Share
    pattern: str
    size: Amount
    shape: str
    time_ns: Amount
    without_ns: Amount
    constant: Annotated[int, msgspec.Meta(ge=-1, le=1)]


class _Semantics(msgspec.Struct):
    """semantic.json: operations by the index of their name, in order."""

    schema: str
    names: list[str]
    ops: list[Amount]
    padding: list[Any] = []
    lines: list[Any] = []
    constant: list[Any] = []
    unread: list[Any] = []
    unused: list[Any] = []
    choice: list[Any] = []
    choices: list[Any] = []
    repeated: list[Any] = []
    inputs: list[Any] = []
    subnormal: list[Any] | None = None
    zeros: list[Any] | None = None
    zero_makers: list[Any] = []


def add_semantics(data: bytes, builder: TraceBuilder) -> list[str]:
    """Add `semantic.json` to `step_ops` and `index_inputs`; what is damaged is left out.

    Args:
        data: The file; empty if there is none.
        builder: Takes the rows.

    Returns:
        What was left out, in sentences.
    """
    if not data:
        return []
    if is_later(data, _SCHEMA):
        return [_NEWER]
    try:
        notes = msgspec.json.decode(data, type=_Semantics)
    except DAMAGED:
        return [_DAMAGED]
    if notes.schema != _SCHEMA:
        return [_DAMAGED]
    if max(notes.ops, default=0) >= len(notes.names) or len(notes.ops) > _MOST_OPS:
        return [_DAMAGED]
    left_out = [*_add_ops(notes, builder), *_add_inputs(notes, builder)]
    return list(dict.fromkeys(left_out))


def _add_ops(notes: _Semantics, builder: TraceBuilder) -> list[str]:
    names = [builder.intern(name) for name in notes.names]
    left_out = []
    shares = [0] * len(notes.ops)
    if notes.padding:
        try:
            shares = msgspec.convert(notes.padding, type=list[_Share])
        except msgspec.ValidationError:
            shares = []
        if len(shares) != len(notes.ops):
            shares = [NULL] * len(notes.ops)
            left_out = [_DAMAGED_SHARES]
    columns = {
        _DAMAGED_CONSTANTS: (lines := _lines(notes)),
        _DAMAGED_RESULTS: (uses := _uses(notes)),
        _DAMAGED_PARTS: (parts := _parts(notes)),
        _DAMAGED_REPEATS: (repeated := _repeated(notes)),
    }
    left_out += [sentence for sentence, found in columns.items() if found is None]
    known = lines or [None] * len(notes.ops)
    slow = _subnormals(notes)
    if slow is None and notes.subnormal is not None:
        left_out.append(_DAMAGED_SUBNORMALS)
    zeros, makers = _zeros(notes)
    if zeros is None and notes.zeros is not None:
        left_out.append(_DAMAGED_ZEROS)
    usual = _Subnormal(0, 0, 0, 0) if slow is not None else _Subnormal(0, NULL, NULL, NULL)
    for place, (op, share, line, use, part, again) in enumerate(
        zip(
            notes.ops,
            shares,
            known,
            uses or [NULL] * len(notes.ops),
            parts or [(NULL, None)] * len(notes.ops),
            repeated or [NULL] * len(notes.ops),
            strict=True,
        )
    ):
        small = (slow or {}).get(place, usual)
        builder.add(
            "step_ops",
            name=names[op],
            padding=share,
            constant=int(line is not None) if lines else NULL,
            line=builder.intern(line) if line else NULL,
            unread=use,
            **_part_columns(builder, *part),
            repeated=again,
            subnormal=small.share,
            subnormal_ns=small.time_ns,
            usual_ns=small.usual_ns,
            makes_zeros=NULL if zeros is None else int(place in makers),
            **_zero_columns(builder, (zeros or {}).get(place), NULL if zeros is None else 0),
        )
    return left_out


def _parts(notes: _Semantics) -> list[tuple[int, _Choice | None]] | None:
    """For each operation the share of its result that nothing reads, and what chooses the rest.

    [] if not known, None if damaged.
    """
    try:
        shares = msgspec.convert(notes.unused, type=list[_Share])
        places = msgspec.convert(notes.choice, type=list[_Place])
        choices = msgspec.convert(notes.choices, type=list[_Choice])
    except msgspec.ValidationError:
        return None
    is_whole = len(shares) == len(places) and len(shares) in {0, len(notes.ops)}
    if not is_whole or max(places, default=-1) >= len(choices):
        return None
    chosen = [None if place < 0 else choices[place] for place in places]
    return list(zip(shares, chosen, strict=True))


def _part_columns(builder: TraceBuilder, unused: int, choice: _Choice | None) -> dict[str, int]:
    """What is known of the part of a result that is read."""
    if choice is None:
        return {"unused": unused}
    return {
        "unused": unused,
        "chosen_at": builder.intern(choice.line) if choice.line else NULL,
        "chosen_by": builder.intern(choice.how),
        "of_table": int(choice.of_table),
    }


def _subnormals(notes: _Semantics) -> dict[int, _Subnormal] | None:
    """The operations with subnormal numbers, by their place; None if not known, or damaged."""
    try:
        found = msgspec.convert(notes.subnormal, type=list[_Subnormal])
    except msgspec.ValidationError:
        return None
    is_whole = all(one.op < len(notes.ops) for one in found)
    return {one.op: one for one in found} if is_whole else None


def _zeros(notes: _Semantics) -> tuple[dict[int, _Zeros] | None, frozenset[int]]:
    """The products with an operand of zeros, by their place, and what makes these operands.

    None if they are not known, or damaged.
    """
    try:
        found = msgspec.convert(notes.zeros, type=list[_Zeros])
        makers = msgspec.convert(notes.zero_makers, type=frozenset[Amount])
    except msgspec.ValidationError:
        return None, frozenset()
    is_whole = all(one.op < len(notes.ops) for one in found)
    return ({one.op: one for one in found} if is_whole else None), makers


def _zero_columns(builder: TraceBuilder, found: _Zeros | None, share: int) -> dict[str, int]:
    """What is known of a product with an operand of zeros, or the share of other operations."""
    if found is None:
        return {"zeros": share}
    return {
        "zeros": found.share,
        "zero_pattern": builder.intern(found.pattern),
        "zero_size": found.size,
        "zero_shape": builder.intern(found.shape),
        "zero_constant": found.constant,
        "zero_ns": found.time_ns,
        "without_zeros_ns": found.without_ns,
    }


def _uses(notes: _Semantics) -> list[int] | None:
    """For each operation what becomes of its result; [] if not known, None if damaged."""
    try:
        uses = msgspec.convert(notes.unread, type=list[_Use])
    except msgspec.ValidationError:
        return None
    return uses if len(uses) in {0, len(notes.ops)} else None


def _repeated(notes: _Semantics) -> list[int] | None:
    """Whether each operation computes a result again; [] if not known, None if damaged."""
    try:
        found = msgspec.convert(notes.repeated, type=list[_Bit])
    except msgspec.ValidationError:
        return None
    return found if len(found) in {0, len(notes.ops)} else None


def _lines(notes: _Semantics) -> list[str | None] | None:
    """For each operation that computes a constant its line, else None; [] if not known.

    None if they are damaged.
    """
    try:
        lines = msgspec.convert(notes.lines, type=list[str])
        places = msgspec.convert(notes.constant, type=list[_Place])
    except msgspec.ValidationError:
        return None
    if max(places, default=-1) >= len(lines) or len(places) not in {0, len(notes.ops)}:
        return None
    return [None if place < 0 else lines[place] for place in places]


def _add_inputs(notes: _Semantics, builder: TraceBuilder) -> list[str]:
    left_out = []
    for one in notes.inputs[:_MOST_INPUTS]:
        try:
            found = msgspec.convert(one, type=_Input)
        except msgspec.ValidationError:
            left_out.append(_DAMAGED_INPUTS)
            continue
        if found.padded > found.columns:
            left_out.append(_DAMAGED_INPUTS)
            continue
        builder.add(
            "index_inputs",
            op=builder.intern(found.op),
            line=builder.intern(found.line) if found.line else NULL,
            rows=found.rows,
            columns=found.columns,
            padded=found.padded,
            at_start=int(found.at_start),
        )
    return left_out
