"""What observes single steps changes no loss, and is not noticed otherwise either."""

from __future__ import annotations

import functools
import sys
import warnings
from typing import TYPE_CHECKING, Any

import pytest
from tests.record.torch.unchanged_programs import HEAD, PROGRAMS

from stepwhy.record.core.clock import now_ns
from stepwhy.record.core.recorder import Recorder
from stepwhy.record.torch.compilations import Compilations
from stepwhy.record.torch.gradient_walk import GradientWalk
from stepwhy.record.torch.line_window import LineWindow
from stepwhy.record.torch.semantic_step import SemanticStep

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Boundary = Callable[[Any], None]

pytestmark = [
    pytest.mark.framework,
    pytest.mark.skipif(sys.gettrace() is not None, reason="something else traces the tests"),
    pytest.mark.filterwarnings("default"),
]
torch = pytest.importorskip("torch")


class Window:
    """Stands for the profiler windows, of which one was kept."""

    kept, running = True, False


class Lines:
    """Notes the lines of two steps."""

    def __init__(self, recorder: Recorder) -> None:
        self._window, self._step = LineWindow(recorder), 0
        self._window._due_step = 2

    def boundary(self, _: Any) -> None:
        self._step += 1
        self._window.next_step(self._step, ready=True, step_ns=10**6, end_ns=now_ns())


class Semantics:
    """Looks at the operations of one step, and compares some steps later."""

    def __init__(self, recorder: Recorder) -> None:
        window: Any = Window()
        self._semantic, self._step = SemanticStep(recorder, window, Compilations(recorder)), 0

    def boundary(self, optimizer: Any) -> None:
        self._step += 1
        if self._step > 1 and self._semantic.is_due:
            self._semantic.next_step(self._step, optimizer)


class Walks:
    """Walks the graph of each backward pass."""

    def __init__(self, recorder: Recorder, monkeypatch: pytest.MonkeyPatch) -> None:
        self._walk, original = GradientWalk(recorder), torch.autograd.backward

        @functools.wraps(original)
        def backward(*args: Any, **kwargs: Any) -> None:
            self._walk.walk(*args, **kwargs)
            original(*args, **kwargs)

        monkeypatch.setattr(torch.autograd, "backward", backward)

    def boundary(self, optimizer: Any) -> None:
        self._walk.report()
        self._walk.know(optimizer)
        self._walk.begin()


def noted(name: str, boundary: Boundary) -> str:
    """What a program notes, as text, which holds all digits of a number."""
    notes: list[Any] = []
    space = {"note": notes.append, "boundary": boundary, "__name__": "program"}
    with warnings.catch_warnings():
        exec(compile(HEAD + PROGRAMS[name], "/program/train.py", "exec"), space)  # noqa: S102
    return "\n".join(map(repr, notes))


@pytest.fixture(scope="module")
def alone() -> Callable[[str], str]:
    """What programs note that nobody observes."""
    known: dict[str, str] = {}

    def run(name: str) -> str:
        if name not in known:
            known[name] = noted(name, lambda _: None)
        return known[name]

    return run


@pytest.mark.parametrize("name", sorted(PROGRAMS))
@pytest.mark.parametrize("kind", ["lines", "semantics", "walks"])
def test_a_program_notices_nothing(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    alone: Callable[[str], str],
    kind: str,
    name: str,
) -> None:
    expected = alone(name)
    recorder = Recorder(str(tmp_path), "pytorch", "2.0", "torch-optimizer")
    failures: list[Exception] = []
    monkeypatch.setattr(recorder, "window_failed", failures.append)
    observers: dict[str, Callable[[], Any]] = {
        "lines": lambda: Lines(recorder),
        "semantics": lambda: Semantics(recorder),
        "walks": lambda: Walks(recorder, monkeypatch),
    }
    assert noted(name, observers[kind]().boundary) == expected
    assert failures == []
    assert sys.gettrace() is None
    assert torch.utils._python_dispatch._get_current_dispatch_mode() is None
