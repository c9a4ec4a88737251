"""Numbering the kinds of runs."""

from __future__ import annotations

from dataclasses import dataclass

from stepwhy.capture.signatures import Signatures


@dataclass(frozen=True)
class tensor:  # noqa: N801  stands for a framework's own
    name: str


def test_equal_fetches_and_feeds_have_one_number() -> None:
    signatures = Signatures()
    train, loss, x = tensor("train"), tensor("loss:0"), tensor("x:0")
    assert signatures.number([train, loss], {x: 1}) == 0
    assert signatures.number((train, loss), {tensor("x:0"): 2}) == 0
    assert signatures.number([train, loss], None) == 1
    assert signatures.number({"caller": loss}, None) == 2
    assert signatures.number("loss:0", None) == 3


def test_something_without_a_name_is_numbered_by_its_type() -> None:
    signatures = Signatures()
    assert signatures.number(object(), None) == signatures.number(object(), None)


def test_a_growing_graph_does_not_grow_the_numbers_for_ever() -> None:
    signatures = Signatures()
    numbers = [signatures.number(tensor(f"Mean_{i}:0"), None) for i in range(2000)]
    assert len(set(numbers)) == 65
    others = [signatures.number(tensor(f"name{i}x:0"), None) for i in range(2000)]
    assert max(others) < 600


def test_feeds_are_told_apart_by_name() -> None:
    signatures = Signatures()
    fetch = tensor("loss:0")
    assert signatures.number(fetch, {"a:0": 0}) != signatures.number(fetch, {"b:0": 0})
