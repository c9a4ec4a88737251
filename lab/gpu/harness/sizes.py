"""Sizes of the pairs for a card, from what was measured on it, so that the fault takes its share.

Rules of thumb: a training step multiplies three times as much as a forward pass, large products
reach `_REACHED` of the measured peak, and a layer without a fault reads and writes its
activations about twelve times. They need to be right within a factor of two: the share of the
fault is planned as a range (`share` in each pair.toml).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_REACHED = 0.85  # of the peak of large square products, by those of a training step
_ACTIVATION_PASSES = 12  # bytes per value of an activation that a layer reads and writes
_WEIGHT_BYTES = 30  # per weight and step: conversion, gradient, update
_LONGEST_S = 0.06  # of a step: a pair runs 60 of them
_MEMORY = 0.6  # of the card's memory; others may use the rest
_TANH_S = 1e-9  # of one value in NumPy, on one core
_LAUNCHES = 9.0  # of a small linear layer in a step: forward, backward, update


@dataclass(frozen=True)
class Peaks:
    """What a card and its host reach; FLOP/s, bytes/s and seconds.

    Args:
        fp32, tf32, bf16: Products of large matrices.
        memory: Memory of the card, bytes read and written.
        pinned, pageable: Copies to the card.
        launch_s: Host time of one eager operation.
        kernel_s: Time of the smallest kernel.
        sync_s: Time of one `.item()`.
        malloc_s: cudaMalloc and cudaFree of a large block.
        image_s, pass_s: What the loader's program needs for an image of 224 by 224, and for each
            pass over it.
        memory_bytes: Size of the card's memory.
        cores: Usable cores of the host.
    """

    fp32: float
    tf32: float
    bf16: float
    memory: float
    pinned: float
    pageable: float
    launch_s: float
    kernel_s: float
    sync_s: float
    malloc_s: float
    image_s: float
    pass_s: float
    memory_bytes: float
    cores: int


@dataclass(frozen=True)
class Size:
    """Sizes of both programs of a pair.

    Args:
        options: Options of both, and of the faulty and the fixed program alone.
        fault_s: Time that the fault is computed to take in a step.
        step_s: Computed time of the faulty step.
        memory_bytes: Computed need of memory on the card.
    """

    options: dict[str, int | str]
    fault_s: float
    step_s: float
    memory_bytes: float
    faulty: tuple[str, ...] = ()
    fixed: tuple[str, ...] = ()

    @property
    def share(self) -> float:
        return self.fault_s / self.step_s

    def words(self) -> tuple[str, ...]:
        """Command-line arguments of both programs."""
        return tuple(w for name, value in self.options.items() for w in (f"--{name}", str(value)))


def layer_s(peaks: Peaks, rows: int, width: int) -> float:
    """A training step of one linear layer in mixed precision."""
    multiply = 6 * rows * width**2 / (_REACHED * peaks.bf16)
    moved = _ACTIVATION_PASSES * rows * width + _WEIGHT_BYTES * width**2
    return max(multiply + moved / peaks.memory, _LAUNCHES * peaks.kernel_s)


def layer_bytes(rows: int, width: int) -> float:
    """Memory of one linear layer: weights, gradients, conversions, activations."""
    return 10 * width**2 + 4 * rows * width


def fitted(peaks: Peaks, rows: int, width: int, layers: int) -> tuple[int, int]:
    """Rows and width, halved until a step is short enough and fits into the memory."""
    while rows > 256 and (
        layers * layer_s(peaks, rows, width) > _LONGEST_S
        or layers * layer_bytes(rows, width) + 24 * rows * width > _MEMORY * peaks.memory_bytes
    ):
        rows //= 2
    while width > 1024 and layers * layer_s(peaks, rows, width) > _LONGEST_S:
        width //= 2
    return rows, width


def multiple(value: float, of: int, least: int | None = None) -> int:
    """The nearest multiple, not less than `least`, or one times `of`."""
    return max(round(value / of) * of, of if least is None else least)


def pageable_copy(peaks: Peaks) -> Size:
    rows, width = fitted(peaks, 16384, 4096, 4)
    copy = rows * width * 4 / peaks.pageable
    layers = multiple(0.6 * copy / layer_s(peaks, rows, width), 1, 2)
    step = copy + layers * layer_s(peaks, rows, width)
    need = layers * layer_bytes(rows, width) + 24 * rows * width
    return Size({"rows": rows, "width": width, "layers": layers}, copy, step, need)


def item_sync(peaks: Peaks) -> Size:
    layers, width, rows = 50, 1024, 256
    launching = layers * _LAUNCHES * peaks.launch_s

    def device(rows: int) -> float:
        return layers * 6 * rows * width**2 / (_REACHED * peaks.fp32)

    # The device needs longer than the host, so that only the waits leave it idle.
    while device(rows) < 1.2 * launching and rows < 2**15:
        rows += 256
    # For each norm, three operations are launched, and the host waits for their end.
    waits = 2 * layers * (peaks.sync_s + 3 * peaks.launch_s)
    sizes = {"rows": rows, "width": width, "layers": layers}
    return Size(sizes, waits, waits + device(rows), layers * layer_bytes(rows, width) * 2)


def _launched(launches: float, kernels_s: float, peaks: Peaks) -> tuple[float, float]:
    """Idle time of the device, and the step, where the host launches some operations."""
    step = max(launches * peaks.launch_s, kernels_s)
    return max(step - kernels_s, 0.0), step


def launch_bound(peaks: Peaks) -> Size:
    layers = 150
    launches = layers * _LAUNCHES
    idle, step = _launched(launches, launches * peaks.kernel_s, peaks)
    return Size({"rows": 64, "width": 256, "layers": layers}, idle, step, 2**30)


def fp32_head(peaks: Peaks) -> Size:
    rows, width = fitted(peaks, 8192, 4096, 12)
    layers = multiple(0.02 / layer_s(peaks, rows, width), 1, 2)
    layers = min(layers, 16)
    body = layers * layer_s(peaks, rows, width)
    slow, fast = (6 * rows * width / (_REACHED * rate) for rate in (peaks.fp32, peaks.bf16))
    # Outputs for which the head takes 0.4 of the step more than in mixed precision.
    outputs = multiple(0.4 * body / max(slow - fast - 0.4 * slow, 0.1 * slow), 64)
    sizes = {"rows": rows, "width": width, "layers": layers, "outputs": outputs}
    need = layers * layer_bytes(rows, width) + 16 * width * outputs + 16 * rows * outputs
    return Size(sizes, outputs * (slow - fast), body + outputs * slow, need)


def loop_optimizer(peaks: Peaks) -> Size:
    layers = 300
    updates, others = 13 * 2 * layers, 7 * layers
    idle, _ = _launched(updates, updates * peaks.kernel_s, peaks)
    _, step = _launched(updates + others, 0, peaks)
    return Size({"rows": 64, "width": 256, "layers": layers}, idle, step, 2**30)


def _images(peaks: Peaks, rate: float, value_bytes: int) -> tuple[int, float, float, int]:
    """Batch, time of a layer, bytes of an activation, and layers of the convolutions."""
    batch, layers, channels, side = 64, 12, 256, 56
    while batch > 8:
        values = batch * channels * side**2
        multiply = 3 * 18 * channels * values / (_REACHED * rate)
        if layers * multiply <= _LONGEST_S and layers * 8 * value_bytes * values <= (
            _MEMORY * peaks.memory_bytes
        ):
            break
        batch //= 2
    values = batch * channels * side**2
    norms = 10 * value_bytes * values / peaks.memory
    return (
        batch,
        3 * 18 * channels * values / (_REACHED * rate) + norms,
        value_bytes * values,
        layers,
    )


def layout(peaks: Peaks) -> Size:
    batch, layer, size, layers = _images(peaks, peaks.bf16, 2)
    conversions = 5 * 2 * size / peaks.memory  # per layer: input, output and three of gradients
    sizes = {"batch": batch, "channels": 256, "side": 56, "layers": layers}
    return Size(sizes, layers * conversions, layers * (layer + conversions), 6 * layers * size)


def unfused_batch_norm(peaks: Peaks) -> Size:
    batch, layer, size, layers = _images(peaks, peaks.tf32, 4)
    passes = 30 * size / peaks.memory  # forward and backward, beyond those of a fused one
    sizes = {"batch": batch, "channels": 256, "side": 56, "layers": layers}
    return Size(sizes, layers * passes, layers * (layer + passes), 8 * layers * size)


def naive_attention(peaks: Peaks) -> Size:
    heads, layers, length, batch = 16, 6, 2048, 8
    width = 64 * heads

    def parts(batch: int) -> tuple[float, float, float]:
        scores = batch * heads * length**2
        tokens = batch * length
        multiply = (72 * width**2 * tokens + 12 * 64 * scores) / (_REACHED * peaks.bf16)
        return layers * 24 * scores / peaks.memory, layers * multiply, layers * 8 * scores

    while batch > 1 and (
        sum(parts(batch)[:2]) > _LONGEST_S or parts(batch)[2] > _MEMORY * peaks.memory_bytes
    ):
        batch //= 2
    fault, rest, need = parts(batch)
    sizes = {"batch": batch, "heads": heads, "length": length, "layers": layers}
    return Size(sizes, fault, fault + rest, need)


def loader(peaks: Peaks) -> Size:
    batch, side, channels, layers = 64, 224, 96, 10
    while batch > 8:
        values = batch * channels * side**2
        compute = layers * 3 * 18 * channels * values / (0.6 * peaks.bf16)
        compute += layers * _ACTIVATION_PASSES * values / peaks.memory
        if compute <= _LONGEST_S and 8 * layers * values <= _MEMORY * peaks.memory_bytes:
            break
        batch //= 2
    layer = compute / layers
    while 0.8 * compute < batch * peaks.image_s and layers < 40:
        layers, compute = layers + 1, compute + layer
    # The loop must need less time for the images than for the rest of the step.
    passes = multiple((0.65 * compute / batch - peaks.image_s) / peaks.pass_s, 1, 0)
    images = batch * (peaks.image_s + passes * peaks.pass_s)
    sizes = {"batch": batch, "side": side, "passes": passes, "channels": channels, "layers": layers}
    workers = max(min(12, peaks.cores - 2), 1)
    fixed = ("--workers", str(workers))
    return Size(sizes, images, images + compute, 8 * layers * values, fixed=fixed)


def empty_cache(peaks: Peaks) -> Size:
    rows, width = fitted(peaks, 4096, 4096, 12)
    segments = 12 * 4  # two activations, a gradient and a conversion of each layer
    calls = segments * peaks.malloc_s
    step = calls + 12 * layer_s(peaks, rows, width)
    need = 12 * layer_bytes(rows, width) + 24 * rows * width
    return Size({"rows": rows, "width": width, "layers": 12}, calls, step, need)


def tiny_batch(peaks: Peaks) -> Size:
    batch, layers, length, heads = 64, 12, 197, 12
    width = 64 * heads

    def device(batch: int) -> float:
        tokens = batch * length
        return layers * (72 * width**2 / peaks.bf16 / 0.6 + 150 * width / peaks.memory) * tokens

    while batch > 8 and device(batch) > _LONGEST_S / 2:
        batch //= 2
    launching = layers * 45 * peaks.launch_s
    parts = 2
    while parts < batch and parts * launching < 3.3 * device(batch):
        parts *= 2
    idle, step = _launched(parts * layers * 45, device(batch), peaks)
    sizes = {"batch": batch, "length": length, "heads": heads, "layers": layers}
    return Size(sizes, idle, step, batch * 2**27, faulty=("--parts", str(parts)))


def unaligned(peaks: Peaks) -> Size:
    rows, width = fitted(peaks, 8192, 4096, 16)
    sizes = {"rows": rows, "width": width - 1, "layers": 8}
    good = 8 * layer_s(peaks, rows, width)
    need = 8 * layer_bytes(rows, width) + 24 * rows * width
    return Size(sizes, good, 2 * good, need)  # at half the rate


def casts(peaks: Peaks) -> Size:
    width, layers = 8192, 8
    while layers * 8 * width**2 > _MEMORY * peaks.memory_bytes and width > 1024:
        width //= 2
    converting = 6 * width**2 / peaks.memory
    rows = multiple(converting * _REACHED * peaks.bf16 / (2 * width**2), 64)
    reading = 2 * width**2 / peaks.memory
    product = max(2 * rows * width**2 / (_REACHED * peaks.bf16), reading)
    sizes = {"rows": rows, "width": width, "layers": layers}
    step = layers * (converting + product)
    return Size(sizes, layers * converting, step, layers * 8 * width**2)


def launch_blocking(peaks: Peaks) -> Size:
    layers = 100
    launches = layers * _LAUNCHES
    idle = launches * max(peaks.sync_s / 2, peaks.launch_s)
    step = idle + launches * (peaks.launch_s + 3 * peaks.kernel_s)
    return Size({"rows": 512, "width": 512, "layers": layers}, idle, step, 2**30)


def weights_h2d(peaks: Peaks) -> Size:
    rows, width = fitted(peaks, 8192, 8192, 4)
    frozen, layers = 2, 2
    copy = frozen * width**2 * 4 / peaks.pinned
    while rows > 256 and 3 * layer_s(peaks, rows, width) > copy:
        rows //= 2
    compute = frozen * layer_s(peaks, rows, width) / 3 + layers * layer_s(peaks, rows, width)
    sizes = {"rows": rows, "width": width, "frozen": frozen, "layers": layers}
    need = layers * layer_bytes(rows, width) + frozen * 12 * width**2 + 24 * rows * width
    return Size(sizes, copy, copy + compute, need)


def graph_breaks(peaks: Peaks) -> Size:
    layers, width, rows = 40, 1024, 512
    graph = 60 * peaks.launch_s  # of the host for one graph and its gradient
    # The device needs a third of that, and more than the host needs without breaks.
    while layer_s(peaks, rows, width) < 0.3 * graph and rows < 2**15:
        rows += 512
    device = layers * layer_s(peaks, rows, width)
    idle, step = _launched(layers * 60, device, peaks)
    return Size({"rows": rows, "width": width, "layers": layers}, idle, step, layers * 2**26)


def recompile(peaks: Peaks) -> Size:
    sizes = {"rows": 2048, "width": 1024, "layers": 8, "backend": "aot_eager"}
    step = 8 * max(layer_s(peaks, 2048, 1024), 12 * peaks.launch_s)
    compiling = 0.3 / 5  # 0.3 s in each fifth step
    return Size(sizes, compiling, step + compiling, 2**30)


def fragmentation(peaks: Peaks) -> Size:
    rows, width = fitted(peaks, 16384, 4096, 8)
    calls = 16 * peaks.malloc_s
    step = calls + 0.7 * 8 * layer_s(peaks, rows, width)
    need = 8 * layer_bytes(rows, width) + 24 * rows * width
    return Size({"rows": rows, "width": width, "layers": 8}, calls, step, need)


def recomputation(peaks: Peaks) -> Size:
    rows, width = fitted(peaks, 8192, 4096, 16)
    layer = layer_s(peaks, rows, width)
    need = 16 * layer_bytes(rows, width) + 24 * rows * width
    sizes = {"rows": rows, "width": width, "layers": 16}
    # A forward pass of three of four segments: the last one is not computed again.
    return Size(sizes, 16 * 0.75 * layer / 3, 16 * 1.25 * layer, need)


def _jax(peaks: Peaks) -> tuple[int, int, float]:
    rows, width = fitted(peaks, 8192, 4096, 6)
    return rows, width, layer_s(peaks, rows, width)


def jax_recompile(peaks: Peaks) -> Size:
    sizes = {"rows": 4096, "width": 1024, "layers": 6, "steps": 45}
    step = 6 * layer_s(peaks, 4096, 1024)
    return Size(sizes, 0.2, step + 0.2, 2**30)  # a second in each fifth step


def jax_no_donate(peaks: Peaks) -> Size:
    rows, width, layer = _jax(peaks)
    return Size({"rows": rows, "width": width, "layers": 6}, 0.0, 6 * layer, 2**32)


def jax_transfer(peaks: Peaks) -> Size:
    rows, width, layer = _jax(peaks)
    copy = 4 * rows * width / peaks.pageable
    layers = multiple(0.6 * copy / layer, 1, 2)
    sizes = {"rows": rows, "width": width, "layers": layers}
    return Size(sizes, copy, copy + layers * layer, 2**32)


def jax_callback(peaks: Peaks) -> Size:
    rows, width, layer = _jax(peaks)
    values = rows * width
    callback = values * (8 / peaks.pageable + _TANH_S)
    layers = multiple(0.7 * callback / layer, 1, 2)
    sizes = {"rows": rows, "width": width, "layers": layers}
    return Size(sizes, callback, callback + layers * layer, 2**32)


def jax_sync(peaks: Peaks) -> Size:
    layers, width, rows = 6, 2048, 512
    reading = layers * (peaks.sync_s + 6 * peaks.launch_s)
    while layers * layer_s(peaks, rows, width) < 2.5 * reading and rows < 2**15:
        rows += 512
    device = layers * layer_s(peaks, rows, width)
    return Size({"rows": rows, "width": width, "layers": layers}, reading, reading + device, 2**31)


SIZES: dict[str, Callable[[Peaks], Size]] = {
    each.__name__: each
    for each in (
        pageable_copy, item_sync, launch_bound, fp32_head, loop_optimizer, layout,
        naive_attention, loader, empty_cache, tiny_batch, unaligned, casts, launch_blocking,
        weights_h2d, graph_breaks, recompile, fragmentation, unfused_batch_norm, recomputation,
        jax_callback, jax_recompile, jax_no_donate, jax_transfer, jax_sync,
    )
}  # fmt: skip
