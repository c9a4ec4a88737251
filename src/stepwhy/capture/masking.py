"""Mask secrets and private names in what the observer keeps: texts, and files of profilers.

A mask has as many bytes as the text it hides. Profiler files are therefore overwritten in place and
keep their structure, whatever their format. A name has the same mask in logs and in files, so that
`explain` can join the two by name.
"""

from __future__ import annotations

import functools
import os
import time

from stepwhy.redaction import REDACTED, Redactor
from stepwhy.redaction.assignments import is_secret_variable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from pathlib import Path
    from typing import Any

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


@functools.lru_cache(maxsize=256)
def _is_secret(name: str) -> bool:
    return is_secret_variable(name)


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
        self, data: bytes, hints: Collection[str] | None, *, is_message: bool
    ) -> list[tuple[int, bytes]]:
        """Find secrets in data: position and mask of each.

        Args:
            data: Part of a file.
            hints: Redaction hints that occur in it; None if unknown.
            is_message: Whether the file is a protobuf message; otherwise it is JSON.
        """
        characters = data.decode(_BYTES)
        bounds = _bounds_in_message if is_message else _bounds_in_json
        found = []
        for start, end, kind in self._redactor.spans(characters, hints):
            first, last = bounds(characters, start, end)
            if last > first:
                found.append((first, self.mask(kind, characters[first:last]).encode(_BYTES)))
        return found

    def finder(self) -> Callable[[bytes], Collection[str] | None]:
        """A fast search for redaction hints; without NumPy the redactor searches itself."""
        try:
            from stepwhy.redaction.prefilter import Prefilter
        except ImportError:
            return lambda _: None
        prefilter = Prefilter(self._redactor.rules)
        return lambda data: frozenset(prefilter.hints_in(data))


def _as_characters(text: str) -> str:
    return text.encode("utf-8", "surrogatepass").decode(_BYTES)


def _bounds_in_json(text: str, start: int, end: int) -> tuple[int, int]:
    """Start and end of a secret, without cutting escape sequences in half."""
    before = text[max(start - 2, 0) : start]
    after = text[start:end]
    ends_in_escape = (len(after) - len(after.rstrip("\\"))) % 2
    return start + (before.endswith("\\") and before != "\\\\"), end - ends_in_escape


def _bounds_in_message(text: str, start: int, end: int) -> tuple[int, int]:
    """Start and end of a secret, limited to the text field that contains it.

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
        OSError: It cannot be read or written.
    """
    mask = masker()
    find = mask.finder()
    is_message = path.suffix == ".pb"
    handle = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        offset, before = 0, b""
        while data := os.pread(handle, _CHUNK_BYTES + _OVERLAP_BYTES, offset):
            # The text before a chunk decides about secrets that begin in it.
            known = before + data
            places = mask.places(known, find(known), is_message=is_message)
            for start, masked_bytes in places:
                if len(before) <= start < len(before) + _CHUNK_BYTES:
                    os.pwrite(handle, masked_bytes, offset + start - len(before))
            before = data[max(_CHUNK_BYTES - _OVERLAP_BYTES, 0) : _CHUNK_BYTES]
            offset += _CHUNK_BYTES
    finally:
        os.close(handle)


__all__ = ["Masker", "mask_file", "masked", "masker"]
