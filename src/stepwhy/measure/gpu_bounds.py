"""What a session of the GPU lab should show at least, and whether it did."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from stepwhy.base.units import format_fraction
from stepwhy.result.gpu import Bound

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from stepwhy.result.gpu import GpuPair, LivePoint

    Answer = Literal["met", "not met", "not measured"]

_FIRST = 16  # of the planted faults, of which there are 22
_INSIDE = 0.8  # of the compared gains
_FEWEST_GAINS = 10  # below, one gain more or less decides
_POINTS = (
    ("device-time", "Device time per step within 5 % of the synchronised step"),
    ("after-window", "Steps of 10 ms at most 1 % longer under stepwhy"),
    ("abandoned-window", "Kernels are recorded after an abandoned window"),
)
_OF_POINT: dict[str, Answer] = {"passed": "met", "failed": "not met"}


def bounds(
    pairs: Sequence[GpuPair],
    points: Sequence[LivePoint],
    *,
    planned: int,
    faults: int,
    is_gpu: bool,
) -> tuple[Bound, ...]:
    """The bounds.

    Args:
        pairs: The pairs that were run.
        points: The live points.
        planned: Number of pairs in the lab.
        faults: Number of those with a fault that a diagnosis knows.
        is_gpu: Whether they were run on a GPU, in sizes that fit it.
    """
    every = (_faults_first(pairs, faults), _alarms(pairs, planned), _gains(pairs),
             *_live(points))  # fmt: skip
    if is_gpu:
        return every
    nothing = "smallest size, or no GPU"
    return tuple(Bound(each.bound, nothing, "not measured") for each in every)


def _faults_first(pairs: Sequence[GpuPair], faults: int) -> Bound:
    ran = [pair for pair in pairs if pair.graded.diagnosis and pair.graded.faulty_runs]
    first = sum(pair.is_first for pair in ran)
    answer: Answer = "not measured"
    if first >= _FIRST:
        answer = "met"
    elif first + faults - len(ran) < _FIRST:
        answer = "not met"
    return Bound(f"At least {_FIRST} faults are the first finding", f"{first} of {len(ran)} that "
                 f"were run, of {faults}", answer)  # fmt: skip


def _alarms(pairs: Sequence[GpuPair], planned: int) -> Bound:
    ran = [pair for pair in pairs if pair.graded.fixed_runs]
    wrong = [pair.graded.name for pair in ran if pair.has_alarm]
    answer: Answer = "not met" if wrong else "met" if len(ran) >= planned else "not measured"
    text = f"{', '.join(wrong) or 'none'} in {len(ran)} of {planned} pairs"
    return Bound("No fault is reported where there is none", text, answer)


def _gains(pairs: Sequence[GpuPair]) -> Bound:
    compared = [pair for pair in pairs if pair.kept]
    inside = sum(pair.kept == "yes" for pair in compared)
    text = f"{inside} of {len(compared)}"
    answer: Answer = "met" if inside >= _INSIDE * len(compared) else "not met"
    if len(compared) < _FEWEST_GAINS:
        answer, text = "not measured", f"{text}, which are fewer than {_FEWEST_GAINS}"
    share = format_fraction(_INSIDE)
    return Bound(f"{share} of the measured gains are within the prediction", text, answer)


def _live(points: Sequence[LivePoint]) -> Iterator[Bound]:
    known = {point.point: point for point in points}
    for name, bound in _POINTS:
        point = known.get(name)
        if point is None:
            yield Bound(bound, "The point was not judged", "not measured")
        else:
            yield Bound(bound, point.evidence, _OF_POINT.get(point.answer, "not measured"))
