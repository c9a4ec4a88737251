"""Stack samples: parsed by hand, and of a real thread whose shares are known."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
import threading

import pytest

from stepwhy.capture import tf1_sources
from stepwhy.capture.stacks import count_lines

STDLIB = threading.__file__


@pytest.fixture
def text(tmp_path, monkeypatch):
    """Three samples of thread 10, the last one torn, and one of thread 255 in the library."""
    monkeypatch.setattr(tf1_sources, "script_dir", lambda: str(tmp_path))
    train = tmp_path / "train.py"
    return f"""Timeout (0:00:00.007100)!
Thread 0x00000000000000ff (most recent call first):
  File "{STDLIB}", line 320 in wait

Thread 0x000000000000000a (most recent call first):
  File "/env/lib/python3.11/site-packages/numpy/core/fft.py", line 7 in fft
  File "{train}", line 12 in augment
  File "{train}", line 40 in <module>
Timeout (0:00:00.007100)!
Thread 0x000000000000000a (most recent call first):
  File "{train}", line 13 in augment
  File "{train}", line 40 in <module>
Timeout (0:00:00.007100)!
Thread 0x000000000000000a (most recent call first):
  File "/env/lib/python3.11/site-packages/numpy/core/fft.py", line 7 in fft
  File "{train}", line 12 in augm""".encode()


def test_lines_of_one_thread(text):
    assert dict(count_lines(text, 10)) == {
        ("train.py(12): augment", "numpy"): 1,
        ("train.py(13): augment", ""): 1,
        ("train.py(12): augm", "numpy"): 1,
    }


def test_a_thread_without_own_code(text):
    assert dict(count_lines(text, 255)) == {("", "python"): 1}


def test_nothing_written():
    assert dict(count_lines(b"", threading.get_ident())) == {}


PROGRAM = """
    import json, sys, time
    from stepwhy.capture import stacks, watchdog
    watchdog.notice_claims()

    def burn(seconds):
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            sum(range(200))

    def rest(seconds):
        time.sleep(seconds)

    stacks._LONGEST_NS = 700_000_000
    sampler = stacks.StackSampler()
    for step in range(400):
        burn(0.004)
        rest(0.006)
        sampler.stepped(windows=1)
        if sampler.window:
            break
    print(json.dumps(sampler.samples()))
"""


def run(tmp_path, program):
    script = tmp_path / "program.py"
    script.write_text(textwrap.dedent(program))
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def test_shares_of_python_and_sleep_are_unbiased(tmp_path):
    """40 % of the time in Python that holds the lock, 60 % asleep: frame readers see 0 and 100."""
    found = run(tmp_path, PROGRAM)
    counts = {}
    for sample in found["samples"]:
        function = sample["line"].split(": ")[-1]
        counts[function] = counts.get(function, 0) + sample["count"]
    share = counts["burn"] / sum(counts.values())
    assert 0.2 < share < 0.7
    assert all(sample["line"].startswith("program.py(") for sample in found["samples"])
    assert found["end_ns"] - found["start_ns"] >= 700_000_000


def test_the_programs_own_watchdog_is_left_alone(tmp_path):
    program = PROGRAM.replace(
        "sampler = stacks",
        "import faulthandler; faulthandler.dump_traceback_later(60)\n    sampler = stacks",
    ).replace("if sampler.window:", "if step == 20:")
    assert run(tmp_path, program) is None


def test_an_environment_beside_the_script_is_no_user_code(tmp_path, monkeypatch):
    monkeypatch.setattr(tf1_sources, "script_dir", lambda: str(tmp_path))
    files = tf1_sources.UserFiles()
    library = tmp_path / ".venv" / "lib" / "python3.11" / "site-packages" / "numpy" / "fft.py"
    assert files.user_name(str(library)) is None
    assert files.user_name(str(tmp_path / "data" / "augment.py")) == "data/augment.py"


def test_a_script_in_an_installed_package_is_user_code(tmp_path, monkeypatch):
    package = tmp_path / "site-packages" / "trainer"
    monkeypatch.setattr(tf1_sources, "script_dir", lambda: str(package))
    files = tf1_sources.UserFiles()
    assert files.user_name(str(package / "train.py")) == "train.py"
    assert files.user_name(str(tmp_path / "site-packages" / "numpy" / "fft.py")) is None
