"""Numbers for kinds of runs."""

from __future__ import annotations

from dataclasses import dataclass

from stepwhy.record.tf1.signatures import Signatures


@dataclass(frozen=True)
class tensor:  # noqa: N801  stands for a framework's own
    name: str


def kind(signatures: Signatures, fetches: object, feeds: object = None) -> int:
    return signatures.of(fetches, feeds)[0]


def exact(signatures: Signatures, fetches: object, feeds: object = None) -> int:
    return signatures.of(fetches, feeds)[1]


def test_equal_fetches_and_feeds_have_one_number() -> None:
    signatures = Signatures()
    train, loss, x = tensor("train"), tensor("loss:0"), tensor("x:0")
    assert exact(signatures, [train, loss], {x: 1}) == 0
    assert exact(signatures, (train, loss), {tensor("x:0"): 2}) == 0
    assert exact(signatures, [train, loss], None) == 1
    assert exact(signatures, {"caller": loss}, None) == 2
    assert exact(signatures, "loss:0", None) == 3


def test_object_without_a_name_is_numbered_by_its_type() -> None:
    signatures = Signatures()
    assert exact(signatures, object(), None) == exact(signatures, object(), None)


def test_numbers_are_bounded_for_a_growing_graph() -> None:
    signatures = Signatures()
    numbers = [exact(signatures, tensor(f"Mean_{i}:0"), None) for i in range(2000)]
    assert len(set(numbers)) == 65
    others = [exact(signatures, tensor(f"name{i}x:0"), None) for i in range(2000)]
    assert max(others) < 600


def test_feeds_are_distinguished_by_name() -> None:
    signatures = Signatures()
    fetch = tensor("loss:0")
    assert exact(signatures, fetch, {"a:0": 0}) != exact(signatures, fetch, {"b:0": 0})


def test_name_of_a_known_object_is_not_read_again() -> None:
    class Fetch:
        asked = 0

        @property
        def name(self) -> str:
            Fetch.asked += 1
            return "loss:0"

    signatures, fetch = Signatures(), Fetch()
    assert {exact(signatures, {"caller": [fetch]}, {fetch: 1}) for _ in range(5)} == {0}
    assert Fetch.asked == 2


def test_reused_id_is_another_kind() -> None:
    signatures = Signatures()
    seen = [exact(signatures, [tensor(f"t{i}x:0")], None) for i in range(50)]
    assert seen == list(range(50))
    assert len(signatures._known) <= 1


def test_cache_by_objects_is_bounded() -> None:
    signatures = Signatures()
    kept = [tensor(f"t_{i}:0") for i in range(1000)]
    for each in kept:
        exact(signatures, each, None)
    assert len(signatures._known) <= 256
    assert len(signatures._alive) <= 256


def test_runs_of_the_same_operations_are_of_one_kind() -> None:
    signatures = Signatures()
    train, other, loss = tensor("train"), tensor("other"), tensor("loss:0")
    same_kind = [
        train,
        [train, loss],
        {"caller": train, "hook": [tensor("summary:0"), loss]},
        "train",
    ]
    assert {kind(signatures, fetches) for fetches in same_kind} == {0}
    assert kind(signatures, train, {tensor("rate:0"): 1}) == 0
    assert len({exact(signatures, fetches) for fetches in same_kind[:3]}) == 3
    assert kind(signatures, [train, other]) == kind(signatures, (other, train)) == 1
    assert kind(signatures, loss) == 2
    assert kind(signatures, loss, {tensor("x:0"): 1}) == 3
