// The flame graph and the call tree beside the timeline, and the ways between them and the tables.

import { Calls } from "./calls.ts";
import { Colours } from "./colours.ts";
import { Flame } from "./flame.ts";
import * as format from "./format.ts";
import type { Category } from "./header.ts";
import type { Timeline } from "./timeline.ts";
import type { Kind, Measure, Tree } from "./tree.ts";

type View = "timeline" | "flame" | "calls";

/** Category of what has none. */
const OTHER = "other";
const KINDS: Record<Kind, string> = {
  line: "line of the program", module: "module", operation: "operation", call: "call of the host",
  kernel: "device work", rest: "no line is known", others: "too short to list",
};

export class Program {
  private view: View = "timeline";
  private measure: Measure;
  private top = -1;
  private selected = -1;
  private found: Set<number> | null = null;
  private place = -1;
  private readonly flame: Flame;
  private readonly calls: Calls;
  private readonly colours: Colours;
  private readonly panel: HTMLElement;
  private readonly tabs: HTMLElement[];
  private readonly field: HTMLInputElement;
  private readonly hits: HTMLElement;
  private readonly trail: HTMLElement;
  private readonly about: HTMLElement;
  private readonly tip: HTMLElement;

  constructor(
    private readonly root: HTMLElement,
    private readonly tree: Tree,
    categories: Category[],
    private readonly timeline: Timeline,
  ) {
    const part = (name: string) => root.querySelector<HTMLElement>(`.program .${name}`)!;
    this.panel = root.querySelector<HTMLElement>(".program")!;
    this.field = part("needle") as HTMLInputElement;
    [this.hits, this.trail, this.about, this.tip] = ["hits", "trail", "facts", "tip"].map(part);
    this.measure = tree.whole.device > 0 ? "device" : "host";
    const other = categories.findIndex(({ label }) => label === OTHER);
    const names = tree.nodes.map(({ whole }): [string, string, string] => [whole, "", ""]);
    this.colours = new Colours(categories.map(({ colour }) => colour), names, other);
    this.flame = new Flame(part("flame"), tree, this.colours, (node) => this.inWords(node));
    const table = part("calls").querySelector("table")!;
    const ofCategory = (node: number, measure: Measure) => {
      const category = tree.categories(measure)[node];
      return categories[category < 0 ? other : category].colour;
    };
    this.calls = new Calls(table, tree, ofCategory, () => this.draw());
    this.calls.openLargest(this.measure);
    this.tabs = [...root.querySelectorAll<HTMLElement>("[data-view]")];
    this.listen();
    root.querySelector<HTMLElement>(".views")!.hidden = false;
    this.show("timeline");
  }

  /** Show the timeline, the flame graph or the call tree. */
  show(view: View): void {
    this.view = view;
    for (const tab of this.tabs) {
      const isShown = tab.dataset["view"] === view;
      tab.setAttribute("aria-selected", String(isShown));
      tab.tabIndex = isShown ? 0 : -1;
      if (isShown && view !== "timeline") this.panel.setAttribute("aria-labelledby", tab.id);
    }
    this.root.querySelector<HTMLElement>(".viewer")!.hidden = view !== "timeline";
    this.panel.hidden = view === "timeline";
    this.panel.dataset["shows"] = view;
    this.draw();
  }

  /** Let a node fill the width; -1 for the whole program. */
  zoom(node: number): void {
    this.top = node;
    this.select(node);
    this.draw();
  }

  // --- Drawing ---

  private draw(): void {
    this.tip.hidden = true;
    for (const button of this.panel.querySelectorAll<HTMLElement>("[data-measure]")) {
      button.setAttribute("aria-pressed", String(button.dataset["measure"] === this.measure));
    }
    if (this.view === "flame") {
      const { measure, top, selected, found } = this;
      this.flame.draw({ measure, top, selected, found });
      this.drawTrail();
    } else if (this.view === "calls") {
      const selected = this.selected < 0 ? this.tree.children(-1, this.measure)[0] ?? -1 : this.selected;
      this.calls.draw({ measure: this.measure, selected, found: this.found });
    }
  }

  private drawTrail(): void {
    const parts = [-1, ...this.tree.path(this.top)].map((node) => {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = node < 0 ? "Whole program" : this.tree.nodes[node].name;
      button.addEventListener("click", () => this.zoom(node));
      if (node === this.top) button.setAttribute("aria-current", "true");
      return button;
    });
    this.trail.replaceChildren(...parts);
  }

  private select(node: number): void {
    this.selected = node;
    this.flame.select(node);
    this.about.replaceChildren();
    if (node < 0) return;
    const { name, whole, kind, own, total, count } = this.tree.nodes[node];
    const title = document.createElement("h3");
    title.textContent = name;
    const list = document.createElement("dl");
    const fact = (what: string, text: string) => {
      const pair = document.createElement("div");
      pair.append(tagged("dt", what), tagged("dd", text));
      list.append(pair);
    };
    for (const [measure, label] of [["device", "Device"], ["host", "Host"]] as [Measure, string][]) {
      if (!total[measure]) continue;
      const share = format.share(total[measure] / this.tree.whole[measure]);
      fact(label, `${format.duration(total[measure])}, ${share}`);
      fact(`${label}, own`, format.duration(own[measure]));
    }
    if (count) fact("Runs", format.amount(count, ""));
    fact("Kind", KINDS[kind]);
    const line = this.tree.lineOf(node);
    if (line && kind !== "line") fact("Line", line);
    if (whole !== name) fact("Name", whole);
    this.about.append(title, list, ...this.ways(node));
  }

  /** Buttons that lead to the timeline and to the table. */
  private ways(node: number): HTMLElement[] {
    const found = document.createElement("p");
    found.className = "ways";
    if (this.slice(node) >= 0) found.append(button("Show the first in the timeline", "t", () => this.toTimeline(node)));
    if (this.rowNames(node).length) found.append(button("Show in the table", "o", () => this.toTable(node)));
    return found.childNodes.length ? [found] : [];
  }

  private inWords(node: number): string {
    const { name, total, count } = this.tree.nodes[node];
    const share = format.share(total[this.measure] / Math.max(this.tree.whole[this.measure], 1));
    const runs = count ? `, ${format.amount(count, "")} ${count === 1 ? "run" : "runs"}` : "";
    return `${name}: ${format.duration(total[this.measure])}, ${share}${runs}`;
  }

  // --- Ways to the timeline and the tables ---

  private slice(node: number): number {
    const { whole, kind } = this.tree.nodes[node];
    if (kind === "rest" || kind === "others") return -1;
    if (kind === "line") return this.timeline.first([], whole);
    if (kind === "module") return this.timeline.firstOf((label) => inScope(label, whole));
    return this.timeline.first([whole], this.tree.lineOf(node));
  }

  private toTimeline(node: number): void {
    const slice = this.slice(node);
    if (slice < 0) return;
    this.show("timeline");
    this.timeline.reveal(slice);
    this.root.scrollIntoView({ block: "start" });
    this.root.querySelector<HTMLElement>(".rows")?.focus({ preventScroll: true });
  }

  private rowNames(node: number): string[] {
    const { whole, name, kind } = this.tree.nodes[node];
    if (kind === "rest" || kind === "others") return [];
    const names = kind === "module" ? [this.tree.scopeOf(node)] : [whole, name];
    const question = new CustomEvent("stepwhy-row", { detail: { names, kind, isFound: false } });
    document.dispatchEvent(question);
    return question.detail.isFound ? names : [];
  }

  private toTable(node: number): void {
    const names = this.rowNames(node);
    const { kind } = this.tree.nodes[node];
    document.dispatchEvent(new CustomEvent("stepwhy-row", { detail: { names, kind, shows: true } }));
  }

  // --- Search ---

  private find(): void {
    const { nodes, share } = this.tree.search(this.field.value, this.measure);
    const isAsked = this.field.value.trim() !== "";
    this.found = isAsked ? nodes : null;
    this.place = -1;
    const count = `${nodes.size.toLocaleString("en")} ${nodes.size === 1 ? "place" : "places"}`;
    this.hits.textContent = isAsked ? `${count}, ${format.share(share)} of the time` : "";
    this.draw();
  }

  private next(direction: 1 | -1): void {
    const found = [...this.found ?? []];
    if (!found.length) return;
    this.place = (this.place + direction + (this.place < 0 && direction < 0 ? 1 : 0) + found.length) % found.length;
    this.hits.textContent = `${this.place + 1} of ${found.length.toLocaleString("en")}`;
    const node = found[this.place];
    this.calls.reveal(node);
    if (this.view === "flame" && !this.flame.has(node)) this.top = node;
    this.select(node);
    this.draw();
    if (this.view === "flame" && !this.flame.has(node)) this.zoom(node);
  }

  // --- Mouse and keyboard ---

  private listen(): void {
    for (const tab of this.tabs) {
      tab.addEventListener("click", () => this.show(tab.dataset["view"] as View));
      tab.addEventListener("keydown", (event) => this.tabKey(event, tab));
    }
    for (const one of this.panel.querySelectorAll<HTMLElement>("[data-measure]")) {
      one.addEventListener("click", () => this.measureBy(one.dataset["measure"] as Measure));
    }
    const action = (name: string, run: () => void) =>
      this.panel.querySelector(`[data-do="${name}"]`)?.addEventListener("click", run);
    action("next-hit", () => this.next(1));
    action("previous-hit", () => this.next(-1));
    this.field.addEventListener("input", () => this.find());
    this.field.addEventListener("keydown", (event) => {
      if (event.key !== "Enter") return;
      event.preventDefault();
      this.next(event.shiftKey ? -1 : 1);
    });
    const flame = this.flame.element;
    flame.addEventListener("click", (event) => {
      const node = Flame.at(event.target);
      if (node >= 0) this.zoom(node);
    });
    flame.addEventListener("pointermove", (event) => this.pointAt(event));
    flame.addEventListener("pointerleave", () => { this.tip.hidden = true; });
    flame.addEventListener("keydown", (event) => this.act(event, this.flameKeys()));
    const body = this.panel.querySelector<HTMLElement>(".calls tbody")!;
    body.addEventListener("keydown", (event) => this.act(event, this.rowKeys()));
    body.addEventListener("click", (event) => this.choose(event.target));
    new ResizeObserver(() => this.view === "flame" && this.draw()).observe(this.panel);
  }

  private measureBy(measure: Measure): void {
    this.measure = measure;
    this.calls.openLargest(measure);
    if (this.tree.totalOf(this.top, measure) <= 0) this.top = -1;
    if (this.found) this.find();
    this.draw();
  }

  /** Select a row of the call tree. */
  private choose(target: EventTarget | null): void {
    const node = target instanceof Element ? Calls.rowAt(target) : -1;
    if (node < 0) return;
    this.select(node);
    this.draw();
    this.calls.focus(node);
  }

  private pointAt(event: PointerEvent): void {
    const node = Flame.at(event.target);
    this.tip.hidden = node < 0 || event.pointerType === "touch";
    if (this.tip.hidden) return;
    this.tip.textContent = this.inWords(node);
    const box = this.panel.getBoundingClientRect();
    const x = Math.min(event.clientX - box.left + 12, box.width - this.tip.offsetWidth - 4);
    this.tip.style.left = `${Math.max(x, 0)}px`;
    this.tip.style.top = `${event.clientY - box.top + 18}px`;
  }

  private tabKey(event: KeyboardEvent, tab: HTMLElement): void {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    const next = this.tabs[(this.tabs.indexOf(tab) + step + this.tabs.length) % this.tabs.length];
    this.show(next.dataset["view"] as View);
    next.focus();
  }

  private act(event: KeyboardEvent, keys: Record<string, () => void>): void {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const run = keys[event.key];
    if (!run) return;
    event.preventDefault();
    run();
  }

  private commonKeys(): Record<string, () => void> {
    return {
      "/": () => this.field.focus(),
      n: () => this.next(1),
      t: () => this.selected >= 0 && this.toTimeline(this.selected),
      o: () => this.selected >= 0 && this.toTable(this.selected),
    };
  }

  private flameKeys(): Record<string, () => void> {
    const parent = (node: number) => (node < 0 ? -1 : this.tree.nodes[node].parent);
    const children = (node: number) => this.tree.children(node, this.measure);
    const beside = (step: 1 | -1) => {
      const all = children(parent(this.selected));
      const node = all[all.indexOf(this.selected) + step];
      if (node !== undefined) this.move(node);
    };
    return {
      ...this.commonKeys(),
      ArrowDown: () => this.move(children(this.selected)[0] ?? this.selected),
      ArrowUp: () => this.move(parent(this.selected)),
      ArrowRight: () => beside(1),
      ArrowLeft: () => beside(-1),
      Enter: () => this.zoom(this.selected),
      Escape: () => this.zoom(parent(this.top)),
      "0": () => this.zoom(-1),
    };
  }

  /** Select a frame; one that cannot be seen is made wide enough. */
  private move(node: number): void {
    if (node >= 0 && !this.flame.has(node)) this.zoom(node);
    else this.select(node);
  }

  private rowKeys(): Record<string, () => void> {
    const go = (node: number | undefined) => {
      if (node === undefined || node < 0) return;
      this.select(node);
      this.draw();
      this.calls.focus(node);
    };
    const rows = this.calls.listed();
    const place = Math.max(rows.indexOf(this.selected), 0);
    const node = rows[place];
    const fold = (isOpen: boolean) => {
      this.calls.toggle(node, isOpen);
      go(node);
    };
    return {
      ...this.commonKeys(),
      ArrowDown: () => go(rows[place + 1]),
      ArrowUp: () => go(rows[place - 1]),
      ArrowRight: () => (this.calls.isOpen(node) ? go(rows[place + 1]) : fold(true)),
      ArrowLeft: () => (this.calls.isOpen(node) ? fold(false) : go(this.tree.nodes[node].parent)),
      Enter: () => fold(!this.calls.isOpen(node)),
      Home: () => go(rows[0]),
      End: () => go(rows[rows.length - 1]),
    };
  }
}

/** Whether a slice is a call of a module, or an operation in its scope. */
function inScope([name, node]: [string, string, string], module: string): boolean {
  return name === `nn.Module: ${module}` || node.split("/").slice(0, -1).includes(module);
}

function tagged(tag: string, text: string): HTMLElement {
  const found = document.createElement(tag);
  found.textContent = text;
  return found;
}

function button(text: string, key: string, run: () => void): HTMLElement {
  const found = document.createElement("button");
  found.type = "button";
  found.textContent = text;
  found.title = `Key: ${key}`;
  found.addEventListener("click", run);
  return found;
}
