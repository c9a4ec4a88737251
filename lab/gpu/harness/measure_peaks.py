"""Measure what a card and its host reach, and print it as JSON: fields of `sizes.Peaks`."""

from __future__ import annotations

import json
import os
import statistics
import sys
import time

import torch

_CUDA = torch.cuda.is_available()
_DEVICE = "cuda" if _CUDA else "cpu"
_REPEATS = 3
_MIB = 2**20


def seconds(work, count):
    """Time of one call of some work, the median of three measurements."""
    work()
    times = []
    for _ in range(_REPEATS):
        synchronise()
        started = time.perf_counter()
        for _ in range(count):
            work()
        synchronise()
        times.append((time.perf_counter() - started) / count)
    return statistics.median(times)


def synchronise():
    if _CUDA:
        torch.cuda.synchronize()


def products(size, dtype, *, tf32=False):
    torch.backends.cuda.matmul.allow_tf32 = tf32
    a, b = (torch.randn(size, size, device=_DEVICE, dtype=dtype) for _ in range(2))
    rate = 2 * size**3 / seconds(lambda: torch.mm(a, b), 5)
    torch.backends.cuda.matmul.allow_tf32 = False
    return rate


def copies(size, *, pinned):
    host = torch.ones(size, dtype=torch.uint8)
    host = host.pin_memory() if pinned and _CUDA else host
    target = torch.empty(size, dtype=torch.uint8, device=_DEVICE)
    return size / seconds(lambda: target.copy_(host, non_blocking=pinned), 3)


def allocation(size):
    """cudaMalloc and cudaFree of one block."""
    if not _CUDA:
        return 1e-4

    def once():
        block = torch.empty(size, dtype=torch.uint8, device=_DEVICE)
        del block
        torch.cuda.empty_cache()

    return seconds(once, 5)


def launches():
    """Host time of an operation with a gradient, and time of the smallest kernel."""
    x = torch.ones(1, device=_DEVICE, requires_grad=True)
    x * 2  # loads the kernel
    synchronise()
    started = time.perf_counter()
    for _ in range(200):  # less than fit into the queue
        x * 2
    host = (time.perf_counter() - started) / 200
    return host, min(seconds(lambda: x.detach().add_(0), 500), host)


def images():
    def passes(count):
        image = torch.randn(3, 224, 224)
        for _ in range(count):
            image = (image + image.roll(1, -1)).mul(0.7).clamp(-2, 2)

    torch.set_num_threads(1)
    first = seconds(lambda: passes(0), 10)
    return first, max(seconds(lambda: passes(4), 10) - first, 1e-6) / 4


def main():
    tiny = "--tiny" in sys.argv or not _CUDA
    if tiny:
        torch.set_num_threads(1)
    size, block = (128, _MIB) if tiny else (8192, 256 * _MIB)
    source = torch.ones(block, dtype=torch.uint8, device=_DEVICE)
    target = torch.empty_like(source)
    one = torch.ones(1, device=_DEVICE)
    launch_s, kernel_s = launches()
    image_s, pass_s = images()
    found = {
        "fp32": products(size, torch.float32),
        "tf32": products(size, torch.float32, tf32=True),
        "bf16": products(size, torch.bfloat16),
        "memory": 2 * block / seconds(lambda: target.copy_(source), 5),
        "pinned": copies(block, pinned=True),
        "pageable": copies(block, pinned=False),
        "launch_s": launch_s,
        "kernel_s": kernel_s,
        "sync_s": seconds(one.item, 50),
        "malloc_s": allocation(64 * _MIB),
        "image_s": image_s,
        "pass_s": pass_s,
        "memory_bytes": torch.cuda.mem_get_info()[1] if _CUDA else 2**33,
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1,
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main()
