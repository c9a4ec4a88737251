"""Size of the page, time to its first paint, and how smoothly its timeline moves.

    python benchmarks/page.py [--slices N ...] [--out FILE]

Needs the environment of `scripts/browser-test`, which has Playwright, and Chromium. The processor
paints, as on a machine without a graphics card. Frames are compared with those of empty canvases
that take the timeline's place on the same page, with the same size, and that are cleared in each
frame: one of the kind that the timeline uses there (2D, opaque), and one of WebGL. All are measured
in turns. A frame lasts a multiple of 16.7 ms, so the processor time that the browser needs for one,
in all its processes, is measured, too.
"""

import argparse
import datetime as dt
import json
import os
import platform
import shutil
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path

import numpy as np
from playwright.sync_api import sync_playwright

from stepwhy.engine.explain import Opened, explain_opened
from stepwhy.engine.timeline import TimelineParts
from stepwhy.show import html
from stepwhy.trace.builder import TraceBuilder
from stepwhy.trace.kinds import DeviceKind, Kind, Role
from stepwhy.trace.model import Meta

OPTIONS = ("--no-sandbox", "--use-gl=angle", "--use-angle=swiftshader",
           "--enable-unsafe-swiftshader")  # fmt: skip
STEPS, STREAMS, FRAMES, TURNS = 200, 8, 240, 3
EMPTY = ("2d", "webgl")

# Moves the timeline in each frame, or clears an empty canvas; returns ms between frames.
FRAMES_OF = """
async ([empty, frames]) => {
  const timeline = window.stepwhyTimeline;
  const rows = document.querySelector(".rows");
  const canvas = document.createElement("canvas");
  Object.assign(canvas, { width: rows.clientWidth, height: rows.clientHeight });
  if (!canvas.width || !canvas.height) throw new Error("the timeline is not visible");
  const gl = empty === "webgl" ? canvas.getContext("webgl2") : null;
  const flat = empty === "2d" ? canvas.getContext("2d", { alpha: false }) : null;
  if (empty && !gl && !flat) throw new Error(`no ${empty} canvas`);
  if (empty) { rows.before(canvas); rows.style.display = "none"; }
  const found = [];
  let before = 0;
  for (let i = 0; i < frames; i++) {
    const now = await new Promise(requestAnimationFrame);
    if (before) found.push(now - before);
    before = now;
    if (gl) { gl.clearColor(i / frames, 0, 0, 1); gl.clear(gl.COLOR_BUFFER_BIT); }
    else if (flat) { flat.fillStyle = i % 2 ? "#eee" : "#fff"; flat.fillRect(0, 0, 9999, 9999); }
    else { timeline.view.pan(i % 80 < 40 ? 9 : -9); timeline.paintNow(); }
  }
  if (empty) { canvas.remove(); rows.style.display = ""; }
  return found;
}
"""
ZOOM = "([from, to]) => { const t = window.stepwhyTimeline; t.fit(from * t.view.spanNs, \
to * t.view.spanNs, 0); t.paintNow(); }"


def trace_of(slices):
    """Random durations, which compress badly: host calls three deep, and a kernel for each."""
    rng, builder = np.random.default_rng(3), TraceBuilder()
    names = np.array([builder.intern(f"aten::operation_{n}") for n in range(400)])
    kernels = np.array([builder.intern(f"void kernel_{n}<float>(Tensor, int)") for n in range(900)])
    main = builder.track(Role.HOST_THREAD, "main", process=1, thread=1)
    streams = [
        builder.track(
            Role.STREAM, f"stream {n}", process=1, thread=n,
            device=builder.device(f"GPU:{n // 2}", DeviceKind.GPU),
        )
        for n in range(STREAMS)
    ]  # fmt: skip
    calls = slices // 4
    length = rng.lognormal(9.5, 0.8, calls).astype(np.int64) + 200
    start = np.cumsum(length + rng.integers(100, 3000, calls))
    chosen = names[rng.integers(0, len(names), calls)]
    ids = np.arange(calls)
    for depth, kind in enumerate((Kind.OP, Kind.OP, Kind.LAUNCH)):
        columns = {
            "start_ns": start + 40 * depth,
            "dur_ns": length - 90 * depth,
            "track": np.full(calls, main),
            "kind": np.full(calls, int(kind)),
            "name": chosen,
        }
        builder.slices_from({**columns, "correlation": ids} if kind is Kind.LAUNCH else columns)
    on = np.array(streams)[ids % STREAMS]
    work = np.minimum(rng.lognormal(10, 1, calls).astype(np.int64), length * 4)
    begin = start + length
    for stream in streams:
        rows = np.flatnonzero(on == stream)
        begin[rows] = np.maximum.accumulate(begin[rows])
        ends = np.minimum(begin[rows] + work[rows], np.append(begin[rows][1:], 2**60))
        work[rows] = ends - begin[rows]
    builder.slices_from(
        {
            "start_ns": begin, "dur_ns": work, "track": on, "correlation": ids,
            "kind": np.full(calls, int(Kind.KERNEL)),
            "name": kernels[rng.integers(0, len(kernels), calls)],
        }
    )  # fmt: skip
    edges = np.linspace(0, int(start[-1] + length[-1]) + 1000, STEPS + 1).astype(np.int64)
    builder.slices_from(
        {
            "start_ns": edges[:-1], "dur_ns": np.diff(edges), "track": np.full(STEPS, main),
            "kind": np.full(STEPS, int(Kind.STEP)), "name": np.full(STEPS, builder.intern("step")),
        }
    )  # fmt: skip
    signals = frozenset({"host-ops", "device-activity", "runtime-calls"})
    return builder.finish(Meta("kineto", "pytorch", signals=signals))


def write_page(slices, file):
    """Write the page, and return what it cost."""
    trace, parts, spent = trace_of(slices), TimelineParts(), 0.0

    def seen(*about):
        nonlocal spent
        begin = time.perf_counter()
        parts.seen(*about)
        spent += time.perf_counter() - begin

    begin = time.perf_counter()
    result = explain_opened([Opened("trace", "kineto", trace)], [], seen=seen)
    explained = time.perf_counter() - begin - spent
    begin = time.perf_counter()
    timeline = parts.timeline()
    if timeline.problem:
        sys.exit(f"no timeline: {timeline.problem}")
    file.write_text(html.render(result, timeline), encoding="utf-8")
    spent += time.perf_counter() - begin
    return {
        "slices": len(trace.slices),
        "file_mb": round(file.stat().st_size / 1e6, 2),
        "merged": timeline.merged,
        "shortest_ns": timeline.shortest_ns,
        "explain_s": round(explained, 2),
        "timeline_s": round(spent, 2),
    }


def processor_s(session):
    """Processor time of all processes of the browser so far, s."""
    return sum(one["cpuTime"] for one in session.send("SystemInfo.getProcessInfo")["processInfo"])


def frames(page, session, empty=""):
    """Times between frames, and the processor time of each, ms."""
    begin = processor_s(session)
    between = page.evaluate(FRAMES_OF, [empty, FRAMES])
    return between, [1000 * (processor_s(session) - begin) / FRAMES]


def look(browser, file):
    """Times of opening the page once, ms, and of its frames."""
    session = browser.new_browser_cdp_session()
    page = browser.new_page(viewport={"width": 1400, "height": 1000})
    page.goto(file.as_uri())
    page.wait_for_selector("#timeline[data-ready]", timeout=60_000)
    ready = page.evaluate("performance.now()")
    paint = page.evaluate(
        "performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? null"
    )
    page.locator("#timeline").evaluate("section => section.scrollIntoView()")
    found = {"first_paint_ms": [paint], "timeline_ready_ms": [ready]}
    for name, shown in {"whole": (0, 1), "twentieth": (0.4, 0.45), "step": (0.5, 0.505)}.items():
        page.evaluate(ZOOM, shown)
        found[f"frames_{name}"], found[f"processor_{name}"] = frames(page, session)
    for kind in EMPTY:
        name = f"empty_{kind}"
        found[f"frames_{name}"], found[f"processor_{name}"] = frames(page, session, kind)
    page.close()
    return found


def measured(slices, browser, folder):
    file = folder / f"{slices}.html"
    result, times = write_page(slices, file), {}
    for _ in range(TURNS):
        for name, values in look(browser, file).items():
            times.setdefault(name, []).extend(values)
    empty = {kind: float(np.percentile(times[f"frames_empty_{kind}"], 95)) for kind in EMPTY}
    for name, values in times.items():
        if name.startswith("frames_"):
            slow = float(np.percentile(values, 95))
            result[f"{name}_p95_ms"] = round(slow, 1)
            for kind in EMPTY:
                result[f"{name}_p95_to_empty_{kind}"] = round(slow / empty[kind], 2)
        elif name.startswith("processor_"):
            result[f"{name}_ms"] = round(float(np.median(values)), 1)
        else:
            result[name] = round(float(np.median(values)))
    result["load"] = round(os.getloadavg()[0], 1)
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--slices", type=int, nargs="+", default=[1_000_000, 10_000_000])
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=OPTIONS)
        about = {
            "date": dt.datetime.now(dt.UTC).date().isoformat(),
            "machine": f"{platform.machine()}, painted by the processor",
            "browser": f"Chromium {browser.version}",
            "playwright": version("playwright"),
            "cores": os.cpu_count(),
        }
        pages = []
        for slices in options.slices:
            pages.append(measured(slices, browser, Path(folder)))
            print(json.dumps(pages[-1], indent=1), flush=True)
        browser.close()
    if options.out:
        options.out.write_text(json.dumps({**about, "pages": pages}, indent=1) + "\n")


if __name__ == "__main__":
    main()
