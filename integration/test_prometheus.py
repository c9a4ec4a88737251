"""`stepwhy run` with metrics for Prometheus: a file and a port, while a program trains."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
import urllib.request

import pytest
from prometheus_client.parser import text_string_to_metric_families as parsed

PROGRAM = """
import sys, time
import stepwhy
for step in range(int(sys.argv[1])):
    time.sleep(0.02)
    stepwhy.step()
sys.exit(7)
"""


@pytest.fixture
def program(tmp_path):
    path = tmp_path / "train.py"
    path.write_text(PROGRAM)
    return path


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def command(program, *options, steps=100):
    words = [sys.executable, "-m", "stepwhy", "run", "--out", program.parent / "run", *options]
    return list(map(str, [*words, "--", sys.executable, program, steps]))


def ended(words):
    return subprocess.run(words, capture_output=True, text=True, check=False, timeout=120)


def values(text):
    return {sample.name: sample.value for family in parsed(text) for sample in family.samples}


def test_the_file_has_all_steps_at_the_end(program):
    file = program.parent / "out.prom"
    done = ended(command(program, "--quiet", "--metrics-file", file))
    assert (done.returncode, done.stderr) == (7, "")
    found = values(file.read_text())
    assert found["stepwhy_run_running"] == 0
    assert 90 <= found["stepwhy_steps_total"] <= 100
    mean_s = (
        found["stepwhy_step_duration_seconds_sum"] / found["stepwhy_step_duration_seconds_count"]
    )
    assert mean_s == pytest.approx(0.021, rel=0.3)
    assert "stepwhy_input_wait_seconds_total" not in found


def test_a_scrape_sees_the_training_grow(program):
    port = free_port()
    running = subprocess.Popen(command(program, "--quiet", "--metrics-port", port, steps=400))
    try:
        address = f"http://127.0.0.1:{port}/metrics"
        seen, deadline_s = [], time.monotonic() + 60
        while running.poll() is None and time.monotonic() < deadline_s:
            try:
                with urllib.request.urlopen(address, timeout=5) as answer:
                    seen.append(values(answer.read().decode()))
            except OSError:
                pass
            time.sleep(0.2)
        assert running.wait(60) == 7
    finally:
        running.kill()
    counts = [found.get("stepwhy_steps_total", 0) for found in seen]
    assert counts == sorted(counts)
    assert len(set(counts)) > 3
    assert all(found["stepwhy_run_running"] == 1 for found in seen)
    resident = [found.get("stepwhy_process_resident_memory_bytes", 0) for found in seen]
    assert max(resident) > 1 << 20


def test_what_cannot_be_published_does_not_stop_the_training(program):
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        words = ("--metrics-port", port, "--metrics-file", program.parent / "no" / "x.prom")
        done = ended(command(program, "--quiet", *words))
    assert done.returncode == 7
    assert done.stderr.count(f"port {port} cannot be used") == 1
    assert done.stderr.count("the folder of x.prom does not exist") == 1


def test_a_file_that_cannot_be_written_is_said_once(program):
    done = ended(command(program, "--quiet", "--metrics-file", "/proc/x.prom"))
    assert done.returncode == 7
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("stepwhy: metrics in a file: they could not be published (")


def test_a_folder_is_said_before_the_training(program):
    done = ended(command(program, "--quiet", "--metrics-file", program.parent))
    assert done.returncode == 7
    assert done.stderr.count("\n") == 1
    assert "is a folder. Name a file with --metrics-file. The training runs" in done.stderr
