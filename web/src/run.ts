// Charts of the whole run on one axis: the time of each step, and what was sampled.

import uPlot from "uplot";
import { rowTitle } from "./details.ts";
import * as format from "./format.ts";
import type { Row, RunInfo } from "./header.ts";
import { type Series, seriesOf } from "./series.ts";
import {
  ceiling, durationsOf, grouped, type Marks, marksOf, type Part, partOf, type RunSteps, spanOf,
  stepAt, stepsOf,
} from "./steps.ts";

const NS = 1e9;
const [TALL, LOW] = [180, 120];
/** After Okabe and Ito, "Color Universal Design": told apart with every kind of colour vision. */
const COLOURS = ["#1f85c9", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00"];
const TITLES: Record<string, string> = {
  "bytes": "Memory", "bytes/s": "Bytes per second", "cores": "Cores in use",
  "elements": "Elements in queues and buffers", "%": "Use of GPUs, %", "W": "Power, W",
  "MHz": "Clock, MHz", "/s": "Events per second", "": "Counters",
};
/** Distances between marks of an axis of bytes. */
const POWERS = Array.from({ length: 50 }, (_, i) => 2 ** i);
/** Share of the visible time that a key moves or zooms by. */
const ZOOM = 0.6;

interface Named {
  name: string;
  series: Series;
}

/** Charts with one cursor and one range of time, in seconds since the first step. */
export class RunCharts {
  private readonly steps: RunSteps;
  private readonly sampled: Named[][];
  private readonly end: number;
  private readonly marks: Marks;
  private charts: uPlot[] = [];
  private isMoving = false;
  /** The step at the cursor; -1 before the keyboard was used. */
  place = -1;

  constructor(
    private readonly root: HTMLElement, private readonly info: RunInfo,
    columns: Record<string, Uint8Array>,
  ) {
    this.steps = stepsOf(info, columns);
    this.end = spanOf(this.steps) / NS;
    this.marks = marksOf(this.steps, info);
    const series = seriesOf(info.rows, {
      sample_time: columns["run_sample_time"], sample_value: columns["run_sample_value"],
    });
    const names = new Map(series.map((one, i) => [one, nameOf(info.rows[i])]));
    this.sampled = grouped(series.filter((one) => one !== null && isUsed(one)) as Series[])
      .map((group) => group.map((one) => ({ name: names.get(one)!, series: one })));
    this.holder.addEventListener("keydown", (event) => this.press(event));
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw());
    new ResizeObserver(() => this.resize()).observe(this.holder);
    this.draw();
  }

  private get holder(): HTMLElement {
    return this.root.querySelector<HTMLElement>(".charts")!;
  }

  /** The visible range of time, s. */
  get range(): [number, number] {
    const { min, max } = this.charts[0].scales["x"];
    return [min ?? 0, max ?? this.end];
  }

  /** Show a range of time, s. */
  show(from: number, to: number): void {
    const length = Math.min(to - from, this.end);
    const min = Math.min(Math.max(from, 0), this.end - length);
    this.isMoving = true;
    for (const chart of this.charts) chart.setScale("x", { min, max: min + length });
    this.isMoving = false;
  }

  private draw(): void {
    const [from, to] = this.charts.length ? this.range : [0, this.end];
    for (const chart of this.charts) chart.destroy();
    this.charts = [this.stepChart(), ...this.sampled.map((group) => this.seriesChart(group))];
    this.show(from, to);
  }

  private resize(): void {
    const width = this.holder.clientWidth;
    for (const chart of this.charts) {
      if (width && chart.width !== width) chart.setSize({ width, height: chart.height });
    }
  }

  private stepChart(): uPlot {
    const { info, steps } = this;
    const dots = (label: Part): uPlot.Series => {
      const stroke = this.colourOf(label);
      const points = { show: true, size: 5, fill: stroke };
      return { label, stroke, points, paths: () => null, value: (_, value) => duration(value) };
    };
    const data = [
      Array.from(steps.start, (start) => start / NS),
      durationsOf(steps, info, "steady"),
      durationsOf(steps, info, "left out"),
      durationsOf(steps, info, "traced"),
    ];
    const isEmpty = (column: (number | null)[]) => column.every((value) => value === null);
    const series: uPlot.Series[] = [
      { label: "Step", value: (_, time) => (time === null ? "–" : this.stepName(time)) },
      {
        label: "steady", stroke: this.colourOf("steady"), width: 1, paths: uPlot.paths.stepped!({ align: 1 }),
        value: (_, value) => duration(value),
      },
      dots("left out"),
      dots("traced"),
    ];
    const kept = data.map((column, i) => i < 2 || !isEmpty(column));
    const options = this.options("Step time", TALL, series.filter((_, i) => kept[i]));
    options.scales!["y"] = {
      range: (u) => {
        const { min, max } = u.scales["x"];
        return [0, ceiling(steps, info, (min ?? 0) * NS, (max ?? this.end) * NS)];
      },
    };
    options.axes![1].values = (_, splits) => splits.map((split) => format.duration(split));
    options.hooks!.draw = [(u) => this.drawMarks(u, this.colour("--soft"))];
    return this.chart(options, data.filter((_, i) => kept[i]) as uPlot.AlignedData);
  }

  private seriesChart(group: Named[]): uPlot {
    const { unit } = group[0].series.info;
    const tables = group.map(({ series }) => [
      Array.from(series.times, (time) => time / NS),
      Array.from(series.values, (value) => (isNaN(value) ? null : value)),
    ] as uPlot.AlignedData);
    const series: uPlot.Series[] = [
      { label: "Time", value: (_, time) => (time === null ? "–" : format.duration(time * NS)) },
      ...group.map((one, i): uPlot.Series => ({
        label: one.name, stroke: COLOURS[i], width: 1.5, points: { show: false },
        paths: uPlot.paths.stepped!({ align: 1 }),
        // Each value holds until the next, also where only another series has one.
        value: (u) => this.valueAt(one.series, u),
      })),
    ];
    const options = this.options(TITLES[unit] ?? unit, LOW, series);
    const [low, high] = group.map((one) => one.series.range)
      .reduce(([a, b], [c, d]) => [Math.min(a, c), Math.max(b, d)]);
    options.scales!["y"] = { range: () => [low, low + 1.05 * (high - low)] };
    // The title names the unit, unless sizes have one that depends on the size.
    const isSize = unit.startsWith("bytes");
    options.axes![1].values = (_, splits) =>
      splits.map((split) => format.amount(split, isSize ? unit : ""));
    if (isSize) options.axes![1].incrs = POWERS;
    return this.chart(options, uPlot.join(tables));
  }

  private valueAt(series: Series, chart: uPlot): string {
    const { left } = chart.cursor;
    if (left === undefined || left < 0) return "–";
    const value = series.at(chart.posToVal(left, "x") * NS);
    return isNaN(value) ? "not sampled" : format.amount(value, series.info.unit);
  }

  private options(title: string, height: number, series: uPlot.Series[]): uPlot.Options {
    const [ink, line] = [this.colour("--ink"), this.colour("--line")];
    const axis = { stroke: ink, grid: { stroke: line, width: 1 }, ticks: { stroke: line, width: 1 } };
    return {
      title, height, width: this.holder.clientWidth || 720, series,
      scales: { x: { time: false } },
      axes: [
        {
          ...axis, size: 34,
          values: (_, splits) => splits.map((split) => (split ? format.duration(split * NS) : "0")),
        },
        { ...axis, size: 76 },
      ],
      cursor: {
        sync: { key: "stepwhy-run", scales: ["x", null] },
        y: false,
        bind: { dblclick: () => () => { this.show(0, this.end); return null; } },
      },
      hooks: { setScale: [(u, key) => { if (key === "x") this.follow(u); }] },
    };
  }

  private chart(options: uPlot.Options, data: uPlot.AlignedData): uPlot {
    const chart = new uPlot(options, data, this.holder);
    chart.root.querySelector("canvas")!.setAttribute("aria-hidden", "true");
    return chart;
  }

  /** Show in all charts what was chosen in one of them. */
  private follow(chosen: uPlot): void {
    const { min, max } = chosen.scales["x"];
    if (!this.isMoving && this.charts.includes(chosen) && min !== undefined && max !== undefined) {
      this.show(min!, max!);
    }
  }

  /** The median of the steady steps, and where the step time changed for good. */
  private drawMarks(u: uPlot, stroke: string): void {
    const { ctx, bbox } = u;
    const x = (time: number) => u.valToPos(time / NS, "x", true);
    const y = u.valToPos(this.info.median_ns, "y", true);
    ctx.save();
    ctx.beginPath();
    ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
    ctx.clip();
    ctx.setLineDash([6, 4]);
    ctx.strokeStyle = stroke;
    ctx.beginPath();
    if (this.marks.steady) {
      ctx.moveTo(x(this.marks.steady[0]), y);
      ctx.lineTo(x(this.marks.steady[1]), y);
    }
    for (const time of this.marks.changes) {
      ctx.moveTo(x(time), bbox.top);
      ctx.lineTo(x(time), bbox.top + bbox.height);
    }
    ctx.stroke();
    ctx.restore();
    this.drawCut(u);
  }

  /** A triangle at the top for each step that is too long for the chart. */
  private drawCut(u: uPlot): void {
    const { ctx, bbox } = u;
    const [size, top] = [5 * devicePixelRatio, bbox.top];
    const { max } = u.scales["y"];
    const [from, to] = this.range;
    this.steps.start.forEach((start, i) => {
      const time = start / NS;
      if (this.steps.duration[i] <= (max ?? Infinity) || time < from || time > to) return;
      const x = u.valToPos(time, "x", true);
      ctx.fillStyle = this.colourOf(partOf(this.steps, this.info, i));
      ctx.beginPath();
      ctx.moveTo(x, top - size);
      ctx.lineTo(x - size, top + size);
      ctx.lineTo(x + size, top + size);
      ctx.fill();
    });
  }

  private colourOf(part: Part): string {
    if (part === "left out") return this.colour("--soft");
    return part === "traced" ? COLOURS[5] : COLOURS[0];
  }

  private stepName(time: number): string {
    const i = stepAt(this.steps, time * NS);
    return i < 0 ? "–" : `${this.steps.number[i]}, at ${format.duration(time * NS)}`;
  }

  private press(event: KeyboardEvent): void {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const [from, to] = this.range;
    const [middle, half] = [(from + to) / 2, (to - from) / 2];
    switch (event.key) {
      case "ArrowLeft": this.point(this.place - 1); break;
      case "ArrowRight": this.point(this.place + 1); break;
      case "+": case "w": this.show(middle - ZOOM * half, middle + ZOOM * half); break;
      case "-": case "s": this.show(middle - half / ZOOM, middle + half / ZOOM); break;
      case "0": this.show(0, this.end); break;
      default: return;
    }
    event.preventDefault();
  }

  /** Put the cursor on a step, and say what was measured there. */
  private point(place: number): void {
    const { steps } = this;
    this.place = Math.min(Math.max(place, 0), steps.start.length - 1);
    const start = steps.start[this.place];
    const [from, to] = this.range;
    const time = start / NS;
    if (time < from || time > to) this.show(time - (to - from) / 2, time + (to - from) / 2);
    for (const chart of this.charts) {
      chart.setCursor({ left: chart.valToPos(time, "x"), top: chart.over.clientHeight / 2 });
    }
    const sampled = this.sampled.flat().map(({ name, series }) => {
      const value = series.at(start);
      return isNaN(value) ? "" : `, ${name} ${format.amount(value, series.info.unit)}`;
    });
    this.root.querySelector("output")!.value =
      `Step ${steps.number[this.place]}: ${format.duration(steps.duration[this.place])}` +
      sampled.join("");
  }

  private colour(name: string): string {
    return getComputedStyle(this.root).getPropertyValue(name).trim() || "#666";
  }
}

/** Title of a series; that the machine was sampled says nothing. */
function nameOf(row: Row): string {
  return row.group === "Machine" ? row.title : rowTitle(row);
}

/** Whether a series was ever anything but 0; the others are only in the table. */
function isUsed({ info }: Series): boolean {
  return info.least !== 0 || info.most !== 0;
}

function duration(value: number | null): string {
  return value === null ? "–" : format.duration(value);
}
