"""Redaction of texts."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from stepwhy.base.redaction import Redactor
from stepwhy.base.redaction.prefilter import Prefilter
from tests.redaction.markers import ENVIRONMENT, HARMLESS, HOST, MARKERS

REDACTOR = Redactor.of_process(ENVIRONMENT).knowing(["zyxother"])
TEXTS = [text for text, _ in MARKERS.values()]


@pytest.fixture
def redactor(monkeypatch: pytest.MonkeyPatch) -> Redactor:
    monkeypatch.setattr("stepwhy.base.redaction.redactor.machine_name", lambda: HOST)
    return Redactor.of_process(ENVIRONMENT)


@pytest.mark.parametrize("around", ["{}", "load {} now", "a/{}/b", "({})", "x_{}", "'{}'", '"{}"'])
def test_a_secret_is_replaced(redactor: Redactor, around: str) -> None:
    for marker, (text, secret) in MARKERS.items():
        assert secret not in redactor.text(around.format(text)), marker


@pytest.mark.parametrize(
    "text",
    [
        "train.py --password hunter7hunter",
        "train.py --api-key 'hunter7hunter'",
        "x_MYTOKEN=hunter7hunter",
        "AWS_CREDS=hunter7hunter",
    ],
)
def test_secrets_of_a_command_line_in_a_name_are_redacted(redactor: Redactor, text: str) -> None:
    assert redactor.text(text) == text.replace("hunter7hunter", "[redacted]")


@pytest.mark.parametrize("text", HARMLESS)
def test_harmless_text_is_unchanged(redactor: Redactor, text: str) -> None:
    assert redactor.text(text) == text


@pytest.mark.parametrize("marker", MARKERS)
def test_redacted_text_is_unchanged(marker: str) -> None:
    for distinct in (False, True):
        redactor = Redactor.of_process(ENVIRONMENT, distinct=distinct)
        once = redactor.text(MARKERS[marker][0])
        assert redactor.text(once) == once


def test_text_around_a_secret_is_unchanged(redactor: Redactor) -> None:
    assert redactor.text("load AWS_SECRET_ACCESS_KEY=abc, then train") == (
        "load AWS_SECRET_ACCESS_KEY=[redacted], then train"
    )
    assert redactor.text("https://me:pw@host/x?sig=abc&n=1") == (
        "https://[redacted]@host/x?sig=[redacted]&n=1"
    )
    assert redactor.text("/home/me1234/a/b.py(3): f") == "~/a/b.py(3): f"
    assert redactor.text("/users/me1234/a/b.py(3): f") == "~/a/b.py(3): f"
    assert redactor.text("in /nfs/home1/users/me1234") == "in ~"
    assert redactor.text('{"password": "a \\" b", "lr": 1}') == (
        '{"password": "[redacted]", "lr": 1}'
    )


def test_distinct_numbers_different_secrets() -> None:
    redactor = Redactor(distinct=True)
    names = [
        "password=one",
        "password=two",
        "password=one",
        "/home/ann7/x",
        "/home/bob7/x",
    ]
    assert redactor.texts(names) == [
        "password=[redacted]",
        "password=[redacted-2]",
        "password=[redacted]",
        "~/x",
        "~2/x",
    ]


def test_common_words_are_not_users() -> None:
    redactor = Redactor(users=["adam", "root", "runner", "al", "7"])
    assert redactor.text("adam/update of root, al and 7") == "adam/update of root, al and 7"


def test_user_is_redacted_as_a_whole_word() -> None:
    redactor = Redactor(users=["someone"])
    assert redactor.text("awesomeone someone's x_someone/y") == "awesomeone [user]'s x_[user]/y"


def test_redactor_without_rules_changes_nothing() -> None:
    assert Redactor.none().texts(TEXTS) == TEXTS


PARTS = st.lists(st.sampled_from([*TEXTS, *HARMLESS, "é", "hf_", "@", "0.0"]) | st.text(max_size=9))


@settings(deadline=None)
@given(PARTS)
@example(["x" * (1 << 15), "hf_" + "aB1" * 9])
@example(["y" * ((1 << 15) - 2), "hf_" + "aB1" * 9])
def test_prefilter_finds_the_same_hints_as_a_search(parts: list[str]) -> None:
    text = "".join(parts)
    data = text.encode("utf-8", "surrogatepass")
    found = Prefilter(REDACTOR.rules).hints_in(data)
    lowered = data.lower()
    hints = {hint for rule in REDACTOR.rules for hint in rule.hints}
    assert sorted(found) == sorted(hint for hint in hints if hint.encode() in lowered)


@settings(deadline=None)
@given(st.text() | st.sampled_from(TEXTS))
def test_a_text_without_hints_has_no_spans(text: str) -> None:
    spans = REDACTOR.spans(text)
    if not any(rule.may_match(text.lower()) for rule in REDACTOR.rules):
        assert spans == []
    assert all(0 <= start < end <= len(text) for start, end, _ in spans)
    assert all(a[1] <= b[0] for a, b in pairwise(spans))
