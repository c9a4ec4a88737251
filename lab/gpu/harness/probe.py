"""Trainings that stepwhy has to get along with: see `main`. Prints what it saw as JSON."""

from __future__ import annotations

import ctypes
import json
import sys
from contextlib import suppress
from pathlib import Path

import torch

sys.path.append(str(Path(__file__).resolve().parents[1]))

import turn

_STEPS = 60


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


def main():
    """Train with one of these:

    cpu: on the CPU, whatever GPU there is.
    idle: on the CPU, while a tensor is on the GPU: the profiler finds a GPU without kernels.
    abandoned: with profiles of its own in some steps, for which stepwhy ends its window.
    subscribed: on the GPU, with another subscriber of CUPTI.
    """
    kind, width = sys.argv[1], int(sys.argv[2])
    turn.take("torch._dynamo")
    has_gpu = torch.cuda.is_available()
    before = context()
    device = "cuda" if has_gpu and kind in ("abandoned", "subscribed") else "cpu"
    held = torch.ones(1, device="cuda") if has_gpu and kind == "idle" else None
    subscriber = Subscriber() if has_gpu and kind == "subscribed" else None
    torch.set_num_threads(1)
    model = torch.nn.Sequential(*[torch.nn.Linear(width, width) for _ in range(4)]).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    inputs = torch.randn(width, width, device=device)
    for number in range(_STEPS):
        # One of these meets the window in its warm-up, or in its first steps.
        if kind == "abandoned" and 4 <= number <= 8:
            with torch.profiler.profile():
                model(inputs)
        optimizer.zero_grad()
        loss = model(inputs).square().mean()
        loss.backward()
        optimizer.step()
    found = {"loss": loss.item(), "gpu": has_gpu, "context_before": before, "context": context(),
             "held": held is not None, "subscriber": subscriber and subscriber.state}  # fmt: skip
    print(json.dumps(found))


if __name__ == "__main__":
    main()
