"""The step after the fix of a finding: for the timeline's bar, and in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from stepwhy.base.units import format_count, format_ns
from stepwhy.read.kernel_names.short import short_name
from stepwhy.show.words import format_saving

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepwhy.result import Finding, Result, Saving
    from stepwhy.result.timeline import ReplayedWork, Timeline, TimelineReplay


# Of the mean step: a drawn step that differs by more says so.
_UNLIKE = 0.1


class Predicted(msgspec.Struct, frozen=True):
    """The step after the fix of a finding, as shares of the step now.

    Args:
        id: Id of the finding.
        title: Its label in the list of fixes.
        low, middle, high: The shortest, the most likely and the longest step.
        text: What is predicted, and what is drawn, in sentences.
        step: Number of the step whose replay is drawn, starting at 1; 0 if none is.
        after_ns: Duration of that step in the replay, with the work that moves beside it.
    """

    id: str
    title: str
    low: float
    middle: float
    high: float
    text: str
    step: int = 0
    after_ns: int = 0


def predicted_steps(timeline: Timeline, result: Result) -> tuple[Predicted, ...]:
    """The steps after the fixes of all findings that say how long they would be."""
    found = (one for one in result.findings if one.verdict == "found")
    return tuple(filter(None, (_predicted(one, timeline, result) for one in found)))


def _predicted(finding: Finding, timeline: Timeline, result: Result) -> Predicted | None:
    saving, wall_ns = finding.saving, result.breakdown.wall_ns
    if saving is None or not wall_ns or saving.high_ns <= 0:
        return None
    low, high = (max(1 - ns / wall_ns, 0.0) for ns in (saving.high_ns, saving.low_ns))
    middle = (low + high) / 2
    if saving.remaining_ns is not None:
        middle = min(max(saving.remaining_ns / wall_ns, low), high)
    replay = next((one for one in timeline.replays if one.fix == finding.id), None)
    sentences = [
        _length(saving, wall_ns),
        *_faster_rest(saving, result),
        *(_drawn(replay) if replay else _not_drawn(saving, timeline, result)),
    ]
    return Predicted(
        finding.id,
        finding.title,
        round(low, 4),
        round(middle, 4),
        round(high, 4),
        " ".join(sentences),
        replay.step if replay else 0,
        max(replay.after_ns, replay.floor_ns) if replay else 0,
    )


def _length(saving: Saving, wall_ns: int) -> str:
    shortest, longest = (max(wall_ns - ns, 0) for ns in (saving.high_ns, saving.low_ns))
    if not saving.low_ns:
        return (
            f"Predicted: at best a step of {format_ns(shortest)} instead of {format_ns(wall_ns)}; "
            "it may save nothing."
        )
    return (
        f"Predicted: a step of {format_ns(shortest)} to {format_ns(longest)} instead of "
        f"{format_ns(wall_ns)}, which saves {format_saving(saving.low_ns, saving.high_ns)}."
    )


def _faster_rest(saving: Saving, result: Result) -> Iterator[str]:
    """Why a step can become shorter than what it computes now."""
    wall_ns, compute_ns = result.breakdown.wall_ns, result.breakdown.categories.get("compute", 0)
    if saving.method == "cpu" and wall_ns - saving.high_ns < compute_ns:
        yield (
            "That can be less than it computes now, because operations become faster when the "
            "removed work no longer takes cores and caches from them."
        )


def _drawn(replay: TimelineReplay) -> Iterator[str]:
    """What the replayed step shows."""
    before_ns, mean_ns = replay.before_ns, replay.mean_before_ns
    before, after = format_ns(before_ns), format_ns(replay.after_ns)
    yield (f"Drawn beneath step {replay.step}: its device work, replayed with the fix at its best.")
    if replay.floor_ns > replay.after_ns:
        yield (
            f"It ends after {after} instead of {before}. The work that moves beside the step is "
            f"not drawn: it takes {format_ns(replay.floor_ns)}, and the step at least as long."
        )
    else:
        yield f"The step then takes {after} instead of {before}."
    if abs(before_ns - mean_ns) > _UNLIKE * mean_ns:
        mean_after = format_ns(max(replay.mean_after_ns, replay.floor_ns))
        yield f"Averaged over all steps: {mean_after} instead of {format_ns(mean_ns)}."
    yield from _shorter(replay)


def _shorter(replay: TimelineReplay) -> Iterator[str]:
    """What the fix removes or shortens."""
    if replay.work:
        listed = [_work(one) for one in replay.work]
        if replay.others:
            names = "name" if replay.others == 1 else "names"
            listed.append(
                f"{replay.others} more {names} (together {format_ns(replay.others_saved_ns)} less)"
            )
        yield f"Shorter on the device: {'; '.join(listed)}."
    if replay.host_saved_ns:
        yield f"The host works {format_ns(replay.host_saved_ns)} less."
    if replay.waits:
        waits = "1 wait" if replay.waits == 1 else f"{format_count(replay.waits)} waits"
        yield f"The host no longer makes {waits} for the device."
    if not replay.work:
        yield "The device does the same work, only earlier."


def _work(work: ReplayedWork) -> str:
    """One name: 'Memcpy HtoD (12 times, all removed, 3.20 ms less)'."""
    times = "once" if work.count == 1 else f"{format_count(work.count)} times"
    removed = "all" if work.removed == work.count else format_count(work.removed)
    how = f"{removed} removed, " if work.removed and work.count > 1 else ""
    how = "removed, " if work.removed == work.count == 1 else how
    return f"{short_name(work.name)} ({times}, {how}{format_ns(work.saved_ns)} less)"


def _not_drawn(saving: Saving, timeline: Timeline, result: Result) -> Iterator[str]:
    """Why only a bar shows the predicted step."""
    if result.run.ranks > 1:
        yield "Only its length is drawn: steps of several ranks are not replayed."
    elif saving.method == "replay":
        yield "Only its length is drawn: the page replays the fixes that gain most."
    elif timeline.not_replayed:
        yield "Only its length is drawn, because the recorded steps cannot be replayed."
        yield from timeline.not_replayed
    elif saving.method == "bound":
        yield "Only its length is drawn: the saving is a bound, not the result of a replay."
    else:
        yield (
            "Only its length is drawn: it comes from a model of the CPU, which does not say when "
            "each operation would run."
        )
