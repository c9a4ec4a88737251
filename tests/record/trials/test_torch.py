"""Fixes of PyTorch, applied to unmodified programs."""

from __future__ import annotations

import importlib.util
from functools import partial

import pytest
from tests.record.trials import programs
from tests.record.trials.programs import APPLY, TRAIN

# To import it would cost each worker seconds.
pytestmark = [
    pytest.mark.framework,
    pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed"),
]


@pytest.fixture(name="run")
def run_in_fork(forks):
    """Returns what runs a program with a fix, in a fork that has imported the framework."""
    return partial(programs.run, forks=forks("torch"))


LOADER = """
import os, torch
from torch.utils.data import DataLoader, Dataset, IterableDataset

class Data(Dataset):
    def __len__(self):
        return 8
    def __getitem__(self, i):
        return torch.tensor([i, os.getpid()])

loader = DataLoader(Data(), 2)
for _ in range(2):
    rows = torch.cat(list(loader))
    print(rows[:, 0].tolist(), bool((rows[:, 1] != os.getpid()).all()))
"""


def test_workers_load_the_same_batches(run, tmp_path):
    found = run(tmp_path, LOADER, fix="loader-workers", value="2")
    assert found.lines == ["[0, 1, 2, 3, 4, 5, 6, 7] True"] * 2
    assert found.changed == ["DataLoader of train.py(11): num_workers 0 -> 2, persistent_workers"]


def test_a_loader_with_workers_is_left_alone(run, tmp_path):
    program = LOADER.replace("Data(), 2", "Data(), 2, num_workers=1")
    found = run(tmp_path, program, fix="loader-workers", value="1")
    assert not found.changed
    assert found.left == ["a DataLoader with 1 workers, which has enough"]


def test_workers_would_repeat_an_iterable_dataset(run, tmp_path):
    program = """
from torch.utils.data import DataLoader, IterableDataset
class Data(IterableDataset):
    def __iter__(self):
        return iter(range(4))
print([batch.tolist() for batch in DataLoader(Data(), 2)])
"""
    found = run(tmp_path, program, fix="loader-workers", value="2")
    assert found.lines == ["[[0, 1], [2, 3]]"]
    assert not found.changed
    assert "repeat its data" in found.left[0]


def test_workers_are_kept_over_epochs(run, tmp_path):
    program = LOADER.replace("Data(), 2", "Data(), 2, num_workers=1") + (
        "print(loader.persistent_workers)"
    )
    found = run(tmp_path, program, fix="persistent-workers")
    assert found.lines[-1] == "True"


@pytest.mark.parametrize("workers", [0, 1])
def test_a_constant_batch_keeps_the_length_of_epochs(run, tmp_path, workers):
    program = LOADER.replace("Data(), 2", f"Data(), 2, num_workers={workers}")
    found = run(tmp_path, program, fix="constant-batch")
    assert [line[:24] for line in found.lines] == ["[0, 1, 0, 1, 0, 1, 0, 1]"] * 2
    assert found.changed == ["DataLoader: the first batch is repeated"]


def test_each_loader_repeats_its_own_first_batch(run, tmp_path):
    program = LOADER + "print([len(b) for b in DataLoader(loader.dataset, 4)])"
    found = run(tmp_path, program, fix="constant-batch")
    assert found.lines[-1] == "[4, 4]"


def test_a_constant_batch_of_workers_that_stay(run, tmp_path):
    program = LOADER.replace("Data(), 2", "Data(), 2, num_workers=1, persistent_workers=True")
    found = run(tmp_path, program, fix="constant-batch")
    assert [line[:24] for line in found.lines] == ["[0, 1, 0, 1, 0, 1, 0, 1]"] * 2


@pytest.mark.parametrize("workers", [0, 1])
def test_the_first_batch_of_data_without_a_known_end_is_not_repeated(run, tmp_path, workers):
    program = f"""
from torch.utils.data import DataLoader, IterableDataset
class Data(IterableDataset):
    def __iter__(self):
        return iter(range(4))
loader = DataLoader(Data(), 2, num_workers={workers})
for _ in range(2):
    print([batch.tolist() for batch, _ in zip(loader, range(9))])
"""
    found = run(tmp_path, program, fix="constant-batch")
    assert found.lines == ["[[0, 1], [2, 3]]"] * 2
    assert not found.changed
    assert found.left == ["a DataLoader of unknown length"]


def test_an_optimizer_is_fused(run, tmp_path):
    program = (
        TRAIN
        + """
parameters = torch.nn.Linear(4, 1).parameters()
plain, fused = torch.optim.AdamW(parameters), torch.optim.SGD([torch.zeros(1)], fused=True)
print(plain.param_groups[0]["fused"], plain.param_groups[0]["foreach"])
rprop = torch.optim.Rprop([torch.zeros(1)])
train()
"""
    )
    found = run(tmp_path, program, fix="fused-optimizer")
    assert found.lines == ["True False"]
    assert found.changed == ["AdamW: fused=True", "SGD: fused=True"]  # that of train()
    assert found.left == [
        "SGD, which uses fused already",
        "Rprop, which has no fused implementation",
    ]


def test_an_optimizer_stays_fused_when_its_state_is_loaded(run, tmp_path):
    program = """
import torch
def made():
    parameter = torch.ones(3, requires_grad=True)
    parameter.grad = torch.ones(3)
    return torch.optim.AdamW([parameter])
state = made().state_dict()
for group in state["param_groups"]:
    group.update(fused=None, foreach=None, lr=0.5)
optimizer = made()
optimizer.load_state_dict(state)
optimizer.step()
print(optimizer.param_groups[0]["fused"], optimizer.param_groups[0]["lr"])
print(state["param_groups"][0]["fused"])
"""
    assert run(tmp_path, program, fix="fused-optimizer").lines == ["True 0.5", "None"]


def test_a_foreach_optimizer_is_switched_in_blocks(run, tmp_path):
    program = (
        TRAIN
        + """
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.Adam(model.parameters(), foreach=False)
seen = []
optimizer.register_step_pre_hook(
    lambda made, *_: seen.append(int(made.param_groups[0]["foreach"]))
)
train(12, model=model, optimizer=optimizer)
print(seen)
"""
    )
    found = run(tmp_path, program, fix="foreach-optimizer", block_steps=2, warm_up=2)
    assert found.lines == [str([0, 0, 0, 0, 1, 1, 1, 1, 0, 0, 0, 0])]
    (steps,) = [about["steps"] for about in found.reports if "steps" in about]
    assert [block for _, _, block in steps] == [-1, 0, 0, 1, 1, 2, 2, 3, 3, 4, 4]
    assert all(start <= end for start, end, _ in steps)


def test_threads_are_set_whatever_the_program_asks_for(run, tmp_path):
    program = "import torch\ntorch.set_num_threads(3)\nprint(torch.get_num_threads())"
    found = run(tmp_path, program, fix="torch-threads", value="1")
    assert found.lines == ["1"]
    assert found.changed[-1] == "torch.set_num_threads(1) instead of 3"


@pytest.mark.parametrize("start", ["fork", "spawn"])
def test_workers_keep_their_own_number_of_threads(run, tmp_path, start):
    program = f"""
import torch
from torch.utils.data import DataLoader
class Data(torch.utils.data.Dataset):
    def __len__(self):
        return 2
    def __getitem__(self, i):
        return torch.get_num_threads()
if __name__ == "__main__":
    torch.set_num_threads(3)
    loader = DataLoader(Data(), 2, num_workers=1, multiprocessing_context="{start}")
    print(torch.get_num_threads(), [batch.tolist() for batch in loader])
"""
    assert run(tmp_path, program, fix="torch-threads", value="2").lines == ["2 [[1, 1]]"]


def test_anomaly_detection_is_switched_off_and_on(run, tmp_path):
    program = (
        TRAIN
        + """
torch.autograd.set_detect_anomaly(True)
seen = []
class Model(torch.nn.Linear):
    def forward(self, x):
        seen.append(int(torch.is_anomaly_enabled()))
        return super().forward(x)
train(8, model=Model(4, 1))
print(seen)
"""
    )
    found = run(tmp_path, program, fix="anomaly-detection-off", block_steps=2, warm_up=2)
    assert found.lines == [str([1, 1, 1, 1, 0, 0, 0, 0])]


def test_the_own_profiler_does_not_start(run, tmp_path):
    program = """
import torch
from torch.profiler import profile
with profile() as p:
    print(torch._C._autograd._profiler_enabled())
    p.step()
print(len(p.key_averages()), sum(e.self_cpu_time_total for e in p.events()))
p.key_averages().table(sort_by="self_cpu_time_total")
p.export_chrome_trace("trace.json")
"""
    found = run(tmp_path, program, fix="own-profiler-off")
    assert found.lines == ["False", "0 0"]
    assert found.changed == ["torch.profiler.profile: off"]


def test_summaries_are_written_in_every_nth_step(run, tmp_path):
    pytest.importorskip("tensorboard")
    program = (
        TRAIN
        + """
from torch.utils.tensorboard import SummaryWriter
class Writer:
    def __init__(self, *_, **__):
        self.steps = []
    def add_summary(self, summary, step, walltime):
        self.steps.append(step)
writer = SummaryWriter("logs")
written = writer._get_file_writer()
written.add_summary = lambda summary, step, walltime=None: seen.append(step)
seen = []
def batches():
    for step in range(8):
        yield torch.ones(2, 4)
        writer.add_scalar("loss", 1.0, step)
train(batches=batches())
print(seen)
"""
    )
    found = run(tmp_path, program, fix="summaries-rarely", value="4")
    assert found.lines == ["[0, 3, 7]"]


def test_convolutions_are_channels_last(run, tmp_path):
    program = """
import torch
layer = torch.nn.Conv2d(3, 8, 3)
print(layer(torch.ones(2, 3, 8, 8)).is_contiguous(memory_format=torch.channels_last))
print(layer.weight.is_contiguous(memory_format=torch.channels_last))
"""
    assert run(tmp_path, program, fix="channels-last").lines == ["True", "True"]


def test_models_run_under_autocast(run, tmp_path):
    program = """
import torch
print(torch.nn.Sequential(torch.nn.Linear(4, 4))(torch.ones(2, 4)).dtype)
print(torch.ones(2, 2).mm(torch.ones(2, 2)).dtype)
"""
    assert run(tmp_path, program, fix="autocast").lines == ["torch.bfloat16", "torch.float32"]


def test_compilation_is_dynamic(run, tmp_path):
    program = """
import torch
torch.compile(lambda x: x, dynamic=False, backend="eager")
"""
    found = run(tmp_path, program, fix="compile-dynamic")
    assert found.changed == ["torch.compile: dynamic=True instead of False"]


DDP = """
import torch, torch.distributed as dist
dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
seen = []
def wrapped():
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 1))
    model.register_comm_hook(None, lambda _, bucket: (seen.append(step), dist.all_reduce(
        bucket.buffer(), async_op=True).get_future().then(lambda f: f.value()[0]))[1])
    return model
model = wrapped()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(6):
    for _ in range(PASSES):
        model(torch.ones(2, 4)).sum().backward()
    optimizer.step()
    with torch.no_grad():
        model(torch.ones(2, 4))
print(seen)
"""


def test_gradients_are_exchanged_once_per_optimizer_step(run, tmp_path):
    found = run(tmp_path, DDP.replace("PASSES", "3"), fix="no-sync")
    assert found.lines == [str([0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 4, 5])]
    assert found.changed == ["DistributedDataParallel: one exchange in 3 passes"]
    assert not found.refused


def test_a_step_without_an_exchange_ends_the_fix(run, tmp_path):
    found = run(tmp_path, DDP.replace("PASSES", "2 if step == 4 else 3"), fix="no-sync")
    assert found.lines == [str([0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 5, 5, 5])]
    assert "stepped before the gradients were exchanged" in found.refused[0]


def test_several_replicated_models_end_the_fix(run, tmp_path):
    program = DDP.replace("PASSES", "3").replace(
        "    optimizer.step()",
        "    step == 4 and wrapped()(torch.ones(1, 4))\n    optimizer.step()",
    )
    found = run(tmp_path, program, fix="no-sync")
    assert found.lines == [str([0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 4, 5, 5, 5])]
    assert found.refused == ["the program trains several DistributedDataParallel models"]


COMPILED = """
import torch
class Model(torch.nn.Linear):
    def forward(self, x):
        return super().forward(x) * 2
model = Model(4, 1)
print(model(torch.ones(2, 4)).shape, model(torch.ones(2, 4)).shape)
"""


def test_a_backend_that_does_not_exist_changes_nothing(run, tmp_path):
    found = run(tmp_path, COMPILED, fix="torch-compile", value="no-such")
    assert len(found.lines) == 1
    assert not found.changed
    assert "InvalidBackend" in found.left[0]


def test_a_model_that_fails_when_compiled_runs_as_it_was(run, tmp_path):
    program = COMPILED.replace(
        "model = ",
        "import torch._dynamo\n@torch._dynamo.register_backend\n"
        "def broken(graph, inputs):\n    raise OSError\nmodel = ",
    )
    found = run(tmp_path, program, fix="torch-compile", value="broken")
    assert len(found.lines) == 1
    assert "failed when compiled" in found.refused[0]


def test_garbage_is_collected_rarely(tmp_path):
    program = TRAIN + "import gc\ntrain(8)\nprint(gc.get_threshold()[0], gc.get_freeze_count() > 0)"
    found = programs.run(tmp_path, program, fix="gc-rarely")
    assert found.lines == ["100000 True"]


def test_losses_are_kept_under_one_seed(run, tmp_path):
    program = TRAIN + "train(3)"
    first = run(tmp_path, program)
    other = tmp_path / "other"
    other.mkdir()
    second = run(other, program)
    losses = [about["losses"] for about in first.reports if "losses" in about]
    assert len(losses[0]) == 3
    assert losses == [about["losses"] for about in second.reports if "losses" in about]


def test_the_program_ends_after_some_steps(run, tmp_path):
    found = run(tmp_path, TRAIN + "train(8)\nprint('not reached')", steps=3)
    assert not found.lines
    assert [len(about["losses"]) for about in found.reports if "losses" in about] == [3]


def test_a_program_without_a_loader_reports_nothing(run, tmp_path):
    found = run(tmp_path, TRAIN + "train()", fix="loader-workers")
    assert not found.changed


def test_a_failing_fix_does_not_reach_the_training(run, tmp_path):
    program = LOADER.replace("import os, torch", "import os, torch\nimport torch.utils.data")
    program = program.replace(
        "loader = ",
        "import stepwhy.record.trials.torch_loaders as t\n"
        "t._add_workers.__code__ = (lambda module, given, trial: 1 / 0).__code__\nloader = ",
    )
    found = run(tmp_path, program, fix="loader-workers")
    assert len(found.lines) == 2
    assert found.left == ["the fix failed: ZeroDivisionError: division by zero"]


def test_fixes_are_applied_while_the_framework_is_imported(tmp_path):
    found = programs.run(tmp_path, APPLY.format(packages={"torch", "tensorboardX"}))
    number, left = found.lines[-1].split(maxsplit=1)
    assert int(number) >= 8
    assert left == "set()"
    assert "failed" not in str(found.left)
