"""First words that are no command, and scripts that do not exist."""

import pytest
from click.testing import CliRunner

from stepwhy.cli import cli
from stepwhy.cli.words import script_to_run


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs").mkdir()
    return tmp_path


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (["explian", "runs"], "Did you mean 'stepwhy explain'?"),
        (["train.py", "--lr", "1 2"], "To observe a script: stepwhy run train.py --lr '1 2'"),
        (["runs", "--json"], "To explain what was recorded: stepwhy explain runs --json"),
        (["s3://bucket/run"], "To explain what was recorded: stepwhy explain s3://bucket/run"),
        (["wholly-else"], "'stepwhy --help' lists all commands."),
    ],
)
def test_what_was_meant_is_named(words, meant):
    done = CliRunner().invoke(cli, words)
    assert done.exit_code == 2
    assert f"There is no command {words[0]!r}. {meant}" in done.stderr


def test_secrets_are_not_repeated():
    done = CliRunner().invoke(cli, ["train.py", "--password", "hunter2"])
    assert "stepwhy run train.py" in done.stderr
    assert "hunter2" not in done.stderr


@pytest.mark.parametrize("command", ["run", "try", "bench", "check"])
def test_a_missing_script_ends_before_anything_is_written(command, folder):
    done = CliRunner().invoke(cli, [command, "missing.py", "--lr", "1"])
    assert done.exit_code == 5
    assert "there is no script missing.py. Check its path" in done.stderr
    assert [path.name for path in folder.iterdir()] == ["runs"]


def test_a_program_needs_no_dashes_unless_a_script_has_its_name(folder):
    assert script_to_run("python", ["train.py"]) == ["python", "train.py"]
    (folder / "python").write_text("print(1)")
    assert script_to_run("python", ["train.py"])[-2:] == ["python", "train.py"]
    assert len(script_to_run("python", ["train.py"])) > 2


@pytest.mark.parametrize("command", ["run", "try", "bench", "check"])
def test_a_misspelt_option_is_not_handed_to_python(command, folder):
    done = CliRunner().invoke(cli, [command, "--hlp", "train.py", "--lr", "1"])
    assert done.exit_code == 2
    assert "No such option '--hlp'. Did you mean '--help'?" in done.stderr
    assert [path.name for path in folder.iterdir()] == ["runs"]


def test_options_of_python_and_of_the_script_are_none_of_stepwhy():
    words = ["--check-hash-based-pycs", "never", "-m", "json.tool", "--no-such-option"]
    assert "No such option" not in CliRunner().invoke(cli, ["check", *words]).stderr


def test_an_option_of_python_is_no_script():
    done = CliRunner().invoke(cli, ["check", "--", "-m", "json.tool"])
    assert "there is no script" not in done.stderr
