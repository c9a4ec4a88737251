"""The time of a step where the host runs ahead of the device."""

import pytest
from tests.analyse.timeline import MS, Timeline

from stepwhy.analyse.answers.step_summary import step_notes
from stepwhy.analyse.answers.verdict import decide
from stepwhy.analyse.facts import Facts
from stepwhy.result.reasons import Gap, Lack, LongSteps, RanAhead
from stepwhy.trace import Kind


class Loop:
    """A loop that launches a step in 1 ms, which the device computes in 20 ms."""

    def __init__(self, profiled=(0, 1, 2, 3, 80), unit_ns=MS):
        self.line = Timeline(unit_ns).steps(*profiled)
        self.line.add(self.device(), Kind.KERNEL, profiled[0], profiled[-1])
        self.at = 1000

    def device(self):
        return self.line.executor()

    def ahead(self, count, **mark):
        """Steps that are launched only."""
        for _ in range(count):
            self._step(1, drained=0, **mark)
        return self

    def waits(self, for_steps, **mark):
        """A step at whose end the device has done the work of this and earlier steps."""
        self._step(20 * for_steps - (for_steps - 1), drained=1, **mark)
        return self

    def _step(self, length, **mark):
        self.line.mark(self.at, self.at + length, **mark)
        self.at += length

    def pause(self, length, **mark):
        self._step(length, drained=1, **mark)
        return self

    def event(self, kind, start, length):
        name = self.line.builder.intern(kind)
        row = {"kind": name, "name": name, "start_ns": start * MS, "dur_ns": length * MS}
        self.line.builder.add("events", **row)
        return self

    def facts(self, **meta):
        return Facts(self.line.trace(framework="jax", **meta))


def test_the_step_is_the_mean_from_one_wait_to_the_next():
    loop = Loop()
    for _ in range(3):
        loop.ahead(9).waits(10)
    facts = loop.ahead(7).facts()
    # The last steps, which the device has not computed, do not count.
    assert facts.wall_ns == facts.observed.wall_ns == 20 * MS
    assert (facts.observed.uneven, facts.observed.wait_traced) == (True, True)
    assert step_notes(facts) == (RanAhead(4, 20 * MS),)
    assert decide(facts).bound_by == "compute"


class Unmarked(Loop):
    """Such a loop whose log does not say where the device had caught up, as of PyTorch."""

    def device(self):
        return self.line.stream()

    def _step(self, length, **mark):
        super()._step(length, **{k: v for k, v in mark.items() if k != "drained"})


def test_where_the_device_caught_up_follows_from_its_work():
    loop = Unmarked(profiled=(0, 20, 40, 60, 80))
    # The queue fills, is full, and empties in a wait, at different times.
    for count in (5, 9, 14):
        loop.ahead(count)
        for _ in range(count):
            loop._step(20)
        loop.waits(count + 1)
    facts = loop.ahead(7).facts()
    assert facts.wall_ns == 20 * MS
    assert step_notes(facts) == (RanAhead(4, 20 * MS),)


def test_work_that_takes_longer_under_the_profiler_hides_no_wait():
    loop = Unmarked(profiled=(0, 22, 44, 66, 88))
    for count in (5, 9, 14):
        loop.ahead(count).waits(count + 1)
    assert loop.ahead(7).facts().wall_ns == 20 * MS


def test_a_device_that_never_seems_to_catch_up_was_slower_under_the_profiler():
    loop = Unmarked(profiled=(0, 20, 40, 60, 80))
    for number in range(60):
        loop._step(15 + number % 2)
    facts = loop.facts()
    assert facts.observed.ahead is None
    assert 15 * MS <= facts.wall_ns <= 16 * MS


@pytest.mark.parametrize("length", [21, 40])
def test_steps_that_outlast_the_work_of_the_device_each_have_their_time(length):
    loop = Unmarked(profiled=(0, 20, 40, 60, 80))
    for number in range(40):
        loop._step(length + number % 2)
    observed = loop.facts().observed
    assert (observed.ahead, observed.uneven) == (None, False)


def test_steps_before_the_first_wait_count_if_the_loop_began_with_them():
    assert Loop().ahead(19).waits(20).facts().wall_ns == 20 * MS


def test_where_all_waits_are_in_profiled_steps_those_count():
    loop = Loop().pause(900).ahead(2).ahead(30, profiled=1).ahead(20).waits(53)
    observed = loop.facts().observed
    assert (observed.wall_ns, observed.ahead.with_profiled) == (20 * MS, True)
    (note,) = step_notes(loop.facts())
    assert note.with_profiled


def test_without_a_wait_the_step_takes_at_least_the_mean():
    facts = Loop().pause(900).ahead(40).facts()
    assert facts.observed.ahead.at_least
    assert decide(facts).reason == Gap(Lack.LAST_WAIT, MS)
    assert step_notes(facts) == (RanAhead(4, MS, at_least=True),)


def test_in_a_long_run_the_steps_that_are_left_at_its_end_do_not_matter():
    loop = Loop().ahead(32)
    for _ in range(400):
        loop._step(20, drained=0)  # the host may run no further ahead
    observed = loop.facts().observed
    assert (observed.wall_ns, observed.ahead) == (20 * MS, None)


@pytest.mark.parametrize("waits", [True, False], ids=["waits in each step", "unknown"])
def test_otherwise_the_median_step_is_the_step(waits):
    loop = Loop()
    for number in range(30):
        loop._step(100 if number % 10 == 3 else 20, **({"drained": 1} if waits else {}))
    observed = loop.facts().observed
    assert (observed.wall_ns, observed.ahead) == (20 * MS, None)


def test_steps_that_compile_do_not_count_and_neither_do_pauses():
    loop = Loop()
    for _ in range(12):
        loop.ahead(9).waits(10)
    loop.event("compile", loop.at + 1, 400).ahead(1).pause(500).ahead(1).pause(900)
    facts = loop.ahead(9).waits(10).facts()
    assert facts.wall_ns == 20 * MS
    assert facts.observed.stalls_ns == {}
    assert any(isinstance(note, LongSteps) for note in step_notes(facts))


def test_steps_that_compile_again_and_again_count():
    loop = Loop()
    for _ in range(10):
        loop.event("compile", loop.at + 9, 100).ahead(9).pause(11 + 180)
    facts = loop.facts()
    assert facts.observed.stalls_ns == {"compile": 10 * MS}
    assert facts.wall_ns == 20 * MS


def test_a_profile_that_ends_while_the_device_is_behind_shows_the_shares_of_its_time():
    # The device has computed 2 of the 8 steps when the profile ends.
    loop = Loop(profiled=(0, 1, 2, 3, 4, 5, 6, 7, 40))
    loop.at = 0
    loop.ahead(7, profiled=1)
    loop._step(33, profiled=1, drained=0)
    loop._step(120, drained=1)
    facts = loop.ahead(19).waits(20).facts()
    assert facts.observed.wait_traced
    assert facts.breakdown["compute"] == facts.wall_ns == 20 * MS


def test_work_of_an_accelerator_is_traced_with_its_own_ends():
    line = Timeline().steps(0, 1, 2, 3)
    line.add(line.stream(), Kind.KERNEL, 0, 3)
    for number in range(30):
        length = 191 if number % 10 == 9 else 1
        line.mark(1000 * number, 1000 * number + length, drained=int(length > 1))
    assert Facts(line.trace(framework="jax")).observed.wait_traced
