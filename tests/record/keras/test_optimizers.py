"""The call that makes an optimizer is logged when the optimizer is used."""

from __future__ import annotations

from typing import Any

from stepwhy.record.keras.optimizers import note_making


class Recorder:
    def __init__(self) -> None:
        self.calls: list[tuple[str, str, str]] = []

    def made(self, name: str, call: tuple[str, str]) -> None:
        self.calls.append((name, call[0].partition(": ")[2], call[1]))


def observed(recorder: Any) -> tuple[Any, Any]:
    class Optimizer:
        def __init__(self, rate: float) -> None:
            self.rate = rate

        def build(self, variables: list[int]) -> int:
            return len(variables)

    class Adam(Optimizer):
        pass

    note_making(Optimizer, "build", recorder)
    return Optimizer, Adam


def test_the_call_is_logged_at_the_first_use() -> None:
    recorder = Recorder()
    _, Adam = observed(recorder)  # noqa: N806 - a class
    adam, unused = Adam(0.1), Adam(0.2)
    assert recorder.calls == []
    assert (adam.build([1, 2]), unused.rate) == (2, 0.2)
    line = "test_the_call_is_logged_at_the_first_use"
    assert recorder.calls == [("optimizer", line, "Adam(0.1)")]


def test_an_optimizer_that_is_made_otherwise_has_no_call() -> None:
    recorder = Recorder()
    _, Adam = observed(recorder)  # noqa: N806 - a class
    make = Adam
    make(0.1).build([])
    assert [call for *_, call in recorder.calls] == [""]
