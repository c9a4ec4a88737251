"""Explicit steps, with a driver that records its calls."""

from __future__ import annotations

import json
import threading

import pytest

from stepwhy.record import explicit_drivers, explicit_steps
from stepwhy.record.core.process import lifetime
from stepwhy.record.steps import step_marks


class Recorder:
    def __init__(self):
        self.alive = True
        self.lines = []

    def step(self, line):
        self.lines.append(json.loads(line))

    def stop(self, _):
        self.alive = False


class Driver:
    def __init__(self):
        self.recorder = Recorder()
        self.calls = []

    def begin(self):
        self.calls.append("begin")

    def boundary(self):
        self.calls.append("boundary")

    def end(self):
        self.calls.append("end")
        self.recorder.step('{"kind":"noted"}')

    def touched(self):
        return False

    def computes(self):
        return True


@pytest.fixture
def driver(monkeypatch):
    """The driver that receives the steps."""
    for name, value in {"_begins": [], "_ends": []}.items():
        monkeypatch.setattr(lifetime, name, value)
    monkeypatch.setattr(lifetime.atexit, "register", lambda _: None)
    monkeypatch.setattr(lifetime.os, "register_at_fork", lambda **_: None)
    monkeypatch.setattr(explicit_steps, "_steps", None)
    monkeypatch.setattr(explicit_steps, "_is_observed", False)
    driver = Driver()
    monkeypatch.setattr(explicit_drivers, "choose", lambda: driver)
    explicit_steps.begin()
    yield driver
    explicit_steps.end()


def kinds(driver):
    return [line["kind"] for line in driver.recorder.lines]


def test_calls_are_boundaries(driver):
    for _ in range(4):
        explicit_steps.step()
    # The first step is logged here, because the driver is known only after it.
    assert kinds(driver) == ["explicit", "step"]
    assert driver.calls == ["begin", "boundary", "boundary"]


@pytest.mark.usefixtures("driver")
def test_loop_without_explicit_steps_does_not_affect_others():
    assert not step_marks.marker()
    explicit_steps.step()
    assert step_marks.marker()
    explicit_steps.end()
    assert step_marks.marker() is None


def test_the_last_step_ends_with_its_work(driver):
    for _ in range(3):
        with explicit_steps.step():
            pass
    explicit_steps.end()
    # Steps that the driver has only noted come before the last one.
    assert kinds(driver) == ["explicit", "step", "noted", "step"]
    assert driver.calls == ["begin", "boundary", "end"]


def test_a_plain_call_leaves_no_last_step(driver):
    for _ in range(3):
        explicit_steps.step()
    explicit_steps.end()
    assert kinds(driver) == ["explicit", "step"]


def test_aborted_step_is_not_logged(driver):
    for _ in range(2):
        with explicit_steps.step():
            pass
    with pytest.raises(LookupError), explicit_steps.step():
        raise LookupError
    assert driver.calls == ["begin", "boundary"]
    with explicit_steps.step():
        pass
    assert driver.calls == ["begin", "boundary", "begin"]


def test_a_step_within_a_step_is_part_of_it(driver):
    for _ in range(3):
        with explicit_steps.step(), explicit_steps.step():
            explicit_steps.step()
    assert driver.calls == ["begin", "boundary"]


def test_only_the_first_thread_marks_steps(driver):
    explicit_steps.step()
    other = threading.Thread(target=lambda: [explicit_steps.step() for _ in range(9)])
    other.start()
    other.join()
    explicit_steps.step()
    assert driver.calls == ["begin"]


def test_failing_driver_does_not_affect_the_training(driver, monkeypatch):
    explicit_steps.step()
    explicit_steps.step()
    monkeypatch.setattr(driver, "boundary", lambda: 1 // 0)
    with explicit_steps.step():
        pass
    assert not driver.recorder.alive
    explicit_steps.step()
    explicit_steps.end()
    assert kinds(driver) == ["explicit", "step"]


def test_step_does_nothing_without_observation(driver):
    explicit_steps.end()
    with explicit_steps.step():
        explicit_steps.step()
    assert driver.recorder.lines == driver.calls == []
