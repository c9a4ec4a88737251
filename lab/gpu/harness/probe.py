"""Trainings that stepwhy has to get along with: see `main`. Prints what it saw as JSON."""

from __future__ import annotations

import ctypes
import itertools
import json
import sys
import time
from contextlib import suppress
from pathlib import Path

import torch

sys.path.append(str(Path(__file__).resolve().parents[1]))

import turn

_STEPS = 60
# Seconds until steps take longer, and until they end. stepwhy compares means of several seconds.
_LONGER_S, _END_S = 2.0, 7.0
_LONGER = 3  # times
_ON_GPU = ("abandoned", "subscribed", "captured", "changed")


class Subscriber:
    """Subscribes to CUPTI, as nsys and other profilers do, so that nobody else can."""

    def __init__(self) -> None:
        self.state = "libcupti was not found"
        self.handle = ctypes.c_void_p()
        signature = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p, *[ctypes.c_int] * 2, ctypes.c_void_p])
        self.callback = signature(lambda *_: None)
        for name in _cupti_libraries():
            with suppress(OSError):
                code = ctypes.CDLL(name).cuptiSubscribe(
                    ctypes.byref(self.handle), self.callback, None
                )
                self.state = "subscribed" if code == 0 else f"CUPTI refused with code {code}"
                return


def _cupti_libraries() -> list[str]:
    """Names of CUPTI, first of the library that PyTorch has loaded or brings along."""
    maps = Path("/proc/self/maps")
    loaded = [line.split()[-1] for line in maps.read_text().splitlines() if "libcupti" in line]
    site = Path(torch.__file__).parents[1]
    shipped = sorted(map(str, site.glob("nvidia/**/libcupti.so.*")))
    return [*dict.fromkeys(loaded), *shipped, "libcupti.so.13", "libcupti.so.12", "libcupti.so"]


def context() -> bool | None:
    """Whether the process has a CUDA context; None if the driver cannot be asked."""
    if torch.cuda.is_initialized():
        return True
    try:
        driver = ctypes.CDLL("libcuda.so.1")
        flags, active = ctypes.c_uint(), ctypes.c_int()
        code = driver.cuDevicePrimaryCtxGetState(0, ctypes.byref(flags), ctypes.byref(active))
    except (OSError, AttributeError):
        return None
    return bool(active.value) if code == 0 else False  # the driver was not even initialised


def is_looked_at():
    """Whether stepwhy looks at the operations of this step."""
    from torch.utils._python_dispatch import _get_current_dispatch_mode

    return _get_current_dispatch_mode() is not None


def replay(model, inputs):
    """Capture a graph of a forward pass, and launch it."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.no_grad(), torch.cuda.stream(stream):
        model(inputs)
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.no_grad(), torch.cuda.graph(graph):
        model(inputs)
    graph.replay()


def main():
    """Train with one of these:

    cpu: on the CPU, whatever GPU there is.
    idle: on the CPU, while a tensor is on the GPU: the profiler finds a GPU without kernels.
    abandoned: with profiles of its own in some steps, for which stepwhy ends its window.
    subscribed: on the GPU, with another subscriber of CUPTI.
    captured: on the GPU, and captures a CUDA graph in the step whose operations are looked at.
    changed: on the GPU, with steps that take longer from the middle on, for a second window.
    """
    kind, width = sys.argv[1], int(sys.argv[2])
    turn.take("torch._dynamo")
    has_gpu = torch.cuda.is_available()
    before = context()
    device = "cuda" if has_gpu and kind in _ON_GPU else "cpu"
    held = torch.ones(1, device="cuda") if has_gpu and kind == "idle" else None
    subscriber = Subscriber() if has_gpu and kind == "subscribed" else None
    torch.set_num_threads(1)
    model = torch.nn.Sequential(*[torch.nn.Linear(width, width) for _ in range(4)]).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    inputs = torch.randn(width, width, device=device)
    captured = None
    started = time.monotonic()
    for number in itertools.count():
        elapsed = time.monotonic() - started if kind == "changed" else _END_S
        if number >= _STEPS and elapsed >= _END_S:
            break
        # One of these meets the window in its warm-up, or in its first steps.
        if kind == "abandoned" and 4 <= number <= 8:
            with torch.profiler.profile():
                model(inputs)
        if kind == "captured" and has_gpu and captured is None and is_looked_at():
            replay(model, inputs)
            captured = number
        times = _LONGER if _LONGER_S < elapsed < _END_S else 1
        optimizer.zero_grad()
        loss = sum(model(inputs).square().mean() for _ in range(times))
        loss.backward()
        optimizer.step()
    found = {"loss": loss.item(), "gpu": has_gpu, "context_before": before, "context": context(),
             "held": held is not None, "captured": captured,
             "subscriber": subscriber and subscriber.state}  # fmt: skip
    print(json.dumps(found))


if __name__ == "__main__":
    main()
