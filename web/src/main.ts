// Finds the timeline of the page, and connects the findings with it.

import { fromBase64, inflate } from "./decode.ts";
import type { Header, RunInfo } from "./header.ts";
import { buildModel, type Columns } from "./model.ts";
import { RunCharts } from "./run.ts";
import { Program } from "./program.ts";
import { Timeline } from "./timeline.ts";
import { Tree, type TreeData } from "./tree.ts";

async function start(root: HTMLElement): Promise<void> {
  const data = root.querySelector<HTMLScriptElement>("script[data-header]");
  if (!data) return;
  const header = JSON.parse(data.textContent ?? "") as Header;
  const columns: Columns = {};
  for (const script of root.querySelectorAll<HTMLScriptElement>("script[data-column]")) {
    columns[script.dataset["column"]!] = await inflate(fromBase64(script.textContent ?? ""));
    script.remove();
  }
  root.querySelector(".viewer")?.removeAttribute("hidden");
  const timeline = new Timeline(root, buildModel(header, columns), header);
  const program = await programOf(root, timeline, header);
  addJumps(root, timeline, header, program);
  Object.assign(window, { stepwhyTimeline: timeline });
  root.querySelector(".unscripted")?.remove();
  if (header.run) showRun(header.run, columns);
  root.dataset["ready"] = "true";
}

/** The flame graph and the call tree, if the page has their data. */
async function programOf(root: HTMLElement, timeline: Timeline, header: Header): Promise<Program | null> {
  const data = root.querySelector<HTMLScriptElement>("script[data-tree]");
  if (!data) return null;
  const text = new TextDecoder().decode(await inflate(fromBase64(data.textContent ?? "")));
  data.remove();
  return new Program(root, new Tree(JSON.parse(text) as TreeData), header.categories, timeline);
}

/** Replace the drawing of the steps by charts that can be zoomed. */
function showRun(info: RunInfo, columns: Columns): void {
  const run = document.querySelector<HTMLElement>("#run");
  if (!run) return;
  run.hidden = false;
  run.parentElement!.classList.add("charted");
  Object.assign(window, { stepwhyRun: new RunCharts(run, info, columns) });
}

/** A button at each finding that the timeline can show. */
function addJumps(
  root: HTMLElement, timeline: Timeline, header: Header, program: Program | null,
): void {
  for (const jump of header.jumps) {
    const card = document.querySelector(`article[data-finding="${CSS.escape(jump.id)}"] header`);
    if (!card || timeline.target(jump) < 0) continue;
    const button = document.createElement("button");
    button.type = "button";
    button.className = "show";
    button.textContent = "Show in the timeline";
    button.addEventListener("click", () => {
      program?.show("timeline");
      root.scrollIntoView({ block: "start" });
      timeline.jump(jump);
      root.querySelector<HTMLElement>(".rows")?.focus({ preventScroll: true });
    });
    card.append(button);
  }
}

const root = document.querySelector<HTMLElement>("#timeline");
if (root) {
  start(root).catch((error: unknown) => {
    const note = root.querySelector(".problem");
    if (note) note.textContent = `The timeline cannot be shown: ${String(error)}`;
  });
}
