import assert from "node:assert/strict";
import { test } from "node:test";
import { Levels } from "../src/levels.ts";
import { firstAbove, type Model, nearest, within } from "../src/model.ts";

/** A model with one strip of slices [start, end). */
export function modelOf(slices: [number, number][]): Model {
  const column = (pick: (slice: [number, number], index: number) => number) =>
    Float64Array.from(slices, (slice, index) => pick(slice, index));
  return {
    rows: [{ title: "one", group: "", role: "stream", lanes: [slices.length], series: null, fix: "" }],
    strips: [{ row: 0, lane: 0, first: 0, end: slices.length }],
    firstStrip: [0],
    recorded: slices.length,
    spanNs: slices.at(-1)?.[1] ?? 0,
    start: column(([start]) => start),
    end: column(([, end]) => end),
    category: Uint8Array.from(slices, (_, i) => i % 3),
    label: new Uint32Array(slices.length),
    labels: [["a", "", ""]],
    merged: new Uint32Array(slices.length),
    bytes: new Float64Array(slices.length).fill(-1),
    launch: new Int32Array(slices.length).fill(-1),
    series: [null],
  };
}

function manySlices(count: number): [number, number][] {
  let seed = 7;
  const random = () => (seed = (seed * 16807) % 2147483647) / 2147483647;
  let time = 0;
  return Array.from({ length: count }, () => {
    const start = time + Math.floor(random() * 50);
    time = start + Math.floor(random() ** 4 * 400);
    return [start, time];
  });
}

test("a level keeps long slices and all covered time", () => {
  const model = modelOf(manySlices(20_000));
  const levels = new Levels(model, model.strips[0]);
  const total = model.end.reduce((sum, end, i) => sum + end - model.start[i], 0);
  for (const width of [1, 3, 16, 100, 5000, 1e6]) {
    const level = levels.at(width);
    const bucket = 2 ** Math.floor(Math.log2(width));
    assert.equal(level.covered.reduce((sum, time) => sum + time, 0), total);
    const long = new Set(level.slice);
    if (bucket > 1) {
      model.end.forEach((end, i) => {
        if (end - model.start[i] >= bucket) assert.ok(long.has(i));
      });
    }
    for (let i = 1; i < level.start.length; i++) assert.ok(level.start[i] >= level.end[i - 1]);
  }
});

test("a level has at most a few rectangles per pixel", () => {
  const model = modelOf(manySlices(50_000));
  const levels = new Levels(model, model.strips[0]);
  for (const pixels of [100, 1000, 4000]) {
    const level = levels.at(model.spanNs / pixels);
    assert.ok(level.start.length <= 6 * pixels, `${level.start.length} for ${pixels} pixels`);
  }
});

test("levels do not depend on the order in which they are asked for", () => {
  const model = modelOf(manySlices(5000));
  const [down, up] = [new Levels(model, model.strips[0]), new Levels(model, model.strips[0])];
  const widths = [2, 64, 4096];
  const first = widths.map((width) => down.at(width).start.length);
  const second = [...widths].reverse().map((width) => up.at(width).start.length).reverse();
  assert.deepEqual(first, second);
});

test("a few slices are never merged", () => {
  const model = modelOf([[0, 1], [2, 3], [4, 5]]);
  assert.equal(new Levels(model, model.strips[0]).at(1e9).start.length, 3);
});

test("the nearest slice is found within reach only", () => {
  const model = modelOf([[10, 20], [30, 40]]);
  const [strip] = model.strips;
  assert.equal(nearest(model, strip, 15, 0), 0);
  assert.equal(nearest(model, strip, 28, 5), 1);
  assert.equal(nearest(model, strip, 25, 2), -1);
  assert.deepEqual(within(model, strip, 15, 31), [0, 2]);
  assert.deepEqual(within(model, strip, 20, 30), [1, 1]);
  assert.equal(firstAbove(Float64Array.from([1, 2, 2, 3]), 2), 3);
});
