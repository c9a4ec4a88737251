"""The live points: what `stepwhy run` does on a GPU, judged by what runs there have recorded.

Each answer is 'ok', 'broken' or 'cannot tell', with what it rests on. Without a GPU, most are
'cannot tell'.
"""

from __future__ import annotations

from statistics import mean, median
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

OK, BROKEN, UNKNOWN = "ok", "broken", "cannot tell"
_DEVICE_TIME = 0.05  # largest difference of the device time per step from the synchronised step
_SLOWER = 0.01  # largest overhead of a step of 10 ms
_LONG = 3.0  # medians: a step that took as long contains the start or the end of the profiler

Items = dict[str, dict[str, Any]]
Answer = tuple[str, str]


def answers(items: Items) -> list[dict[str, str]]:
    """The answer to each point.

    Args:
        items: All results by name.
    """
    found = []
    for name, about, judge in POINTS:
        try:
            answer, text = judge(items)
        except (KeyError, IndexError, TypeError, ValueError, ZeroDivisionError) as error:
            answer, text = UNKNOWN, f"not recorded ({type(error).__name__}: {error})"
        found.append({"point": name, "about": about, "answer": answer, "evidence": text})
    return found


def _on_gpu(items: Items) -> bool:
    return bool(items["environment"].get("card"))


def _windows(items: Items, run: str) -> list[dict[str, Any]]:
    return [w for w in items[run]["evidence"]["windows"] if "unreadable" not in w]


def _of_window(
    run: str, field: str, what: str, *, needs_gpu: bool = True
) -> Callable[[Items], Answer]:
    """Judge by a count in the windows of a run, which must not be zero."""

    def judge(items: Items) -> Answer:
        if needs_gpu and not _on_gpu(items):
            return UNKNOWN, "no GPU"
        counts = [window.get(field, 0) for window in _windows(items, run)]
        if not counts:
            return BROKEN, "no window was recorded"
        text = f"{what} in each window: {', '.join(map(str, counts))}"
        return (OK if all(counts) else BROKEN), text

    return judge


def _around_window(items: Items) -> Answer:
    steps = items["run/steady"]["evidence"]["steps"]
    usual = median(ms for ms, profiled in steps if not profiled)
    long = [ms for ms, profiled in steps[5:] if not profiled and ms > _LONG * usual]
    marked = [ms for ms, profiled in steps if profiled]
    text = f"median {usual:.2f} ms; marked as profiled: {_shown(marked)}; not marked but long: "
    return (BROKEN if long else OK), text + (_shown(long) or "none")


def _shown(times: list[float]) -> str:
    return ", ".join(f"{ms:.1f}" for ms in times[:8])


def _after_stop(items: Items) -> Answer:
    steps = items["run/steady"]["evidence"]["steps"]
    last = max(n for n, (_, profiled) in enumerate(steps) if profiled)
    usual, after = median(ms for ms, _ in steps[last + 2 :]), steps[last + 1][0]
    text = f"first step after the window {after:.2f} ms, median of later ones {usual:.2f} ms"
    return (OK if after <= _LONG * usual else BROKEN), text


def _device_time(items: Items) -> Answer:
    if not _on_gpu(items):
        return UNKNOWN, "no GPU"
    window = _windows(items, "run/steady")[0]
    count = window["last_step"] - window["first_step"] + 1
    per_step, step = window["device_ms"] / count, mean(items["run/steady"]["step_ms"])
    difference = per_step / step - 1
    text = f"{per_step:.2f} ms of device work per step in the window, {step:.2f} ms per step after"
    answer = OK if abs(difference) <= _DEVICE_TIME else BROKEN
    return answer, f"{text}: {100 * difference:+.1f} %"


def _cpu_training(items: Items) -> Answer:
    output = items["run/cpu"]["printed"]
    if not output["gpu"]:
        return UNKNOWN, "no GPU"
    text = f"CUDA context in the training at its end: {'yes' if output['context'] else 'no'}"
    return (BROKEN if output["context"] else OK), text


def _slowdown(items: Items) -> Answer:
    text, worst = [], 0.0
    for name in ("short", "long"):
        sides = [
            [mean(item["step_ms"]) for key, item in items.items()
             if key.startswith(f"overhead/{name}/{side}/") and item.get("step_ms")]
            for side in ("plain", "observed")
        ]  # fmt: skip
        if not all(sides):
            return UNKNOWN, "not measured"
        plain, observed = map(median, sides)
        text.append(f"{plain:.3f} ms alone, {observed:.3f} ms after the window")
        if name == "long":
            worst = observed / plain - 1
    if not _on_gpu(items):
        return UNKNOWN, f"no GPU; on this CPU: {'; '.join(text)}"
    return (OK if worst <= _SLOWER else BROKEN), "; ".join(text)


def _graphs(items: Items) -> Answer:
    if not _on_gpu(items):
        return UNKNOWN, "no GPU"
    run = items["run/graph"]
    kernels = [window.get("kernels", 0) for window in _windows(items, "run/graph")]
    losses = f"loss {run['losses']}"
    if not kernels:
        return BROKEN, f"no window; steps seen: {len(run['evidence']['steps'])}; {losses}"
    return (OK if all(kernels) else BROKEN), f"kernels in each window: {kernels}; {losses}"


def _reports_no_kernels(items: Items) -> Answer:
    if not _on_gpu(items):
        return UNKNOWN, "no GPU"
    empty = [
        key for key, item in items.items()
        for window in item.get("evidence", {}).get("windows", [])
        if window.get("kernels") == 0 and key != "run/cpu"
    ]  # fmt: skip
    text = f"windows without a kernel: {', '.join(empty) or 'none'}"
    return (BROKEN if empty else OK), text


def _others(items: Items) -> Answer:
    running = items["environment"].get("other_profilers", [])
    return UNKNOWN, f"not tested beside another one; running here: {', '.join(running) or 'none'}"


def _nvml(items: Items) -> Answer:
    if not _on_gpu(items):
        return UNKNOWN, "no GPU"
    count = items["run/steady"]["evidence"]["gpu_samples"]
    return (OK if count else BROKEN), f"samples of the GPU in counters.jsonl: {count}"


def _py_spy(items: Items) -> Answer:
    has = items["run/steady"]["evidence"]["stack_samples"]
    scope = items["environment"].get("ptrace_scope", "unknown")
    text = f"stack samples: {'yes' if has else 'none'}; ptrace_scope {scope}"
    return (OK if has else BROKEN), text


def _trials(items: Items) -> Answer:
    tried = {k[4:]: v for k, v in items.items() if k.startswith("try/")}
    if not tried:
        return UNKNOWN, "not tried"
    text = "; ".join(f"{name}: {item.get('verdict') or item.get('error')}"
                     for name, item in tried.items())  # fmt: skip
    if not _on_gpu(items):
        return UNKNOWN, f"no GPU; on this CPU: {text}"
    failed = [name for name, item in tried.items() if item.get("error")]
    return (BROKEN if failed else OK), text


def _forks(items: Items) -> Answer:
    run = items["run/workers"]
    if not _on_gpu(items):
        return UNKNOWN, f"no GPU; with workers, {len(run['evidence']['steps'])} steps were seen"
    return OK, f"workers forked after CUDA had started; loss {run['losses']}"


def _names(items: Items) -> Answer:
    missing = items["environment"].get("missing_names")
    if missing is None:
        return UNKNOWN, "not looked up"
    text = f"with {', '.join(items['environment']['versions'])}, missing: "
    return (BROKEN if missing else OK), text + (", ".join(missing) or "none")


def _jax(items: Items) -> Answer:
    run = items["run/jax"]["evidence"]
    sizes = [window.get("bytes", 0) for window in run["windows"]]
    text = f"steps {len(run['steps'])}, bytes of each window: {sizes}"
    return (OK if sizes and all(sizes) else BROKEN), text


def _properties(items: Items) -> Answer:
    if not _on_gpu(items):
        return UNKNOWN, "no GPU"
    known = _windows(items, "run/steady")[0]["device_properties"]
    needed = {"name", "totalGlobalMem", "numSms", "computeMajor", "computeMinor"}
    return (OK if needed <= set(known) else BROKEN), f"in the trace: {', '.join(known)}"


POINTS: tuple[tuple[str, str, Callable[[Items], Answer]], ...] = (
    ("shapes", "shapes of operations are recorded", _of_window(
        "run/steady", "with_shapes", "operations with shapes")),
    ("cpu-training", "a training on the CPU gets no CUDA context", _cpu_training),
    ("window-start", "steps in which the profiler starts are marked", _around_window),
    ("device-time", "device work in the window is that of its steps", _device_time),
    ("window-end", "the step after the window is like the others", _after_stop),
    ("abandoned-window", "kernels are recorded after an abandoned window", _of_window(
        "run/abandoned", "kernels", "kernels")),
    ("after-window", "steps after the window are as fast as without stepwhy", _slowdown),
    ("cuda-graph", "graphs that were captured before run and are recorded", _graphs),
    ("sync-events", "waits of streams and events are recorded", _of_window(
        "run/steady", "sync_events", "waits")),
    ("empty-trace", "no window lacks kernels", _reports_no_kernels),
    ("other-profilers", "another profiler uses the GPU", _others),
    ("nvml", "load and memory of the GPU are sampled", _nvml),
    ("py-spy", "stacks are sampled", _py_spy),
    ("trials", "fixes can be tried on the device", _trials),
    ("forks", "workers that fork after CUDA has started", _forks),
    ("private-names", "what stepwhy wraps exists in these versions", _names),
    ("jax", "windows of JAX are recorded", _jax),
    ("device-properties", "the trace describes the card", _properties),
)  # fmt: skip
