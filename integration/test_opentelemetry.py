"""`stepwhy run --otlp`: the SDK's own reader, and a collector on this machine."""

from __future__ import annotations

import gzip
import os
import socket
import subprocess
import sys
import threading
import time
import zlib
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

from stepwhy.show.metrics.model import BOUNDS_NS, DurationCounter, Process, Run, Usage
from stepwhy.show.metrics.otlp import Otlp

MS, S = 1_000_000, 1_000_000_000
PROGRAM = """
import sys, time
import stepwhy
for step in range(100):
    time.sleep(0.02)
    stepwhy.step()
sys.exit(7)
"""


def run(*durations_ms, **about):
    counted = DurationCounter(duration * MS for duration in durations_ms).durations()
    steps = {"steps": len(durations_ms), "durations": counted}
    return Run("today", (Process("pytorch", 1, **steps, **about),), is_running=True)


def metrics(reader):
    """Metrics by their names."""
    (resource,) = reader.get_metrics_data().resource_metrics
    (scope,) = resource.scope_metrics
    return {metric.name: metric for metric in scope.metrics}


@pytest.fixture
def reader():
    return InMemoryMetricReader()


@pytest.fixture
def otlp(reader):
    found = Otlp("http://localhost:4318", reader)
    found.prepare()
    yield found
    found.close(Run("today"))


def test_the_same_metrics_in_the_sdk(otlp, reader):
    usage = Usage(10**18, resident_bytes=1000)
    otlp.start(lambda: run(80, 80, 120, input_wait_ns=100 * MS, observed_ns=S, usage=usage))
    found = metrics(reader)
    (steps,) = found["stepwhy.steps"].data.data_points
    assert (steps.value, dict(steps.attributes)) == (
        3,
        {"run": "today", "framework": "pytorch", "rank": "1"},
    )
    assert found["stepwhy.steps"].data.is_monotonic
    assert found["stepwhy.input.wait"].unit == "s"
    assert found["stepwhy.input.wait"].data.data_points[0].value == 0.1
    assert found["stepwhy.process.resident_memory"].data.data_points[0].value == 1000
    assert "stepwhy.process.swapped_memory" not in found
    assert not found.get("stepwhy.queue.elements")


def test_the_histogram_has_the_counts_and_sums_of_the_log(otlp, reader):
    otlp.start(lambda: run(80, 99))
    otlp.publish(run(80, 99, 99, 60, 100, 30_000))
    (point,) = metrics(reader)["stepwhy.step.duration"].data.data_points
    assert point.count == 6
    assert point.sum == pytest.approx(30.438)
    assert point.explicit_bounds == tuple(bound / 1e9 for bound in BOUNDS_NS)
    buckets = zip(point.explicit_bounds, point.bucket_counts, strict=False)
    filled = {bound: count for bound, count in buckets if count}
    assert filled == {0.1: 5, 50.0: 1}


def test_a_new_count_adds_nothing_twice(otlp, reader):
    otlp.start(lambda: run(80, 80, 80))
    otlp.publish(run(1))
    otlp.publish(run(1, 80))
    (point,) = metrics(reader)["stepwhy.step.duration"].data.data_points
    assert point.count == 4


class Collector(BaseHTTPRequestHandler):
    """Receives metrics as a collector does."""

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        inflate = {"gzip": gzip.decompress, "deflate": zlib.decompress}
        body = inflate.get(self.headers.get("Content-Encoding"), bytes)(body)
        self.server.received.append((self.path, self.headers, body))
        answer = ExportMetricsServiceResponse().SerializeToString()
        self.send_response(self.server.status)
        self.send_header("Content-Type", "application/x-protobuf")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_):
        pass


@pytest.fixture
def collector():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Collector)
    server.received, server.status = [], 200
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


def observe(tmp_path, *options, **variables):
    program = tmp_path / "train.py"
    program.write_text(PROGRAM)
    words = [sys.executable, "-m", "stepwhy", "run", "--quiet", "--out", tmp_path / "run", *options]
    env = {k: v for k, v in os.environ.items() if not k.startswith("OTEL_")} | variables
    return subprocess.run(
        [*map(str, words), "--", sys.executable, program],
        capture_output=True,
        text=True,
        env=env,
        check=False,
        timeout=120,
    )


def address(server):
    return f"http://127.0.0.1:{server.server_address[1]}"


@pytest.mark.parametrize("ending", ["", "/", "/v1/metrics"])
def test_a_collector_receives_the_run(tmp_path, collector, ending):
    done = observe(
        tmp_path,
        "--otlp",
        address(collector) + ending,
        OTEL_EXPORTER_OTLP_HEADERS="x-token=abc",
        OTEL_RESOURCE_ATTRIBUTES="team=vision",
    )
    assert (done.returncode, done.stderr) == (7, "")
    path, headers, body = collector.received[-1]
    assert (path, headers["x-token"]) == ("/v1/metrics", "abc")
    (resource,) = ExportMetricsServiceRequest.FromString(body).resource_metrics
    attributes = {a.key: a.value.string_value for a in resource.resource.attributes}
    assert (attributes["service.name"], attributes["team"]) == ("stepwhy", "vision")
    assert "host.name" not in attributes
    found = {metric.name: metric for metric in resource.scope_metrics[0].metrics}
    assert 90 <= found["stepwhy.steps"].sum.data_points[0].as_int <= 100
    assert found["stepwhy.step.duration"].histogram.data_points[0].count >= 90
    assert found["stepwhy.run.running"].gauge.data_points[0].as_int == 0


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        ("refused", "the collector cannot be reached (Connection refused)"),
        ("forbidden", "the collector refused them (HTTP status 403)"),
    ],
    ids=["refused", "forbidden"],
)
def test_a_failing_collector_is_said_once_and_changes_nothing(tmp_path, collector, answer, text):
    collector.status = 403
    where = address(collector) if answer == "forbidden" else "http://127.0.0.1:9"
    done = observe(tmp_path, "--otlp", where, OTEL_METRIC_EXPORT_INTERVAL="300")
    assert done.returncode == 7
    assert done.stderr == f"stepwhy: metrics for OpenTelemetry: {text}\n"


def test_a_collector_that_never_answers_does_not_hold_up_the_end(tmp_path):
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        started_s = time.monotonic()
        done = observe(tmp_path, "--otlp", f"http://127.0.0.1:{silent.getsockname()[1]}")
    assert done.returncode == 7
    text = "the collector has not answered in time"
    assert done.stderr == f"stepwhy: metrics for OpenTelemetry: {text}\n"
    assert time.monotonic() - started_s < 15  # of which the training takes 2 s


@pytest.mark.parametrize("wrong", ["collector:4318", "grpc://collector:4317", "http://", "x"])
def test_another_address_is_said_before_the_training(tmp_path, wrong):
    done = observe(tmp_path, "--otlp", wrong)
    assert done.returncode == 7
    assert done.stderr.count("\n") == 1
    assert "--otlp needs the address of a collector for OTLP over HTTP" in done.stderr


def test_nothing_is_sent_without_the_option(tmp_path, collector):
    done = observe(tmp_path, OTEL_EXPORTER_OTLP_ENDPOINT=address(collector))
    assert done.returncode == 7
    assert collector.received == []
