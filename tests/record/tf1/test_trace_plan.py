"""Which steps are traced, depending on the cost of earlier ones."""

from __future__ import annotations

from stepwhy.record.tf1.trace_plan import TracePlan

_MS = 1_000_000


class Loop:
    """A loop of equal steps of one run under a plan."""

    def __init__(self, plan: TracePlan, *, size: int = 0, duration_ns: int = _MS) -> None:
        self.plan, self.size, self.duration_ns = plan, size, duration_ns
        self.time_ns = 1
        self.traced: list[int] = []

    def run(self, steps: int, signature: int = 0) -> list[int]:
        """The numbers of the steps that are traced."""
        for _ in range(steps):
            kind = self.plan.run_times(signature)
            if self.plan.leads(kind):
                self.plan.open(kind, self.time_ns)
            else:
                self.plan.follow()
            if self.plan.traces_run():
                self.traced.append(kind.count)
                self.plan.traced(self.duration_ns, self.size)
            kind.add(self.duration_ns)
            self.time_ns += self.duration_ns
        return self.traced


def test_five_steps_are_traced_with_one_or_two_between_them() -> None:
    assert Loop(TracePlan()).run(100) == [3, 5, 8, 10, 13]


def test_steps_of_both_kinds_are_traced_where_they_take_turns() -> None:
    traced = Loop(TracePlan()).run(100)
    assert {number % 2 for number in traced} == {0, 1}


def test_a_window_is_bounded_in_bytes() -> None:
    assert Loop(TracePlan(), size=30 << 20).run(100) == [3, 5, 8]


def test_a_window_is_bounded_in_time() -> None:
    assert Loop(TracePlan(), duration_ns=15_000 * _MS).run(20) == [3, 5]


def test_a_traced_step_is_never_only_timed() -> None:
    plan = TracePlan()
    loop = Loop(plan)
    loop.run(12)
    for _ in range(200):
        loop.run(1)
        assert not (plan.light and plan.tracing)


def test_no_tracing_after_a_window_could_not_be_written() -> None:
    plan = TracePlan()
    loop = Loop(plan)
    loop.run(4)
    plan.stop()
    assert loop.run(4000) == [3]


def test_number_of_windows_is_limited() -> None:
    loop = Loop(TracePlan())
    for factor in (1, 4, 1, 4, 1):
        loop.duration_ns = factor * _MS
        loop.run(4000)
    assert len(loop.traced) == 15


def test_second_loop_is_traced_too() -> None:
    plan = TracePlan()
    loop = Loop(plan)
    loop.run(38)
    assert plan.light
    loop.duration_ns = 1
    loop.run(1023, signature=1)
    assert plan.light
    loop.run(1, signature=1)
    assert not plan.light


def test_heavier_kind_of_run_takes_over_the_steps() -> None:
    plan = TracePlan()
    loop = Loop(plan)
    loop.run(100)
    loop.duration_ns = 10 * _MS
    traced = loop.run(200, signature=1)
    assert traced[:5] == [3, 5, 8, 10, 13]
    # After 50 runs it is frequent enough; it is compared at every sixteenth run.
    assert traced[5:] == [64, 66, 69, 71, 74]


def test_an_update_begins_the_steps_although_values_are_computed_more_often() -> None:
    plan = TracePlan()
    loop, opened = Loop(plan), []
    plan.run_times(1).for_effect = True
    for _ in range(20):
        for signature in (*[0] * 8, 1):
            loop.run(1, signature)
            opened += [signature] if plan.opens else []
    assert opened[-10:] == [1] * 10
