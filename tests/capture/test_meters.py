"""The meters of a step."""

from __future__ import annotations

import json
import threading

from stepwhy.capture.meters import CompileTime, InputWait, ThreadTime


def test_nested_compile_times_count_once() -> None:
    time = CompileTime()
    time.add("trace inner", 20, 30)
    time.add("trace outer", 10, 50)
    time.add("lower", 50, 60)
    assert time.began_ns() == 10
    found = json.loads("{" + time.take()[1:] + "}")
    assert found == {"compile_ns": 50, "compiled": {"trace outer": 40, "lower": 10}}
    assert time.take() == ""


def test_reading_a_wait_resets_it() -> None:
    wait = InputWait()
    wait.add(3)
    wait.add(4)
    assert [wait.take(), wait.take()] == [7, None]


def test_cpu_time_of_a_thread_is_since_the_last_reading() -> None:
    time = ThreadTime()
    assert time.take() is None
    sum(range(10_000))
    used = time.take()
    assert used is not None
    assert used > 0
    seen: list[int | None] = []
    thread = threading.Thread(target=lambda: seen.append(time.take()))
    thread.start()
    thread.join()
    assert seen == [None]
    assert time.take() is None
