"""What publishes a version, and what the package says about where it comes from."""

import re
import tomllib
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parent.parent
WORKFLOW = ROOT / ".github/workflows/release.yml"
RELEASE = yaml.safe_load(WORKFLOW.read_text())
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
# A tag of a major version, the branch that this publisher keeps for one, or a commit.
PINNED = re.compile(r"[\w-]+/[\w-]+@(v\d+|release/v\d+|[0-9a-f]{40})")


def used():
    """What the steps of all jobs use."""
    steps = (step for job in RELEASE["jobs"].values() for step in job["steps"])
    return [step["uses"] for step in steps if "uses" in step]


def test_each_action_is_pinned():
    assert len(used()) > 5
    assert [action for action in used() if not PINNED.fullmatch(action)] == []


@pytest.mark.parametrize("action", ["actions/checkout@main", "actions/checkout", "a/b@v1.2-beta"])
def test_an_action_that_may_change_is_noticed(action):
    assert not PINNED.fullmatch(action)


def test_only_a_pushed_tag_of_a_version_publishes():
    # YAML reads the bare word `on` as true.
    assert RELEASE[True] == {"push": {"tags": ["v*"]}}


def test_only_the_job_that_publishes_may_write_and_it_holds_no_secret():
    assert RELEASE["permissions"] == {}
    granted = {name: job["permissions"] for name, job in RELEASE["jobs"].items()}
    writers = {"id-token": "write", "attestations": "write"}
    assert granted == {
        "test": {"contents": "read"},
        "build": {"contents": "read"},
        "publish": writers,
    }
    assert not re.search(r"secrets\.|password|token:.*\$", WORKFLOW.read_text())


def test_what_is_published_was_tested_and_tried():
    jobs = RELEASE["jobs"]
    assert set(jobs["publish"]["needs"]) == {"test", "build"}
    commands = [step.get("run", "") for job in jobs.values() for step in job["steps"]]
    assert {".ci/run", "scripts/package"} <= set(commands)
    assert all((ROOT / c).is_file() for c in (".ci/run", "scripts/package"))


def test_each_supported_python_is_tried():
    named = re.findall(r"Python :: (\d\.\d+)", "\n".join(PROJECT["classifiers"]))
    setup = next(
        s for s in RELEASE["jobs"]["build"]["steps"] if "setup-python" in s.get("uses", "")
    )
    assert setup["with"]["python-version"].split() == named
    script = (ROOT / "scripts/package").read_text()
    assert re.search(r"^versions=\((.*)\)$", script, re.MULTILINE)[1].split() == named


def test_no_command_takes_stepwhy_from_an_index_that_does_not_have_it():
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "src").rglob("*.py")]
    command = re.compile(r"pip install (-\S+ |--upgrade )*['\"]?stepwhy\b")
    assert command.search('pip install --upgrade "stepwhy[sql]"')
    if not PROJECT["urls"]:  # none until the project is published
        assert [str(page) for page in pages if command.search(page.read_text())] == []
