"""The report at the end of a run."""

import io

import pytest
from rich.console import Console

from stepwhy.engine.present import show
from stepwhy.errors import OutputError


def test_report_is_printed_if_the_page_cannot_be_written(sample, tmp_path):
    result, printed = sample("input_bound"), io.StringIO()
    with pytest.raises(OutputError, match="cannot be written"):
        show(result, tmp_path / "gone", Console(file=printed, width=200))
    assert result.verdict.sentence in printed.getvalue()
