"""Start commands with the observer in place; these commands do not train."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import venv
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from stepwhy.base.errors import CaptureError
from stepwhy.record import Launch, launch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def python(tmp_path: Path, code: str, *flags: str) -> Launch:
    return launch([sys.executable, *flags, "-c", code], tmp_path / "run")


def observing(work: str) -> str:
    """Code that logs one step itself, as the observer would."""
    return f"""
import os
from stepwhy.record.core.recorder import Recorder
Recorder(os.environ["STEPWHY_RUN_DIR"], "pytorch", "2.0", "torch-optimizer").step("{{}}")
{work}
"""


def test_exit_code_is_that_of_the_command(tmp_path: Path) -> None:
    assert python(tmp_path, "raise SystemExit(3)").exit_code == 3


def test_an_exception_exits_with_one(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert python(tmp_path, "1 / 0").exit_code == 1
    out, err = capfd.readouterr()
    assert out == ""
    assert err.endswith("ZeroDivisionError: division by zero\n")
    assert "stepwhy" not in err


def test_a_signal_gives_the_exit_code_of_a_shell(tmp_path: Path) -> None:
    ended = python(tmp_path, "import os, signal; os.kill(os.getpid(), signal.SIGKILL)")
    assert ended.exit_code == 128 + signal.SIGKILL


def test_streams_and_arguments_pass_through(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    code = "import sys; print(sys.argv[1:]); print('e', file=sys.stderr)"
    launch([sys.executable, "-c", code, "a", "--out", "b c"], tmp_path / "run")
    assert capfd.readouterr() == ("['a', '--out', 'b c']\n", "e\n")


def test_output_can_go_to_a_file(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    code = "import sys; print('o', flush=True); print('e', file=sys.stderr); print(input())"
    output = tmp_path / "output.log"
    ended = launch([sys.executable, "-c", code], tmp_path / "run", output=output)
    assert ended.exit_code == 1  # no standard input
    assert output.read_text().startswith("o\ne\n")
    assert capfd.readouterr() == ("", "")


def test_run_json_has_start_end_and_exit_code(tmp_path: Path) -> None:
    ended = launch([sys.executable, "-c", "exit(2)", "--token=x"], tmp_path / "run")
    about = json.loads((ended.run_dir / "run.json").read_text())
    assert about["schema"] == "stepwhy.run/1"
    assert about["command"][1:] == ["-c", "[code]", "--token=[redacted]"]
    assert about["exit_code"] == 2
    assert about["started_ns"] < about["ended_ns"]
    assert [p.name for p in ended.run_dir.iterdir()] == ["run.json"]
    assert about["why_no_step"].startswith("the command failed before it trained: exit code 2.")


def test_only_the_type_of_an_exception_is_stored(tmp_path: Path) -> None:
    ended = python(tmp_path, "raise ValueError('key=hunter2')")
    (message,) = ended.messages
    assert message.startswith("the command failed before it trained: exit code 1 (ValueError). ")
    text = (ended.run_dir / "run.json").read_text()
    (word,) = json.loads(text)["processes"].values()
    assert word == {"exception": "ValueError"}
    assert "hunter2" not in text


def test_command_without_a_training_loop_is_reported(tmp_path: Path) -> None:
    (message,) = python(tmp_path, "pass").messages
    assert message.startswith("no training loop was seen")


@pytest.mark.parametrize("flag", ["-I", "-E", "-S"])
def test_interpreter_that_cannot_be_observed_is_reported(tmp_path: Path, flag: str) -> None:
    (message,) = python(tmp_path, "pass", flag).messages
    assert message.startswith("the observer was never loaded")


def test_program_that_is_not_python_is_reported(tmp_path: Path) -> None:
    ended = launch(["true"], tmp_path / "run")
    assert ended.exit_code == 0
    assert ended.messages[0].startswith("the observer was never loaded")


def test_vanished_run_directory_is_reported(tmp_path: Path) -> None:
    code = "import os, shutil; shutil.rmtree(os.environ['STEPWHY_RUN_DIR'])"
    ended = python(tmp_path, code)
    assert ended.exit_code == 0
    assert ended.messages[0].startswith("the run directory vanished")


def test_messages_of_observers_are_passed_on_once(tmp_path: Path) -> None:
    code = """
import os
for pid in 1, 2:
    folder = f"{os.environ['STEPWHY_RUN_DIR']}/process-{pid}"
    os.mkdir(folder)
    with open(folder + "/messages.jsonl", "w") as file:
        print('{"level":"info","slug":"s","text":"said"}', '{"torn', sep=chr(10), end="", file=file)
"""
    assert python(tmp_path, code).messages == ("said",)


def test_the_run_directory_survives_a_change_of_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    code = "import os; os.chdir('/')" + observing("")
    ended = launch([sys.executable, "-c", code], Path("relative"))
    assert ended.run_dir == tmp_path / "relative"
    assert len(list(ended.run_dir.glob("process-*/steps.jsonl"))) == 1
    assert ended.messages == ()


def test_the_users_sitecustomize_and_path_still_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "sitecustomize.py").write_text("print('mine', __name__, __file__)\n")
    (tmp_path / "helper_of_user.py").write_text("NAME = 'helper'\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    ended = python(
        tmp_path,
        "import sys, helper_of_user as h, sitecustomize as s;"
        "print(h.NAME, s.__file__, any('bootstrap' in p for p in sys.path))",
    )
    own = tmp_path / "sitecustomize.py"
    assert capfd.readouterr().out == f"mine sitecustomize {own}\nhelper {own} False\n"
    assert ended.messages[0].startswith("no training loop")


def test_broken_sitecustomize_fails_as_without_stepwhy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "sitecustomize.py").write_text("1 / 0\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert python(tmp_path, "print('went on')").exit_code == 0
    out, err = capfd.readouterr()
    assert out == "went on\n"
    assert "ZeroDivisionError" in err


def test_an_environment_without_stepwhy_is_observed(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    venv.create(tmp_path / "bare", with_pip=False, symlinks=True)
    interpreter = str(tmp_path / "bare" / "bin" / "python")
    code = "import importlib.util as u; print(u.find_spec('click') is None)" + observing("")
    ended = launch([interpreter, "-c", code], tmp_path / "run")
    assert capfd.readouterr().out == "True\n"
    assert len(list(ended.run_dir.glob("process-*/steps.jsonl"))) == 1


def test_process_that_never_trains_imports_few_modules(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    code = "import sys; print(sorted(m for m in sys.modules if m.startswith('stepwhy')))"
    python(tmp_path, code)
    loaded = [
        "stepwhy",
        "stepwhy.record",
        "stepwhy.record.attach",
        "stepwhy.record.core",
        "stepwhy.record.core.compiled_code",
        "stepwhy.record.core.import_hooks",
        "stepwhy.record.core.registry",
        "stepwhy_bootstrap",
    ]
    assert capfd.readouterr().out == f"{loaded}\n"


def test_a_directory_that_holds_a_run_is_refused(tmp_path: Path) -> None:
    python(tmp_path, "pass")
    with pytest.raises(CaptureError, match="already holds a run"):
        python(tmp_path, "pass")


def test_directory_that_cannot_be_created_is_refused_before_the_start(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    mark = tmp_path / "started"
    with pytest.raises(CaptureError, match="cannot be written"):
        launch(["touch", str(mark)], tmp_path / "file" / "run")
    assert not mark.exists()


def test_a_command_that_cannot_start_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(CaptureError, match="'no-such-program' cannot be started") as caught:
        launch(["no-such-program"], tmp_path / "run")
    assert caught.value.exit_code == 5
    assert not (tmp_path / "run").exists()
    with pytest.raises(CaptureError, match="no command"):
        launch([], tmp_path / "run")


_PARENT = """
import sys
from pathlib import Path
from stepwhy.record import launch
sys.exit(launch([sys.executable, "-c", sys.argv[1]], Path(sys.argv[2])).exit_code)
"""
_CHILD = """
import signal, sys
def leave(number, frame):
    print("got", number, flush=True)
    sys.exit(7)
signal.signal(signal.{name}, leave)
print("ready", flush=True)
signal.pause()
"""


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT"])
def test_signals_reach_the_command_once(tmp_path: Path, name: str) -> None:
    number = getattr(signal, name)
    parent = subprocess.Popen(
        [sys.executable, "-c", _PARENT, _CHILD.format(name=name), str(tmp_path / "run")],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,  # no terminal: its keys do not reach the command directly
    )
    watchdog = threading.Timer(30, parent.kill)
    watchdog.start()
    try:
        assert parent.stdout is not None
        assert parent.stdout.readline() == "ready\n"
        parent.send_signal(number)
        assert parent.stdout.read() == f"got {int(number)}\n"
        assert parent.wait() == 7
    finally:
        watchdog.cancel()
        parent.stdout.close()
        if parent.poll() is None:
            os.killpg(parent.pid, signal.SIGKILL)
            parent.wait()
    assert json.loads((tmp_path / "run" / "run.json").read_text())["exit_code"] == 7


def test_signal_handlers_are_restored(tmp_path: Path) -> None:
    before = signal.getsignal(signal.SIGTERM)
    python(tmp_path, "pass")
    assert signal.getsignal(signal.SIGTERM) is before


def test_metrics_are_published_from_the_start_to_the_last_sample(tmp_path: Path) -> None:
    seen: list[str] = []

    @contextlib.contextmanager
    def publish(run_dir: Path, failed: Callable[[str], None]) -> Iterator[None]:
        seen.append(run_dir.name)
        yield
        failed("a message")

    ended = launch([sys.executable, "-c", "exit(3)"], tmp_path / "run", publish=publish)
    assert ended.exit_code == 3
    assert seen == ["run"]
    assert ended.messages[-1] == "a message"


def test_a_publisher_that_fails_changes_nothing(tmp_path: Path) -> None:
    def publish(_: Path, __: Callable[[str], None]) -> contextlib.AbstractContextManager[None]:
        raise ValueError("no")

    ended = launch([sys.executable, "-c", observing("exit(3)")], tmp_path / "run", publish=publish)
    assert ended.exit_code == 3
    assert ended.messages == ("no metrics were published: ValueError: no",)
