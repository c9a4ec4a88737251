// Sampled values over time: a counter, the level of a queue, or memory.

import { varints } from "./decode.ts";
import type { Row, SeriesInfo } from "./header.ts";
import { firstAbove } from "./model.ts";

/** A range of pixels, and the lowest and highest value in it. */
export interface Run {
  x: number;
  width: number;
  low: number;
  high: number;
}

/** Each value holds until the next; NaN is unknown. */
export class Series {
  /** Lowest and highest value of 2, 4, 8, ... neighbours; made when they are first needed. */
  private readonly lows: Float64Array[];
  private readonly highs: Float64Array[];

  constructor(
    readonly info: SeriesInfo,
    readonly times: Float64Array,
    readonly values: Float64Array,
  ) {
    this.lows = [values.map((value) => (isNaN(value) ? Infinity : value))];
    this.highs = [values.map((value) => (isNaN(value) ? -Infinity : value))];
  }

  /** The value at a time, in its unit; NaN if it is unknown. */
  at(time: number): number {
    const i = firstAbove(this.times, time) - 1;
    return i < 0 ? NaN : this.values[i];
  }

  /** The bottom and the top of its chart: from zero, unless there are negative values. */
  get range(): [number, number] {
    const { least, most, capacity, scale } = this.info;
    const [low, high] = [Math.min(least * scale, 0), Math.max(most, capacity ?? most) * scale];
    return [low, high > low ? high : low + 1];
  }

  /** What is visible, at most one run per pixel; a pixel without a known value has none. */
  runs(from: number, nsPerPixel: number, width: number): Run[] {
    const { times, values } = this;
    const found: Run[] = [];
    let x = 0;
    let last = -1;
    while (x < width) {
      const begin = from + x * nsPerPixel;
      last = firstAbove(times, begin, Math.max(last, 0)) - 1;
      const next = last + 1 < times.length ? times[last + 1] : Infinity;
      if (next >= begin + nsPerPixel) {
        // Constant up to the pixel of the next value.
        const end = Math.min(Math.max(Math.floor((next - from) / nsPerPixel), x + 1), width);
        if (last >= 0) add(found, x, end - x, values[last], values[last]);
        x = end;
        continue;
      }
      const end = firstAbove(times, begin + nsPerPixel, last + 1);
      add(found, x, 1, ...this.extremes(Math.max(last, 0), end));
      x++;
    }
    return found;
  }

  /** Lowest and highest of the values in [first, end); infinite if all are unknown. */
  private extremes(first: number, end: number): [number, number] {
    let [low, high] = [Infinity, -Infinity];
    const use = (level: number, i: number) => {
      low = Math.min(low, this.lows[level][i]);
      high = Math.max(high, this.highs[level][i]);
    };
    for (let level = 0; first < end; level++) {
      if (level === this.lows.length) this.grow();
      if (first & 1) use(level, first++);
      if (end & 1) use(level, --end);
      first >>= 1;
      end >>= 1;
    }
    return [low, high];
  }

  private grow(): void {
    this.lows.push(halved(this.lows[this.lows.length - 1], Math.min));
    this.highs.push(halved(this.highs[this.highs.length - 1], Math.max));
  }
}

function halved(values: Float64Array, pick: (a: number, b: number) => number): Float64Array {
  return Float64Array.from({ length: values.length >> 1 }, (_, i) =>
    pick(values[2 * i], values[2 * i + 1]));
}

/** Append a run, or lengthen the last one. */
function add(found: Run[], x: number, width: number, low: number, high: number): void {
  if (!(low <= high)) return;
  const last = found[found.length - 1];
  if (last && last.x + last.width === x && last.low === low && last.high === high) {
    last.width += width;
  } else found.push({ x, width, low, high });
}

/** The series of each row; null for rows of slices. See `findings/timeline.py` for the columns. */
export function seriesOf(
  rows: Row[], columns: Record<string, Uint8Array>,
): (Series | null)[] {
  const count = rows.reduce((sum, { series }) => sum + (series?.values ?? 0), 0);
  if (!count) return rows.map(() => null);
  const [passed, folded] = [varints(columns["sample_time"], count), varints(columns["sample_value"], count)];
  let first = 0;
  return rows.map(({ series }) => {
    if (!series) return null;
    const times = passed.slice(first, first + series.values);
    for (let i = 1; i < times.length; i++) times[i] += times[i - 1];
    const values = folded.slice(first, first + series.values);
    first += series.values;
    return new Series(series, times, values.map((value) => unfolded(value) * series.scale));
  });
}

/** Undo the zigzag; 0 is unknown. */
function unfolded(value: number): number {
  if (value === 0) return NaN;
  const folded = value - 1;
  return folded % 2 ? -(folded + 1) / 2 : folded / 2;
}
