// The slices of a timeline as columns.

import { varints } from "./decode.ts";
import type { Header, Row } from "./header.ts";
import { type Series, seriesOf } from "./series.ts";

/** One lane of one row: a range of slices that do not overlap, in order of time. */
export interface Strip {
  row: number;
  lane: number;
  first: number;
  end: number;
}

/** [name, node of the graph, source line] */
export type Label = [string, string, string];

export interface Model {
  rows: Row[];
  strips: Strip[];
  /** First strip of each row. */
  firstStrip: number[];
  spanNs: number;
  /** Number of recorded slices; those of replayed steps come after them. */
  recorded: number;
  start: Float64Array;
  end: Float64Array;
  category: Uint8Array;
  label: Uint32Array;
  labels: Label[];
  /** Number of short slices that a slice stands for, 0 for a single one. */
  merged: Uint32Array;
  /** Bytes, -1 if unknown. */
  bytes: Float64Array;
  /** The slice that launched each slice, -1 if unknown. */
  launch: Int32Array;
  /** Sampled values of each row; null for rows of slices. */
  series: (Series | null)[];
}

/** What each slice launched, as linked lists: the first one, and the next one of the same call. */
export class Launched {
  private readonly first: Int32Array;
  private readonly next: Int32Array;

  constructor({ launch }: Model) {
    this.first = new Int32Array(launch.length).fill(-1);
    this.next = new Int32Array(launch.length).fill(-1);
    for (let i = launch.length - 1; i >= 0; i--) {
      if (launch[i] < 0) continue;
      this.next[i] = this.first[launch[i]];
      this.first[launch[i]] = i;
    }
  }

  /** At most some of the slices that a slice launched, and how many there are. */
  by(slice: number, most: number): { slices: number[]; count: number } {
    const slices = [];
    let count = 0;
    for (let i = this.first[slice]; i >= 0; i = this.next[i]) {
      if (count++ < most) slices.push(i);
    }
    return { slices, count };
  }
}

export type Columns = Record<string, Uint8Array>;

export function buildModel(header: Header, columns: Columns): Model {
  const strips = stripsOf(header.rows);
  const count = strips.length ? strips[strips.length - 1].end : 0;
  const column = (name: string) => varints(columns[name], count);
  const { start, end } = timesOf(strips, column("gap"), column("duration"));
  const labels = JSON.parse(new TextDecoder().decode(columns["labels"])) as (Label | "")[];
  return {
    rows: header.rows,
    strips,
    firstStrip: firstStrips(header.rows),
    spanNs: header.span_ns,
    recorded: strips.find(({ row }) => header.rows[row].role === "replay")?.first ?? count,
    start,
    end,
    category: Uint8Array.from(column("category")),
    label: Uint32Array.from(column("label")),
    labels: labels.map((label) => label || ["", "", ""]),
    merged: Uint32Array.from(column("merged")),
    bytes: column("bytes").map((bytes) => bytes - 1),
    launch: launchesOf(column("launch")),
    series: seriesOf(header.rows, columns),
  };
}

function stripsOf(rows: Row[]): Strip[] {
  const strips: Strip[] = [];
  let first = 0;
  rows.forEach((row, index) => {
    row.lanes.forEach((count, lane) => {
      strips.push({ row: index, lane, first, end: first + count });
      first += count;
    });
  });
  return strips;
}

function firstStrips(rows: Row[]): number[] {
  const first: number[] = [];
  let strips = 0;
  for (const row of rows) {
    first.push(strips);
    strips += row.lanes.length;
  }
  return first;
}

function timesOf(strips: Strip[], gap: Float64Array, duration: Float64Array) {
  const start = new Float64Array(gap.length);
  const end = new Float64Array(gap.length);
  for (const strip of strips) {
    let time = 0;
    for (let i = strip.first; i < strip.end; i++) {
      start[i] = time + gap[i];
      time = end[i] = start[i] + duration[i];
    }
  }
  return { start, end };
}

/** Undo the zigzag differences; see `findings/timeline.py`. */
function launchesOf(differences: Float64Array): Int32Array {
  const launch = new Int32Array(differences.length).fill(-1);
  let known = 0;
  for (let i = 0; i < differences.length; i++) {
    const folded = differences[i] - 1;
    if (folded < 0) continue;
    known += folded % 2 ? -(folded + 1) / 2 : folded / 2;
    launch[i] = known;
  }
  return launch;
}

/** First index in [from, to) whose value is above a limit; `to` if there is none. */
export function firstAbove(
  values: Float64Array, limit: number, from = 0, to = values.length,
): number {
  while (from < to) {
    const middle = (from + to) >>> 1;
    if (values[middle] > limit) to = middle;
    else from = middle + 1;
  }
  return from;
}

/** The slice of a strip that is nearest to a time, -1 if none is within `reach`. */
export function nearest(model: Model, strip: Strip, time: number, reach: number): number {
  const after = firstAbove(model.end, time, strip.first, strip.end);
  let best = -1;
  let least = reach;
  for (const i of [after - 1, after]) {
    if (i < strip.first || i >= strip.end) continue;
    const distance = Math.max(model.start[i] - time, time - model.end[i], 0);
    if (distance <= least) {
      least = distance;
      best = i;
    }
  }
  return best;
}

/** Slices of a strip that touch [from, to). */
export function within(model: Model, strip: Strip, from: number, to: number): [number, number] {
  const first = firstAbove(model.end, from, strip.first, strip.end);
  let last = first;
  let limit = strip.end;
  while (last < limit) {
    const middle = (last + limit) >>> 1;
    if (model.start[middle] < to) last = middle + 1;
    else limit = middle;
  }
  return [first, last];
}

export function stripOf(model: Model, slice: number): Strip {
  let low = 0;
  let high = model.strips.length - 1;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (model.strips[middle].end > slice) high = middle;
    else low = middle + 1;
  }
  return model.strips[low];
}
