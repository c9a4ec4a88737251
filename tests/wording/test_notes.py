"""Notes on ranks, files and operations, in words."""

from stepwhy.result import Op
from stepwhy.result.reasons import NoView, RankChoice
from stepwhy.result.wording.notes import (
    NO_VIEWS,
    cut_ranks,
    left_out,
    longest,
    missing_ranks,
    mostly_set_up,
    operations_added_up,
    rank_again,
    rank_note,
    work_missing,
)

MS = 1_000_000


def test_ranks_that_are_not_there():
    assert missing_ranks([3]) == "Rank 3 is missing: whether others wait for it cannot be told."
    assert missing_ranks(range(12)) == (
        "Ranks 0, 1, 2, 3, 4, 5, 6, 7, 8, 9 and 2 more are missing: whether others wait for them "
        "cannot be told."
    )
    assert cut_ranks([5]) == (
        "Rank 5 is not compared, and counted as missing: its file ends early."
    )
    assert cut_ranks([5, 7]) == (
        "Ranks 5, 7 are not compared, and counted as missing: their files end early."
    )
    assert rank_again("b.json", 6, "a.json") == "b.json contains rank 6 again, as a.json does"


def test_which_rank_a_report_covers():
    slowest = RankChoice(2, 4, True, 3 * MS, MS, 2_700_000, (0, 700_000))
    assert rank_note(slowest) == (
        "The report covers rank 2, the slowest of 4; its list of devices covers all ranks. The "
        "slowest rank takes 3.00 ms per step, the fastest 1.00 ms. Rank 2 computes for 2.70 ms of "
        "that, rank 0 for 700 µs."
    )
    stage = rank_note(RankChoice(0, 2, False, MS, MS, MS, is_pipeline=True))
    assert "covers rank 0, a typical one of the slowest of 2; its" in stage
    alike = rank_note(RankChoice(0, 2, False, MS, MS, MS))
    assert (
        "covers rank 0, one of the slowest of 2, which waits least for the others; its list"
        in alike
    )
    assert "computes for" not in alike


def test_of_many_files_that_were_left_out_only_some_are_named():
    assert left_out(["a.json is empty"]) == ["Left out: a.json is empty."]
    notes = left_out([f"{n}.json is empty" for n in range(1250)])
    assert len(notes) == 51
    assert notes[-1] == "Left out: 1,200 more."


def test_the_longest_operations():
    ops = [Op("b", "host", "", 1, MS, MS, None), Op("x" * 90, "GPU:0", "", 1, 1, 1, None)]
    assert longest(ops, per_step=True) == (
        "Longest per step, excluding nested operations: 'b' 1.00 ms, "
        f"'{'x' * 80}...' 1 ns on GPU:0."
    )
    assert longest(ops, per_step=False).startswith("Longest in all, ")
    kernel = Op("void at::native::tril_kernel<float>(int)", "GPU:0", "", 1, MS, MS, None)
    assert "'tril_kernel<float>' 1.00 ms" in longest([kernel], per_step=True)


def test_operations_beyond_the_most():
    assert operations_added_up(65_536, 7, "(other)") == (
        "Only the 65,536 operations that took the longest are listed; the other 7 are added up as "
        "'(other)'."
    )


def test_why_there_is_no_view():
    assert set(NO_VIEWS) == set(NoView)


def test_how_much_device_work_is_missing():
    assert work_missing(0.025) == (
        "2.5 % of the kernels and copies that the steps launched are not in this file, or have no "
        "duration: the device was busier than shown."
    )


def test_set_up_that_takes_most_of_a_record():
    assert mostly_set_up(0.62) == (
        "Set-up takes 62 % of the recorded time; the report covers the rest."
    )
