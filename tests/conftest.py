"""What holds for all tests."""

import pytest


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Keep the tests that run a framework on one worker: they time steps, and fill the cores."""
    for item in items:
        if item.get_closest_marker("framework"):
            item.add_marker(pytest.mark.xdist_group("framework"))
