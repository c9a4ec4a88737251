// Levels of detail of a strip: at each, slices shorter than a bucket are merged, so that what is
// drawn never exceeds a few rectangles per pixel.

import type { Model, Strip } from "./model.ts";

export interface Level {
  start: Float64Array;
  end: Float64Array;
  category: Uint8Array;
  /** A slice, or the longest one of those that were merged. */
  slice: Int32Array;
  /** Time that slices cover, ns: less than the length of a merged rectangle. */
  covered: Float64Array;
}

export class Levels {
  private readonly built = new Map<number, Level>();

  constructor(private readonly model: Model, private readonly strip: Strip) {
    const { first, end } = strip;
    const start = model.start.subarray(first, end);
    const ends = model.end.subarray(first, end);
    const slice = new Int32Array(end - first);
    const covered = new Float64Array(end - first);
    for (let i = 0; i < slice.length; i++) {
      slice[i] = first + i;
      covered[i] = ends[i] - start[i];
    }
    const category = model.category.subarray(first, end);
    this.built.set(0, { start, end: ends, category, slice, covered });
  }

  /** The level whose buckets are at most this wide, in ns. */
  at(width: number): Level {
    // With so few slices, all are drawn one by one.
    if (this.strip.end - this.strip.first < 256) return this.built.get(0)!;
    const power = Math.max(0, Math.floor(Math.log2(Math.max(width, 1))));
    let level = this.built.get(power);
    if (!level) {
      const finest = Math.max(...[...this.built.keys()].filter((other) => other < power));
      level = merged(this.built.get(finest)!, 2 ** power, this.model);
      this.built.set(power, level);
    }
    return level;
  }
}

function merged(level: Level, width: number, model: Model): Level {
  const count = level.start.length;
  const start = new Float64Array(count);
  const end = new Float64Array(count);
  const category = new Uint8Array(count);
  const slice = new Int32Array(count);
  const covered = new Float64Array(count);
  let out = -1;
  let bucket = NaN;
  for (let i = 0; i < count; i++) {
    const from = level.start[i];
    const isLong = level.end[i] - from >= width;
    const own = Math.floor(from / width);
    if (isLong || own !== bucket) {
      out++;
      start[out] = from;
      end[out] = level.end[i];
      category[out] = level.category[i];
      slice[out] = level.slice[i];
      covered[out] = level.covered[i];
      bucket = isLong ? NaN : own;
      continue;
    }
    end[out] = level.end[i];
    covered[out] += level.covered[i];
    const other = level.slice[i];
    const kept = slice[out];
    if (model.end[other] - model.start[other] > model.end[kept] - model.start[kept]) {
      slice[out] = other;
      category[out] = level.category[i];
    }
  }
  const used = out + 1;
  return {
    start: start.slice(0, used),
    end: end.slice(0, used),
    category: category.slice(0, used),
    slice: slice.slice(0, used),
    covered: covered.slice(0, used),
  };
}
