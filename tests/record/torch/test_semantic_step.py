"""The step whose operations are looked at: what it notes, and that it changes nothing."""

from __future__ import annotations

import json
from types import BuiltinFunctionType
from typing import TYPE_CHECKING, Any

import pytest

from stepwhy.record.core.recorder import Recorder
from stepwhy.record.torch import cuda_graphs
from stepwhy.record.torch.compilations import Compilations
from stepwhy.record.torch.semantic_step import SemanticStep

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable
    from pathlib import Path

    from tests.forks import Forks

    from stepwhy.record import Launch

pytestmark = pytest.mark.framework

_HEAD = """
import torch
from torch import nn
torch.manual_seed(0)
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.norm = nn.Embedding(50, 12, padding_idx=0), nn.BatchNorm1d(12)
        self.layer, self.drop, self.head = nn.Linear(12, 12), nn.Dropout(0.3), nn.Linear(12, 1)
    def forward(self, words):
        hidden = self.drop(torch.relu(self.layer(self.words(words))))
        return self.head(self.norm(hidden.mean(1)))
model, losses = Model(), []
def batch():
    words = torch.randint(1, 50, [6, 20])
    words[:, 15:] = 0
    return words
def record(loss):
    losses.append(loss.item().hex())
def finish():
    print(losses, sum(p.sum().item() for p in model.parameters()).hex())
optimizer = torch.optim.AdamW(model.parameters(), 0.01)
"""
_PLAIN = """
for _ in range(40):
    loss = model(batch()).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    record(loss)
"""
_SCALED = """
scaler = torch.amp.GradScaler("cpu")
for _ in range(40):
    with torch.autocast("cpu", torch.bfloat16):
        loss = model(batch()).float().square().mean()
    optimizer.zero_grad(set_to_none=False)
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
    record(loss)
"""
_HOOKED = """
from torch.utils.checkpoint import checkpoint
model.layer.weight.register_hook(lambda gradient: gradient * 0.5)
for step in range(60):
    reentrant = step % 2 == 0
    words = model.words(batch())
    hidden = checkpoint(lambda x: model.drop(model.layer(x)), words, use_reentrant=reentrant)
    loss = model.head(model.norm(hidden.mean(1))).square().mean()
    loss.backward()
    if step % 2:
        optimizer.step()
        optimizer.zero_grad()
    record(loss)
"""
_COMPILED = """
compiled = torch.compile(model, backend="eager")
for _ in range(40):
    loss = compiled(batch()).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    record(loss)
"""
_OWN_MODE = """
from torch.utils.flop_counter import FlopCounterMode
with FlopCounterMode(display=False):
    for _ in range(40):
        loss = model(batch()).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        record(loss)
"""
_FAILING = """
for step in range(40):
    try:
        loss = model(batch()).square().mean()
        torch.ones(2) @ torch.ones(3)
    except RuntimeError as error:
        losses.append(str(error))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    record(loss)
"""

_CONSTANTS = """
rows = torch.randint(1, 50, [64, 20])
batches = [torch.rand(6, 20) for _ in range(4)]
order = torch.randperm(64)
table, history = torch.rand(20, 20), torch.zeros(20)
model.register_buffer("graph", torch.rand(20, 20))
for step in range(40):
    normed = model.graph / model.graph.sum(1, keepdim=True)
    mask = torch.ones(20, 20).triu()
    part = order[step * 6 % 60 : step * 6 % 60 + 6].square()
    tanh = torch.tanh(batches[step % 4])
    history += 1
    past = torch.cosh(history)
    noise = torch.sinh(table + torch.rand(20, 20))
    weight = torch.relu(model.layer.weight)
    extra = (normed @ mask).mean() + part.float().mean() + tanh.mean() + past.mean() + noise.mean()
    loss = model(rows[torch.randint(64, [6])]).square().mean() + extra * weight.mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    record(loss)
"""


def run(
    tmp_path: Path, body: str, forks: Callable[[str], Forks]
) -> tuple[Launch, subprocess.CompletedProcess[str]]:
    pytest.importorskip("torch")
    script = tmp_path / "train.py"
    script.write_text(f"{_HEAD}{body}finish()\n")
    bare = forks("torch").run([script], tmp_path)
    return forks("torch").launch([script], tmp_path / "run"), bare


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory, forks: Callable[[str], Forks]) -> Launch:
    """The plain program, observed."""
    pytest.importorskip("torch")
    folder = tmp_path_factory.mktemp("plain")
    script = folder / "train.py"
    script.write_text(f"{_HEAD}{_PLAIN}finish()\n")
    return forks("torch").launch([script], folder / "run")


def notes(ended: Launch) -> list[dict[str, Any]]:
    return [json.loads(path.read_text()) for path in ended.run_dir.glob("*/semantic.json")]


def refusals(ended: Launch) -> list[str]:
    (log,) = ended.run_dir.glob("process-*/events.jsonl")
    events = [json.loads(line) for line in log.read_text().splitlines()]
    return [event["reason"] for event in events if event["kind"] == "semantic-step"]


@pytest.mark.parametrize(
    ("body", "refused"),
    [
        pytest.param(_PLAIN, [], id="plain"),
        pytest.param(_SCALED, [], id="scaled"),
        pytest.param(_HOOKED, [], id="hooked"),
        pytest.param(_FAILING, [], id="failing"),
        pytest.param(_COMPILED, ["torch.compile is in use"], id="compiled"),
        pytest.param(_OWN_MODE, ["another dispatch mode is active"], id="own-mode"),
    ],
)
def test_losses_are_the_same(
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    forks: Callable[[str], Forks],
    body: str,
    refused: list[str],
) -> None:
    ended, bare = run(tmp_path, body, forks)
    assert (ended.exit_code, *capfd.readouterr()) == (0, bare.stdout, bare.stderr)
    assert refusals(ended) == refused
    assert len(notes(ended)) == 1 - len(refused)
    assert ended.messages == ()


def test_columns_of_padding_and_what_depends_on_them_are_noted(plain: Launch) -> None:
    (found,) = notes(plain)
    padded = [one for one in found["inputs"] if one["padded"]]
    (one,) = padded
    assert one["line"].endswith("forward")
    assert {k: one[k] for k in ("op", "rows", "columns", "padded", "at_start")} == {
        "op": "aten::embedding",
        "rows": 6,
        "columns": 20,
        "padded": 5,
        "at_start": False,
    }
    shares: dict[str, set[int]] = {}
    for op, share in zip(found["ops"], found["padding"], strict=True):
        shares.setdefault(found["names"][op], set()).add(share)
    assert shares["aten::embedding"] == shares["aten::relu"] == {250}
    assert 0 in shares["aten::mm"] | shares["aten::addmm"]
    assert shares["aten::native_batch_norm"] == {0}


_IN_PART = """
labels = torch.full([6, 20], -100)
labels[:, ::5] = 1
head = nn.Linear(12, 500)
for _ in range(40):
    scores = head(model.words(batch()))
    loss = nn.functional.cross_entropy(scores.flatten(0, 1), labels.flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    record(loss)
"""


def test_rows_that_the_loss_ignores_are_noted_with_what_computes_them(
    tmp_path: Path, forks: Callable[[str], Forks]
) -> None:
    # The program keeps the scores until the next step replaces them.
    ended, _ = run(tmp_path, _IN_PART, forks)
    (found,) = notes(ended)
    shares: dict[str, int] = {}
    for op, share in zip(found["ops"], found["unused"], strict=True):
        shares[found["names"][op]] = max(share, shares.get(found["names"][op], 0))
    assert shares["aten::addmm"] == shares["aten::mm"] == shares["aten::_log_softmax"] == 800
    assert shares["aten::embedding"] == 0
    (choice,) = found["choices"]
    assert choice["line"].startswith("train.py")
    assert (choice["how"], choice["of_table"]) == ("ignored", False)


def test_the_mean_of_a_few_batches_stands_for_their_padding(
    tmp_path: Path, forks: Callable[[str], Forks]
) -> None:
    # 4 and 6 columns in turns: one batch alone would tell one of these.
    varying = """
def batch(turn=iter([4, 6] * 40)):
    words = torch.randint(1, 50, [6, 20])
    words[:, 20 - next(turn):] = 0
    return words
"""
    script = tmp_path / "train.py"
    script.write_text(f"{_HEAD}{varying}{_PLAIN}finish()\n")
    (found,) = notes(forks("torch").launch([script], tmp_path / "run"))
    (one,) = [one for one in found["inputs"] if one["padded"]]
    assert one["padded"] == 5
    assert max(found["padding"]) == 250


def test_the_step_is_no_usual_one(plain: Launch) -> None:
    (found,) = notes(plain)
    (log,) = plain.run_dir.glob("process-*/steps.jsonl")
    steps = [json.loads(line) for line in log.read_text().splitlines()]
    during = [s for s in steps if s["start_ns"] < found["end_ns"] < s["end_ns"] + 1]
    (last,) = [s for s in steps if s["start_ns"] <= found["start_ns"] <= s["end_ns"]]
    assert last["profiled"] == 1
    assert all(step["profiled"] for step in during)


def test_what_was_noted_of_operations_is_gone_once_it_is_written(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], forks: Callable[[str], Forks]
) -> None:
    # Each search of the garbage collector would visit it until the training ends. What only refers
    # to itself is gone with the next search.
    counted = """
import gc
gc.collect()
modules = [str(type(each).__module__) for each in gc.get_objects()]
print(sum(module.endswith("record.torch.result_use") for module in modules))
"""
    script = tmp_path / "train.py"
    script.write_text(f"{_HEAD}{_PLAIN}{counted}")
    (found,) = notes(forks("torch").launch([script], tmp_path / "run"))
    assert "constant" in found
    assert capfd.readouterr().out.split()[-1] == "0"


def test_only_what_lasts_is_constant(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], forks: Callable[[str], Forks]
) -> None:
    ended, bare = run(tmp_path, _CONSTANTS, forks)
    assert capfd.readouterr().out == bare.stdout
    (found,) = notes(ended)
    constants: dict[str, set[bool]] = {}
    for op, line in zip(found["ops"], found["constant"], strict=True):
        constants.setdefault(found["names"][op], set()).add(line >= 0)
    made = {"aten::triu", "aten::sum", "aten::mm"}
    assert {name for name in made if True in constants[name]} == made
    varying = {
        "aten::pow",
        "aten::tanh",
        "aten::cosh",
        "aten::sinh",
        "aten::relu",
        "aten::embedding",
    }
    assert {name for name in varying if True in constants[name]} == set()
    assert any(line.startswith("train.py") for line in found["lines"])


class Kept:
    """Stands for the profiler windows, of which one was kept."""

    kept, running = True, False


@pytest.fixture
def refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[str]]:
    """Why a step of this process would not be looked at."""
    torch = pytest.importorskip("torch")
    recorder = Recorder(str(tmp_path), "pytorch", "2.0", "torch-optimizer")
    reasons: list[str] = []
    monkeypatch.setattr(recorder, "event", lambda *_, reason, **__: reasons.append(reason))
    window: Any = Kept()
    compilations = Compilations(recorder)
    layer = torch.nn.Linear(2, 2)

    def begin(*, compiled: bool = False) -> list[str]:
        compilations.any = compiled
        step = SemanticStep(recorder, window, compilations)
        step.next_step(5, torch.optim.SGD(layer.parameters(), 0.1))
        step.finish()
        return reasons

    return begin


def test_a_plain_step_is_looked_at(refused: Callable[..., list[str]]) -> None:
    assert refused() == []


def test_a_step_inside_of_a_transform_is_not_looked_at(refused: Callable[..., list[str]]) -> None:
    torch = pytest.importorskip("torch")
    reasons = []
    torch.func.vmap(lambda rows: (reasons.extend(refused()), rows)[1])(torch.ones(2))
    assert reasons == ["a transform of torch.func is active"]


def test_looking_makes_no_state_that_later_backward_passes_copy(
    refused: Callable[..., list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    functorch = pytest.importorskip("torch._C._functorch")

    def fail(*_: object) -> None:
        pytest.fail("each node of later backward passes copies the state of functorch")

    for name, value in vars(functorch).items():
        if isinstance(value, BuiltinFunctionType):
            monkeypatch.setattr(functorch, name, fail)
    assert refused() == []


@pytest.mark.parametrize(
    "name",
    [
        "torch.utils._python_dispatch._get_current_dispatch_mode",
        "torch.overrides._get_current_function_mode_stack",
        "torch._C._are_functorch_transforms_active",
        "torch._C._current_graph_task_id",
    ],
)
def test_a_version_without_a_name_has_no_such_step(
    refused: Callable[..., list[str]], monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.delattr(name)
    assert refused() == ["this version of PyTorch lacks what it takes"]


def test_a_program_that_reports_waits_has_no_such_step(
    refused: Callable[..., list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each value that is read from the device is a wait, which would warn or be an error."""
    monkeypatch.setattr("torch.cuda.is_initialized", lambda: True)
    monkeypatch.setattr("torch.cuda.get_sync_debug_mode", lambda: 1)
    assert refused() == ["the program reports waits for the device"]


def test_compilations_count_after_dynamo_was_reset(refused: Callable[..., list[str]]) -> None:
    assert refused(compiled=True) == ["torch.compile is in use"]


def test_a_process_group_keeps_a_step_from_being_looked_at(
    refused: Callable[..., list[str]],
) -> None:
    distributed = pytest.importorskip("torch.distributed")
    if not distributed.is_available():
        pytest.skip("PyTorch was built without torch.distributed")
    store = distributed.HashStore()
    distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
    try:
        assert refused() == ["torch.distributed is in use, and other processes would wait"]
    finally:
        distributed.destroy_process_group()


def test_a_mode_of_the_program_keeps_a_step_from_being_looked_at(
    refused: Callable[..., list[str]],
) -> None:
    import torch
    from torch.overrides import TorchFunctionMode

    class Own(TorchFunctionMode):
        def __torch_function__(self, func: Any, _: Any, args: Any = (), kwargs: Any = None) -> Any:
            return func(*args, **(kwargs or {}))

    with torch.device("cpu"):
        assert refused() == []
    with Own():
        assert refused() == ["a mode for functions of torch is active"]


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The ways in which values of tensors are read, one for each time."""
    torch = pytest.importorskip("torch")
    found: list[str] = []

    def reading(name: str) -> Callable[..., Any]:
        original = getattr(torch.Tensor, name)
        return lambda *args, **kwargs: (found.append(name), original(*args, **kwargs))[1]

    for name in ("__bool__", "__int__", "tolist", "cpu", "item"):
        monkeypatch.setattr(torch.Tensor, name, reading(name))
    return found


# The step is looked at before the first capture could begin, and until five steps later.
@pytest.mark.parametrize("before", [0, 1, 3, 5])
def test_nothing_is_read_while_a_cuda_graph_is_captured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reads: list[str], before: int
) -> None:
    """A value that is read from the device would end the capture with an error."""
    import torch

    monkeypatch.setattr(cuda_graphs, "_were_captured", False)
    recorder = Recorder(str(tmp_path), "pytorch", "2.0", "torch-optimizer")
    window: Any = Kept()
    step = SemanticStep(recorder, window, Compilations(recorder))
    words, layer = torch.nn.Embedding(9, 20), torch.nn.LSTM(20, 64)
    optimizer = torch.optim.SGD([*words.parameters(), *layer.parameters()], 0.1)
    batch, features = torch.randint(1, 9, [64, 8]), torch.rand(6, 20, 20)
    batch[:, 5:] = features[:, 15:] = 0
    graphs, graph = cuda_graphs.CudaGraphs(), object()

    def train(*steps: int) -> None:
        for number in steps:
            step.next_step(number, optimizer)
            weights = torch.tensor([[1.0 + i for i in range(4096)]])
            loss = words(batch).sum() + layer(features)[0].sum()
            loss += weights.mul(2).sum() + features.mul(2).sum()
            loss.backward()

    train(*range(before))
    assert bool(before) == bool(reads)
    reads.clear()
    graphs.begins(graph)
    train(*range(before, before + 7))
    graphs.ends(graph)
    step.finish()
    assert reads == []
    assert torch.utils._python_dispatch._get_current_dispatch_mode() is None
