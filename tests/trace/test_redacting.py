"""Traces without secrets."""

from __future__ import annotations

import pytest
from msgspec.structs import astuple, replace

from stepwhy.base.columns.strings import FEW, Strings, strings_from
from stepwhy.base.redaction import Redactor
from stepwhy.trace import Health, Meta, TraceBuilder
from stepwhy.trace.redacting import redacted

SECRETS = ["password=one", "password=two"]


def trace_of(texts):
    return replace(TraceBuilder().finish(Meta("test")), strings=strings_from(texts))


@pytest.mark.parametrize("count", [10, FEW + 10])
def test_strings_keep_their_places(count):
    texts = [f"mm {number}" for number in range(count)]
    texts[3], texts[-2] = SECRETS
    clean = redacted(trace_of(texts), Redactor(distinct=True)).strings
    assert (len(clean), clean[2], clean[-1]) == (count, "mm 2", f"mm {count - 1}")
    assert (clean[3], clean[-2]) == ("password=[redacted]", "password=[redacted-2]")
    assert isinstance(clean, Strings) == (count > FEW)


@pytest.mark.parametrize("count", [10, FEW + 10])
def test_strings_without_secrets_are_the_same_object(count):
    trace = trace_of(f"key {number}" for number in range(count))
    assert redacted(trace, Redactor()).strings is trace.strings


def test_the_owner_of_a_home_folder_is_hidden_elsewhere_too():
    trace = trace_of(["zyxother_step", "/home/zyxother/train.py(3): f", "other"])
    assert list(redacted(trace, Redactor()).strings) == ["[user]_step", "~/train.py(3): f", "other"]


def test_facts_and_counters_are_redacted():
    health = Health(5, 3)
    health.count("torn", "warning", "in /home/zyxother/x", count=2, dropped=True)
    meta = Meta("test", command="train --token=abcdef", notes=("at password=x",), limit="a@b.org")
    trace = replace(trace_of([]), meta=meta, health=health)
    clean = redacted(trace, Redactor())
    assert clean.meta == Meta(
        "test",
        command="train --token=[redacted]",
        notes=("at password=[redacted]",),
        limit="[email]",
    )
    assert [(c.count, c.help, c.dropped) for c in clean.health.counters] == [(2, "in ~/x", True)]
    assert (clean.health.events_read, clean.health.events_kept) == (5, 3)


def test_no_text_of_the_facts_is_left_out():
    texts = [
        name
        for name, value in zip(Meta.__struct_fields__, astuple(Meta("")), strict=True)
        if isinstance(value, str)
    ]
    secret = dict.fromkeys(texts, "Bearer abcdefgh123")
    clean = redacted(replace(trace_of([]), meta=Meta(**secret)), Redactor()).meta
    assert {name: getattr(clean, name) for name in texts} == dict.fromkeys(
        texts, "Bearer [redacted]"
    )


def test_a_redactor_of_nothing_returns_the_trace_itself():
    trace = trace_of(SECRETS)
    assert redacted(trace, Redactor.none()) is trace
