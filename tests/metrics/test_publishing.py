"""Publishers at work: in time, at the end, and when they fail."""

from __future__ import annotations

import threading
import urllib.error
import urllib.request

import pytest

from stepwhy.base.errors import OutputError
from stepwhy.show.metrics import publishing
from stepwhy.show.metrics.endpoint import Endpoint
from stepwhy.show.metrics.model import Run
from stepwhy.show.metrics.publishing import Publications, prepared
from stepwhy.show.metrics.textfile import Textfile

pytest.importorskip("prometheus_client")


class Recording:
    """A publisher that records what it is asked to do, and may fail."""

    what = "metrics on paper"

    def __init__(self, failing=""):
        self.calls, self._failing = [], failing
        self.published = threading.Event()

    def _do(self, what, run=None):
        self.calls.append((what, run and run.is_running))
        if what == self._failing:
            raise OSError(28, "No space left on device")

    def prepare(self):
        self._do("prepare")

    def start(self, read):
        self._do("start", read())

    def publish(self, run):
        self.published.set()
        self._do("publish", run)

    def close(self, run):
        self._do("close", run)


@pytest.fixture
def run_briefly(monkeypatch):
    """Publish until a publisher has published once; returns the messages."""
    monkeypatch.setattr(publishing, "_INTERVAL_S", 0.001)

    def run(publisher):
        failures = []
        with Publications([publisher], lambda on: Run("x", (), on), failures.append):
            publisher.published.wait(0.2 if publisher._failing == "start" else 5)
        return failures

    return run


def test_numbers_are_published_until_the_end(run_briefly):
    publisher = Recording()
    assert run_briefly(publisher) == []
    assert publisher.calls[:2] == [("start", True), ("publish", True)]
    assert publisher.calls[-1] == ("close", False)


@pytest.mark.parametrize("where", ["start", "publish", "close"])
def test_a_failure_is_said_once(run_briefly, where):
    publisher = Recording(where)
    text = "metrics on paper: they could not be published (No space left on device)"
    assert run_briefly(publisher) == [text]


def test_a_publisher_that_cannot_start_does_nothing_more(run_briefly):
    publisher = Recording("start")
    run_briefly(publisher)
    assert publisher.calls == [("start", True)]


def test_one_that_hangs_does_not_hold_up_the_end(monkeypatch):
    monkeypatch.setattr(publishing, "_LONGEST_CLOSE_S", 0.01)
    publisher, go_on, failures = Recording(), threading.Event(), []
    publisher.close = lambda _: go_on.wait(10)
    with Publications([publisher], lambda on: Run("x", (), on), failures.append):
        pass
    go_on.set()
    assert failures == ["metrics on paper: the last ones could not be published in time"]


def test_what_cannot_work_is_said_before_the_training(tmp_path):
    lines = []
    able = Textfile(tmp_path / "x.prom")
    assert prepared([Textfile(tmp_path / "no" / "x.prom"), able], lines.append) == [able]
    (line,) = lines
    assert line == (
        "the folder of x.prom does not exist. Create it for --metrics-file. "
        "The training runs without metrics in a file"
    )


def test_the_file_is_replaced_and_stays(tmp_path):
    path = tmp_path / "x.prom"
    textfile = Textfile(path)
    textfile.prepare()
    textfile.start(lambda: Run("x", (), True))
    assert 'stepwhy_run_running{run="x"} 1.0' in path.read_text()
    textfile.close(Run("x", ()))
    assert 'stepwhy_run_running{run="x"} 0.0' in path.read_text()
    assert [p.name for p in tmp_path.iterdir()] == ["x.prom"]


@pytest.fixture
def endpoint():
    found = Endpoint(0)
    found.prepare()
    found.start(lambda: Run("x", (), True))
    yield found
    found.close(Run("x"))


def get(endpoint, path="/metrics", **headers):
    request = urllib.request.Request(f"http://127.0.0.1:{endpoint.port}{path}", headers=headers)
    with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310
        return answer.headers["Content-Type"], answer.read().decode()


def test_a_scrape_is_answered(endpoint):
    kind, text = get(endpoint)
    assert kind.startswith("text/plain; version=")
    assert 'stepwhy_run_running{run="x"} 1.0' in text


def test_only_this_machine_can_connect(endpoint):
    assert endpoint._server.socket.getsockname()[0] == "127.0.0.1"


@pytest.mark.parametrize(
    ("path", "headers"), [("/", {}), ("/metrics", {"Host": "evil.example:80"}), ("/x/metrics", {})]
)
def test_other_requests_are_refused(endpoint, path, headers):
    with pytest.raises(urllib.error.HTTPError) as refused:
        get(endpoint, path, **headers)
    assert refused.value.code == 404
    refused.value.close()


def test_a_port_in_use_is_said(endpoint):
    with pytest.raises(OutputError, match=f"port {endpoint.port} cannot be used"):
        Endpoint(endpoint.port).prepare()
