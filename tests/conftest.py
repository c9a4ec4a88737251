"""What holds for all tests."""

import gc
import os
import signal
import subprocess
import sys
import time
from contextlib import ExitStack, closing
from functools import cache

import pytest
from hypothesis import HealthCheck, settings

from stepwhy.base.columns import code_cache, compiled
from stepwhy.record.core.process import lifetime
from tests.forks import Forks

# A shell's background job ignores the interrupt, and so would every program that a test starts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# The workers of a run share the cores. A thread of PyTorch that waits for another one would keep a
# core busy, and on a busy machine a program takes twice as long. PyTorch reads this when it starts.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

# On a busy machine an example takes as long as it likes. The same examples are tried everywhere.
settings.register_profile(
    "stepwhy", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("stepwhy")

# Longer parameters are counted in a test's name, not shown.
_LONGEST_SHOWN = 200


def pytest_make_parametrize_id(val, argname):
    """Name whole documents and compressed bytes by their length.

    gzip writes the time of day into its head: the workers of one run would name a test differently.
    """
    if not isinstance(val, str | bytes):
        return None
    is_compressed = isinstance(val, bytes) and val.startswith(b"\x1f\x8b")
    return f"{argname} of {len(val)}" if is_compressed or len(val) > _LONGEST_SHOWN else None


def pytest_configure(config):
    """Compiled kernels of tests are their own, kept from run to run, and made by request alone."""
    compiled.can_compile = lambda: False  # tests start no compiler behind their backs
    if hasattr(config, "cache"):  # not with -p no:cacheprovider
        os.environ.setdefault("STEPWHY_CACHE", str(config.cache.mkdir("kernels")))


@pytest.fixture(autouse=True)
def no_settings_of_tests(monkeypatch):
    """Let no process of a test log the settings that the code of other tests names."""
    monkeypatch.setattr("stepwhy.record.core.recorder.setting_lines", list)


@pytest.fixture(autouse=True)
def no_windows_of_other_tests():
    """Let no fork of a test wait for the windows that tests before it left open."""
    before = lifetime._forks.copy()
    yield
    lifetime._forks[:] = before


@pytest.fixture(scope="session")
def kernels():
    """What loads a module of kernels, all of which are compiled."""
    end = time.monotonic() + 300
    while not code_cache.code_folder().exists() and time.monotonic() < end:
        # It fails while another worker of the same run is compiling.
        build = [sys.executable, "-m", "stepwhy.base.columns.compile"]
        if subprocess.run(build, check=False).returncode:
            time.sleep(0.5)
    compiled.load.cache_clear()
    return compiled.load


@pytest.fixture(scope="session")
def forks():
    """Returns the process of a framework that runs scripts without stepwhy."""
    with ExitStack() as stack:
        yield cache(lambda framework: stack.enter_context(closing(Forks(framework))))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Keep the tests that run a framework on one worker: they time steps, and fill the cores.

    Those that time nothing may have a group of their own.
    """
    for item in items:
        if item.get_closest_marker("framework") and not item.get_closest_marker("xdist_group"):
            item.add_marker(pytest.mark.xdist_group("framework"))


def pytest_collection_finish():
    """Hide thousands of tests and what they import from the collector of garbage.

    What forks in a test collects first, and what observes PyTorch looks through all objects.
    """
    gc.collect()
    gc.freeze()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Hand out all cases of a test at once.

    The scheduler counts, after each test, all that it has handed out: thousands of single cases
    would take it longer than the tests themselves.
    """
    if config.getoption("dist") != "loadgroup":
        return None
    from xdist.scheduler import LoadGroupScheduling

    class WholeTests(LoadGroupScheduling):
        def _split_scope(self, nodeid):
            return super()._split_scope(nodeid).partition("[")[0]

        def remove_node(self, node):
            """Give the rest of a worker that crashed to others, without the test it crashed in."""
            units = self.assigned_work[node].values()
            left = [(unit, test) for unit in units for test, is_done in unit.items() if not is_done]
            if left:
                unit, crashed = left[0]
                unit[crashed] = True
            super().remove_node(node)
            return crashed if left else None

    return WholeTests(config, log)
