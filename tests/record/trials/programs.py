"""Run small programs with a fix, in processes of their own."""

from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace

from stepwhy.record import TRIAL_VARIABLE
from stepwhy.record.launcher.run_directory import environment
from stepwhy.record.trials.reports import trial_reports
from stepwhy.record.trials.spec import Spec


def run(folder, program, variables=(), forks=None, **spec):
    """Run a program with a fix; nothing is observed.

    Args:
        folder: An existing folder for its files.
        program: Its code.
        variables: Environment variables that the fix sets.
        forks: Where to run it, in a fork that has imported the framework; in a process of its own
            if None.
        spec: Arguments of `Spec`.

    Returns:
        Its output by lines, what the fix `changed`, `left` and `refused`, all `reports`.
    """
    script = folder / "train.py"
    script.write_text(program)
    run_dir = folder / "run"
    run_dir.mkdir()
    (run_dir / "attached").touch()
    asked = Spec(timed=True, variables=dict(variables), **spec).as_variable()
    environ = {**environment(run_dir), TRIAL_VARIABLE: asked, **dict(variables)}
    if forks:
        ended = forks.run([script], folder, folder, environ)
    else:
        ended = subprocess.run(
            [sys.executable, script],
            env=environ,
            capture_output=True,
            text=True,
            check=False,
            timeout=180,
            cwd=folder,
        )
    assert ended.returncode == 0, ended.stderr
    reports = trial_reports(run_dir)
    return SimpleNamespace(
        lines=ended.stdout.splitlines(),
        changed=[about["changed"] for about in reports if "changed" in about],
        left=[about["left"] for about in reports if "left" in about],
        refused=[about["refused"] for about in reports if "refused" in about],
        reports=reports,
    )


TRAIN = """
import torch

def train(steps=6, batches=None, optimizer=None, model=None):
    model = model or torch.nn.Linear(4, 1)
    optimizer = optimizer or torch.optim.SGD(model.parameters(), lr=0.1)
    data = batches or [torch.ones(2, 4)] * steps
    for batch in data:
        optimizer.zero_grad()
        model(batch).sum().backward()
        optimizer.step()
"""


# Applies all fixes of a framework while it is imported, each as a process under trial would.
APPLY = """
import importlib, importlib.util, os, sys
from stepwhy.record.core import import_hooks; from stepwhy.record import trials
from stepwhy.record.trials.reports import Trial
from stepwhy.record.trials.spec import Spec

modules = set()
for fix, parts in trials.FIXES.items():
    for module, target in parts:
        package = module.partition(".")[0]
        if package in {packages} and importlib.util.find_spec(package):
            trial = Trial(Spec(fix, "2"), os.environ["STEPWHY_RUN_DIR"])
            import_hooks.after_import(module, trials._hook(target, trial))
            modules.add(module)
assert not modules & sys.modules.keys()
for module in sorted(modules):
    importlib.import_module(module)
print(len(modules), modules & import_hooks.awaited())
"""
