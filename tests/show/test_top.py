"""The ranks of a job that runs, on the terminal."""

import io

from stepwhy.result.hangs import At, Call, Group, Hang, Standing
from stepwhy.show.console import Console
from stepwhy.show.metrics.ranks import Gpu, RankNow, RecentStep, judge, usual_step
from stepwhy.show.terminal.top import top_view

MS = 1_000_000
NOWHERE = Standing({})


def rank(number, wait_ms=1, **values):
    steps = (RecentStep(100 * MS, wait_ms * MS, 40 * MS),) * 20
    return RankNow(number, steps, usual_step(steps), last_step_ns=10**18, **values)


def shown(*ranks, width=120, height=None, order="rank", name="job", standing=NOWHERE):
    stream = io.StringIO()
    view = top_view(name, judge(ranks), width, height, order, standing=standing)
    Console(file=stream, width=width).print(view)
    return stream.getvalue()


def numbers(text):
    """The first word of each row of the table."""
    lines = text.splitlines()
    start = next(i for i, line in enumerate(lines) if line.split()[:2] == ["rank", "step"])
    return [line.split()[0] for line in lines[start + 1 :]]


def test_a_row_per_rank_by_number():
    text = shown(rank(2), rank(10, cores=1.5, resident_bytes=1 << 30))
    assert "job  2 ranks · step 100 ms" in text
    assert numbers(text) == ["2", "10"]
    assert "No rank waits longer for input" in text
    assert "1.5" in text
    assert "1.00 GiB" in text


def test_what_nothing_is_known_of_has_no_column():
    text = shown(rank(0), rank(1))
    assert "GPU" not in text
    assert "cores" not in text
    assert "GPU memory" in shown(rank(0, gpus=(Gpu(0.5, 1),)), rank(1))


def test_the_late_rank_is_named_with_its_cause():
    text = shown(rank(0), rank(1, wait_ms=41), rank(2))
    assert "Rank 1 waits for input 40.0 ms longer than the others in each step." in text
    assert "late: input" in text


def test_the_latest_of_several_is_named_first():
    text = shown(*(rank(n, wait_ms=41 + n if n in {3, 5} else 1) for n in range(12)))
    assert "Rank 5 waits for input 45.0 ms" in text
    assert "Late, too: rank 3." in text


def test_a_rank_that_has_stopped_is_named():
    text = shown(rank(0), rank(1, silent_s=65), rank(2))
    assert "Rank 1 has not ended a step for 65 s, while the logs of 2 others grew." in text
    assert "stopped" in text.splitlines()[-2]


def test_if_all_have_stopped_the_one_unlike_the_others_is_named():
    since = {"silent_s": 300, "sampled_ns": 10**18 + 1}
    text = shown(*(rank(n, cores=float(n != 3), **since) for n in range(8)))
    assert "No rank has ended a step for 5 min. Look at rank 3 first" in text
    assert text.count("(!)") == 1


def test_if_all_have_stopped_alike_nobody_is_blamed():
    text = shown(*(rank(n, silent_s=60) for n in range(8)))
    assert "The logs do not show which one the others wait for." in " ".join(text.split())
    assert "(!)" not in text


def hang(*missing, waiting=tuple(range(1, 8))):
    """The third collective, which all but some ranks have entered."""
    call = Call("all_reduce", line="train.py(31): step")
    return Hang(Group("0"), "default_pg", 3, call, waiting, tuple(missing))


def stopped(count, **values):
    return [rank(n, silent_s=65, **values) for n in range(count)]


def test_the_rank_that_has_not_entered_a_collective_is_named_with_its_line():
    missing = hang(At(0, "/job/train.py(40): load", is_now=True))
    lines = dict.fromkeys(range(1, 8), "/job/train.py(31): step") | {0: "/job/train.py(40): load"}
    standing = Standing(lines, missing, 8, 8)
    text = shown(*stopped(8), standing=standing)
    assert "Rank 0 is at /job/train.py:40 and has not entered all_reduce 3" in text
    assert "7 others wait in it. No rank has ended a step for 65 s." in " ".join(text.split())
    assert text.count("stopped (!) at /job/train.py:40") == text.count("(!)") == 1
    assert text.count("stopped at /job/train.py:31") == 7
    assert "Read so far" not in text


def test_what_was_not_read_yet_is_said():
    ranks = stopped(1024)
    text = " ".join(shown(*ranks, height=40, standing=Standing({}, hang(At(0)), 8, 1024)).split())
    assert "Read so far: what 8 of 1,024 ranks have noted." in text
    alike = Standing({}, hang(At(0)), 8, 1024, 1016)
    text = " ".join(shown(*ranks, height=40, standing=alike).split())
    assert "7 others wait in it. 1,016 more are at the same line. No rank" in text


def test_without_collectives_the_lines_are_named():
    lines = {n: f"train.py({40 if n == 5 else 31}): step" for n in range(8)}
    text = " ".join(shown(*stopped(8), standing=Standing(lines)).split())
    assert "Rank 5 is at train.py:40, ranks 0, 1, 2, 3 and 3 more at train.py:31." in text
    alike = Standing(dict.fromkeys(range(8), "train.py(31): step"))
    text = " ".join(shown(*stopped(8), standing=alike).split())
    assert "Ranks 0, 1, 2, 3 and 4 more are at train.py:31. The logs do not show" in text


def test_many_ranks_fit_the_screen_and_the_others_are_summed_up():
    ranks = [rank(n, wait_ms=90 if n == 517 else 1) for n in range(1024)]
    text = shown(*ranks, height=24)
    assert len(text.splitlines()) <= 24
    assert "517" in numbers(text)
    assert numbers(text)[-1] == "1,006"
    assert "1,006 more" in text


def test_sorted_ranks_begin_with_the_largest():
    ranks = [rank(n, wait_ms=n) for n in range(6)]
    assert numbers(shown(*ranks, order="input")) == ["5", "4", "3", "2", "1", "0"]


def test_narrow_terminals_have_fewer_columns():
    gpus = (Gpu(0.97, 60 << 30),)
    text = shown(
        *(rank(n, cores=1.0, resident_bytes=8 << 30, gpus=gpus) for n in range(3)), width=60
    )
    assert "…" not in text
    assert "input wait" in text
    assert "GPU memory" not in text


def test_a_name_cannot_steer_the_terminal():
    assert "\x1b" not in shown(rank(0), name="a\x1b[2J")


def test_ranks_that_have_ended_no_step_are_listed():
    text = shown(rank(0), RankNow(1), rank(2))
    assert "Rank 1 has not ended a step yet." in text
    assert numbers(text) == ["0", "1", "2"]
    assert "no step yet" in text
    assert "No step has ended yet." in shown(RankNow(0), RankNow(1))


def test_a_rank_that_hangs_in_its_first_step_has_stopped():
    noted = [RankNow(n, silent_s=60.0, has_noted=True) for n in range(2)]
    lines = {0: "train.py(31): step", 1: "train.py(7): load"}
    text = " ".join(shown(*noted, standing=Standing(lines)).split())
    assert "No rank has ended a step for 60 s." in text
    assert "stopped at train.py:7" in text
    text = " ".join(shown(rank(0, silent_s=60.0), noted[1]).split())
    assert "Look at rank 1 first" in text


def test_before_the_first_step():
    assert "No process has logged a step here yet." in shown()
