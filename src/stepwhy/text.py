r"""Text from files, names and other programs, made safe to print.

A name may hold any character: an escape sequence that retitles the terminal, clears the screen or
fills the clipboard, a bidirectional control that reverses the rest of the line, a line break that
forges a line of its own. Every such character becomes a visible escape of ASCII characters, as
Python writes it: ``\x1b``, ``\u202e``, ``\n``. Letters, combining marks and emoji of any script
stay as they are. Nothing is escaped twice: each function returns its own result unchanged.

Sources: ECMA-48 (C0 and C1 controls), UAX 9 (bidirectional controls), RFC 5892 appendix A (where
joiners belong).
"""

from __future__ import annotations

from stepwhy.patterns import regex

TYPE_CHECKING = False
if TYPE_CHECKING:
    import re

LONGEST_LINE = 2_000
"""Characters of a line that are shown, 20 lines of a usual terminal; its middle is left out."""
_SHOWN_FIRST, _SHOWN_LAST = 1_300, 600

# C0 and C1 controls but for line feed and tab; what has no width or no ink; bidirectional controls;
# line and paragraph separators; surrogates, which no encoding holds; noncharacters; tags.
_HIDDEN = (
    "\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b\u200e\u200f"
    "\u2028-\u202e\u2060-\u206f\u3164\ud800-\udfff\ufeff\uffa0\ufff0-\ufffb\ufffe\uffff"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
# Joiners connect the parts of an emoji, and letters from Arabic to Sinhala; elsewhere they hide.
_EMOJI = "\u2190-\u2bff\ufe0f\U0001f000-\U0001faff"
_JOINED = "\u0600-\u0dff"
_JOINERS = (
    f"(?<![{_EMOJI}{_JOINED}])[\u200c\u200d]|[\u200c\u200d](?![{_EMOJI}{_JOINED}])"
    f"|(?<=[{_EMOJI}])\u200c"
)
_HARMFUL = regex(f"[{_HIDDEN}]|{_JOINERS}")
_BREAKS = regex("[\n\t]")
# JSON escapes what is below U+0020 by itself.
_HARMFUL_IN_JSON = regex(f"[{_HIDDEN}\u200c\u200d]")

_SURROGATES = regex("[\ud800-\udfff]")

_SHORT = {"\n": r"\n", "\r": r"\r", "\t": r"\t"}
# How Python spells bytes of a file name that are not UTF-8.
_FIRST_BYTE, _LAST_BYTE = 0xDC80, 0xDCFF


def plain(text: str) -> str:
    """Text of several lines, in which only line breaks and tabs are controls."""
    return _HARMFUL.sub(_escape, text)


def visible(text: str) -> str:
    r"""Text on one line, exactly: breaks and tabs are escaped, too, and the spaces stay.

    For names, paths and messages, of which a very long one loses its middle.
    """
    return _shortened(_BREAKS.sub(_escape, plain(text)))


def one_line(text: str) -> str:
    """`visible` prose: without spaces around it, and with single spaces between its words."""
    return " ".join(visible(text.strip()).split())


def block(text: str) -> str:
    """`plain` text of which very long lines lose their middle."""
    escaped = plain(text)
    if len(escaped) <= LONGEST_LINE:
        return escaped
    return "\n".join(map(_shortened, escaped.split("\n")))


def escape_json(document: str) -> str:
    r"""A JSON document with harmful characters as ``\uXXXX``, which any parser reads as the same.

    Lone surrogates become U+FFFD: many parsers refuse them, however they are written.

    Args:
        document: Valid JSON, in which such characters are in strings alone.
    """
    if document.isascii() and "\x7f" not in document:
        return document
    return _HARMFUL_IN_JSON.sub(_escape_in_json, document)


def utf8(text: str) -> bytes:
    """Text as UTF-8 for a file; U+FFFD where a byte of a file name was not."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        return _SURROGATES.sub("\ufffd", text).encode()


def _escape(found: re.Match[str]) -> str:
    char = found[0]
    if char in _SHORT:
        return _SHORT[char]
    code = ord(char)
    if _FIRST_BYTE <= code <= _LAST_BYTE:
        return f"\\x{code - 0xDC00:02x}"
    if code <= 0xFF:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


def _escape_in_json(found: re.Match[str]) -> str:
    code = ord(found[0])
    if 0xD800 <= code <= 0xDFFF:
        return r"\ufffd"
    if code <= 0xFFFF:
        return f"\\u{code:04x}"
    high, low = divmod(code - 0x10000, 0x400)
    return f"\\u{0xD800 + high:04x}\\u{0xDC00 + low:04x}"


def _shortened(line: str) -> str:
    left_out = len(line) - _SHOWN_FIRST - _SHOWN_LAST
    if len(line) <= LONGEST_LINE:
        return line
    return f"{line[:_SHOWN_FIRST]} [{left_out:,} characters left out] {line[-_SHOWN_LAST:]}"


__all__ = ["LONGEST_LINE", "block", "escape_json", "one_line", "plain", "utf8", "visible"]
