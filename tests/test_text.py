"""Text that is safe to print."""

from __future__ import annotations

import json
import unicodedata

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepwhy.base import text
from stepwhy.base.errors import InputError

DIRECTIONS = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}
# Characters that do something, and any others; lone surrogates stand for bytes of file names.
TEXTS = st.text(
    st.one_of(
        st.characters(categories=["Cc", "Cf", "Cs", "Zl", "Zp"]),
        st.characters(categories=["L", "M", "N", "P", "S", "Z"]),
        st.sampled_from("\x1b\x07\x9b\n\r\t\u202e\u200d\ufe0f👩[]/\\"),
    )
)


@pytest.mark.parametrize(
    ("hostile", "shown"),
    [
        ("\x1b]0;title\x07", r"\x1b]0;title\x07"),
        ("\x1b]8;;http://x\x1b\\", "\\x1b]8;;http://x\\x1b\\"),
        ("\x9b31m\x85", r"\x9b31m\x85"),
        ("a\nb\r\nc\td", r"a\nb\r\nc\td"),
        ("photo\u202egpj.exe", r"photo\u202egpj.exe"),
        ("\u2066a\u2069\u200e\u200f\u061c", r"\u2066a\u2069\u200e\u200f\u061c"),
        ("a\u2028b\u2029c", r"a\u2028b\u2029c"),
        ("pass\u200bword\ufeff\xad\u2060", r"pass\u200bword\ufeff\xad\u2060"),
        ("caf\udce9 \ud800", r"caf\xe9 \ud800"),
        ("a\U000e0041b", r"a\U000e0041b"),
        ("x\u200dy\u200c", r"x\u200dy\u200c"),
        ("a  b ", "a  b "),
    ],
)
def test_what_would_steer_a_terminal_is_shown_as_an_escape(hostile, shown):
    assert text.visible(hostile) == shown


@pytest.mark.parametrize(
    "name",
    [
        "Übergrößenträger/naïve.json",
        "Gro\u0308\u00dfe",  # with a combining mark
        "训练步骤/データ/학습.json",
        "תמונה.json",
        "صورة/تدريب.json",
        "می\u200cخواهم",  # noqa: RUF001 - Persian, with the joiner that its spelling needs
        "क्\u200dष",  # Devanagari, with the one that shapes a letter
        "👩\u200d💻 👨\u200d👩\u200d👧 🏳\ufe0f\u200d🌈 ❤\ufe0f\u200d🔥 👍🏽",
        "[red]train[/red] :smile: **bold** <b> %s {0} \\x1b",
        "C:\\new\\train.json",
    ],
)
def test_legitimate_text_stays(name):
    for function in (text.visible, text.one_line, text.plain, text.block):
        assert function(name) == name


@given(TEXTS)
def test_only_what_can_be_seen_is_left(any_text):
    shown = text.visible(any_text)
    shown.encode()
    assert {c for c in shown if unicodedata.category(c) in ("Cc", "Cs", "Zl", "Zp")} == set()
    assert {c for c in shown if unicodedata.bidirectional(c) in DIRECTIONS} == set()


@given(TEXTS)
def test_nothing_is_escaped_twice(any_text):
    for function in (text.visible, text.one_line, text.plain, text.block):
        assert function(function(any_text)) == function(any_text)


@given(TEXTS)
def test_lines_of_a_block_stay_lines(any_text):
    assert text.block(any_text).count("\n") == any_text.count("\n")
    assert text.plain(any_text).count("\t") == any_text.count("\t")


def test_prose_has_single_spaces_and_visible_breaks():
    assert text.one_line("  a\n\n b   c ") == r"a\n\n b c"


def test_a_very_long_line_loses_its_middle():
    shown = text.visible("a" * 5_000 + "b" * 5_000)
    assert len(shown) <= text.LONGEST_LINE
    assert shown.startswith("a" * 1_000)
    assert shown.endswith("b" * 500)
    assert " [8,100 characters left out] " in shown
    block = text.block("short\n" + "\x1b" * 10_000)
    assert block.startswith("short\n")
    assert len(block) < 2_100


def test_a_path_of_a_usual_length_is_shown_in_full():
    path = "/".join(["folder"] * 250)
    assert text.visible(path) == path


def test_errors_are_safe_to_print():
    error = InputError("a\x1b[2J\n is bad", "Look at \u202e")
    assert str(error) == r"a\x1b[2J\n is bad. Look at \u202e."
    assert (error.what, error.todo) == (r"a\x1b[2J\n is bad", r"Look at \u202e")


# --- JSON ---

VALUES = st.text(st.characters(exclude_categories=["Cs"]))


@given(st.dictionaries(VALUES, VALUES))
def test_json_is_the_same_value_and_safe_to_print(value):
    for document in (json.dumps(value, ensure_ascii=False), msgspec.json.encode(value).decode()):
        escaped = text.escape_json(document)
        assert json.loads(escaped) == value
        assert msgspec.json.decode(escaped) == value
        assert text.plain(escaped) == escaped


def test_json_escapes_as_its_grammar_says():
    assert text.escape_json('"ü\x7f\x9b\u202e\u2028\U000e0041"') == (
        r'"ü\u007f\u009b\u202e\u2028\udb40\udc41"'
    )


def test_bytes_that_are_not_utf8_become_the_replacement_character():
    """Strict parsers refuse lone surrogates also where they are written as escapes."""
    assert text.escape_json('"caf\udce9"') == r'"caf\ufffd"'
    with pytest.raises(msgspec.DecodeError):
        msgspec.json.decode(r'"caf\udce9"')


# --- Order ---


def test_numbers_in_texts_are_sorted_by_their_value():
    names = ["rank10", "rank2", "rank1", "rank", "host2-rank01", "host10-rank00"]
    ordered = ["host2-rank01", "host10-rank00", "rank", "rank1", "rank2", "rank10"]
    assert sorted(names, key=text.natural_key) == ordered


@given(st.lists(st.text(), min_size=2))
def test_any_texts_can_be_sorted(texts):
    assert sorted(sorted(texts, key=text.natural_key)) == sorted(texts)


def test_a_number_of_any_length_can_be_compared():
    assert text.natural_key("a" + "9" * 5000) < text.natural_key("a1" + "0" * 5000)
