"""`torch.compile` compiles the same frames with and without observation, and steps are found."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from stepwhy.record import launch

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.forks import Forks

pytestmark = pytest.mark.framework

STEPS = 24

# Each way trains a model of its own, and prints what Dynamo has counted meanwhile.
_PROGRAM = """
import gc, json, os, sys, warnings
warnings.simplefilter("ignore")
import torch
from torch._dynamo.utils import clear_compilation_metrics, counters, get_compilation_metrics
from torch.utils.data import DataLoader

STEPS = int(sys.argv[1])
gc.disable()  # only a step that collects garbage frees the optimizers before
torch.compile(torch.nn.Linear(4, 1), backend="eager")(torch.ones(4, 4))
gc.freeze()  # it need not look through the compiler in each step

def compiled(function, **options):
    return torch.compile(function, backend="eager", **options)

def train(model, optimizer, batch):
    optimizer.zero_grad()
    loss = model(batch).square().mean()
    loss.backward()
    optimizer.step()
    return loss.detach()

def whole(model, optimizer):
    return compiled(lambda batch: train(model, optimizer, batch))

def two_steps(model, optimizer):
    return compiled(lambda batch: (train(model, optimizer, batch), train(model, optimizer, batch)))

def with_save(model, optimizer):
    def step(batch):
        loss = train(model, optimizer, batch)
        torch.save(loss, os.devnull)
        os.sync()
        return loss
    return compiled(step)

def with_garbage(model, optimizer):
    def step(batch):
        gc.collect()
        return train(model, optimizer, batch)
    return compiled(step)

def with_loader(model, optimizer):
    data = DataLoader(torch.ones(8, 4), batch_size=4)
    def step(batch):
        for part in data:
            loss = train(model, optimizer, part)
        return loss
    return compiled(step)

def gradients_by_function(model, optimizer):
    def step(batch):
        optimizer.zero_grad()
        torch.autograd.backward(model(batch).square().mean())
        optimizer.step()
    return compiled(step)

def scaled(model, optimizer):
    scaler = torch.amp.GradScaler("cpu")
    def step(batch):
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = model(batch).square().mean()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        return loss.detach()
    return compiled(step)

def scaled_beside(model, optimizer):
    scaler, forward = torch.amp.GradScaler("cpu"), compiled(model)
    def step(batch):
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = forward(batch).square().mean()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    return step

def model_alone(model, optimizer):
    forward = compiled(model, fullgraph=True)
    return lambda batch: train(forward, optimizer, batch)

def module(model, optimizer):
    model.compile(backend="eager")
    return lambda batch: train(model, optimizer, batch)

def optimizer_alone(model, optimizer):
    update = compiled(lambda: optimizer.step())
    def step(batch):
        optimizer.zero_grad()
        model(batch).square().mean().backward()
        update()
    return step

def method_of_optimizer(model, optimizer):
    update = compiled(optimizer.step)
    def step(batch):
        optimizer.zero_grad()
        model(batch).square().mean().backward()
        update()
    return step

def evaluated(model, optimizer):
    def evaluate(batch):
        model.eval()
        result = model(batch)
        model.train()
        return result
    evaluates = compiled(evaluate, fullgraph=True)
    def step(batch):
        evaluates(batch)
        return train(model, optimizer, batch)
    return step

def scheduled(model, optimizer):
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 100)
    def step(batch):
        loss = train(model, optimizer, batch)
        schedule.step()
        return loss
    return compiled(step)

for way in sys.argv[2:]:
    torch._dynamo.reset()
    counters.clear()
    clear_compilation_metrics()
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU(), torch.nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), 0.01, momentum=0.9)
    optimizer.itself = optimizer
    step = globals()[way](model, optimizer)
    for _ in range(STEPS):
        step(torch.randn(4, 4))
    counts = {name: dict(counters[name]) for name in ("frames", "stats", "resumes", "recompiles")}
    counts["graph_breaks"] = sum(counters["graph_break"].values())
    counts["compilations"] = len(get_compilation_metrics())
    counts["parameters"] = sum(p.double().sum().item() for p in model.parameters())
    print(way, json.dumps(counts))
"""
WAYS = [
    line.split("(")[0].removeprefix("def ")
    for line in _PROGRAM.splitlines()
    if line.startswith("def ") and line.endswith("(model, optimizer):")
]


def test_the_same_is_compiled(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], forks: Callable[[str], Forks]
) -> None:
    pytest.importorskip("torch")
    script = tmp_path / "train.py"
    script.write_text(_PROGRAM)
    words = [str(script), str(STEPS), *WAYS]
    alone = forks("torch").run(words, tmp_path)
    assert alone.returncode == 0, alone.stderr
    ended = launch([sys.executable, *words], tmp_path / "run")
    assert (ended.exit_code, ended.messages) == (0, ())
    assert capfd.readouterr().out.splitlines() == alone.stdout.splitlines()
    (log,) = ended.run_dir.glob("process-*/steps.jsonl")
    assert len(log.read_text().splitlines()) > 0.9 * len(WAYS) * STEPS
    assert list(ended.run_dir.glob("process-*/windows/*/trace.json.gz"))
