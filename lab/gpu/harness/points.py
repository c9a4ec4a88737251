"""The live points: what `stepwhy run` does on a GPU, judged by what runs there have recorded.

Each answer is 'passed', 'failed' or 'cannot tell', with what it rests on. Without a GPU, most are
'cannot tell'.
"""

from __future__ import annotations

from statistics import mean, median
from typing import TYPE_CHECKING, Any

from close_looks import captured_step, later_window, looked_at
from judging import (
    FAILED,
    PASSED,
    UNKNOWN,
    Answer,
    Items,
    NotMeasuredError,
    explanation_of,
    live_run,
    needs_gpu,
    same_losses,
    tells_on_gpu,
    windows_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable

_DEVICE_TIME = 0.05  # largest difference of the device time per step from the synchronised step
_SLOWER = 0.01  # largest overhead of a step of 10 ms
_LONG = 3.0  # medians: a step that took as long contains the start or the end of the profiler
_SAME_MEMORY = 0.05  # sizes of the card's memory: drivers keep some for themselves
_NEAR = 3  # steps before the window in which the profiler may start


def facts(result: dict[str, Any] | None) -> dict[str, Any] | None:
    """What the points need of an explanation; None if there is none.

    Args:
        result: An explanation, as `stepwhy explain --json` prints it.
    """
    if result is None:
        return None
    devices = [each for each in result["devices"] if each["kind"] != "cpu"]
    return {
        "busy_ms": sum(each["busy_ns"] for each in devices) / 1e6 if devices else None,
        "kernels": sum(each["kernels"] or 0 for each in result["trace"]["devices"]),
        "health": [each["counter"] for file in result["inputs"] for each in file["health"]],
        "models": [each.get("model", "") for each in devices],
        "verdict": result["verdict"]["sentence"],
    }


def answers(items: Items) -> list[dict[str, str]]:
    """The answer to each point.

    Args:
        items: All results by name; those of runs with `explained`, the facts of the explanation.
    """
    found = []
    for name, about, judge in POINTS:
        try:
            answer, text = judge(items)
        except NotMeasuredError as error:
            answer, text = UNKNOWN, str(error)
        except (KeyError, IndexError, TypeError, ValueError, ZeroDivisionError) as error:
            answer, text = UNKNOWN, f"not recorded ({type(error).__name__}: {error})"
        found.append({"point": name, "about": about, "answer": answer, "evidence": text})
    return found


def _of_window(name: str, field: str, what: str) -> Callable[[Items], Answer]:
    """Judge by a count in the windows of a run, which must not be zero."""

    @needs_gpu
    def judge(items: Items) -> Answer:
        counts = [window.get(field, 0) for window in windows_of(items, name)]
        text = f"{what} in each window: {', '.join(map(str, counts))}"
        return (PASSED if all(counts) else FAILED), text

    return judge


def _shown(times: list[float]) -> str:
    return ", ".join(f"{ms:.1f}" for ms in times[:8]) or "none"


@tells_on_gpu
def _around_window(items: Items) -> Answer:
    steps = live_run(items, "steady")["evidence"]["steps"]
    marked = [number for number, (_, profiled) in enumerate(steps) if profiled]
    if not marked:
        raise NotMeasuredError("no step of run/steady is marked as profiled")
    usual = median(ms for ms, profiled in steps if not profiled)
    before = [ms for ms, _ in steps[max(marked[0] - _NEAR, 1) : marked[0]]]
    long = [ms for ms in before if ms > _LONG * usual]
    text = (
        f"median {usual:.2f} ms; marked as profiled: {_shown([steps[n][0] for n in marked])}; "
        f"not marked, right before: {_shown(before)}"
    )
    return (FAILED if long else PASSED), text


@tells_on_gpu
def _after_stop(items: Items) -> Answer:
    steps = live_run(items, "steady")["evidence"]["steps"]
    marked = [number for number, (_, profiled) in enumerate(steps) if profiled]
    if not marked or len(steps) < marked[-1] + 3:
        raise NotMeasuredError("run/steady has no steps after its window")
    usual, after = median(ms for ms, _ in steps[marked[-1] + 2 :]), steps[marked[-1] + 1][0]
    text = f"first step after the window {after:.2f} ms, median of later ones {usual:.2f} ms"
    return (PASSED if after <= _LONG * usual else FAILED), text


@needs_gpu
def _device_time(items: Items) -> Answer:
    busy = explanation_of(items, "steady")["busy_ms"]
    # Not the mean: in one of the blocks, stepwhy may still look at a step.
    step = median(live_run(items, "steady")["step_ms"])
    if busy is None:
        return FAILED, "the explanation knows no GPU"
    difference = busy / step - 1
    answer = PASSED if abs(difference) <= _DEVICE_TIME else FAILED
    return answer, (
        f"{busy:.2f} ms of device work per step in the window, {step:.2f} ms per synchronised "
        f"step of a program that is bound by the GPU: {100 * difference:+.1f} %"
    )


def _cpu_training(items: Items) -> Answer:
    output = live_run(items, "cpu")["printed"]
    if not output["gpu"]:
        return UNKNOWN, "no GPU"
    if output["context"] is None:
        return UNKNOWN, "the driver does not say whether there is a context"
    states = (output["context_before"], output["context"])
    before, after = ("yes" if state else "no" for state in states)
    text = f"CUDA context before the training: {before}, after it: {after}"
    if output["context_before"]:
        return UNKNOWN, text
    return (FAILED if output["context"] else PASSED), text


def sides(items: Items, name: str) -> tuple[list[float], list[float]]:
    """Mean steps of the runs of a program without and with stepwhy, ms."""
    plain, observed = (
        [mean(item["step_ms"]) for key, item in items.items()
         if key.startswith(f"overhead/{name}/{side}/") and item.get("step_ms")]
        for side in ("plain", "observed")
    )  # fmt: skip
    return plain, observed


@tells_on_gpu
def _slowdown(items: Items) -> Answer:
    text = []
    for name in ("short", "long"):
        plain, observed = sides(items, name)
        if plain and observed:
            text.append(
                f"{name} steps {median(plain):.3f} ms alone ({_range(plain)}), "
                f"{median(observed):.3f} ms after the window ({_range(observed)})"
            )
    if not all(sides(items, "long")):
        return UNKNOWN, "; ".join(["steps of 10 ms were not measured", *text])
    plain, observed = sides(items, "long")
    if median(observed) <= (1 + _SLOWER) * median(plain):
        return PASSED, "; ".join(text)
    # Slower, but not beyond what runs of one kind differ by.
    apart = min(observed) > max(plain)
    return (FAILED if apart else UNKNOWN), "; ".join(text)


def _range(times: list[float]) -> str:
    if len(times) == 1:
        return "1 run"
    return f"{min(times):.3f} to {max(times):.3f} in {len(times)} runs"


def _abandoned(items: Items) -> Answer:
    windows = windows_of(items, "abandoned")
    kernels = [window.get("kernels", 0) for window in windows]
    text = f"kernels in each window: {', '.join(map(str, kernels))}"
    if "profiler-in-use" not in live_run(items, "abandoned")["evidence"]["messages"]:
        return UNKNOWN, f"{text}; but no window had to be abandoned"
    return (PASSED if all(kernels) else FAILED), text


@needs_gpu
def _graphs(items: Items) -> Answer:
    kernels = [window.get("kernels", 0) for window in windows_of(items, "graph")]
    same, text = same_losses(items, "graph", "pair/launch_bound/faulty/0")
    answer = PASSED if all(kernels) and same == PASSED else FAILED
    return answer, f"kernels in each window: {', '.join(map(str, kernels))}; {text}"


def _reported(items: Items, name: str) -> tuple[int, int, bool]:
    """Number of windows of a run, of those without kernels, and whether these are reported."""
    run = live_run(items, name)
    windows = [w for w in run["evidence"]["windows"] if "unreadable" not in w]
    empty = [window for window in windows if not window.get("kernels")]
    noted = "kernels-missing" in run["evidence"]["messages"]
    return len(windows), len(empty), noted and all(w.get("kernels_missing") for w in empty)


@needs_gpu
def _empty_trace(items: Items) -> Answer:
    if not live_run(items, "idle")["printed"]["held"]:
        return UNKNOWN, "PyTorch found no GPU in run/idle"
    count, empty, noted = _reported(items, "idle")
    if not empty:
        return UNKNOWN, f"none of the {count} windows of run/idle lacks kernels"
    silent = [
        key for key, item in items.items()
        if item.get("evidence") and key.startswith(("run/", "pair/"))
        and not key.startswith(("run/cpu", "run/jax", "pair/jax_"))
        and _silently_empty(item["evidence"])
    ]  # fmt: skip
    text = f"run/idle has no kernels, which is {'reported' if noted else 'not reported'}"
    others = f"silent about missing kernels: {', '.join(silent) or 'none'}"
    return (PASSED if noted and not silent else FAILED), f"{text}; {others}"


def _silently_empty(evidence: dict[str, Any]) -> bool:
    empty = [w for w in evidence["windows"] if w.get("kernels") == 0]
    return bool(empty) and "kernels-missing" not in evidence["messages"]


@needs_gpu
def _others(items: Items) -> Answer:
    state = live_run(items, "subscribed")["printed"]["subscriber"]
    running = ", ".join(items["environment"].get("other_profilers", [])) or "none"
    text = f"another subscriber of CUPTI: {state}; other profilers that run here: {running}"
    if state != "subscribed":
        return UNKNOWN, text
    count, empty, noted = _reported(items, "subscribed")
    if count and not empty:
        return PASSED, f"{text}; all {count} windows have kernels"
    said = live_run(items, "subscribed")["evidence"]["messages"]
    if not count:
        return (PASSED if said else FAILED), f"{text}; no window; messages: {', '.join(said)}"
    return (PASSED if noted else FAILED), (
        f"{text}; {empty} of {count} windows have no kernels, which is "
        f"{'reported' if noted else 'not reported'}"
    )


@needs_gpu
def _nvml(items: Items) -> Answer:
    evidence = live_run(items, "steady")["evidence"]
    if not evidence["gpu_samples"]:
        return FAILED, "no sample of the GPU is in counters.jsonl"
    last, wrong = evidence["gpus"][-1], []
    wanted = ("utilisation_percent", "used_bytes", "process_bytes", "power_mw", "sm_clock_mhz",
              "throttle_reasons")  # fmt: skip
    absent = [name for name in wanted if last.get(name) is None]
    expected = items["environment"].get("memory_bytes")
    total = last.get("total_bytes")
    if expected and total and abs(total / expected - 1) > _SAME_MEMORY:
        wrong.append(f"memory {total / 2**30:.1f} GiB, by PyTorch {expected / 2**30:.1f} GiB")
    # PyTorch's name ends with the partition, if there is one (MIG).
    if not items["environment"]["card"].startswith(str(last.get("name"))):
        wrong.append(f"name {last.get('name')}")
    text = (
        f"{evidence['gpu_samples']} samples; not known here: {', '.join(absent) or 'nothing'}; "
        f"in contradiction to the card: {', '.join(wrong) or 'nothing'}"
    )
    return (FAILED if wrong else PASSED), text


def _py_spy(items: Items) -> Answer:
    evidence = live_run(items, "steady")["evidence"]
    scope = items["environment"].get("ptrace_scope") or "unknown"
    said = sorted({slug for slug in evidence["messages"] if slug.startswith(("stack", "py-spy"))})
    text = f"ptrace_scope {scope}"
    if evidence["stack_samples"]:
        return PASSED, f"stacks were sampled; {text}"
    if said:
        return UNKNOWN, f"no stacks, which is reported: {', '.join(said)}; {text}"
    return FAILED, f"no stacks, and no message says why; {text}"


@tells_on_gpu
def _trials(items: Items) -> Answer:
    tried = {key[4:]: item for key, item in items.items() if key.startswith("try/")}
    if not tried:
        return UNKNOWN, "not tried"
    text = "; ".join(f"{name}: {_outcome(item)}" for name, item in tried.items())
    failed = [
        name for name, item in tried.items()
        if item.get("error") or item.get("verdict") not in ("gain", "no gain", "cannot tell")
    ]  # fmt: skip
    if failed:
        return FAILED, text
    missing = sum(name not in tried for name in TRIED)
    return (UNKNOWN if missing else PASSED), f"{text}{f'; {missing} not tried' if missing else ''}"


TRIED = ("pin-memory", "loader-workers", "fused-optimizer", "channels-last", "autocast",
         "empty-cache-rarely")  # fmt: skip


def _outcome(item: dict[str, Any]) -> str:
    if item.get("error"):
        return str(item["error"]).splitlines()[0]
    trial = item.get("trial", {})
    return f"{item['verdict']} ({trial['reason']})" if trial.get("reason") else item["verdict"]


@tells_on_gpu
def _forks(items: Items) -> Answer:
    steps = len(live_run(items, "workers")["evidence"]["steps"])
    same, text = same_losses(items, "workers", "pair/loader/faulty/0")
    lost = [slug for slug in live_run(items, "workers")["evidence"]["messages"]
            if slug in ("observer-stopped", "window-lost")]  # fmt: skip
    text = f"{steps} steps with worker processes; {text}; lost: {', '.join(lost) or 'nothing'}"
    return (PASSED if steps and not lost and same == PASSED else FAILED), text


def _names(items: Items) -> Answer:
    about = items.get("environment", {})
    if about.get("missing_names") is None:
        return UNKNOWN, "not looked up"
    text = f"{about.get('names', '?')} names, with {', '.join(about['versions'])}, missing: "
    return (FAILED if about["missing_names"] else PASSED), text + (
        ", ".join(about["missing_names"]) or "none"
    )


@tells_on_gpu
def _jax(items: Items) -> Answer:
    versions = items.get("environment", {}).get("versions", [])
    if not any(each.startswith("jax ") for each in versions):
        return UNKNOWN, "JAX is not installed"
    run, explained = live_run(items, "jax")["evidence"], explanation_of(items, "jax")
    sizes = [window.get("bytes", 0) for window in run["windows"]]
    text = (
        f"{len(run['steps'])} steps, {len(sizes)} windows, {explained['kernels']} kernels of "
        f"{', '.join(explained['models']) or 'no GPU'}"
    )
    if not explained["models"]:
        return UNKNOWN, f"JAX did not use the GPU; {text}"
    return (PASSED if sizes and explained["kernels"] else FAILED), text


@needs_gpu
def _properties(items: Items) -> Answer:
    known = windows_of(items, "steady")[0]["device_properties"]
    needed = {"name", "totalGlobalMem", "numSms", "computeMajor", "computeMinor"}
    models = explanation_of(items, "steady")["models"]
    text = f"in the trace: {', '.join(known)}; in the result: {', '.join(models) or 'no model'}"
    return (PASSED if needed <= set(known) and any(models) else FAILED), text


POINTS: tuple[tuple[str, str, Callable[[Items], Answer]], ...] = (
    ("shapes", "shapes of operations are recorded", _of_window(
        "steady", "with_shapes", "operations with shapes")),
    ("cpu-training", "a training on the CPU gets no CUDA context", _cpu_training),
    ("window-start", "steps in which the profiler starts are marked", _around_window),
    ("device-time", "device work in the window is that of its steps", _device_time),
    ("window-end", "the step after the window is like the others", _after_stop),
    ("abandoned-window", "kernels are recorded after an abandoned window", needs_gpu(_abandoned)),
    ("after-window", "steps after the window are as fast as without stepwhy", _slowdown),
    ("semantic-step", "operations of a step are looked at, which changes nothing", looked_at(
        "semantic.json", "operations of a step")),
    ("lines", "times of lines are noted, which changes nothing", looked_at(
        "lines.json.gz", "times of lines")),
    ("captured-step", "a CUDA graph can be captured in a step that is looked at", captured_step),
    ("later-window", "kernels are recorded in a second window, after lines were noted",
        later_window),
    ("cuda-graph", "programs that replay CUDA graphs run and are recorded", _graphs),
    ("sync-events", "waits of streams and events are recorded", _of_window(
        "steady", "sync_events", "waits")),
    ("empty-trace", "a trace without kernels is reported as that", _empty_trace),
    ("other-profilers", "beside another profiler: kernels, or a message that they lack", _others),
    ("nvml", "load and memory of the GPU are sampled, and are right", _nvml),
    ("py-spy", "stacks are sampled", _py_spy),
    ("trials", "fixes can be tried on the device", _trials),
    ("forks", "workers that fork after CUDA has started", _forks),
    ("private-names", "what stepwhy wraps exists in these versions", _names),
    ("jax", "windows of JAX have kernels", _jax),
    ("device-properties", "the trace describes the card", _properties),
)  # fmt: skip
