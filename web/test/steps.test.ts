import assert from "node:assert/strict";
import { test } from "node:test";
import type { RunInfo, SeriesInfo } from "../src/header.ts";
import { Series } from "../src/series.ts";
import {
  ceiling, durationsOf, grouped, marksOf, partOf, type RunSteps, spanOf, stepAt, stepsOf,
} from "../src/steps.ts";

const INFO: RunInfo = { steps: 4, first: 2, last: 4, median_ns: 10, changes: [], rows: [] };
// Steps 1, 2, 4 and 5; step 4 was traced.
const STEPS: RunSteps = {
  number: Float64Array.of(1, 2, 4, 5),
  start: Float64Array.of(0, 100, 130, 160),
  duration: Float64Array.of(100, 9, 30, 11),
  traced: Float64Array.of(0, 0, 1, 0),
};

test("numbers and starts are sums of differences", () => {
  const steps = stepsOf(INFO, {
    run_number: Uint8Array.of(1, 1, 2, 1),
    run_start: Uint8Array.of(0, 100, 30, 30),
    run_duration: Uint8Array.of(100, 9, 30, 11),
    run_traced: Uint8Array.of(0, 0, 1, 0),
  });
  assert.deepEqual(steps, STEPS);
});

test("a step is steady, left out, or traced", () => {
  const parts = [0, 1, 2, 3].map((i) => partOf(STEPS, INFO, i));
  assert.deepEqual(parts, ["left out", "steady", "traced", "left out"]);
  assert.deepEqual(durationsOf(STEPS, INFO, "steady"), [null, 9, null, null]);
});

test("the run ends with its last step", () => {
  assert.equal(spanOf(STEPS), 171);
});

test("the step at a time is the last one that has begun", () => {
  assert.deepEqual([-1, 0, 99, 100, 999].map((time) => stepAt(STEPS, time)), [-1, 0, 0, 1, 3]);
});

test("a slow first step flattens no other, but can be looked at", () => {
  assert.equal(ceiling(STEPS, INFO, 0, 171), 1.05 * 18);
  assert.equal(ceiling(STEPS, INFO, 0, 50), 1.05 * 100);
  assert.equal(ceiling(STEPS, INFO, 1000, 2000), 1.05);
});

test("the median belongs to the steady steps, and changes to the steps that they begin with", () => {
  const marks = marksOf(STEPS, { ...INFO, changes: [4] });
  assert.deepEqual(marks, { steady: [100, 160], changes: [130] });
  assert.equal(marksOf(STEPS, { ...INFO, median_ns: 0 }).steady, null);
  assert.equal(marksOf(STEPS, { ...INFO, first: 9, last: 9 }).steady, null);
});

test("series with one unit share a chart, up to a number", () => {
  const info: SeriesInfo = { unit: "", scale: 1, values: 0, least: 0, most: 9, capacity: null };
  const series = ["bytes", "", "bytes", "", ""].map((unit) =>
    new Series({ ...info, unit }, new Float64Array(0), new Float64Array(0)));
  const [a, b, c, d, e] = series;
  assert.deepEqual(grouped(series, 2), [[a, c], [b, d], [e]]);
});
