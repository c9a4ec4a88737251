"""The error for a file that no importer reads: what the file is, and what to do next."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepwhy.base.errors import (
    CorruptInputError,
    InputError,
    UnknownFormatError,
    UnsupportedFormatError,
)
from stepwhy.base.patterns import regex
from stepwhy.read.inputs.foreign.empty import empty_trace, is_empty_trace
from stepwhy.read.inputs.foreign.known import known
from stepwhy.read.inputs.source import HEAD_BYTES

if TYPE_CHECKING:
    from stepwhy.read.inputs.source import Source

_READABLE = (
    "Give a PyTorch Kineto trace, an XPlane profile, a TensorFlow timeline, a RunMetadata "
    "protobuf, a database of Nsight Systems or nvprof, a Chrome trace, or a run directory that "
    "'stepwhy run' wrote"
)
_EXPORT = (
    "Export it where Nsight Systems is installed, with 'nsys export --type sqlite FILE', and give "
    "the .sqlite file"
)

# Pattern at the start of the file, what the file is, and what to do.
_KNOWN = (
    # The start of .nsys-rep and the older .qdrep files, whose format is not public.
    (regex(rb"^NVIDIA Tegra Profiler"), "an Nsight Systems report", _EXPORT),
    (regex(rb"^PK\x03\x04"), "a zip archive", "Unpack it and give the trace inside"),
)
_PARQUET = b"PAR1"
_SQLITE = b"SQLite format 3\x00"
# Names of planes in a file without a readable event.
_XPLANE = regex(rb"/host:(metadata|CPU|python-tracer)|/device:(GPU|TPU):\d")
# Keys that traces begin with.
_TRACE = regex(rb'"(?:traceEvents|schemaVersion|deviceProperties|ph)"\s*:')
_BLANK = b"\xef\xbb\xbf \t\r\n"
_CHROME = regex(rb"\s*(?:\[|\{[\s\S]*\"traceEvents\")")
# Written by text tools in place of a byte that is not UTF-8.
_REPLACED = b"\xef\xbf\xbd"
_MANGLED_SHARE = 0.002


def refuse(source: Source) -> InputError:
    """The error for a file that no importer reads."""
    head = source.head
    if source.truncated and len(source.data) < 64:
        return CorruptInputError(
            f"{source.origin} is a compressed file that ends before any trace begins",
            "Copy or record the trace again",
        )
    # Whether a text tool rewrote a binary file: many replaced bytes among control bytes.
    replaced = head.count(_REPLACED)
    control = sum(head.count(bytes([b])) for b in (0x00, 0x01, 0x02, 0x08, 0x10, 0x12))
    looks_mangled = replaced > _MANGLED_SHARE * len(head) and control > 0
    if b"\x00" not in head[:1] and looks_mangled:
        return CorruptInputError(
            f"{source.origin} is a binary profile that was saved as text: its bytes are lost",
            "Copy the original file again, as binary",
        )
    if head.startswith(_PARQUET) and source.mapped[-len(_PARQUET) :] != _PARQUET:
        return CorruptInputError(
            f"{source.origin} is a Parquet file whose end is missing, or followed by other bytes",
            "Copy the original file again",
        )
    for pattern, what, todo in _KNOWN:
        if pattern.search(head):
            return UnsupportedFormatError(
                f"{source.origin} is {what}, which this version does not read", todo
            )
    # Whether the file begins as a Chrome trace does and lacks the bracket at its end.
    begin, end = source.head.lstrip(_BLANK)[:1], source.mapped[-HEAD_BYTES:].rstrip()[-1:]
    is_open = (begin, end) not in {(b"{", b"}"), (b"[", b"]")}
    is_cut_off = begin in {b"{", b"["} and is_open and _TRACE.search(source.head) is not None
    if is_cut_off:
        return CorruptInputError(
            f"{source.origin} is a trace that is cut off before anything that takes time",
            "Copy the file again, or let the profiler finish writing it",
        )
    if is_empty_trace(source):
        return empty_trace(source)
    named = known(source)
    if named is not None:
        return named
    if head.startswith(_SQLITE):
        return UnknownFormatError(
            f"{source.origin} is a SQLite database, but neither of Nsight Systems nor of nvprof",
            _READABLE,
        )
    if _XPLANE.search(head) and b"\x12" in head:
        return CorruptInputError(
            f"{source.origin} is a damaged XPlane profile",
            "Copy the original file again, as binary",
        )
    if _CHROME.match(head) and b'"ph"' in head:
        return UnknownFormatError(
            f"{source.origin} is a Chrome trace in which no range has both a beginning and an end",
            "Let the program end the recording before it exits, and give the file again",
        )
    return UnknownFormatError(f"{source.origin} is no trace that stepwhy knows", _READABLE)
