"""Mask secrets and private names in texts and profiler files before they are stored.

A mask has as many bytes as the text it hides. Profiler files are therefore overwritten in place and
keep their structure, whatever their format. A name has the same mask in logs and in files, so that
`explain` can join the two by name.
"""

from __future__ import annotations

import functools
import os
import time

from stepwhy.base.redaction import REDACTED, Redactor
from stepwhy.base.redaction.assignments import is_secret_variable
from stepwhy.base.regular_files import open_regular
from stepwhy.record.core.protobuf_fields import LeafFields

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator
    from pathlib import Path
    from typing import Any

    Span = tuple[int, int, str]
    Part = tuple[int, int, int]

# One character per byte, so that positions in the decoded text are positions in the file.
_BYTES = "latin-1"
_CHUNK_BYTES = 1 << 20
# How far to read beyond the end of a chunk; only private keys are longer.
_OVERLAP_BYTES = 1 << 14
_MOST_TEXTS = 4096
_FRESH_S = 1.0
# Highest one-byte tag of a text field (field numbers below 16).
_LAST_TAG = 0x7A
# Fields in a row that cannot be a coincidence.
_FIELDS = 3
# Tags that look like part of the text before them.
_PRINTED_TAGS = frozenset('"*2')
# Variables that identify the user.
_IDENTITY = frozenset({"HOME", "USER", "LOGNAME", "USERNAME"})

_WORDS = {
    "secret": "redacted",
    "user": "user",
    "host": "host",
    "email": "email",
    "address": "address",
}


_is_secret = functools.lru_cache(maxsize=256)(is_secret_variable)


class Masker:
    """Masks texts and binary data of this process.

    Args:
        environ: Variables that hold user names, home folders and secrets.
    """

    def __init__(self, environ: dict[str, str]) -> None:
        self._redactor = Redactor.of_process(
            {name: _as_characters(value) for name, value in environ.items()}
        )
        self._texts: dict[str, str] = {}

    def text(self, text: str) -> str:
        """A text with secrets and private names masked; cached."""
        known = self._texts.get(text)
        if known is None:
            if len(self._texts) >= _MOST_TEXTS:
                self._texts.clear()
            known = self._texts[text] = self._masked(text)
        return known

    def _masked(self, text: str) -> str:
        characters = _as_characters(text)
        parts, position = [], 0
        for start, end, kind in self._redactor.spans(characters):
            parts += [characters[position:start], self.mask(kind, characters[start:end])]
            position = end
        if not parts:
            return text
        masked = "".join((*parts, characters[position:]))
        return masked.encode(_BYTES).decode("utf-8", "surrogatepass")

    def mask(self, kind: str, secret: str) -> str:
        """The mask of a secret: of equal length, and different for different secrets."""
        length = len(secret)
        if kind == "home":  # so that the rest of the path stays readable
            return "~" + "/" * (length - 1)
        number = self._redactor.number(kind, secret)
        begin = f"[{_WORDS[kind]}" + (f"-{number}" if number > 1 else "")
        return f"{begin:*<{length - 1}}]" if length > len(begin) else "*" * length

    def places(
        self,
        data: bytes,
        hints: Collection[str] | None,
        part: Part,
        fields: LeafFields | None,
    ) -> Iterator[tuple[int, bytes]]:
        """Positions of data to overwrite, and the bytes to write there.

        Args:
            data: Part of a file.
            hints: Redaction hints that occur in it; None if unknown.
            part: Offset of the data in the file, and the range of the data in which matches must
                start.
            fields: Fields of the file if it is a protobuf message; otherwise it is JSON.
        """
        file_offset, begin, end = part
        characters = data.decode(_BYTES)
        done = 0
        for match in self._redactor.spans(characters, hints):
            if not begin <= match[0] < end:
                continue
            spans: Iterable[Span] = (_within_json(characters, match),)
            if fields is not None:
                spans = self._within_fields(characters, match, file_offset, fields)
            for start, last, kind in spans:
                first = max(start, done)
                if last > first:
                    yield first, self.mask(kind, characters[first:last]).encode(_BYTES)
                    done = last

    def _within_fields(
        self, text: str, match: Span, file_offset: int, fields: LeafFields
    ) -> list[Span]:
        """The secret parts of the fields that a match overlaps.

        A match extends into the next field if the tag and the length of that field are printable.
        So if a match extends beyond a field, each field is searched separately.

        Args:
            text: Part of the file.
            match: A match in it.
            file_offset: Offset of the text in the file.
            fields: Fields of the file.
        """
        start, end, kind = match
        try:
            leaves = fields.overlapping(file_offset + start, file_offset + end)
        except ValueError:
            return [(*_guessed_bounds(text, start, end), kind)]
        leaves = [(first - file_offset, last - file_offset) for first, last in leaves]
        if len(leaves) == 1 and leaves[0][0] <= start and end <= leaves[0][1]:
            return [match]
        found = []
        for leaf_start, leaf_end in leaves:
            first = max(leaf_start, start - _OVERLAP_BYTES, 0)
            last = min(leaf_end, end + _OVERLAP_BYTES)
            spans = self._redactor.spans(text[first:last])
            found += [(first + begin, first + stop, kind) for begin, stop, kind in spans]
        return [span for span in found if span[0] < end and span[1] > start]

    def finder(self) -> Callable[[bytes], Collection[str] | None]:
        """A fast search for redaction hints; without NumPy the redactor searches itself."""
        try:
            from stepwhy.base.redaction.prefilter import Prefilter
        except ImportError:
            return lambda _: None
        prefilter = Prefilter(self._redactor.rules)
        return lambda data: frozenset(prefilter.hints_in(data))


def _as_characters(text: str) -> str:
    return text.encode("utf-8", "surrogatepass").decode(_BYTES)


def _within_json(text: str, match: Span) -> Span:
    """A match without cutting escape sequences in half."""
    start, end, kind = match
    before = text[max(start - 2, 0) : start]
    after = text[start:end]
    ends_in_escape = (len(after) - len(after.rstrip("\\"))) % 2
    return start + (before.endswith("\\") and before != "\\\\"), end - ends_in_escape, kind


def _guessed_bounds(text: str, start: int, end: int) -> tuple[int, int]:
    """Start and end of a secret within its text field, in a file that cannot be parsed.

    A text is followed by the tag and length of the next field, which may look like letters.
    """
    begin = start
    while begin > 0 and start - begin < _OVERLAP_BYTES and text[begin - 1] >= " ":
        begin -= 1
    # The control character before it is the field's length, an earlier field's, or a tag.
    tags = range(max(begin - 3, 0), begin + 2)
    ends = {last for tag in tags if start < (last := _field_around(text, tag, start)) < end}
    # A wrong guess would reveal the rest of the secret, so require that more fields follow.
    return start, max((last for last in ends if _fields_follow(text, last)), default=end)


def _field_around(text: str, tag: int, place: int) -> int:
    """The end of the text field around a position; 0 if `tag` starts no sequence of fields.

    Source: "Encoding" of the Protocol Buffers documentation, length-delimited records.
    """
    last = tag
    while last <= place and (begin := _text_of_field(text, last)):
        last = begin[1]
        if begin[0] <= place < last:
            return last
    return 0


def _text_of_field(text: str, tag: int) -> tuple[int, int] | None:
    """Start and end of the text of the field whose tag is at a position; None if there is none."""
    if tag + 2 > len(text) or ord(text[tag]) & 7 != 2 or ord(text[tag]) > _LAST_TAG:
        return None
    length, begin = ord(text[tag + 1]), tag + 2
    if length >= 0x80 and begin < len(text):
        length, begin = (length & 0x7F) + (ord(text[begin]) << 7), begin + 1
    return begin, begin + length


def _fields_follow(text: str, place: int) -> bool:
    """Whether a sequence of fields starts at a position; it may run beyond the data."""
    if text[place : place + 1] not in _PRINTED_TAGS:
        return False
    for _ in range(_FIELDS):
        field = _text_of_field(text, place)
        if field is None or field[1] > len(text):
            return place >= len(text)
        place = field[1]
    return True


class _Current:
    """The masker of this process, as of the last check of the environment."""

    environ: dict[str, str] | None = None
    masker: Masker
    checked_s = 0.0


def masker(*, fresh: bool = True) -> Masker:
    """The masker of this process; a new one if its secrets have changed.

    Args:
        fresh: Check the environment now; otherwise at most once per second.
    """
    now_s = time.monotonic()
    if _Current.environ is None or fresh or now_s - _Current.checked_s > _FRESH_S:
        _Current.checked_s = now_s
        environ = {n: v for n, v in os.environ.items() if n in _IDENTITY or _is_secret(n)}
        if environ != _Current.environ:
            _Current.environ, _Current.masker = environ, Masker(environ)
    return _Current.masker


def masked(value: Any) -> Any:
    """A JSON-like value with all its texts masked, including keys; never raises."""
    return _masked(value, _clean)


def _clean(text: str) -> str:
    """Mask a text; if that fails, hide all of it."""
    try:
        return masker(fresh=False).text(text)
    except Exception:
        return REDACTED


def _masked(value: Any, clean: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, dict):
        return {_masked(key, clean): _masked(item, clean) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_masked(item, clean) for item in value]
    return value


def mask_file(path: Path) -> None:
    """Mask secrets and private names in a file, in place.

    The file is read and written in chunks. Mapping it into memory would end the process when the
    disk becomes full.

    Args:
        path: The file.

    Raises:
        OSError: If it cannot be read or written, or is not a regular file.
    """
    mask = masker()
    find = mask.finder()
    handle = open_regular(path, os.O_RDWR | os.O_NOFOLLOW)
    try:
        fields = LeafFields(handle) if path.suffix == ".pb" else None
        offset, before = 0, b""
        while data := os.pread(handle, _CHUNK_BYTES + _OVERLAP_BYTES, offset):
            # The text before a chunk can affect matches that start in it.
            known, begin = before + data, len(before)
            part = (offset - begin, begin, begin + _CHUNK_BYTES)
            for start, masked_bytes in mask.places(known, find(known), part, fields):
                os.pwrite(handle, masked_bytes, offset - begin + start)
            before = data[max(_CHUNK_BYTES - _OVERLAP_BYTES, 0) : _CHUNK_BYTES]
            offset += _CHUNK_BYTES
    finally:
        os.close(handle)
