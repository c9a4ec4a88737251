// What is visible, as rectangles and texts.

import type { Colours } from "./colours.ts";
import { CHART, LANE, Layout, type Placed, TITLE } from "./layout.ts";
import { Levels } from "./levels.ts";
import { firstAbove, type Model, type Strip } from "./model.ts";
import type { Predicted } from "./header.ts";
import type { Rectangles } from "./rectangles.ts";
import type { Series } from "./series.ts";
import type { Viewport } from "./viewport.ts";

/** Narrower slices have no text. */
const TEXT_WIDTH = 32;
const DIMMED = 0.18;
const HATCHED = 0.45;
const EXTENT = 0.2;
/** Opacity of the area under a line, and the thickness of the line. */
const AREA = 0.25;
const LINE = 1.5;

export interface Text {
  x: number;
  y: number;
  width: number;
  text: string;
  colour: string;
}

export interface Shown {
  /** Top of the visible part, and its height. */
  top: number;
  height: number;
  /** Whether each label matches the search; null without a search. */
  matches: Uint8Array | null;
  predicted: Predicted | null;
  selected: number;
}

export class Scene {
  readonly texts: Text[] = [];
  private readonly levels: Levels[];
  private readonly steady: number[];
  private readonly meanStep: number;

  constructor(
    private readonly model: Model,
    private readonly layout: Layout,
    private readonly colours: Colours,
    private readonly view: Viewport,
    private readonly categories: string[],
    warmUp: number,
  ) {
    this.levels = model.strips.map((strip) => new Levels(model, strip));
    this.steady = steadySteps(model, warmUp);
    const total = this.steady.reduce((sum, i) => sum + model.end[i] - model.start[i], 0);
    this.meanStep = total / Math.max(this.steady.length, 1);
  }

  fill(rectangles: Rectangles, shown: Shown): void {
    rectangles.clear();
    this.texts.length = 0;
    for (const placed of this.layout.placed) {
      if (placed.top + placed.height < shown.top || placed.top > shown.top + shown.height) continue;
      const series = this.model.series[placed.row];
      if (placed.row < 0) this.predicted(rectangles, placed, shown);
      else if (series) this.chart(rectangles, series, placed.top + TITLE - shown.top);
      else this.row(rectangles, placed, shown);
    }
  }

  private row(rectangles: Rectangles, placed: Placed, shown: Shown): void {
    const first = this.model.firstStrip[placed.row];
    const isReplay = this.model.rows[placed.row].role === "replay";
    for (let lane = 0; lane < placed.lanes; lane++) {
      const y = this.layout.laneTop(placed, lane) - shown.top;
      if (y <= -LANE || y >= shown.height) continue;
      if (isReplay) this.extent(rectangles, y, shown);
      this.lane(rectangles, first + lane, y, shown);
    }
  }

  /** How long the replayed step takes, behind its work. */
  private extent(rectangles: Rectangles, y: number, { predicted }: Shown): void {
    const step = predicted ? replayedStep(this.model, predicted) : -1;
    if (!predicted || step < 0) return;
    const { view, model } = this;
    const left = Math.max(view.x(model.start[step]), -2);
    const right = Math.min(view.x(model.start[step] + predicted.after_ns), view.width + 2);
    if (right > left) rectangles.add(left, y, right - left, LANE - 1, colourOfFix, EXTENT);
  }

  private lane(rectangles: Rectangles, index: number, y: number, shown: Shown): void {
    const { view, model, colours } = this;
    const level = this.levels[index].at(view.nsPerPixel);
    const isSteps = model.rows[model.strips[index].row].role === "steps";
    const first = firstAbove(level.end, view.from);
    for (let i = first; i < level.start.length && level.start[i] < view.to; i++) {
      const x = Math.max(view.x(level.start[i]), -2);
      const right = Math.min(view.x(level.end[i]), view.width + 2);
      // A thin line stays free between slices that touch.
      const width = Math.max(right - x - (right - x > 4 ? 0.7 : 0), 1);
      const slice = level.slice[i];
      const label = model.label[slice];
      const misses = shown.matches !== null && !shown.matches[label] && !isSteps;
      const length = level.end[i] - level.start[i];
      const density = Math.min(1, level.covered[i] / Math.max(length, view.nsPerPixel));
      const opacity = misses ? DIMMED : Math.max(0.3, model.merged[slice] ? 0.7 : density);
      const colour = colours.of(level.category[i], label);
      rectangles.add(x, y, width, LANE - 1, colour, opacity);
      if (slice === shown.selected) this.outline(rectangles, x, y, width);
      if (width >= TEXT_WIDTH && length >= view.nsPerPixel) this.text(x, y, width, slice, misses);
    }
    if (shown.matches) this.marks(rectangles, model.strips[index], y, shown.matches);
  }

  /** Sampled values as a line over an area; what was not sampled stays empty. */
  private chart(rectangles: Rectangles, series: Series, top: number): void {
    const { view } = this;
    const [low, high] = series.range;
    const y = (value: number) => top + CHART * (1 - (value - low) / (high - low));
    const colour = colourOfUnit(series.info.unit);
    const floor = y(Math.max(low, 0));
    for (const run of series.runs(view.from, view.nsPerPixel, view.width)) {
      const [upper, lower] = [y(run.high), y(run.low)];
      const [begin, end] = [Math.min(upper, floor), Math.max(lower, floor)];
      rectangles.add(run.x, begin, run.width, end - begin, colour, AREA);
      const height = Math.max(lower - upper, LINE);
      rectangles.add(run.x, Math.min(upper, top + CHART - LINE), run.width, height, colour);
    }
    const { capacity, scale } = series.info;
    if (capacity) rectangles.add(0, y(capacity * scale), view.width, 1, 0x808890, HATCHED);
  }

  /** Lines under matches that are too short to be seen. */
  private marks(rectangles: Rectangles, strip: Strip, y: number, matches: Uint8Array): void {
    const { view, model } = this;
    let i = firstAbove(model.end, view.from, strip.first, strip.end);
    for (; i < strip.end && model.start[i] < view.to; i++) {
      if (!matches[model.label[i]] || model.end[i] - model.start[i] > 3 * view.nsPerPixel) continue;
      const x = view.x(model.start[i]);
      rectangles.add(x, y, 2, LANE - 1, colourOfMatch, 1);
      i = firstAbove(model.end, view.time(x + 2), i, strip.end) - 1;
    }
  }

  private outline(rectangles: Rectangles, x: number, y: number, width: number): void {
    const ink = matchMedia("(prefers-color-scheme: dark)").matches ? 0xffffff : 0x000000;
    for (const [left, top, wide, high] of [
      [x - 1, y - 1, width + 2, 2], [x - 1, y + LANE - 2, width + 2, 2],
      [x - 1, y - 1, 2, LANE + 1], [x + width - 1, y - 1, 2, LANE + 1],
    ]) rectangles.add(left, top, wide, high, ink);
  }

  private text(x: number, y: number, width: number, slice: number, dimmed: boolean): void {
    const left = Math.max(x, 0);
    const room = Math.min(x + width, this.view.width) - left;
    if (room < TEXT_WIDTH) return;
    const colour = dimmed ? "#8a9199" : this.colours.textOn(this.model.category[slice]);
    this.texts.push({ x: left, y, width: room, text: this.nameOf(slice), colour });
  }

  nameOf(slice: number): string {
    const { model } = this;
    if (model.merged[slice]) return `${model.merged[slice]} short slices`;
    const [name, node] = model.labels[model.label[slice]];
    if (node) return `${node} (${name})`;
    return name || this.categories[model.category[slice]];
  }

  /** The predicted step beneath each measured one; the hatched part shows the interval. */
  private predicted(rectangles: Rectangles, placed: Placed, shown: Shown): void {
    const { model, view } = this;
    const { predicted } = shown;
    if (!predicted) return;
    const y = this.layout.laneTop(placed, 0) - shown.top;
    for (const step of this.steady) {
      const begin = model.start[step];
      const length = model.end[step] - begin;
      // A step that is already shorter does not become longer.
      const at = (part: number) => view.x(begin + Math.min(part * this.meanStep, length));
      if (view.x(model.end[step]) < 0 || at(0) > view.width) continue;
      rectangles.add(at(0), y, Math.max(at(predicted.middle) - at(0) - 0.7, 1), LANE - 1, colourOfFix);
      const [low, high] = [at(predicted.low), at(predicted.high)];
      rectangles.add(low, y + 3, Math.max(high - low, 1), LANE - 7, 0x808890, HATCHED);
      const left = Math.max(at(0), 0);
      const width = at(predicted.middle) - left;
      if (width >= TEXT_WIDTH) {
        const text = `predicted ${model.labels[model.label[step]][0]}`;
        this.texts.push({ x: left, y, width, text, colour: "#fff" });
      }
    }
  }
}

const colourOfMatch = 0xff2fa0;
const colourOfFix = 0x1a7f4b;

/** As in the charts of queues and memory on the page. */
function colourOfUnit(unit: string): number {
  if (unit === "elements") return 0xd98c1c;
  return unit === "bytes" ? 0x607be0 : 0x3f8f8a;
}

/** The step whose replay is drawn, -1 if there is none. */
export function replayedStep(model: Model, { step }: Predicted): number {
  const [first] = steadySteps(model, 0);
  return step > 0 && first !== undefined ? first + step - 1 : -1;
}

/** The steps after the warm-up, of the first row of steps. */
export function steadySteps(model: Model, warmUp: number): number[] {
  const row = model.rows.findIndex((one) => one.role === "steps");
  if (row < 0) return [];
  const { first, end } = model.strips[model.firstStrip[row]];
  return Array.from({ length: Math.max(end - first - warmUp, 0) }, (_, i) => first + warmUp + i);
}

/** Steps near the median. */
export function usualSteps(model: Model): number[] {
  const steps = steadySteps(model, 0);
  const length = (step: number) => model.end[step] - model.start[step];
  const median = [...steps].sort((a, b) => length(a) - length(b))[steps.length >> 1];
  return steps.filter((step) => Math.abs(length(step) / length(median) - 1) < 0.5);
}
