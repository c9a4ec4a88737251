r"""Text from files, names and other programs, made safe to print.

A name may hold any character: an escape sequence that retitles the terminal, clears the screen or
fills the clipboard, a bidirectional control that reverses the rest of the line, a line break that
forges another line. Every such character becomes a visible escape of ASCII characters, as
Python writes it: ``\x1b``, ``\u202e``, ``\n``. Letters, combining marks and emoji of any script
stay as they are. Nothing is escaped twice: each function returns its own result unchanged.

Sources: ECMA-48 (C0 and C1 controls), UAX 9 (bidirectional controls), RFC 5892 appendix A (where
joiners belong).
"""

from __future__ import annotations

from stepwhy.base.patterns import regex

TYPE_CHECKING = False
if TYPE_CHECKING:
    import re
    from collections.abc import Callable

LONGEST_LINE = 2_000
"""Most characters of a line that are shown, about 20 lines of a terminal."""
_SHOWN_FIRST, _SHOWN_LAST = 0.65, 0.3  # shares; the rest is for the note between them
_LONGEST_ESCAPE = 10

# C0 and C1 controls except line feed and tab; invisible characters; bidirectional controls;
# line and paragraph separators; surrogates, which no encoding holds; noncharacters; tags.
_HIDDEN = (
    "\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b\u200e\u200f"
    "\u2028-\u202e\u2060-\u206f\u3164\ud800-\udfff\ufeff\uffa0\ufff0-\ufffb\ufffe\uffff"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
_JOINERS = "\u200c\u200d"
_HARMFUL = regex(f"[{_HIDDEN}{_JOINERS}]")
# Joiners connect the parts of an emoji, and letters from Arabic to Sinhala; elsewhere they hide.
_JOINED_EMOJI = regex(
    "[\u2190-\u2bff\ufe0f\U0001f000-\U0001faff]\u200d[\u2190-\u2bff\U0001f000-\U0001faff]"
)
_LETTERS = "\u0620-\u0dff"
_JOINED_LETTERS = regex(f"[{_LETTERS}][{_JOINERS}][{_LETTERS}]")
_BREAKS = regex("[\n\t]")
_DIGITS = regex("([0-9]+)")

_SURROGATES = regex("[\ud800-\udfff]")

_SHORT = {"\n": r"\n", "\r": r"\r", "\t": r"\t"}
# Surrogates by which Python represents bytes of a file name that are not UTF-8.
_FIRST_BYTE, _LAST_BYTE = 0xDC80, 0xDCFF


def plain(text: str) -> str:
    """Escape all harmful characters; line breaks and tabs stay."""
    return _HARMFUL.sub(_escape, text)


def visible(text: str, longest: int = LONGEST_LINE) -> str:
    r"""Escape all harmful characters, line breaks and tabs included, for one line of text.

    Args:
        text: A name, path or message.
        longest: Most characters to show; the middle of a longer text is left out.
    """
    return _shortened(text, lambda part: _BREAKS.sub(_escape, plain(part)), longest)


def one_line(text: str) -> str:
    """Like `visible`, with spaces stripped and repeated spaces collapsed."""
    return " ".join(visible(text.strip()).split())


def block(text: str) -> str:
    """Like `plain`, but the middle of very long lines is left out."""
    if len(text) * _LONGEST_ESCAPE <= LONGEST_LINE:
        return plain(text)
    return "\n".join(_shortened(line, plain) for line in text.split("\n"))


def escape_json(document: str) -> str:
    r"""Write harmful characters in a JSON document as ``\uXXXX``, without changing its value.

    Lone surrogates become U+FFFD, because many parsers reject them even if escaped.

    Args:
        document: Valid JSON, so such characters are only in strings.
    """
    if document.isascii() and "\x7f" not in document:
        return document
    return _HARMFUL.sub(_escape_in_json, document)


def escape_json_bytes(document: bytes) -> bytes:
    """Like `escape_json`, for a UTF-8 document or a part of one."""
    if document.isascii() and b"\x7f" not in document:
        return document
    return escape_json(document.decode()).encode()


def utf8(text: str) -> bytes:
    """Encode text as UTF-8; surrogates, as in undecodable file names, become U+FFFD."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        return _SURROGATES.sub("\ufffd", text).encode()


def natural_key(text: str) -> tuple[tuple[int, str], ...]:
    """Key that sorts numbers in texts by their value: 'rank2' before 'rank10'."""
    parts = _DIGITS.split(text)  # every second one is a number
    return tuple(_number_key(part) if place % 2 else (0, part) for place, part in enumerate(parts))


def _number_key(digits: str) -> tuple[int, str]:
    """Key of a number; the longer one is larger, and any length can be compared."""
    significant = digits.lstrip("0")
    return (len(significant), significant)


def _escape(found: re.Match[str]) -> str:
    char = found[0]
    if char in _SHORT:
        return _SHORT[char]
    if char in _JOINERS and _joins(found.string, found.start()):
        return char
    code = ord(char)
    if _FIRST_BYTE <= code <= _LAST_BYTE:
        return f"\\x{code - 0xDC00:02x}"
    if code <= 0xFF:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


def _joins(text: str, place: int) -> bool:
    """Whether the joiner at a position belongs to an emoji or to the spelling of a word."""
    if not place:
        return False
    pattern = _JOINED_EMOJI.match(text, place - 1) or _JOINED_LETTERS.match(text, place - 1)
    return pattern is not None


def _escape_in_json(found: re.Match[str]) -> str:
    code = ord(found[0])
    if 0xD800 <= code <= 0xDFFF:
        return r"\ufffd"
    if code <= 0xFFFF:
        return f"\\u{code:04x}"
    high, low = divmod(code - 0x10000, 0x400)
    return f"\\u{0xD800 + high:04x}\\u{0xDC00 + low:04x}"


def _shortened(line: str, escape: Callable[[str], str], longest: int = LONGEST_LINE) -> str:
    """Escape a line, and leave out its middle if it is very long."""
    begin, end = int(_SHOWN_FIRST * longest), int(_SHOWN_LAST * longest)
    if len(line) > longest:  # what is left out is not escaped: it may be long
        first, last = escape(line[:begin]), escape(line[-end:])
    else:
        line = first = last = escape(line)
        if len(line) <= longest:
            return line
    left_out = len(line) - begin - end
    return f"{first[:begin]} [{left_out:,} characters left out] {last[-end:]}"
