"""Programs that would show if they were observed: they note their losses, and what they are told.

Each calls `boundary(optimizer)` where a step ends, and `note` with what must be the same.
"""

from __future__ import annotations

HEAD = """
import asyncio, sys, threading, warnings
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

warnings.simplefilter("default")
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Dropout(0.3), nn.Linear(8, 1))
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
STEPS = 9


def batch():
    return torch.randn(4, 6)


def update(loss):
    note(loss.item())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    boundary(optimizer)
"""

PROGRAMS: dict[str, str] = {
    "closures": """
optimizer = torch.optim.LBFGS(model.parameters(), lr=0.1, max_iter=3)
x = batch()

def closure():
    optimizer.zero_grad()
    loss = model(x).square().mean()
    loss.backward()
    note(loss.item())
    return loss

for _ in range(STEPS):
    optimizer.step(closure)
    boundary(optimizer)
""",
    "two optimizers": """
critic = nn.Sequential(nn.Linear(1, 4), nn.Tanh(), nn.Linear(4, 1))
other = torch.optim.SGD(critic.parameters(), lr=0.05, momentum=0.9)
for _ in range(STEPS):
    made = model(batch())
    loss = critic(made.detach()).mean() - critic(torch.randn(4, 1)).mean()
    edge = torch.rand(4, 1, requires_grad=True)
    (slope,) = torch.autograd.grad(critic(edge).sum(), edge, create_graph=True)
    loss = loss + (slope.norm() - 1).square()
    other.zero_grad()
    loss.backward()
    other.step()
    note(loss.item())
    update(-critic(made).mean())
""",
    "scaled and accumulated": """
scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
for step in range(STEPS):
    optimizer.zero_grad(set_to_none=False)
    for part in range(2):
        with torch.autocast("cpu", torch.bfloat16):
            loss = model(batch()).float().square().mean() / 2
        if step == 4:
            loss = loss * float("inf")
        scaler.scale(loss).backward()
        note(repr(loss.item()))
    scaler.unscale_(optimizer)
    note(repr(nn.utils.clip_grad_norm_(model.parameters(), 1.0).item()))
    scaler.step(optimizer)
    scaler.update()
    note(scaler.get_scale())
    boundary(optimizer)
""",
    "switches of CUDA without CUDA": """
with warnings.catch_warnings(record=True) as told:
    scaler = torch.cuda.amp.GradScaler(enabled=False)
for _ in range(STEPS):
    with warnings.catch_warnings(record=True) as told, torch.cuda.amp.autocast(enabled=False):
        loss = model(batch()).square().mean()
    note(len(told))
    torch.cuda.empty_cache()
    note(torch.cuda.is_available())
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    note(loss.item())
    boundary(optimizer)
""",
    "errors that the program handles": """
def factor(matrix):
    jitter = 0.0
    while True:
        try:
            return torch.linalg.cholesky(matrix + jitter * torch.eye(4))
        except torch.linalg.LinAlgError as error:
            note(str(error))
            jitter = 10 * jitter or 0.01

for _ in range(STEPS):
    try:
        torch.ones(2) @ torch.ones(3)
    except RuntimeError as error:
        note(str(error))
    y = model(batch())
    update(factor(y @ y.T).diagonal().sum())
""",
    "transforms": """
from torch.func import functional_call, grad, jvp, vmap

def loss_of(parameters, x):
    return functional_call(model[0], parameters, x).square().sum()

for _ in range(STEPS):
    x = batch()
    parameters = {name: p.detach() for name, p in model[0].named_parameters()}
    each = vmap(grad(loss_of), in_dims=(None, 0))(parameters, x)
    note(each["weight"].norm(dim=(1, 2)).tolist())
    note([one.sum().item() for one in jvp(torch.sin, (x,), (x,))])
    update(vmap(model[0])(x).square().mean() + model[1:](model[0](x)).mean())
""",
    "a subclass of tensors": """
class Tagged(torch.Tensor):
    calls = 0

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        Tagged.calls += 1
        return super().__torch_function__(func, types, args, kwargs)

for _ in range(STEPS):
    loss = model(batch().as_subclass(Tagged)).square().mean()
    note(type(loss).__name__)
    update(loss)
    note([type(p.grad).__name__ for p in model.parameters()])
    note(Tagged.calls)
""",
    "parameters of a subclass": """
class Counted(torch.Tensor):
    calls = []

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        Counted.calls.append(getattr(func, "__name__", str(func)))
        return super().__torch_function__(func, types, args, kwargs)

weight = torch.randn(8, 6).as_subclass(Counted).requires_grad_()
optimizer = torch.optim.SGD([weight, *model[3].parameters()], lr=0.01)
for _ in range(STEPS):
    hidden = (batch().requires_grad_() @ weight.T).as_subclass(torch.Tensor)
    update(model[1:](hidden).square().mean())
    note(type(weight.grad).__name__)
    note(Counted.calls)
""",
    "a mode for functions": """
from torch.overrides import TorchFunctionMode

class Counting(TorchFunctionMode):
    calls = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.calls.append(getattr(func, "__name__", str(func)))
        return func(*args, **(kwargs or {}))

with Counting() as mode:
    for step in range(STEPS):
        loss = model(batch()).square().mean()
        optimizer.zero_grad()
        torch.autograd.backward(loss) if step % 2 else loss.backward()
        optimizer.step()
        boundary(optimizer)
        note(len(mode.calls))
note(mode.calls)
""",
    "a dispatch mode in each step": """
from torch.utils._python_dispatch import TorchDispatchMode

class Counting(TorchDispatchMode):
    @classmethod
    def _should_skip_dynamo(cls):
        return False  # without importing it

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        note(str(func))
        return func(*args, **(kwargs or {}))

for _ in range(STEPS):
    with Counting():
        loss = model(batch()).square().mean()
    update(loss)
""",
    "a trace function of its own": """
def traced(function):
    seen, before = [], sys.gettrace()
    def trace(frame, event, _):
        seen.append((frame.f_code.co_name, event))
        return trace
    sys.settrace(trace)
    try:
        function()
    finally:
        sys.settrace(before)
    note([one for one in seen if one[0] != "traced"])

def three():
    for number in range(3):
        number += 1

for step in range(STEPS):
    if step in {3, 6}:
        traced(three)
    update(model(batch()).square().mean())
""",
    "a profile function of its own": """
seen = []

def profile(frame, event, _):
    if event == "call" and frame.f_code.co_filename == three.__code__.co_filename:
        seen.append(frame.f_code.co_name)

def three():
    return [number for number in range(3)]

sys.setprofile(profile)
try:
    for _ in range(STEPS):
        three()
        update(model(batch()).square().mean())
finally:
    sys.setprofile(None)
note(seen)
""",
    "threads": """
made = {}

def work(number):
    made[number] = torch.full((4, 6), float(number)).sum().item()

def trace(frame, event, _):
    return None

for step in range(STEPS):
    # As programs do that debug all of their threads alike.
    threading.settrace(sys.gettrace() if step % 2 else trace)
    threads = [threading.Thread(target=work, args=(n,)) for n in range(3)]
    for thread in threads:
        thread.start()
    update(model(batch()).square().mean())
    for thread in threads:
        thread.join()
    note(sorted(made.items()))
threading.settrace(None)
""",
    "warnings of operations": """
told = []
warnings.showwarning = lambda text, kind, file, line, *_: told.append((str(text), file, line))
for _ in range(STEPS):
    out = torch.empty(1)
    torch.add(torch.ones(3), 1, out=out)
    update(model(batch()).square().mean() + out.mean())
note(told)
""",
    "coroutines and generators": """
async def fetch(number):
    await asyncio.sleep(0)
    return torch.full((4, 6), float(number))

async def both():
    return await asyncio.gather(fetch(1), fetch(2))

def endless():
    try:
        while True:
            yield batch()
    finally:
        note("closed")

for _ in range(STEPS):
    source = endless()
    x = next(source)
    try:
        source.throw(KeyError("stop"))
    except KeyError:
        note("thrown")
    one, other = asyncio.run(both())
    update(model(x + one - other).square().mean())
""",
    "hooks": """
sizes = []
model[0].register_forward_hook(lambda module, inputs, output: sizes.append(tuple(output.shape)))
model[3].register_full_backward_hook(lambda module, inputs, outputs: sizes.append(len(inputs)))
model[3].weight.register_post_accumulate_grad_hook(lambda p: sizes.append(p.grad.norm().item()))

def pack(tensor):
    sizes.append(type(tensor).__name__)
    return tensor.numpy(force=True).copy()

for reentrant in [True, False] * (STEPS // 2):
    with torch.autograd.graph.saved_tensors_hooks(pack, torch.from_numpy):
        hidden = model[0](batch())
    hidden = checkpoint(model[1:], hidden, use_reentrant=reentrant)
    update(hidden.square().mean())
note(sizes)
""",
    "functions with attributes of any name": """
class Named(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.variable, ctx.name, ctx.shape = x.detach(), "named", (1,)
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        note([ctx.name, ctx.variable.sum().item()])
        return gradient * 2

for _ in range(STEPS):
    update(Named.apply(model(batch())).square().mean())
""",
    "sparse, nested and in place": """
table = nn.Embedding(20, 6, sparse=True)
other = torch.optim.SparseAdam(table.parameters(), lr=0.01)
running = torch.zeros(6)
for _ in range(STEPS):
    rows = table(torch.randint(0, 20, (4,)))
    with torch.inference_mode():
        running.mul_(0.9).add_(rows.mean(0), alpha=0.1)
        note(running.sum().item())
    ragged = torch.nested.nested_tensor([torch.ones(2, 3), torch.ones(1, 3)])
    note(torch.nested.to_padded_tensor(ragged, 0.0).sum().item())
    loss = model(rows).square().mean()
    other.zero_grad()
    update(loss)
    other.step()
""",
    "a trainer with callbacks": """
class Callback:
    def __getattr__(self, name):
        if not name.startswith("on_"):
            raise AttributeError(name)
        return lambda trainer: trainer.log.append(name)

class Trainer:
    def __init__(self, module, callbacks):
        self.module, self.callbacks, self.log = module, callbacks, []

    def call(self, name):
        for callback in self.callbacks:
            getattr(callback, name)(self)

    def fit(self, batches):
        optimizer = self.module.configure_optimizers()
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2)
        for number, x in enumerate(batches):
            self.call("on_train_batch_start")
            optimizer.step(lambda: self.closure(optimizer, x))
            scheduler.step()
            boundary(optimizer)
            self.call("on_train_batch_end")
            if number == 4:
                self.module.eval()
                with torch.no_grad():
                    note(self.module.training_step(x).item())
                self.module.train()

    def closure(self, optimizer, x):
        loss = self.module.training_step(x)
        optimizer.zero_grad()
        self.call("on_before_backward")
        loss.backward()
        note(loss.item())
        return loss

class Module(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = model

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=0.01)

    def training_step(self, x):
        return self.inner(x).square().mean()

trainer = Trainer(Module(), [Callback(), Callback()])
trainer.fit(batch() for _ in range(STEPS))
note(trainer.log)
""",
}
