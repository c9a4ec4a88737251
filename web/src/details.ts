// What is known of a slice, as text.

import * as format from "./format.ts";
import type { Category, Row } from "./header.ts";
import { firstAbove, type Launched, type Model, stripOf } from "./model.ts";

/** Counters that are listed with a slice. */
const MOST_SAMPLED = 8;

export interface Fact {
  what: string;
  text: string;
  /** A slice to go to. */
  slice?: number;
}

export function title(model: Model, slice: number, categories: Category[]): string {
  if (model.merged[slice]) return `${model.merged[slice].toLocaleString("en")} short slices`;
  return model.labels[model.label[slice]][0] || categories[model.category[slice]].label;
}

export function facts(
  model: Model, slice: number, categories: Category[], launched: Launched,
): Fact[] {
  const row = model.rows[stripOf(model, slice).row];
  const [, node, source] = model.labels[model.label[slice]];
  const length = model.end[slice] - model.start[slice];
  const found: Fact[] = [
    { what: "Duration", text: format.duration(length) },
    { what: "Start", text: `${format.duration(model.start[slice])}${inStep(model, slice)}` },
    { what: "Row", text: rowTitle(row) },
    { what: "Category", text: categories[model.category[slice]].label },
  ];
  if (node) found.push({ what: "Node", text: node });
  if (source) found.push({ what: "Source", text: source });
  const size = model.bytes[slice];
  if (size >= 0) {
    // An operation produces its bytes, and only what moves them has a bandwidth.
    const moves = ["transfer", "communication"].includes(categories[model.category[slice]].label);
    const rate = moves && length > 0 ? `, ${format.bytes((size / length) * 1e9)}/s` : "";
    found.push({ what: "Size", text: format.bytes(size) + rate });
  }
  const cause = model.launch[slice];
  if (cause >= 0) {
    const lag = model.start[slice] - model.start[cause];
    const text = `${title(model, cause, categories)}, ${format.duration(lag)} before`;
    found.push({ what: "Launched by", text, slice: cause });
  }
  const { slices: [first], count } = launched.by(slice, 1);
  if (first !== undefined) {
    const more = count > 1 ? ` and ${count - 1} more` : "";
    found.push({ what: "Launches", text: title(model, first, categories) + more, slice: first });
  }
  return [...found, ...sampled(model, model.start[slice])];
}

/** Sampled values at a time, as a pointer over their rows shows them. */
function sampled(model: Model, time: number): Fact[] {
  return model.rows.flatMap((row, i) => {
    const series = model.series[i];
    const value = series ? series.at(time) : NaN;
    if (!series || isNaN(value)) return [];
    return [{ what: rowTitle(row), text: format.amount(value, series.info.unit) }];
  }).slice(0, MOST_SAMPLED);
}

/** Title of a row, with the process or device that it belongs to. */
export function rowTitle({ title, group, role }: Row): string {
  const own = group && title !== group ? `${group} · ${title}` : title;
  return role === "replay" ? `Predicted · ${own}` : own;
}

/** The unit and the range of sampled values, as the title of their row shows it. */
export function rangeOf({ series }: Row): string {
  if (!series) return "";
  const { unit, scale, most, capacity } = series;
  const highest = ` · highest ${format.amount(most * scale, unit)}`;
  return highest + (capacity === null ? "" : ` of ${format.amount(capacity * scale, "")}`);
}

/** ', 3.2 ms into step 7', if the slice begins in a step. */
function inStep(model: Model, slice: number): string {
  const row = model.rows.findIndex((one) => one.role === "steps");
  if (row < 0 || stripOf(model, slice).row === row) return "";
  const { first, end } = model.strips[model.firstStrip[row]];
  const step = firstAbove(model.end, model.start[slice], first, end);
  if (step === end || model.start[step] > model.start[slice]) return "";
  const [name] = model.labels[model.label[step]];
  return `, ${format.duration(model.start[slice] - model.start[step])} into ${name}`;
}

/** Time of each category in [from, to), from the row that shows where the time goes. */
export function breakdown(model: Model, from: number, to: number): [number, number][] {
  const row = model.rows.findIndex((one) => one.role === "time");
  if (row < 0) return [];
  const { first, end } = model.strips[model.firstStrip[row]];
  const sums = new Map<number, number>();
  for (let i = firstAbove(model.end, from, first, end); i < end && model.start[i] < to; i++) {
    const time = Math.min(model.end[i], to) - Math.max(model.start[i], from);
    sums.set(model.category[i], (sums.get(model.category[i]) ?? 0) + time);
  }
  return [...sums].sort((a, b) => b[1] - a[1]);
}
