"""What the page says of predicted steps, and why some are not drawn in detail."""

import pytest
from msgspec import structs

from stepwhy.result.timeline import ReplayedWork, Timeline, TimelineReplay, TimelineRow
from stepwhy.show.html.predicted import predicted_steps

MS = 1_000_000
REPLAY = TimelineReplay(
    fix="input-bound",
    step=4,
    before_ns=62 * MS,
    after_ns=20 * MS,
    mean_before_ns=63 * MS,
    mean_after_ns=21 * MS,
    work=(
        ReplayedWork("Memcpy HtoD", 2, 2, 3 * MS),
        ReplayedWork("gemm", 12, 0, MS),
        ReplayedWork("add", 1, 1, MS),
        ReplayedWork("fill", 5, 2, MS),
    ),
    others=3,
    others_saved_ns=2 * MS,
    host_saved_ns=40 * MS,
    waits=1,
)


def text_of(result, **parts):
    """What the page says of the predicted step after the first fix."""
    timeline = Timeline(0, (TimelineRow("Steps", "", "steps", (0,)),), {}, 0, **parts)
    return predicted_steps(timeline, result)[0].text


def with_method(sample, method, **run):
    result = sample("input_bound")
    first = result.findings[0]
    saving = structs.replace(first.saving, method=method)
    findings = (structs.replace(first, saving=saving), *result.findings[1:])
    return structs.replace(result, findings=findings, run=structs.replace(result.run, **run))


def test_a_replayed_step_is_told_in_words(sample):
    text = text_of(with_method(sample, "replay"), replays=(REPLAY,))
    assert text == (
        "Predicted: a step of 17.4 ms to 24.4 ms instead of 62.4 ms, which saves 38 to 45 ms. "
        "Drawn beneath step 4: its device work, replayed with the fix at its best. The step then "
        "takes 20.0 ms instead of 62.0 ms. Shorter on the device: Memcpy HtoD (2 times, all "
        "removed, 3.00 ms less); gemm (12 times, 1.00 ms less); add (once, removed, 1.00 ms less); "
        "fill (5 times, 2 removed, 1.00 ms less); 3 more names (together 2.00 ms less). The host "
        "works 40.0 ms less. The host no longer makes 1 wait for the device."
    )


def test_a_replayed_step_unlike_the_mean_one_says_so(sample):
    unlike = structs.replace(REPLAY, before_ns=30 * MS, work=(), floor_ns=25 * MS)
    text = text_of(with_method(sample, "replay"), replays=(unlike,))
    assert "Averaged over all steps: 25.0 ms instead of 63.0 ms." in text
    assert "The device does the same work, only earlier." in text
    assert "It ends after 20.0 ms instead of 30.0 ms." in text
    assert "it takes 25.0 ms, and the step at least as long." in text


@pytest.mark.parametrize(
    ("method", "ranks", "reasons", "text"),
    [
        ("cpu", 1, (), "it comes from a model of the CPU"),
        (
            "cpu",
            1,
            ("Delays vary.",),
            "because the recorded steps cannot be replayed. Delays vary.",
        ),
        ("bound", 1, ("Delays vary.",), "cannot be replayed. Delays vary."),
        ("bound", 1, (), "the saving is a bound"),
        ("replay", 1, (), "the page replays the fixes that gain most"),
        ("replay", 8, (), "steps of several ranks are not replayed"),
    ],
)
def test_a_bar_alone_says_why(sample, method, ranks, reasons, text):
    result = with_method(sample, method, ranks=ranks)
    found = text_of(result, not_replayed=reasons)
    assert "Only its length is drawn" in found
    assert text in found


def test_a_fix_that_may_gain_nothing_says_so(sample):
    result = with_method(sample, "bound")
    first = result.findings[0]
    uncertain = structs.replace(first, saving=structs.replace(first.saving, low_ns=0))
    text = text_of(structs.replace(result, findings=(uncertain,)))
    assert text.startswith("Predicted: at best a step of 17.4 ms instead of 62.4 ms; it may save ")


def test_a_step_below_what_it_computes_now_is_explained(sample):
    result = with_method(sample, "cpu")
    assert "less than it computes now" not in text_of(result)
    categories = result.breakdown.categories | {"compute": 30 * MS}
    breakdown = structs.replace(result.breakdown, categories=categories)
    text = text_of(structs.replace(result, breakdown=breakdown))
    assert "That can be less than it computes now" in text
