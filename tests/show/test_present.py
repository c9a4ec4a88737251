"""The report at the end of a run."""

import io

import msgspec
import pytest
from rich.console import Console

from stepwhy.base.errors import OutputError
from stepwhy.engine.present import show
from stepwhy.result import Result


def test_report_is_printed_if_the_page_cannot_be_written(sample, tmp_path):
    result, printed = sample("input_bound"), io.StringIO()
    with pytest.raises(OutputError, match="cannot be written"):
        show(result, tmp_path / "gone", Console(file=printed, width=200))
    assert result.verdict.sentence in printed.getvalue()


def test_a_run_directory_also_gets_the_result(sample, tmp_path):
    result = sample("input_bound")
    (tmp_path / "run.json").touch()
    show(result, tmp_path, Console(file=io.StringIO()))
    stored = msgspec.json.decode((tmp_path / "result.json").read_bytes(), type=Result)
    assert stored.verdict == result.verdict
    assert all("/" not in one.path or one.path.count("/") == 1 for one in stored.inputs)


def test_a_folder_of_traces_gets_the_page_alone(sample, tmp_path):
    show(sample("input_bound"), tmp_path, Console(file=io.StringIO()))
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]


def test_a_result_that_cannot_be_written_is_an_error(sample, tmp_path):
    (tmp_path / "run.json").touch()
    (tmp_path / "result.json").mkdir()
    with pytest.raises(OutputError, match="cannot be written"):
        show(sample("input_bound"), tmp_path, Console(file=io.StringIO()))
    assert (tmp_path / "report.html").is_file()
