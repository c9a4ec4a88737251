"""Health counters."""

from stepwhy.trace import Health, HealthCounter


def test_a_counter_adds_up_and_zero_leaves_no_trace():
    health = Health()
    health.count("a", "info", "A.", count=0, dropped=True)
    assert health.counters == ()
    assert not health.has("a")
    health.count("a", "info", "A.", count=2, dropped=True)
    health.count("a", "info", "A.", dropped=True)
    assert health.counters == (HealthCounter("a", "info", 3, "A.", dropped=True),)
    assert health.has("a")


def test_counters_come_worst_first():
    health = Health()
    for name, severity in [("b", "info"), ("a", "info"), ("z", "error"), ("m", "warning")]:
        health.count(name, severity, "", dropped=False)
    assert [c.counter for c in health.counters] == ["z", "m", "a", "b"]


def test_only_dropped_events_count_as_dropped():
    health = Health()
    health.count("lost", "error", "", count=3, dropped=True)
    health.count("repaired", "warning", "", count=5, dropped=False)
    assert health.dropped == 3
