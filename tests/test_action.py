"""The GitHub Action: its steps run in the shell as on GitHub, with a `gh` that is planted."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from stepwhy.cli import cli
from tests.cli.test_measuring import PROGRAM

ROOT = Path(__file__).resolve().parent.parent
ACTION = yaml.safe_load((ROOT / ".github/actions/compare/action.yml").read_text())
STEPS = {step["name"]: step for step in ACTION["runs"]["steps"]}
EXPRESSION = re.compile(r"\$\{\{ *(.*?) *\}\}")
BOT = "github-actions[bot]"

# Keeps comments in a file, and answers as `gh api` does.
GH = """#!{python}
import json, os, pathlib, subprocess, sys
store = pathlib.Path(os.environ["COMMENTS"])
comments, args = json.loads(store.read_text()), sys.argv[1:]
assert args[0] == "api" and os.environ["GH_TOKEN"] == "token"
if "readonly" in os.environ.get("GH_MODE", ""):
    sys.exit("HTTP 403: Resource not accessible by integration")
if "--jq" in args:
    assert "--paginate" in args and args[2] == "repos/o/r/issues/7/comments", args
    query = args[args.index("--jq") + 1]
    sys.exit(subprocess.run(["jq", "-r", query], input=json.dumps(comments), text=True).returncode)
name, _, path = args[args.index("--field") + 1].partition("=@")
body = pathlib.Path(path).read_text()
assert name == "body"
address = next(a for a in args if a.startswith("repos/"))
if "PATCH" in args:
    (one,) = [c for c in comments if address == "repos/o/r/issues/comments/%d" % c["id"]]
    one["body"] = body
else:
    assert address == "repos/o/r/issues/7/comments"
    comments.append({{"id": len(comments) + 1, "user": {{"login": "{bot}"}}, "body": body}})
store.write_text(json.dumps(comments))
"""


class Job:
    """A folder in which the steps of the action run."""

    def __init__(self, folder):
        self.folder = folder
        self.inputs = {key: value.get("default", "") for key, value in ACTION["inputs"].items()}
        self.inputs |= {"token": "token", "allow-busy": "true", "comment": "true"}
        self.outputs = {}
        self.summary, self.comments = folder / "summary.md", folder / "comments.json"
        self.summary.touch()
        self.comments.write_text("[]")

    def value(self, found):
        where, _, name = found[1].rpartition(".")
        known = {"inputs": self.inputs, "steps.compare.outputs": self.outputs}
        known["github"] = {"repository": "o/r", "token": "token"}
        known["github.event.pull_request"] = {"number": "7"}
        return known[where][name]

    def run(self, name, **variables):
        """Run one step as GitHub does, and keep its outputs."""
        step, sink = STEPS[name], self.folder / "output"
        sink.write_text("")
        env = {key: EXPRESSION.sub(self.value, text) for key, text in step.get("env", {}).items()}
        env |= {"GITHUB_OUTPUT": str(sink), "GITHUB_STEP_SUMMARY": str(self.summary)}
        env |= {"RUNNER_TEMP": str(self.folder), "COMMENTS": str(self.comments)}
        env["PATH"] = f"{self.folder / 'bin'}:{os.environ['PATH']}"
        shell = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]]
        options = {"capture_output": True, "text": True, "cwd": self.folder}
        done = subprocess.run(shell, env=os.environ | env | variables, check=False, **options)
        self.outputs |= dict(line.split("=", 1) for line in sink.read_text().splitlines())
        return done

    def said(self):
        return [(c["user"]["login"], c["body"]) for c in json.loads(self.comments.read_text())]


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """Stored measurements of 10 and 20 ms."""
    folder = tmp_path_factory.mktemp("measured")
    (folder / "train.py").write_text(PROGRAM)
    for name, step in (("old", 10), ("new", 20)):
        words = ["bench", "--allow-busy", "--repeats", "2", "--out", f"{folder}/{name}"]
        assert not CliRunner().invoke(cli, [*words, f"{folder}/train.py", str(step)]).exit_code
    return folder


@pytest.fixture
def job(tmp_path, measured):
    (tmp_path / "bin").mkdir()
    programs = {
        "gh": GH.format(python=sys.executable, bot=BOT),
        "stepwhy": f'#!/bin/sh\nexec "{sys.executable}" -m stepwhy "$@"\n',
    }
    for name, text in programs.items():
        (tmp_path / "bin" / name).write_text(text)
        (tmp_path / "bin" / name).chmod(0o755)
    made = Job(tmp_path)
    made.inputs |= {"old": f"{measured}/old", "new": f"{measured}/new"}
    return made


needs_jq = pytest.mark.skipif(not shutil.which("jq"), reason="gh's filters are run by jq")


# --- The file ---


def test_no_input_is_put_into_a_script():
    assert [name for name, step in STEPS.items() if "${{" in step["run"]] == []


def test_nothing_is_uploaded_and_no_other_action_is_used():
    assert [name for name, step in STEPS.items() if "uses" in step] == []
    assert all(step["shell"] == "bash" for step in STEPS.values())


def test_every_variable_of_a_script_is_set():
    known = {"GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY", "GITHUB_ACTION_PATH", "RUNNER_TEMP"}
    for step in STEPS.values():
        set_here = set(re.findall(r"^ *(?:local )?([A-Za-z_]+)=", step["run"], re.MULTILINE))
        used = set(re.findall(r"\$\{?([A-Z][A-Z_]+)", step["run"]))
        assert used <= known | set(step.get("env", {})) | set_here


def test_every_input_is_used_and_described():
    text = json.dumps(ACTION["runs"])
    assert [name for name in ACTION["inputs"] if f"inputs.{name}" not in text] == []
    assert all(about["description"] for about in ACTION["inputs"].values())


# --- The comparison ---


def test_regression_is_in_the_summary_and_fails_the_job(job):
    assert job.run("Compare").returncode == 0
    assert job.outputs["outcome"] == "slower"
    assert "### ❌ step time: more than 3 % slower" in job.summary.read_text()
    files = {path.name for path in Path(job.outputs["report"]).iterdir()}
    assert files == {"report.md", "junit.xml", "bmf.json", "compare.json"}
    decided = job.run("Decide")
    assert decided.returncode == 1
    assert decided.stdout.startswith("::error::")


def test_faster_program_passes(job):
    job.inputs |= {"old": job.inputs["new"], "new": job.inputs["old"]}
    job.run("Compare")
    assert job.outputs["outcome"] == "passed"
    assert job.run("Decide").returncode == 0


@pytest.mark.parametrize(("strict", "code"), [("false", 0), ("true", 7)])
def test_inconclusive_runs_warn_or_fail(job, strict, code):
    job.inputs |= {"new": job.inputs["old"], "fail-if-unsure": strict}
    job.run("Compare")
    assert job.outputs["outcome"] == "unsure"
    assert job.run("Decide").returncode == code


def test_broken_program_is_told_apart_and_has_a_report(job, measured):
    job.inputs["new"] = f"{measured}/train.py 10 3"
    job.run("Compare")
    assert job.outputs["outcome"] == "broken"
    assert "not measured" in job.summary.read_text()
    assert job.run("Decide").returncode == 6


def test_crash_of_stepwhy_is_no_regression(job):
    (job.folder / "bin/stepwhy").write_text("#!/bin/sh\nexit 1\n")
    assert job.run("Compare").returncode == 0
    assert job.outputs["outcome"] == "broken"
    assert job.run("Comment on the pull request").returncode == 0
    assert job.run("Decide").returncode == 1


@pytest.mark.parametrize("name", ["old", "new", "name", "threshold", "budget", "allow-busy"])
@pytest.mark.parametrize(
    "text", ["$(touch planted) `touch planted` \"; touch planted; '", "--help"]
)
def test_input_runs_no_command(job, name, text):
    job.inputs[name] = text
    assert job.run("Compare").returncode == 0
    assert not (job.folder / "planted").exists()
    assert "Usage:" not in job.summary.read_text()
    job.run("Decide")
    assert not (job.folder / "planted").exists()


# --- The comment ---


@needs_jq
def test_comment_is_added_once_and_then_updated(job):
    job.run("Compare")
    assert job.run("Comment on the pull request").stderr == ""
    job.inputs |= {"old": job.inputs["new"], "new": job.inputs["old"]}
    job.run("Compare")
    assert job.run("Comment on the pull request").stderr == ""
    ((author, body),) = job.said()
    assert author == BOT
    assert body.startswith("<!-- stepwhy-compare: step-time -->")
    assert "### ✅ step time: not more than 3 % slower" in body


@needs_jq
def test_comments_of_others_and_of_other_comparisons_stay(job):
    marker = "<!-- stepwhy-compare: step-time -->"
    others = [("somebody", f"{marker}\nmine"), (BOT, "<!-- stepwhy-compare: gpu -->\nx"),
              (BOT, f"quoted\n{marker}")]  # fmt: skip
    comments = [
        {"id": n, "user": {"login": login}, "body": body}
        for n, (login, body) in enumerate(others, 1)
    ]
    job.comments.write_text(json.dumps(comments))
    job.run("Compare")
    job.run("Comment on the pull request")
    assert job.said()[:3] == others
    assert len(job.said()) == 4


def test_token_that_may_not_write_is_a_warning(job):
    job.run("Compare")
    done = job.run("Comment on the pull request", GH_MODE="readonly")
    assert done.returncode == 0
    assert "::warning::" in done.stdout
