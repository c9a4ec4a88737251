"""What holds for all tests of damaged inputs."""

import pytest


@pytest.fixture(autouse=True, scope="module")
def generated_seeds_only():
    """Shortening recorded traces takes longer than these tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("STEPWHY_TRACES", raising=False)
        yield
