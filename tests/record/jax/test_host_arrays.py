"""Large NumPy arrays that are copied to the device."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from stepwhy.record.core.recorder import Recorder
from stepwhy.record.jax import host_arrays
from stepwhy.record.jax.host_arrays import HostArrays
from stepwhy.record.steps.loop import Loop
from stepwhy.record.steps.step_window import NoWindow

if TYPE_CHECKING:
    from pathlib import Path

LARGE = (512, 1024)


@pytest.fixture
def arrays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> HostArrays:
    monkeypatch.setattr(host_arrays, "user_line", lambda _: "train.py(3): main")
    return HostArrays(Loop(Recorder(str(tmp_path), "jax", "1.0", "jax-jit"), NoWindow()))


def copies(arrays: HostArrays, tmp_path: Path) -> list[dict[str, Any]]:
    arrays._loop.recorder.step('{"kind":"call"}')
    arrays._loop.recorder.close()
    log = tmp_path / f"process-{os.getpid()}" / "events.jsonl"
    return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []


def test_large_arrays_are_logged_and_recognised_by_their_content(
    arrays: HostArrays, tmp_path: Path
) -> None:
    buffer = np.ones(LARGE, np.float32)
    arrays.passed((3, buffer, np.ones(3)))
    arrays.passed((buffer.copy(),))
    buffer[:] = 2  # a buffer of the next batch
    arrays.passed((buffer,))
    arrays.passed((buffer.T,))
    found = copies(arrays, tmp_path)
    assert [(e["kind"], e["count"], e.get("reason", "")) for e in found] == [
        ("copy", 2 << 20, ""),
        ("copy", 2 << 20, "unchanged"),
        ("copy", 2 << 20, ""),
        ("copy", 2 << 20, ""),
    ]
    assert found[0]["name"] == "float32[512, 1024]"
    assert found[0]["source"] == "train.py(3): main"


def test_arrays_that_jax_has_wrapped_are_found(arrays: HostArrays, tmp_path: Path) -> None:
    class TypedNdArray:
        val = np.ones(LARGE, np.float32)

    arrays.passed([TypedNdArray()])
    assert len(copies(arrays, tmp_path)) == 1


def test_the_number_of_logged_copies_is_limited(
    arrays: HostArrays, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host_arrays, "_MOST_COPIES", 3)
    for _ in range(9):
        arrays.passed((np.ones(LARGE, np.float32),))
    assert len(copies(arrays, tmp_path)) == 3
