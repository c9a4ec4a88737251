"""Hangs and mismatches in words."""

import pytest

from stepwhy.result.hangs import At, Call, Group, Hang, Mismatch, Variant
from stepwhy.result.wording.hangs import hang_sentence, mismatch_sentence, ranks_text, short_line

REDUCE = Call("all_reduce", 3, "[[3]]", "Float", "train.py(7): step")
GATHER = Call("all_gather", 5, "[[5]]", "Half", "eval.py(9): evaluate")


def hang(*missing, waiting=(0, 2, 3), **about):
    about = {"group": Group("0"), "description": "default_pg", "call": REDUCE, **about}
    return Hang(waiting=waiting, missing=missing, **{"sequence": 31, **about})


def standstill(*missing, waiting=(0, 2, 3)):
    """Ranks whose collectives are not recorded."""
    call = Call("block_until_ready (jax)", line="train.py(7): step")
    return hang(*missing, waiting=waiting, group=Group(""), sequence=None, call=call)


@pytest.mark.parametrize(
    ("found", "sentence"),
    [
        (
            hang(At(1, "train.py(6): step", is_now=True)),
            "Rank 1 is at train.py:6 and has not entered all_reduce 31; 3 others wait in it.",
        ),
        (
            hang(At(1, "train.py(6): step"), waiting=(0,)),
            (
                "Rank 1 was last seen at train.py:6 and has not entered all_reduce 31; rank 0 "
                "waits in it."
            ),
        ),
        (
            standstill(At(1, "train.py(9): save", is_now=True), waiting=(0,)),
            "Rank 1 is at train.py:9; rank 0 waits in block_until_ready (jax) at train.py:7.",
        ),
        (
            standstill(At(1, "a.py(9)", is_now=True, inside="wait (threading)"), At(4, "b.py(2)")),
            (
                "Rank 1 is in wait (threading) at a.py:9, rank 4 elsewhere; 3 others wait in "
                "block_until_ready (jax) at train.py:7."
            ),
        ),
        (
            standstill(At(1)),
            "Rank 1 is in other code; 3 others wait in block_until_ready (jax) at train.py:7.",
        ),
        (
            standstill(waiting=(0, 1)),
            (
                "Ranks 0 and 1 wait in block_until_ready (jax) at train.py:7; which one the "
                "others wait for is not known."
            ),
        ),
        (hang(At(1)), "Rank 1 has not entered all_reduce 31; 3 others wait in it."),
        (
            hang(At(1, "a.py(6)", is_now=True, inside="broadcast 4")),
            (
                "Rank 1 waits in broadcast 4 at a.py:6 and has not entered all_reduce 31; 3 "
                "others wait in it."
            ),
        ),
        (
            hang(At(1, "a.py(6)", is_now=True), At(4, "")),
            (
                "Ranks 1 and 4 have not entered all_reduce 31 (rank 1 is at a.py:6); 3 others "
                "wait in it."
            ),
        ),
        (
            hang(unrecorded=(1,)),
            (
                "Ranks 0, 2 and 3 wait in all_reduce 31 at train.py:7; rank 1 leaves no "
                "record, and has perhaps not entered it."
            ),
        ),
        (
            hang(),
            (
                "All ranks that are recorded have entered all_reduce 31 at train.py:7, and it "
                "has not ended."
            ),
        ),
        (
            hang(waiting=(None,), group=Group("5"), description="tp"),
            "The rank has entered all_reduce 31 of group tp at train.py:7, and it has not ended.",
        ),
    ],
)
def test_who_waits_for_whom(found, sentence):
    assert hang_sentence(found) == sentence


@pytest.mark.parametrize(
    ("what", "sentence"),
    [
        (
            "operation",
            (
                "Rank 1 called all_gather 31 at eval.py:9, where ranks 0 and 2 called "
                "all_reduce at train.py:7."
            ),
        ),
        (
            "elements",
            (
                "Rank 1 gives 5 elements to all_gather 31 at eval.py:9, but ranks 0 and 2 "
                "give 3 elements at train.py:7."
            ),
        ),
        (
            "types",
            (
                "Rank 1 gives Half to all_gather 31 at eval.py:9, but ranks 0 and 2 give "
                "Float at train.py:7."
            ),
        ),
    ],
)
def test_what_differs(what, sentence):
    variants = (Variant(GATHER, (1,)), Variant(REDUCE, (0, 2)))
    found = Mismatch(Group("0"), "default_pg", 31, what, variants)
    assert mismatch_sentence(found) == sentence


def test_lines_and_ranks():
    assert short_line("a/b.py(12): f") == "a/b.py:12"
    assert short_line("elsewhere") == "elsewhere"
    assert ranks_text(range(9)) == "9 ranks"
    assert ranks_text([None]) == "this rank"
