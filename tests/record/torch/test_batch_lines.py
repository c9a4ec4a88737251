"""Which lines of a step compute from the batch alone."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from stepwhy.record.torch.dispatch_modes import make_mode  # noqa: E402
from stepwhy.record.torch.semantic_mode import StepNotes  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.framework
SOURCE = Path(__file__).read_text().splitlines()
LAYER: Any = torch.nn.Linear(64, 64)
TABLE: Any = torch.nn.Embedding(16, 8)
CENTRE = torch.zeros(64)
RNG = np.random.default_rng(0)


def batch() -> Any:
    return torch.arange(8192.0).reshape(128, 64).clone()


def found(step: Callable[[Any], Any], lasting: int = 0, earlier: tuple[Any, ...] = ()) -> list[str]:
    """The code of the lines that a step of this batch has, or of something from before the step."""
    notes = StepNotes([*LAYER.parameters(), *TABLE.parameters()])
    passed = earlier or (batch(),)
    with make_mode(notes.run):
        step(*passed)
    assert notes.stopped is None
    lines = notes.batch_lines(lasting)
    return [SOURCE[int(re.findall(r"\((\d+)\)", line)[0]) - 1].strip() for line in lines]


def spectrum(batch: Any) -> Any:
    power = torch.fft.rfft(batch - CENTRE).abs() ** 2
    return LAYER(power.repeat(1, 2)[:, :64])


def moved(batch: Any) -> Any:
    kept = batch.reshape(64, 128).t().contiguous()
    return LAYER(kept.to(torch.float64).float())


def mixed(batch: Any) -> Any:
    return LAYER(batch.square())


def looked_up(batch: Any) -> Any:
    return TABLE(batch.long() % 16)


def noisy(batch: Any) -> Any:
    noise = torch.randn_like(batch)
    return (batch + noise).square()


def scaled(batch: Any) -> Any:
    return batch * RNG.uniform()


def small(batch: Any) -> Any:
    return batch[0].square()


def written(batch: Any) -> Any:
    CENTRE.add_(batch[0])
    return batch - CENTRE


def constant(batch: Any) -> Any:
    table = CENTRE.expand(128, 64).exp()
    return batch + table


@pytest.mark.parametrize(
    ("step", "lines"),
    [
        (spectrum, ["power = torch.fft.rfft(batch - CENTRE).abs() ** 2"]),
        (moved, []),
        (mixed, []),
        (looked_up, []),
        (noisy, []),
        (scaled, []),
        (small, []),
        (written, []),
    ],
)
def test_only_what_depends_on_nothing_else_counts(
    step: Callable[[Any], Any], lines: list[str]
) -> None:
    assert found(step, lasting=2 if step is spectrum else 0) == lines


def joined(*tensors: Any) -> Any:
    power = torch.cat(tensors).square()
    return LAYER(power)


def test_what_was_there_before_the_step_may_be_a_result_of_another_one() -> None:
    assert found(joined) == ["power = torch.cat(tensors).square()"]
    assert found(joined, earlier=(LAYER(batch()).detach(),)) == []
    assert found(joined, earlier=tuple(batch() for _ in range(300))) == []


def test_what_depends_on_constants_does_not_count() -> None:
    assert found(constant, lasting=1) == ["return batch + table"]
    assert found(constant, lasting=3) == []
