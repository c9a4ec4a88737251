"""Cases of `allocator-pressure` that a literate test cannot express."""

from types import SimpleNamespace

import numpy as np

from stepwhy.diagnose.memory import allocator_pressure


def test_no_growth_is_reported_without_a_steady_step(monkeypatch):
    """A damaged run directory may have steps, but none with a duration."""
    empty = SimpleNamespace(starts=np.empty(0, np.int64), ends=np.empty(0, np.int64))
    monkeypatch.setattr(allocator_pressure, "steady", lambda _facts: empty)
    assert allocator_pressure._growth(SimpleNamespace(trace=None), "memory allocated") == []
