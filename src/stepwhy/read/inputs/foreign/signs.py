"""Signs in the head of a file by which `known` recognises its kind.

A sign is cheap, never raises, and never evaluates content: it only looks at the bytes of a pickle.

Source: `onnx.proto`; `saved_model.proto`, `graph.proto` and `tfprof_log.proto` of TensorFlow;
`kernel_stats.proto`, `tf_stats.proto` and `hlo.proto` of OpenXLA; `perfetto_trace.proto`;
`op_profile.proto` of OpenXLA; `profile.proto` of pprof; PEP 3154 and `Python/marshal.c` for
pickles and marshalled profiles.
"""

from __future__ import annotations

import re
from itertools import islice
from typing import TYPE_CHECKING

from stepwhy.base.patterns import regex
from stepwhy.read.inputs.wire import dig, fields

if TYPE_CHECKING:
    from collections.abc import Callable

    from stepwhy.read.inputs.source import Source

    Sign = Callable[[Source], bool]

_OP_TYPE = regex(rb"[A-Z_]\w{0,100}")
_OPCODE = regex(rb"[a-z][a-z-]{1,40}")
_IMPORT = regex(rb"^(?:import \w|from [\w.]+ import )", re.MULTILINE)
_OP_PROFILE = regex(
    rb'\s*\{\s*"(?:by(?:Category|Program|Provenance)(?:ExcludeIdle)?|deviceType)"\s*:'
)
_PICKLE = regex(rb"\x80[\x02-\x05]")
# The shortest table has a heading and a row.
_FEWEST_LINES = 2
# All packets of a message are similar, so a few are enough.
_PACKETS = 8
# Bytes of a text in UTF-16 without a byte order mark that are looked at.
_LETTERS = 16
_TEXT_CONTROLS = frozenset(range(32)) - frozenset(b"\t\n\r\f\x1b\x08")


def shows(pattern: bytes) -> Sign:
    """The sign that a pattern matches anywhere in the head of a file."""
    found = re.compile(pattern, re.MULTILINE)
    return lambda source: found.search(source.head) is not None


def begins(pattern: bytes) -> Sign:
    """The sign that a file starts with a pattern, after white space and a byte order mark."""
    found = re.compile(rb"(?:\xef\xbb\xbf)?\s*" + pattern)
    return lambda source: found.match(source.head) is not None


def any_of(*signs: Sign) -> Sign:
    """The sign that at least one of several signs is present."""
    return lambda source: any(sign(source) for sign in signs)


# --- Pickles ---


def is_pickle(source: Source) -> bool:
    """Whether the file is a pickle of protocol 2 or later."""
    return _PICKLE.match(source.head) is not None


def is_memory_snapshot(source: Source) -> bool:
    """Whether it is a pickle with the keys of a memory snapshot of PyTorch."""
    return is_pickle(source) and b"segments" in source.head and b"device_traces" in source.data


# --- Protocol buffers ---


def is_saved_model(source: Source) -> bool:
    """A SavedModel: graphs that follow its version."""
    return _has_op_types(source, 2, 2, 1, 2)


def is_graph(source: Source) -> bool:
    """A GraphDef or a MetaGraphDef: nodes with name and op type, none with a time."""
    return _has_op_types(source, 1, 2) or _has_op_types(source, 2, 1, 2)


def is_onnx(source: Source) -> bool:
    """An ONNX model: the version of the format, then a graph whose nodes have op types."""
    first = next(fields(source.head), None)
    is_versioned = first is not None and first.number == 1 and not first.is_message
    return is_versioned and _has_op_types(source, 7, 1, 4)


def is_op_log(source: Source) -> bool:
    """A log of tfprof: names of ops with lines of code, none with a time."""
    head = source.head
    return any(dig(head, 1, 4, 1)) and any(dig(head, 1, 1))


def is_hlo(source: Source) -> bool:
    """A module of XLA, alone or with its buffers: instructions and their opcodes."""
    for inside in ((), (1,)):
        opcodes = list(islice(dig(source.head, *inside, 3, 2, 2), _PACKETS))
        if opcodes and all(_OPCODE.fullmatch(code) for code in opcodes):
            return True
    return False


def is_kernel_stats(source: Source) -> bool:
    """A table of kernels that XProf derives: each with name, block and grid."""
    head = source.head
    return all(any(dig(head, 1, part)) for part in (1, 5, 6))


def is_op_stats(source: Source) -> bool:
    """A table of ops that XProf derives: each of the host or of a device."""
    sides = islice(dig(source.head, 4, 1, 2), 1)
    return any(side in {b"Host", b"Device"} for side in sides)


def is_op_profile(source: Source) -> bool:
    """A tree of operations that XProf derives, as JSON or protobuf."""
    roots = (b"by_category", b"by_program")
    return _OP_PROFILE.match(source.head) is not None or any(
        name in roots for name in islice(dig(source.head, 1, 1), 1)
    )


def is_perfetto(source: Source) -> bool:
    """A protobuf trace of Perfetto: packets of a sequence, some with tracks or clocks."""
    seen: set[int] = set()
    for packet in islice(dig(source.head, 1), _PACKETS):
        seen.update(field.number for field in fields(packet))
    return 10 in seen and bool(seen & {6, 11, 60})


def is_pprof(source: Source) -> bool:
    """A profile of pprof: strings, the first of them empty, with the unit of its samples."""
    first = next(fields(source.head), None)
    if first is None or not first.is_message:
        return False
    strings = list(islice(dig(source.data, 6), 20))
    units = {b"bytes", b"count", b"nanoseconds", b"objects", b"space"}
    return strings[:1] == [b""] and bool(units & set(strings))


def _has_op_types(source: Source, *path: int) -> bool:
    """Whether there are op types under a path of field numbers, and nothing else."""
    found = list(islice(dig(source.head, *path), _PACKETS))
    return bool(found) and all(_OP_TYPE.fullmatch(op) for op in found)


# --- Text ---


def is_utf16(source: Source) -> bool:
    """Whether the file is text in UTF-16: it has its mark, or a zero beside each letter."""
    head = source.head[:_LETTERS]
    if head[:2] in {b"\xff\xfe", b"\xfe\xff"}:
        return True
    halves = head[::2], head[1::2]
    return len(head) == _LETTERS and any(
        not any(zeros) and letters.isascii() and not _TEXT_CONTROLS & set(letters)
        for zeros, letters in (halves, halves[::-1])
    )


def is_cpuprofile(source: Source) -> bool:
    """A CPU profile of V8: nodes with call frames, in no list of events."""
    head = source.head
    return b'"callFrame"' in head and b'"nodes"' in head and b'"traceEvents"' not in head


def is_text(source: Source) -> bool:
    """Whether the file is text of several lines: UTF-8 without control characters."""
    head = source.head
    if head.strip().count(b"\n") < 1 or _TEXT_CONTROLS & set(head):
        return False
    try:
        # The head may end in the middle of a character.
        head[: head.rfind(b"\n")].decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def is_program(source: Source) -> bool:
    """Whether the file is a program in Python: text that imports something."""
    return is_prose(source) and _IMPORT.search(source.head) is not None


def is_table(source: Source) -> bool:
    """Whether the file is a table: each line has as many separators as the heading."""
    if not is_prose(source):
        return False
    # The last line may be cut off.
    lines = [line for line in source.head.split(b"\n")[:-1][:6] if line.strip()]
    return len(lines) >= _FEWEST_LINES and any(_in_columns(lines, mark) for mark in b",\t;")


def _in_columns(lines: list[bytes], mark: int) -> bool:
    """Whether all lines have the same number of separators, not counting those in quotes."""
    unquoted = (re.sub(rb'"[^"]*"', b"", line) for line in lines)
    counts = {line.count(bytes([mark])) for line in unquoted}
    return len(counts) == 1 and counts != {0}


def is_prose(source: Source) -> bool:
    """Whether the file is text other than JSON."""
    return is_text(source) and source.head.lstrip()[:1] not in {b"{", b"["}
