// The timeline as an element of the page: painting, and what a person does with it.

import { Colours } from "./colours.ts";
import * as details from "./details.ts";
import * as format from "./format.ts";
import type { Category, Header, Jump } from "./header.ts";
import { CHART, LANE, Layout, TITLE } from "./layout.ts";
import { type Label, Launched, type Model, nearest, stripOf, within } from "./model.ts";
import { painterFor, type Painter, Rectangles } from "./rectangles.ts";
import { replayedStep, Scene, type Shown, usualSteps } from "./scene.ts";
import { type Found, inOrder, named, search } from "./search.ts";
import { Viewport } from "./viewport.ts";

const AXIS = 24;
const FONT = "11px system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif";
/** Width of a character of that font on average, in pixels. */
const CHARACTER = 6.1;
const REACH = 4;

export class Timeline {
  private readonly view: Viewport;
  private readonly layout: Layout;
  private readonly scene: Scene;
  private readonly colours: Colours;
  private readonly painter: Painter;
  private readonly rectangles = new Rectangles();
  private readonly slices: HTMLCanvasElement;
  private readonly texts: HTMLCanvasElement;
  private readonly screen: HTMLElement;
  private readonly scroller: HTMLElement;
  private readonly space: HTMLElement;
  private readonly titles: HTMLElement;
  private readonly panel: HTMLElement;
  private readonly status: HTMLElement;
  private readonly field: HTMLInputElement;
  /** What is predicted, in words, and the button that leads to it; null without a prediction. */
  private readonly prediction: HTMLElement | null;
  private readonly toPrediction: HTMLElement | null;
  private readonly launched: Launched;
  private readonly shown: Shown;
  private readonly categories: Category[];
  private found: Found | null = null;
  /** Matches in order of time, once somebody walks through them. */
  private walk: Int32Array | null = null;
  private place = -1;
  private range: [number, number] | null = null;
  /** Row of sampled values under the pointer, and where. */
  private pointed: { row: number; x: number } | null = null;
  /** The value that is written at the pointer; for tests. */
  valueShown = "";
  private isDue = false;
  private ink = "#000";
  private soft = "#666";
  private paper = "#fff";
  /** The same as 0xRRGGBB. */
  private background = 0xffffff;

  constructor(root: HTMLElement, private readonly model: Model, private readonly header: Header) {
    const part = <E extends Element>(name: string) => root.querySelector<E & HTMLElement>(`.${name}`)!;
    this.categories = header.categories;
    this.scroller = part("rows");
    this.space = part("space");
    this.titles = part("titles");
    this.slices = part<HTMLCanvasElement>("slices") as HTMLElement as HTMLCanvasElement;
    this.texts = part<HTMLCanvasElement>("texts") as HTMLElement as HTMLCanvasElement;
    this.screen = part("screen");
    this.panel = part("details");
    this.status = part("status");
    this.field = part<HTMLInputElement>("search") as HTMLElement as HTMLInputElement;
    this.prediction = root.querySelector<HTMLElement>(".prediction");
    this.toPrediction = root.querySelector<HTMLElement>('[data-do="predicted"]');
    this.view = new Viewport(model.spanNs);
    this.layout = new Layout(model, header.predicted[0]?.id ?? null);
    this.colours = new Colours(header.categories.map(({ colour }) => colour), model.labels);
    const names = header.categories.map(({ label }) => label);
    this.scene = new Scene(model, this.layout, this.colours, this.view, names, header.warm_up);
    this.painter = painterFor(this.slices, this.texts, root.dataset["painter"] ?? null);
    this.shown = {
      top: 0, height: 0, matches: null, predicted: header.predicted[0] ?? null, selected: -1,
    };
    this.launched = new Launched(model);
    this.listen(root);
    this.restyle();
    this.rearrange();
    this.describePrediction();
    this.showSteps();
  }

  // --- What outside code may ask for ---

  /** Show what a finding is about. Returns false if the timeline does not hold it. */
  jump(jump: Jump): boolean {
    const target = this.target(jump);
    if (target < 0) return false;
    const predicted = this.header.predicted.find(({ id }) => id === jump.id);
    if (predicted) this.predict(predicted.id);
    this.go(target, 4);
    return true;
  }

  /** The longest slice that a finding is about, -1 if there is none. */
  target(jump: Jump): number {
    const found = named(this.model, jump.names);
    if (found) return this.longest(found.slices);
    const row = this.model.rows.findIndex((one) => one.role === "time");
    if (jump.category < 0 || row < 0) return -1;
    const { first, end } = this.model.strips[this.model.firstStrip[row]];
    const slices = [];
    for (let i = first; i < end; i++) if (this.model.category[i] === jump.category) slices.push(i);
    return this.longest(slices);
  }

  /** The first slice of a described step with one of some names, in a line if one is given. */
  first(names: string[], line: string): number {
    const named = names.length
      ? this.firstOf((label) => names.includes(label[0]) && (!line || label[2] === line)) : -1;
    if (named >= 0) return named;
    const anywhere = names.length ? this.firstOf((label) => names.includes(label[0])) : -1;
    return anywhere >= 0 || names.length ? anywhere : this.firstOf((label) => label.includes(line));
  }

  /** The first slice of a described step whose label is accepted, -1 if there is none. */
  firstOf(accepts: (label: Label) => boolean): number {
    const { model } = this;
    const matches = Uint8Array.from(model.labels, (label) => (accepts(label) ? 1 : 0));
    const [step] = usualSteps(model);
    const from = step === undefined ? 0 : model.start[step];
    let [first, before] = [-1, -1];
    for (let i = 0; i < model.recorded; i++) {
      if (!matches[model.label[i]] || model.merged[i]) continue;
      if (model.start[i] < from) before = before < 0 ? i : before;
      else if (first < 0 || model.start[i] < model.start[first]) first = i;
    }
    return first < 0 ? before : first;
  }

  /** Select a slice and show it. */
  reveal(slice: number): void {
    this.paint();
    this.go(slice);
  }

  /** Show the predicted step after the fix of a finding. */
  predict(id: string): void {
    const predicted = this.header.predicted.find((one) => one.id === id) ?? null;
    this.shown.predicted = predicted;
    const chooser = this.panel.parentElement?.querySelector<HTMLSelectElement>("select.fixes");
    if (chooser) chooser.value = predicted?.id ?? "";
    this.layout.setPrediction(predicted?.id ?? null);
    this.describePrediction();
    this.rearrange();
  }

  /** Show the replayed step of the selected fix, if there is one. */
  showPrediction(): void {
    const step = this.replayed();
    if (step < 0) return;
    this.fit(this.model.start[step], this.model.end[step]);
    this.scroller.scrollTop = 0;
  }

  private replayed(): number {
    return this.shown.predicted ? replayedStep(this.model, this.shown.predicted) : -1;
  }

  private describePrediction(): void {
    const { predicted } = this.shown;
    if (this.prediction) this.prediction.textContent = predicted?.text ?? "";
    if (this.toPrediction) this.toPrediction.hidden = this.replayed() < 0;
  }

  /** Show a range of time, in ns. */
  fit(from: number, to: number, margin = 0.05): void {
    this.view.fit(from, to, margin);
    this.due();
  }

  /** Paint at once: for measurements. */
  paintNow(): void {
    this.paint();
  }

  pan(pixels: number): void {
    this.view.pan(pixels);
    this.due();
  }

  zoom(factor: number, x?: number): void {
    this.view.zoom(factor, x);
    this.due();
  }

  // --- Selection ---

  private longest(slices: ArrayLike<number>): number {
    const { start, end } = this.model;
    const steps = usualSteps(this.model);
    const [from, to] = steps.length ? [start[steps[0]], end[steps[steps.length - 1]]] : [0, Infinity];
    let best = -1;
    let bestInside = -1;
    for (let n = 0; n < slices.length; n++) {
      const i = slices[n];
      const length = end[i] - start[i];
      if (best < 0 || length > end[best] - start[best]) best = i;
      if (start[i] < from || end[i] > to) continue;
      if (bestInside < 0 || length > end[bestInside] - start[bestInside]) bestInside = i;
    }
    return bestInside >= 0 ? bestInside : best;
  }

  /** Select a slice and show it with some time around it. */
  private go(slice: number, lengths = 8): void {
    const { start, end } = this.model;
    const length = Math.max(end[slice] - start[slice], 1000);
    const middle = (start[slice] + end[slice]) / 2;
    this.view.fit(middle - (length * lengths) / 2, middle + (length * lengths) / 2, 0);
    this.select(slice);
    this.scrollTo(slice);
  }

  private scrollTo(slice: number): void {
    const strip = stripOf(this.model, slice);
    if (this.layout.reveal(strip.row, strip.lane)) this.rearrange();
    const placed = this.layout.of(strip.row);
    if (!placed) return;
    const y = this.layout.laneTop(placed, strip.lane);
    const { scrollTop, clientHeight } = this.scroller;
    if (y < scrollTop + TITLE || y > scrollTop + clientHeight - AXIS - 2 * LANE) {
      this.scroller.scrollTop = Math.max(0, y - clientHeight / 3);
    }
  }

  private select(slice: number): void {
    this.shown.selected = slice;
    this.range = null;
    this.panel.replaceChildren();
    this.due();
    if (slice < 0) return;
    const heading = document.createElement("h3");
    heading.textContent = details.title(this.model, slice, this.categories);
    const list = document.createElement("dl");
    const about = details.facts(this.model, slice, this.categories, this.launched);
    for (const fact of about) {
      const what = document.createElement("dt");
      what.textContent = fact.what;
      const text = document.createElement("dd");
      text.append(fact.slice === undefined ? fact.text : this.link(fact.text, fact.slice));
      const pair = document.createElement("div");
      pair.append(what, text);
      list.append(pair);
    }
    this.panel.append(heading, list);
  }

  private link(text: string, slice: number): HTMLElement {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = text;
    button.addEventListener("click", () => this.go(slice));
    return button;
  }

  private describeRange(): void {
    if (!this.range) return;
    const [from, to] = this.range;
    const parts = details.breakdown(this.model, from, to);
    const text = parts.map(([category, time]) =>
      `${this.categories[category].label} ${format.duration(time)} (${format.share(time / (to - from))})`);
    const heading = document.createElement("h3");
    heading.textContent = `${format.duration(to - from)} selected`;
    const line = document.createElement("p");
    line.textContent = text.join(", ");
    this.panel.replaceChildren(heading, line);
  }

  // --- Search ---

  private find(): void {
    this.found = search(this.model, this.field.value);
    this.shown.matches = this.found?.matches ?? null;
    this.place = -1;
    this.walk = null;
    const count = this.found?.slices.length ?? 0;
    this.status.textContent = this.found
      ? `${count.toLocaleString("en")} ${count === 1 ? "slice" : "slices"}` : "";
    this.due();
  }

  private next(direction: 1 | -1): void {
    if (!this.found?.slices.length) return;
    this.walk ??= inOrder(this.model, this.found);
    const slices = this.walk;
    const from = this.place < 0 && direction < 0 ? 0 : this.place;
    this.place = (from + direction + slices.length) % slices.length;
    const total = slices.length.toLocaleString("en");
    this.status.textContent = `${(this.place + 1).toLocaleString("en")} of ${total}`;
    this.go(slices[this.place], 12);
  }

  // --- Painting ---

  private due(): void {
    if (this.isDue) return;
    this.isDue = true;
    requestAnimationFrame(() => {
      this.isDue = false;
      this.paint();
    });
  }

  private paint(): void {
    const width = this.scroller.clientWidth;
    const height = this.scroller.clientHeight;
    // On paper, the timeline is left out.
    if (!width || !height) return;
    const scale = window.devicePixelRatio || 1;
    const isHigh = `${height}px`;
    if (this.screen.style.height !== isHigh) this.screen.style.height = isHigh;
    this.view.width = width;
    this.shown.top = this.scroller.scrollTop - AXIS;
    this.shown.height = height;
    this.scene.fill(this.rectangles, this.shown);
    const context = this.painter.paint(this.rectangles, width, height, scale, this.background);
    this.write(context, width, height);
  }

  private write(context: CanvasRenderingContext2D, width: number, height: number): void {
    context.font = FONT;
    context.textBaseline = "middle";
    this.ruleSteps(context, height);
    for (const { x, y, width: room, text, colour } of this.scene.texts) {
      const most = Math.floor((room - 6) / CHARACTER);
      if (most < 3) continue;
      context.fillStyle = colour;
      const shown = text.length > most ? `${text.slice(0, most - 1)}…` : text;
      context.fillText(shown, x + 3, y + LANE / 2, room - 4);
    }
    this.drawFlows(context);
    this.drawRange(context, height);
    this.drawValue(context);
    this.drawAxis(context, width);
  }

  /** Thin lines where steps begin, over all rows. */
  private ruleSteps(context: CanvasRenderingContext2D, height: number): void {
    const row = this.model.rows.findIndex((one) => one.role === "steps");
    if (row < 0) return;
    const strip = this.model.strips[this.model.firstStrip[row]];
    const [first, end] = within(this.model, strip, this.view.from, this.view.to);
    if (end - first > this.view.width / 8) return;
    context.fillStyle = this.soft;
    context.globalAlpha = 0.35;
    for (let i = first; i < end; i++) {
      for (const time of [this.model.start[i], this.model.end[i]]) {
        context.fillRect(Math.round(this.view.x(time)), AXIS, 1, height);
      }
    }
    context.globalAlpha = 1;
  }

  /** Arrows from a launch to its work on the device, of the selected slice. */
  private drawFlows(context: CanvasRenderingContext2D): void {
    const { selected } = this.shown;
    if (selected < 0) return;
    const pairs = this.launched.by(selected, 200).slices.map((work) => [selected, work]);
    if (this.model.launch[selected] >= 0) pairs.push([this.model.launch[selected], selected]);
    context.strokeStyle = this.ink;
    context.fillStyle = this.ink;
    context.lineWidth = 1.2;
    for (const [from, to] of pairs) {
      const [a, b] = [this.point(from), this.point(to)];
      if (!a || !b) continue;
      context.beginPath();
      context.moveTo(a.x, a.y);
      const bend = Math.max(20, Math.abs(b.x - a.x) / 2);
      context.bezierCurveTo(a.x + bend, a.y, b.x - bend, b.y, b.x, b.y);
      context.stroke();
      context.beginPath();
      context.moveTo(b.x, b.y);
      context.lineTo(b.x - 6, b.y - 3);
      context.lineTo(b.x - 6, b.y + 3);
      context.fill();
    }
  }

  private point(slice: number): { x: number; y: number } | null {
    const strip = stripOf(this.model, slice);
    const placed = this.layout.of(strip.row);
    if (!placed) return null;
    const lane = Math.min(strip.lane, placed.lanes - 1);
    const y = this.layout.laneTop(placed, lane) - this.shown.top + LANE / 2;
    return { x: this.view.x(this.model.start[slice]), y };
  }

  private drawRange(context: CanvasRenderingContext2D, height: number): void {
    if (!this.range) return;
    const [x, right] = this.range.map((time) => this.view.x(time));
    context.fillStyle = this.ink;
    context.globalAlpha = 0.1;
    context.fillRect(x, AXIS, right - x, height);
    context.globalAlpha = 1;
  }

  /** The sampled value under the pointer. */
  private drawValue(context: CanvasRenderingContext2D): void {
    this.valueShown = "";
    const series = this.pointed && this.model.series[this.pointed.row];
    const placed = this.pointed && this.layout.of(this.pointed.row);
    if (!this.pointed || !series || !placed) return;
    const { x } = this.pointed;
    const value = series.at(this.view.time(x));
    const text = this.valueShown = isNaN(value) ? "not sampled" : format.amount(value, series.info.unit);
    const width = context.measureText(text).width + 10;
    const top = placed.top + TITLE - this.shown.top;
    const left = x + width + 8 > this.view.width ? x - width - 6 : x + 6;
    context.fillStyle = this.ink;
    context.fillRect(x, top, 1, CHART);
    context.fillRect(left, top + CHART / 2 - 9, width, 18);
    context.fillStyle = this.paper;
    context.fillText(text, left + 5, top + CHART / 2);
  }

  private drawAxis(context: CanvasRenderingContext2D, width: number): void {
    context.fillStyle = this.paper;
    context.fillRect(0, 0, width, AXIS);
    context.fillStyle = this.soft;
    context.fillRect(0, AXIS - 1, width, 1);
    const step = format.tick(this.view.nsPerPixel);
    for (let time = Math.ceil(this.view.from / step) * step; time < this.view.to; time += step) {
      const x = Math.round(this.view.x(time));
      context.fillRect(x, AXIS - 7, 1, 6);
      context.fillText(format.axisTime(time, step), x + 4, AXIS / 2);
    }
  }

  private restyle(): void {
    const style = getComputedStyle(document.documentElement);
    this.ink = style.getPropertyValue("--ink").trim() || "#000";
    this.soft = style.getPropertyValue("--soft").trim() || "#666";
    this.paper = getComputedStyle(this.scroller).backgroundColor;
    const [red, green, blue] = this.paper.match(/\d+/g)?.map(Number) ?? [255, 255, 255];
    this.background = (red << 16) | (green << 8) | blue;
    this.due();
  }

  /** Place the titles of all rows again. */
  private rearrange(): void {
    this.space.style.height = `${this.layout.height + AXIS}px`;
    // As high as its rows, but at most as high as the style sheet says.
    this.scroller.style.height = `${this.layout.height + AXIS + 2}px`;
    const titles = this.layout.placed.map((placed) => {
      const row = this.model.rows[placed.row];
      const text = row ? details.rowTitle(row) + details.rangeOf(row) : "Predicted steps";
      const isLong = placed.hidden > 0 || this.layout.isOpen(placed.row);
      const title = document.createElement(isLong ? "button" : "span");
      if (isLong) {
        title.setAttribute("aria-expanded", String(this.layout.isOpen(placed.row)));
        title.addEventListener("click", () => {
          this.layout.toggle(placed.row);
          this.rearrange();
        });
      }
      const more = placed.hidden ? ` · ${placed.hidden} more level${placed.hidden === 1 ? "" : "s"}` : "";
      title.textContent = text + more;
      title.style.top = `${placed.top + AXIS + 2}px`;
      return title;
    });
    this.titles.replaceChildren(...titles);
    this.due();
  }

  /** Begin with a few usual steps, the replayed one among them, or with everything. */
  private showSteps(): void {
    const steps = usualSteps(this.model);
    if (steps.length < 4) {
      this.fit(0, this.model.spanNs, 0);
      return;
    }
    const at = steps.indexOf(this.replayed());
    const middle = Math.max(0, at < 0 ? (steps.length >> 1) - 1 : Math.min(at - 1, steps.length - 3));
    const chosen = steps.slice(middle, middle + 3);
    this.fit(this.model.start[chosen[0]], this.model.end[chosen[chosen.length - 1]], 0.02);
  }

  // --- Mouse, touch and keyboard ---

  private listen(root: HTMLElement): void {
    const action = (name: string, run: () => void) =>
      root.querySelector(`[data-do="${name}"]`)?.addEventListener("click", run);
    action("in", () => this.zoom(0.5));
    action("out", () => this.zoom(2));
    action("all", () => this.fit(0, this.model.spanNs, 0));
    action("steps", () => this.showSteps());
    action("predicted", () => this.showPrediction());
    action("next", () => this.next(1));
    action("previous", () => this.next(-1));
    this.field.addEventListener("input", () => this.find());
    this.field.addEventListener("keydown", (event) => {
      if (event.key !== "Enter") return;
      event.preventDefault();
      this.next(event.shiftKey ? -1 : 1);
    });
    const chooser = root.querySelector<HTMLSelectElement>("select.fixes");
    chooser?.addEventListener("change", () => this.predict(chooser.value));
    this.scroller.addEventListener("scroll", () => this.due());
    this.scroller.addEventListener("keydown", (event) => this.key(event));
    this.screen.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
    new ResizeObserver(() => this.due()).observe(this.scroller);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.restyle());
    this.listenToPointers();
  }

  private wheel(event: WheelEvent): void {
    if (event.ctrlKey || event.metaKey) {
      event.preventDefault();
      this.zoom(1.0015 ** event.deltaY, event.offsetX);
    } else if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
      event.preventDefault();
      this.pan(event.deltaX || event.deltaY);
    }
  }

  private key(event: KeyboardEvent): void {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const width = this.view.width;
    const actions: Record<string, () => void> = {
      ArrowLeft: () => this.pan(-width / 8),
      ArrowRight: () => this.pan(width / 8),
      a: () => this.pan(-width / 8),
      d: () => this.pan(width / 8),
      w: () => this.zoom(0.7),
      s: () => this.zoom(1 / 0.7),
      "+": () => this.zoom(0.7),
      "-": () => this.zoom(1 / 0.7),
      "0": () => this.fit(0, this.model.spanNs, 0),
      p: () => this.showPrediction(),
      ",": () => this.neighbour(-1),
      ".": () => this.neighbour(1),
      n: () => this.next(1),
      "/": () => this.field.focus(),
      Escape: () => this.select(-1),
    };
    const run = actions[event.key];
    if (!run) return;
    event.preventDefault();
    run();
  }

  /** The slice before or after the selected one in its lane. */
  private neighbour(direction: 1 | -1): void {
    const { selected } = this.shown;
    if (selected < 0) {
      const [step] = usualSteps(this.model);
      if (step !== undefined) this.select(step);
      return;
    }
    const strip = stripOf(this.model, selected);
    const slice = selected + direction;
    if (slice < strip.first || slice >= strip.end) return;
    const { start, end } = this.model;
    if (start[slice] < this.view.from || end[slice] > this.view.to) this.go(slice, 12);
    else this.select(slice);
  }

  private listenToPointers(): void {
    const pointers = new Map<number, number>();
    let moved = 0;
    let anchor = 0;
    let isRange = false;
    this.screen.addEventListener("pointerdown", (event) => {
      pointers.set(event.pointerId, event.offsetX);
      this.screen.setPointerCapture(event.pointerId);
      moved = 0;
      isRange = event.shiftKey;
      anchor = this.view.time(event.offsetX);
    });
    this.screen.addEventListener("pointermove", (event) => {
      const before = pointers.get(event.pointerId);
      this.pointAt(event.offsetX, event.offsetY);
      if (before === undefined) {
        this.screen.style.cursor = this.hit(event.offsetX, event.offsetY) >= 0 ? "pointer" : "grab";
        return;
      }
      pointers.set(event.pointerId, event.offsetX);
      moved += Math.abs(event.offsetX - before);
      const [first, second] = [...pointers.values()];
      if (second !== undefined) {
        const other = event.offsetX === first ? second : first;
        this.zoom(Math.abs(before - other) / Math.max(Math.abs(event.offsetX - other), 1), other);
      } else if (isRange) {
        const time = this.view.time(event.offsetX);
        this.range = [Math.min(anchor, time), Math.max(anchor, time)];
        this.describeRange();
        this.due();
      } else this.pan(before - event.offsetX);
    });
    const release = (event: PointerEvent) => pointers.delete(event.pointerId);
    this.screen.addEventListener("pointerup", (event) => {
      release(event);
      if (moved < REACH) this.select(this.hit(event.offsetX, event.offsetY));
    });
    this.screen.addEventListener("pointercancel", release);
    this.screen.addEventListener("pointerleave", () => this.pointAt(-1, -1));
    this.screen.addEventListener("dblclick", (event) => {
      const slice = this.hit(event.offsetX, event.offsetY);
      if (slice >= 0) this.fit(this.model.start[slice], this.model.end[slice], 0.5);
    });
  }

  /** Show the value of the chart at a position, if there is one. */
  private pointAt(x: number, y: number): void {
    const row = y < AXIS ? -1 : this.layout.rowAt(y + this.shown.top)?.row ?? -1;
    const next = this.model.series[row] ? { row, x } : null;
    if (!next && !this.pointed) return;
    this.pointed = next;
    this.due();
  }

  /** The slice at a position, -1 if there is none. */
  private hit(x: number, y: number): number {
    if (y < AXIS) return -1;
    const at = this.layout.at(y + this.shown.top);
    if (!at || at.placed.row < 0) return -1;
    const strip = this.model.strips[this.model.firstStrip[at.placed.row] + at.lane];
    return nearest(this.model, strip, this.view.time(x), REACH * this.view.nsPerPixel);
  }
}
