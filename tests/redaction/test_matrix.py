"""No output shows a secret from any place of an input: places x markers x outputs."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from stepwhy.cli import cli
from tests.engine.test_explain import kineto
from tests.redaction.markers import ENVIRONMENT, HOST, MARKERS
from tests.redaction.outputs import OUTPUTS, without_layout
from tests.redaction.places import PLACES

if TYPE_CHECKING:
    from collections.abc import Iterator

TEXTS = [text for text, _ in MARKERS.values()]
# Places that importers leave out or always redact.
NEVER_SHOWN = {"kineto-environment", "kineto-process", "kineto-thread", "run-command"}
# Outputs that show the names of most places.
TELLING = {"json", "ops-json", "sql", "placement-json", "compare-json", "chrome-trace"}


@pytest.fixture(autouse=True, scope="module")
def user(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A user with secrets in the environment."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in ENVIRONMENT.items():
            patch.setitem(os.environ, name, value)
        patch.setattr("stepwhy.base.redaction.redactor.machine_name", lambda: HOST)
        patch.setattr("tests.redaction.test_matrix.mkdtemp", lambda: tmp_path_factory.mktemp("x"))
        yield
    written.cache_clear()
    shown.cache_clear()


@cache
def written(place: str) -> Path:
    """An input with all texts in one kind of place."""
    return PLACES[place](Path(mkdtemp()), TEXTS)


@cache
def shown(place: str, output: str, *options: str) -> str:
    """An output for the input with texts in this place."""
    return without_layout(OUTPUTS[output](written(place), Path(mkdtemp()), *options))


def leaks(text: str) -> list[str]:
    """Markers whose secret occurs in a text."""
    return [name for name, (_, secret) in MARKERS.items() if without_layout(secret) in text]


@pytest.mark.parametrize("output", OUTPUTS)
def test_no_output_shows_a_secret(output: str) -> None:
    found = {place: leaks(shown(place, output)) for place in PLACES}
    assert found == {place: [] for place in PLACES}


@pytest.mark.parametrize("place", [place for place in PLACES if place not in NEVER_SHOWN])
def test_every_secret_is_there_without_redaction(place: str) -> None:
    """In one output or another; those that show most come first."""
    text, missing = "", set(MARKERS)
    for output in sorted(OUTPUTS, key=lambda output: output not in TELLING):
        text += shown(place, output, "--no-redact")
        missing -= set(leaks(text))
        if not missing:
            break
    assert missing == set()


@pytest.mark.parametrize("output", OUTPUTS)
def test_every_output_can_do_without_redaction(output: str) -> None:
    assert shown("kineto-operation", output, "--no-redact") != ""


# --- Paths, and the errors that name them ---

MISUSES = {
    "missing": ("explain {}/missing.json",),
    "foreign": ("explain {}/foreign.json", "ops {}/foreign.json", "export {}/foreign.json"),
    "no-placement": ("placement {}/trace.json",),
    "no-program": ("compare {}/missing {}/trace.json",),
    "unwritable": ("explain {}/trace.json --html {}/no/page.html",),
    "shown": ("explain {}/trace.json --json", "ops {}/trace.json --json"),
    "compared": ("compare {}/trace.json {}/trace.json --json",),
    "exported": ("export {}/trace.json --out {}/x.json --overwrite",),
}
"""Commands that print a path, by outcome."""
# Those that print the whole path.
NAMED = {"missing", "unwritable", "shown", "exported"}


@pytest.mark.parametrize("misuse", MISUSES)
def test_no_path_and_no_error_shows_a_secret(misuse: str, tmp_path: Path) -> None:
    for number, (marker, (text, secret)) in enumerate(MARKERS.items()):
        folder = tmp_path / str(number) / text.lstrip("/")
        folder.mkdir(parents=True)
        (folder / "trace.json").write_text(kineto())
        (folder / "foreign.json").write_text("no trace")
        for line in MISUSES[misuse]:
            words = [word.replace("{}", str(folder)) for word in line.split()]
            done = CliRunner().invoke(cli, words)
            assert without_layout(secret) not in without_layout(done.output), marker
            assert done.output, marker
            if misuse in NAMED or marker == "home-linux":
                bare = CliRunner().invoke(cli, [words[0], "--no-redact", *words[1:]])
                assert bare.exit_code == done.exit_code, marker
                is_shown = without_layout(secret) in without_layout(bare.output)
                assert misuse not in NAMED or is_shown, marker
