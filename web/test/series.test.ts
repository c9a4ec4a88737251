import assert from "node:assert/strict";
import { test } from "node:test";
import { amount } from "../src/format.ts";
import type { Row, SeriesInfo } from "../src/header.ts";
import { Series, seriesOf } from "../src/series.ts";

const INFO: SeriesInfo = { unit: "", scale: 1, values: 0, least: 0, most: 9, capacity: null };

function series(points: [number, number][], info: Partial<SeriesInfo> = {}): Series {
  const times = Float64Array.from(points, ([time]) => time);
  return new Series({ ...INFO, ...info }, times, Float64Array.from(points, ([, value]) => value));
}

test("a value holds until the next one", () => {
  const one = series([[10, 5], [20, 7]]);
  assert.deepEqual([5, 10, 19, 20, 999].map((time) => one.at(time)), [NaN, 5, 5, 7, 7]);
});

test("what was not sampled is not drawn", () => {
  const one = series([[10, 5], [20, NaN], [60, 7]]);
  assert.deepEqual(one.runs(0, 10, 10), [
    { x: 1, width: 1, low: 5, high: 5 },
    { x: 6, width: 4, low: 7, high: 7 },
  ]);
});

test("a pixel shows the lowest and the highest of its values", () => {
  const one = series([[0, 5], [101, 9], [102, 1], [103, 4]]);
  assert.deepEqual(one.runs(0, 100, 3), [
    { x: 0, width: 1, low: 5, high: 5 },
    { x: 1, width: 1, low: 1, high: 9 },
    { x: 2, width: 1, low: 4, high: 4 },
  ]);
});

test("many samples are drawn as at most one run per pixel, with their extremes", () => {
  let seed = 7;
  const random = () => (seed = (seed * 16807) % 2147483647) / 2147483647;
  const values = Array.from({ length: 30_001 }, () => Math.floor(random() * 1000));
  const one = series(values.map((value, i) => [10 * i, value]));
  for (const [from, nsPerPixel] of [[0, 300], [12_345, 77], [250_000, 41.7], [299_000, 1]]) {
    const runs = one.runs(from, nsPerPixel, 1000);
    assert.ok(runs.length <= 1000);
    for (const { x, width, low, high } of runs) {
      const begin = Math.floor((from + x * nsPerPixel) / 10);
      const end = Math.floor((from + (x + width) * nsPerPixel) / 10 + 1);
      const seen = values.slice(begin, Math.max(end, begin + 1));
      assert.ok(low >= Math.min(...seen) && high <= Math.max(...seen));
      if (width === 1 && nsPerPixel > 20) assert.ok(high > low);
    }
    const last = runs[runs.length - 1];
    assert.equal(last.x + last.width, 1000);
  }
});

test("a chart begins at zero, unless values are negative, and ends at the capacity", () => {
  assert.deepEqual(series([[0, 1]], { most: 6, capacity: 8 }).range, [0, 8]);
  assert.deepEqual(series([[0, 1]], { least: -4, most: 6, scale: 0.5 }).range, [-2, 3]);
  assert.deepEqual(series([[0, 0]], { most: 0 }).range, [0, 1]);
});

test("columns belong to the rows that have values", () => {
  const row = (values: number): Row => ({
    title: "", group: "", role: values ? "series" : "stream", lanes: [],
    series: values ? { ...INFO, values, scale: 0.5 } : null,
  });
  const columns = {
    sample_time: Uint8Array.from([3, 2, 9]),
    sample_value: Uint8Array.from([1 + 4, 0, 1 + 3]),
  };
  const [first, none, last] = seriesOf([row(2), row(0), row(1)], columns);
  assert.equal(none, null);
  assert.deepEqual([[...first!.times], [...first!.values]], [[3, 5], [1, NaN]]);
  assert.deepEqual([[...last!.times], [...last!.values]], [[9], [-1]]);
  assert.deepEqual(seriesOf([row(0)], {}), [null]);
});

test("values have their units", () => {
  assert.equal(amount(3.5 * 1024 ** 3, "bytes"), "3.50 GiB");
  assert.equal(amount(1536, "bytes/s"), "1.50 KiB/s");
  assert.equal(amount(12_000, "elements"), "12,000 elements");
  assert.equal(amount(1.23456, "cores"), "1.23 cores");
  assert.equal(amount(71.5, "W"), "71.5 W");
  assert.equal(amount(4, ""), "4");
});
