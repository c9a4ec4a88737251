"""What `stepwhy top --watch` says."""

from stepwhy.show.metrics.watching import Asked, Noticed
from stepwhy.show.terminal.watch import watch_sentence

MS = 1_000_000
SLOWER = Noticed(3, 20 * MS, 30 * MS, step=1211)


def test_without_a_change():
    assert watch_sentence(None) == "Watching: no lasting change so far."


def test_who_traces_which_steps():
    asked = (Asked(3, "traced", 1211, 1214), Asked(0, "traced", 1211, 1214))
    assert watch_sentence(SLOWER._replace(asked=asked)) == (
        "The step time rose from 20.0 ms to 30.0 ms; rank 3 is late. "
        "Ranks 3 and 0 have traced steps 1,212 to 1,215."
    )
    alone = SLOWER._replace(asked=asked, step=None)
    assert watch_sentence(alone).endswith("have traced steps 1,212 to 1,215 without being asked.")


def test_each_answer_has_a_sentence():
    states = ("asked", "accepted", "refused", "missed", "silent")
    asked = tuple(Asked(rank, state) for rank, state in enumerate(states))
    assert watch_sentence(Noticed(3, step=1211, asked=asked)) == (
        "Rank 3 is late for some time now. "
        "Rank 0 is asked to trace some steps from step 1,212 on. "
        "Rank 1 will trace some steps from step 1,212 on. "
        "Rank 2 cannot be traced on request: the messages of the run say why. "
        "Rank 3 has traced no step: the messages of the run say why. "
        "Rank 4 has not answered: its process may run an older version of stepwhy."
    )


def test_where_the_logs_show_no_late_rank():
    noticed = Noticed(None, 20 * MS, 30 * MS, failure="Read-only file system")
    assert watch_sentence(noticed) == (
        "The step time rose from 20.0 ms to 30.0 ms; the logs show no late rank. "
        "No rank could be asked to trace it: Read-only file system."
    )


def test_a_single_process_has_no_number():
    noticed = Noticed(None, 20 * MS, 30 * MS, step=9, asked=(Asked(None),))
    assert "The process is asked" in watch_sentence(noticed)
