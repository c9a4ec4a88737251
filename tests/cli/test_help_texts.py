"""What people look for in the help of a command."""

import re

import pytest
from click.testing import CliRunner

from stepwhy.cli import cli
from stepwhy.show.export import WRITERS


def help_of(command):
    done = CliRunner().invoke(cli, [command, "--help"])
    assert done.exit_code == 0
    return done.output


@pytest.mark.parametrize("form", WRITERS)
def test_each_format_of_an_export_has_a_line(form):
    assert re.search(rf"^ +{form}  +\w.*\w", help_of("export"), re.MULTILINE)


def test_the_page_of_a_run_is_mentioned():
    text = " ".join(help_of("run").split())
    assert "as a page, report.html, into the run directory" in text


@pytest.mark.parametrize(
    ("code", "outcome"), [(0, "passed"), (1, "regression"), (6, "broken"), (7, "inconclusive")]
)
def test_each_outcome_of_a_comparison_has_its_exit_code(code, outcome):
    assert re.search(rf"^ +{code}  {outcome}: ", help_of("compare"), re.MULTILINE)
