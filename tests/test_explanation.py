"""`stepwhy.explain(path)` in a program or notebook."""

import html
import json
import re

import pytest

import stepwhy
from stepwhy.base.errors import NotFoundError, SeveralRunsError
from tests.engine.test_explain import kineto


@pytest.fixture
def trace(tmp_path):
    path = tmp_path / "trace.json"
    path.write_text(kineto())
    return path


def test_it_has_the_result_and_every_report(trace):
    explained = stepwhy.explain(trace, predict=False)
    sentence = explained.result.verdict.sentence
    assert sentence.startswith("The step is mostly compute")
    assert json.loads(explained.json)["schema"] == "stepwhy.result/1"
    assert explained.markdown.startswith("**Compute-bound**: Host sync")
    assert explained.problems == ""
    assert repr(explained) == f"<stepwhy.Explanation: {sentence}>"
    assert "Where the step goes" in str(explained)
    assert "\x1b" not in str(explained)


def test_a_notebook_shows_the_page(trace):
    explained = stepwhy.explain(trace)
    shown = explained._repr_html_()
    page = html.unescape(
        re.fullmatch(r'<iframe srcdoc="([^"]*)" style="[^"]*"></iframe>', shown)[1]
    )
    assert page == explained.html
    assert page.startswith("<!doctype html>")
    assert 'data-column="duration"' in page
    assert explained._repr_markdown_() == explained.markdown


def test_ranks_are_explained_together_and_other_runs_are_refused(tmp_path):
    paths = [tmp_path / f"{rank}.json" for rank in range(2)]
    for rank, path in enumerate(paths):
        path.write_text(kineto(rank))
    assert stepwhy.explain(*paths).result.run.ranks == 2
    for path in paths:
        path.write_text(kineto())
    with pytest.raises(SeveralRunsError):
        stepwhy.explain(*paths)
    with pytest.raises(NotFoundError):
        stepwhy.explain(tmp_path / "none")
