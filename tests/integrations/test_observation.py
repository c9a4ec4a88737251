"""One training after the other as a watched block, and its end with the program."""

import atexit

import pytest

from stepwhy.integrations.observation import Observation


@pytest.fixture
def registered(monkeypatch):
    """What runs at the end of the program."""
    calls = []
    monkeypatch.setattr(atexit, "register", calls.append)
    monkeypatch.setattr(atexit, "unregister", calls.remove)
    return calls


def test_a_training_ends_once(watches, registered):
    observation = Observation(None, quiet=False)
    assert observation.end() is False
    observation.begin()
    assert (observation.is_active, len(registered)) == (True, 1)
    assert observation.end() is True
    assert observation.end() is False
    observation.abort()
    assert (watches[0].ended, registered) == ([None], [])


@pytest.mark.parametrize("error", [None, KeyboardInterrupt()])
def test_a_training_may_end_with_the_program(watches, registered, monkeypatch, error):
    """An exception that ended the program is known."""
    monkeypatch.setattr("sys.last_value", error, raising=False)
    Observation(None, quiet=False).begin()
    registered[0]()
    (found,) = watches[0].ended
    assert type(found).__name__ == ("UnfinishedError" if error is None else "KeyboardInterrupt")


@pytest.mark.usefixtures("idle", "watches")
def test_when_quiet_it_does_not_say_that_it_has_no_effect(registered, capsys):
    observation = Observation(None, quiet=True)
    observation.begin()
    assert (observation.is_active, registered, capsys.readouterr().err) == (False, [], "")
