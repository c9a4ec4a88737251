"""Requests for a window from outside of the process."""

import json

import pytest

from stepwhy.record.core.requests import (
    ANSWER_FILE,
    REQUEST_FILE,
    Request,
    Requests,
    answered,
    ask,
    requested,
)


@pytest.fixture
def seen():
    return []


@pytest.fixture
def requests(seen):
    found = Requests()
    found.opens = lambda request: not seen.append(request)
    return found


def test_a_request_is_answered_once_and_removed(tmp_path, requests, seen):
    requests.look(tmp_path)
    ask(tmp_path, Request(1212, 1050))
    assert answered(tmp_path, 1212) is None
    requests.look(tmp_path)
    requests.look(tmp_path)
    assert seen == [Request(1212, 1050)]
    assert not (tmp_path / REQUEST_FILE).exists()
    assert answered(tmp_path, 1212) is True
    assert answered(tmp_path, 9) is None


def test_a_process_without_windows_refuses(tmp_path):
    ask(tmp_path, Request(1212, 1050))
    Requests().look(tmp_path)
    assert answered(tmp_path, 1212) is False


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{",
        '{"schema": "stepwhy.request/2", "step": 1, "since": 1}',
        '{"schema": "stepwhy.request/1", "step": -1, "since": 1}',
        '{"schema": "stepwhy.request/1", "step": true, "since": 1}',
        '{"schema": "stepwhy.request/1", "step": 1}',
    ],
)
def test_a_damaged_request_is_removed_without_an_answer(text, tmp_path, requests, seen):
    (tmp_path / REQUEST_FILE).write_text(text)
    assert requested(tmp_path) is None
    requests.look(tmp_path)
    assert seen == []
    assert list(tmp_path.iterdir()) == []


def test_a_failure_turns_requests_off(tmp_path):
    def fail(_):
        calls.append(1)
        raise RuntimeError

    calls, requests = [], Requests()
    requests.opens = fail
    for _ in range(2):
        ask(tmp_path, Request(1, 0))
        requests.look(tmp_path)
    assert calls == [1]


def test_what_is_no_file_is_no_request(tmp_path, requests, seen):
    (tmp_path / REQUEST_FILE).mkdir()
    requests.look(tmp_path)
    assert seen == []


def test_the_answer_says_what_was_asked(tmp_path, requests):
    ask(tmp_path, Request(3, 1))
    requests.look(tmp_path)
    answer = {"schema": "stepwhy.answer/1", "step": 3, "accepted": True}
    assert json.loads((tmp_path / ANSWER_FILE).read_text()) == answer
