"""Unusual PyTorch loops, unchanged, with and without observation."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from stepwhy.read.registry import read_folder
from stepwhy.record import Launch, launch

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.forks import Forks

pytestmark = pytest.mark.framework

_HEAD = """
import sys, warnings
warnings.simplefilter("ignore")
import torch
torch.manual_seed(0)
model = torch.nn.Linear(4, 1)
def loss_of(): return model(torch.randn(8, 4)).square().mean()
"""
_TAIL = """
print(f"{sum(p.sum().item() for p in model.parameters()):.6f}")
sys.exit(3)
"""

_SCALER = """
optimizer, scaler = torch.optim.SGD(model.parameters(), 0.1), torch.amp.GradScaler("cpu")
for i in range(40):
    optimizer.zero_grad()
    scaler.scale(loss_of() * (float("inf") if i % 5 == 3 else 1)).backward()
    scaler.step(optimizer)
    scaler.update()
"""
_LBFGS = """
optimizer = torch.optim.LBFGS(model.parameters(), 0.1, max_iter=3)
batch = torch.randn(8, 4)
def closure():
    optimizer.zero_grad()
    loss = model(batch).square().mean()
    loss.backward()
    return loss
for i in range(40):
    optimizer.step(closure)
"""
_IN_BACKWARD = """
optimizers = {p: torch.optim.SGD([p], 0.01) for p in model.parameters()}
def update(parameter):
    optimizers[parameter].step()
    optimizers[parameter].zero_grad()
for parameter in model.parameters():
    parameter.register_post_accumulate_grad_hook(update)
for i in range(40):
    loss_of().backward()
"""
_IN_THREAD = """
import threading
def train():
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for i in range(40):
        optimizer.zero_grad()
        loss_of().backward()
        optimizer.step()
thread = threading.Thread(target=train)
thread.start()
thread.join()
"""
_ACCUMULATED = """
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for i in range(160):
    loss_of().backward()
    if i % 4 == 3:
        optimizer.step()
        optimizer.zero_grad()
"""
_RECOMPILED = """
from torch.utils.data import DataLoader, TensorDataset
data = TensorDataset(torch.randn(80, 4))
compiled = torch.compile(model, backend="eager", dynamic=False)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for epoch in range(2):
    for i, (batch,) in enumerate(DataLoader(data, batch_size=4, num_workers=1)):
        optimizer.zero_grad()
        compiled(batch[:2] if epoch and i == 7 else batch).square().mean().backward()
        optimizer.step()
"""

_LIGHTNING = """
import sys, warnings
warnings.simplefilter("ignore")
import torch, lightning
from torch.utils.data import DataLoader, TensorDataset
lightning.seed_everything(0, verbose=False)
how = sys.argv[1]

class Model(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer, self.total = torch.nn.Linear(8, 1), 0.0
        self.automatic_optimization = how != "manual"

    def training_step(self, batch, number):
        loss = self.layer(batch[0]).square().mean()
        self.total += loss.item()
        if how == "manual":
            optimizer = self.optimizers()
            optimizer.zero_grad()
            self.manual_backward(loss)
            optimizer.step()
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), 0.01)

model = Model()
trainer = lightning.Trainer(
    max_epochs=2, accelerator="cpu", logger=False, enable_checkpointing=False,
    enable_model_summary=False, enable_progress_bar=how == "bar",
    accumulate_grad_batches=2 if how == "accumulated" else 1,
)
trainer.fit(model, DataLoader(TensorDataset(torch.randn(96, 8)), batch_size=4))
print(trainer.global_step, f"{model.total:.6f}", file=open(sys.argv[0] + how, "a"))
"""

_TRAINER = """
import os, sys, warnings
os.environ["HF_HUB_OFFLINE"] = "1"
warnings.simplefilter("ignore")
import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments
torch.manual_seed(0)
config = GPT2Config(n_layer=1, n_head=2, n_embd=8, vocab_size=50, n_positions=8,
                    bos_token_id=1, eos_token_id=1)
ids = [torch.randint(0, 50, (8,)) for _ in range(120)]
arguments = TrainingArguments(
    output_dir=sys.argv[0] + ".out", per_device_train_batch_size=2, gradient_accumulation_steps=2,
    num_train_epochs=1, logging_steps=10, report_to=[], save_strategy="no", disable_tqdm=True,
    use_cpu=True, seed=0,
)
data = [{"input_ids": i, "labels": i} for i in ids]
trainer = Trainer(model=GPT2LMHeadModel(config), args=arguments, train_dataset=data)
loss = trainer.train().training_loss
print(trainer.state.global_step, f"{loss:.6f}", file=open(sys.argv[0] + "trainer", "a"))
"""


def observe(tmp_path: Path, forks: Callable[[str], Forks], *args: str) -> Launch:
    return forks("torch").launch([tmp_path / "train.py", *args], tmp_path / "run")


def lines(ended: Launch, name: str) -> list[dict[str, Any]]:
    (log,) = ended.run_dir.glob(f"process-*/{name}.jsonl")
    return [json.loads(line) for line in log.read_text().splitlines()]


def windows(ended: Launch) -> int:
    return len(list(ended.run_dir.glob("process-*/windows/*/trace.json.gz")))


@pytest.mark.parametrize(
    ("body", "profiled"),
    [
        pytest.param(_SCALER, 1, id="scaler"),
        pytest.param(_LBFGS, 1, id="lbfgs"),
        pytest.param(_ACCUMULATED, 1, id="accumulated"),
        pytest.param(_IN_BACKWARD, 0, id="in-backward"),
        pytest.param(_IN_THREAD, 0, id="in-thread"),
    ],
)
def test_every_kind_of_step_counts_without_side_effects(
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    forks: Callable[[str], Forks],
    body: str,
    profiled: int,
) -> None:
    pytest.importorskip("torch")
    (tmp_path / "train.py").write_text(_HEAD + body + _TAIL)
    bare = forks("torch").run([tmp_path / "train.py"], tmp_path)
    ended = observe(tmp_path, forks)
    assert (ended.exit_code, *capfd.readouterr()) == (3, bare.stdout, bare.stderr)
    steps = lines(ended, "steps")
    assert (len(steps), windows(ended)) == (39, profiled)
    timed = [step for step in steps if "optimizer_ns" in step]
    assert timed
    assert all(0 < step["optimizer_ns"] <= step["end_ns"] - step["start_ns"] for step in timed)
    (recording,) = read_folder(ended.run_dir)
    assert "ended with exit code 3 after 40 steps" in recording.trace.meta.ending
    assert len(ended.messages) == 1 - profiled


_OWN_PROFILER = """
from torch.profiler import ProfilerActivity, profile, schedule
optimizer = torch.optim.SGD(model.parameters(), 0.1)
seen = []
def kept(profiler):
    seen.append(sum(event.name.startswith("ProfilerStep") for event in profiler.events()))
wait, warmup, active, repeat, steps = map(int, sys.argv[1:])
plan = schedule(wait=wait, warmup=warmup, active=active, repeat=repeat)
with profile(activities=[ProfilerActivity.CPU], schedule=plan, on_trace_ready=kept) as profiler:
    for i in range(steps):
        optimizer.zero_grad()
        loss_of().backward()
        optimizer.step()
        profiler.step()
for i in range(60):
    optimizer.zero_grad()
    loss_of().backward()
    optimizer.step()
print(seen)
"""


# A profiler that warms up repeatedly when the first window would open; one that runs from the
# start; one that starts while a window may be open.
@pytest.mark.parametrize(
    "words", [("2", "2", "2", "0", "60"), ("0", "0", "40", "1", "41"), ("8", "1", "3", "2", "40")]
)
def test_own_profiler_is_complete_and_a_window_opens_later(
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    forks: Callable[[str], Forks],
    words: tuple[str, ...],
) -> None:
    pytest.importorskip("torch")
    script = tmp_path / "train.py"
    script.write_text(_HEAD + _OWN_PROFILER + _TAIL)
    bare = forks("torch").run([script, *words], tmp_path)
    ended = observe(tmp_path, forks, *words)
    assert (ended.exit_code, capfd.readouterr().out) == (3, bare.stdout)
    assert bare.stdout.startswith("[")
    assert (windows(ended), ended.messages) == (1, ())


def test_compilation_and_loader_are_logged(tmp_path: Path, forks: Callable[[str], Forks]) -> None:
    pytest.importorskip("torch")
    (tmp_path / "train.py").write_text(_HEAD + _RECOMPILED + _TAIL)
    ended = observe(tmp_path, forks)
    assert ended.messages == ()
    events = lines(ended, "events")
    again = [e for e in events if e["kind"] == "compile" and "reason" in e]
    assert [e["count"] for e in again] == [2]
    assert "expected 4, actual 2" in again[0]["reason"]
    assert again[0]["source"] == "train.py(16): <module>"
    others = [e for e in events if e["kind"] in {"workers", "epoch"}]
    assert [(e["kind"], e["count"]) for e in others] == [
        ("workers", 1),
        ("epoch", 1),
        ("workers", 1),
        ("epoch", 2),
    ]
    steps = lines(ended, "steps")
    assert [n for n, step in enumerate(steps) if step.get("compile_ns", 0) > 0] == [26]
    (loader,) = lines(ended, "loaders")
    assert (loader["name"], loader["workers"], loader["batch_size"]) == ("TensorDataset", 1, 4)
    assert {level["capacity"] for level in lines(ended, "levels")} == {2}


@pytest.mark.parametrize(
    ("how", "steps"), [("plain", 47), ("bar", 47), ("manual", 47), ("accumulated", 23)]
)
def test_lightning(tmp_path: Path, how: str, steps: int) -> None:
    pytest.importorskip("lightning")
    _compare_told(tmp_path, _LIGHTNING, how, steps)


def test_trainer_of_transformers(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    pytest.importorskip("accelerate")
    _compare_told(tmp_path, _TRAINER, "trainer", 29)


def _compare_told(tmp_path: Path, code: str, how: str, steps: int) -> None:
    """The result file of the program is the same, and all its steps are logged."""
    (tmp_path / "train.py").write_text(code)
    subprocess.run(
        [sys.executable, str(tmp_path / "train.py"), how],
        capture_output=True,
        check=True,
        timeout=240,
    )
    ended = launch([sys.executable, str(tmp_path / "train.py"), how], tmp_path / "run")
    assert (ended.exit_code, ended.messages) == (0, ())
    bare, observed = (tmp_path / f"train.py{how}").read_text().splitlines()
    assert bare == observed
    assert (len(lines(ended, "steps")), windows(ended)) == (steps, 1)
