"""Stack samples: parsed by hand, and of a real process whose shares are known."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap

import pytest

from stepwhy.capture.stacks import StackSamplers, count_lines, find_py_spy, program_folder
from stepwhy.capture.tf1_sources import UserFiles


def raw(root):
    library = "/env/lib/python3.11/site-packages/numpy/core/fft.py"
    main = f"thread (7): MainThread;<module> ({root}/train.py:40);"
    return "\n".join(
        [
            f"{main}augment ({root}/train.py:12);fft ({library}:7) 30",
            f"{main}augment ({root}/train.py:13) 20",
            f"{main}run (/env/lib/python3.11/site-packages/tensorflow/x.py:1) 5",
            "thread (7);wait (/usr/lib/python3.12/threading.py:320) 4",
            f"thread (9): Thread-1;loop ({root}/train.py:99) 70",
            "torn line (",
        ]
    )


def test_lines_of_the_main_thread():
    assert dict(count_lines(raw("/home/user/project"), 7, UserFiles("/home/user/project"))) == {
        ("train.py(12): augment", "numpy"): 30,
        ("train.py(13): augment", ""): 20,
        ("train.py(40): <module>", "tensorflow"): 5,
        ("", "python"): 4,
    }


def test_nothing_written():
    assert dict(count_lines("", 7, UserFiles("/home/user/project"))) == {}


@pytest.mark.parametrize(
    ("command", "folder"),
    [(["python", "{}/a/train.py", "--x"], "{}/a"), (["torchrun", "-n", "2", "{}/t.py"], "{}")],
)
def test_the_folder_of_the_program(tmp_path, command, folder):
    words = [word.format(tmp_path) for word in command]
    assert program_folder(words) == folder.format(tmp_path)


def test_an_environment_beside_the_script_is_no_user_code(tmp_path):
    files = UserFiles(str(tmp_path))
    library = tmp_path / ".venv" / "lib" / "python3.11" / "site-packages" / "numpy" / "fft.py"
    assert files.user_name(str(library)) is None
    assert files.user_name(str(tmp_path / "data" / "augment.py")) == "data/augment.py"


def test_a_script_in_an_installed_package_is_user_code(tmp_path):
    package = tmp_path / "site-packages" / "trainer"
    files = UserFiles(str(package))
    assert files.user_name(str(package / "train.py")) == "train.py"
    assert files.user_name(str(tmp_path / "site-packages" / "numpy" / "fft.py")) is None


PROGRAM = """
    import time

    def burn(seconds):
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            sum(range(200))

    def rest(seconds):
        time.sleep(seconds)

    print("ready", flush=True)
    end = time.perf_counter() + 6
    while time.perf_counter() < end:
        burn(0.004)
        rest(0.006)
"""


def may_look(pid):
    """Whether the kernel lets py-spy look at a process of this user."""
    done = subprocess.run(
        [find_py_spy(), "dump", "--pid", str(pid)], capture_output=True, check=False
    )
    return done.returncode == 0


def test_shares_of_python_and_sleep_are_unbiased(tmp_path):
    """40 % of the time in Python that holds the lock, 60 % asleep: frame readers see 0 and 100."""
    script = tmp_path / "program.py"
    script.write_text(textwrap.dedent(PROGRAM))
    command = [sys.executable, str(script)]
    run = tmp_path / "run"
    with subprocess.Popen(command, stdout=subprocess.PIPE) as child:
        assert child.stdout.readline() == b"ready\n"
        if not may_look(child.pid):
            child.kill()
            pytest.skip("the kernel does not let one process look at another here")
        folder = run / f"process-{child.pid}"
        (folder / "windows" / "000").mkdir(parents=True)
        samplers = StackSamplers(run, command)
        samplers.look()  # sees one window
        samplers.look()  # it has not grown: begin
        assert [p.name for p in folder.iterdir()] == ["windows"]  # whole paths stay elsewhere
        samplers.finish()
        child.kill()
    found = json.loads((folder / "stacks.json").read_text())
    counts = {}
    for sample in found["samples"]:
        function = sample["line"].split(": ")[-1]
        counts[function] = counts.get(function, 0) + sample["count"]
    share = counts["burn"] / sum(counts.values())
    assert 0.2 < share < 0.7
    assert str(tmp_path) not in json.dumps(found)
    assert sorted(p.name for p in folder.iterdir()) == ["stacks.json", "windows"]


def test_a_process_that_is_gone_leaves_no_file(tmp_path):
    folder = tmp_path / "process-999999999"
    (folder / "windows" / "000").mkdir(parents=True)
    samplers = StackSamplers(tmp_path, ["python", "x.py"])
    samplers.look()
    samplers.look()
    samplers.finish()
    assert [p.name for p in folder.iterdir()] == ["windows"]
