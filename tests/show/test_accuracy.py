"""Errors, coverage and width of predictions."""

from stepwhy.result import Accuracy, PairAccuracy, PricingInputs
from stepwhy.show.accuracy import Contest, Fit, contest, fit, fit_cells, sentences, why_left_out


def pair(fixed_ns, **fields):
    about = {
        "inputs": PricingInputs(1000, 500, "removed"),
        "remaining_ns": 400, "low_ns": 300, "high_ns": 500, "naive_ns": 500,
        "fixed_steps_ns": (fixed_ns,), "fixed_reach_ns": 10, "quiet": True,
    }  # fmt: skip
    return PairAccuracy("tf1/x", "graph-growth", **{**about, **fields})


PAIRS = [pair(410), pair(450), pair(600), pair(700, quiet=False), pair(1, error="It failed.")]


def test_the_fit_of_the_pairs_that_count():
    assert fit(PAIRS) == Fit(
        pairs=3, inside=2, middle=0.05, most=0.2, width=0.2, naive_middle=0.09, naive_most=0.1,
        noise=0.01,
    )  # fmt: skip
    assert fit(PAIRS[3:]) is None


def test_predictions_against_the_naive_ones():
    # Errors of 10, 50 and 200 against 90, 50 and 100 of 1000, with a noise of 10.
    assert contest(PAIRS) == Contest(pairs=3, no_worse=2, different=3, better=1)


def test_a_row_of_the_table():
    assert fit_cells(fit(PAIRS)) == (
        "2 of 3", "5.0 %", "20 %", "20 %", "9.0 %", "10 %", "1.0 %",
    )  # fmt: skip


def test_pairs_that_are_left_out_say_why():
    assert [why_left_out(p) for p in PAIRS] == ["", "", "", "The machine was busy.", "It failed."]
    assert why_left_out(pair(1, inputs=None, refusal="Not found.")) == "Not found."
    assert why_left_out(pair(1, fixed_reach_ns=90)) == "The measured gain is too uncertain."


def test_the_result_in_words():
    text = " ".join(sentences(Accuracy(tuple(PAIRS))))
    assert "2 of 3 intervals held the measured step; their median width is 20 % of" in text
    assert "2 of 5 pairs are left out." in text
    assert sentences(Accuracy(())) == ["None of 0 pairs was both predicted and measured well."]
