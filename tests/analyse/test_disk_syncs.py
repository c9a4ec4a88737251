"""Waits until files are on disk, in the breakdown of the step."""

from tests.analyse.timeline import MS, Timeline

from stepwhy.analyse.breakdown import disk_syncs
from stepwhy.analyse.facts import Facts
from stepwhy.analyse.steps.sampled_lines import driver_lines
from stepwhy.trace import Kind, SampleRole


def waiting(steps=6, *, every=1, kind="fsync", profiled_ms=6):
    """Steps of 10 ms that wait for 3 ms of it; in profiled ones, the wait takes longer."""
    line = Timeline().steps(0, 4 + profiled_ms, 2 * (4 + profiled_ms))
    for at in (0, 4 + profiled_ms):
        line.add(line.executor(), Kind.KERNEL, at, at + 4)
        event(line, kind, at + 4, profiled_ms)
    for step in range(steps):
        at = 100 + 10 * step
        line.mark(at, at + 10)
        if step % every == 0:
            event(line, "fsync", at + 4, 3)
    return line


def event(line, kind, at, length):
    text = line.builder.intern
    row = {"start_ns": at * MS, "dur_ns": length * MS, "source": text("train.py(22): log")}
    line.builder.add("events", kind=text(kind), name=text("os.fsync"), **row)


def test_the_wait_of_unprofiled_steps_replaces_that_of_profiled_ones():
    facts = Facts(waiting().trace(framework="jax"))
    assert (facts.wall_ns, facts.syncing_ns) == (10 * MS, 3 * MS)
    assert (facts.breakdown["storage"], facts.breakdown["compute"]) == (3 * MS, 5 * MS)


def test_waits_in_few_steps_are_not_part_of_the_usual_one():
    facts = Facts(waiting(every=3).trace(framework="jax"))
    assert facts.syncing_ns == 0


def test_waits_in_a_checkpoint_belong_to_it():
    line = waiting()
    for at in (0, 10, *range(100, 160, 10)):
        event(line, "save", at + 3, 8)
    assert Facts(line.trace(framework="jax")).syncing_ns == 0


def test_only_the_steps_before_the_log_ends_count(monkeypatch):
    monkeypatch.setattr(disk_syncs, "_MOST_CALLS", 6)
    line = waiting(steps=4)
    for step in range(4, 40):
        line.mark(100 + 10 * step, 110 + 10 * step)
    assert Facts(line.trace(framework="jax")).syncing_ns == 3 * MS


def test_samples_at_a_line_that_waits_are_no_python():
    line = waiting()
    text, builder = line.builder.intern, line.builder
    for source, count in (("train.py(22): Log.log", 30), ("train.py(2): log", 10)):
        builder.add(
            "samples", line=text(source), package=text(""), count=count, role=SampleRole.DRIVER
        )
    lines = driver_lines(line.trace(framework="jax"))
    assert lines == {("", False): 30, ("train.py(2): log", False): 10}
