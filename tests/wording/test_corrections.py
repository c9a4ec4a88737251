"""Corrections of the breakdown, in words."""

import re
from pathlib import Path

import pytest

from stepwhy.result import Breakdown, Correction
from stepwhy.result.reasons import Corrected
from stepwhy.result.wording.corrections import correction_sentence, with_sentences

MS = 1_000_000
SAMPLED = "stack samples show the driving thread in"
MEASURED = "the wait for the next batch is that of steps without the profiler"
PAGE = Path(__file__).resolve().parents[2] / "docs" / "explanation" / "breakdown.md"


@pytest.mark.parametrize(
    ("why", "changes", "sentence"),
    [
        (
            Corrected.OWN_LINES,
            {"python": 2 * MS, "unexplained": -2 * MS},
            f"2.00 ms moved from unexplained to python: {SAMPLED} lines of the program.",
        ),
        (
            Corrected.SCALED,
            {"compute": -MS, "dispatch": -3 * MS, "python": -1000},
            "4.00 ms taken from dispatch and compute: steps without the profiler are shorter.",
        ),
        (
            Corrected.SCALED,
            {"compute": MS},
            "1.00 ms added to compute: steps without the profiler are longer.",
        ),
        (
            Corrected.INPUT_MEASURED,
            {"input_wait": MS},
            f"1.00 ms added to input wait: {MEASURED}.",
        ),
    ],
)
def test_what_moved_from_where_to_where_and_why(why, changes, sentence):
    assert correction_sentence(why, changes) == sentence


@pytest.mark.parametrize("why", Corrected)
def test_each_reason_has_a_sentence_of_its_own(why):
    sentences = {correction_sentence(each, {"storage": MS}) for each in Corrected}
    assert correction_sentence(why, {"storage": MS}) in sentences
    assert len(sentences) == len(Corrected)


def test_sentences_are_added_to_the_corrections_of_a_breakdown():
    one = Correction("saves", {"storage": MS, "unexplained": -MS})
    (found,) = with_sentences(Breakdown(MS, {}, {}, corrections=(one,))).corrections
    assert found.sentence == (
        "1.00 ms moved from unexplained to storage: checkpoints were logged in this time."
    )


def test_the_page_on_the_breakdown_names_each_correction_in_its_order():
    _, section = PAGE.read_text().split("## Corrections of the record")
    names = re.findall(r"^\| `([a-z-]+)`", section, re.MULTILINE)
    assert names == [why.value for why in Corrected]
