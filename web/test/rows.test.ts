import assert from "node:assert/strict";
import { test } from "node:test";
import { type Filter, fits, ordered, type Row, summary, valuesOf } from "../src/rows.ts";

function rowOf(name: string, time: number, device = "GPU:0"): Row {
  const cells = [{ text: name, value: null }, { text: `${time} ms`, value: time }];
  return { cells: [...cells, { text: device, value: null }], text: `${name} ${device}`.toLowerCase() };
}

const ROWS = [rowOf("conv10", 3), rowOf("conv9", NaN), rowOf("Add", 40, "host"), rowOf("mm", 3)];

function filter(text: string, ...chosen: [number, string][]): Filter {
  return { text, chosen: new Map(chosen) };
}

test("numbers are sorted as numbers, and what was not recorded comes last", () => {
  assert.deepEqual(ordered(ROWS, 1, true), [2, 0, 3, 1]);
  assert.deepEqual(ordered(ROWS, 1, false), [0, 3, 2, 1]);
});

test("numbers in names are sorted as numbers", () => {
  assert.deepEqual(ordered(ROWS, 0, false), [2, 1, 0, 3]);
  assert.deepEqual(ordered(ROWS, 0, true), [3, 0, 1, 2]);
});

test("a row fits if it has every word, in any case", () => {
  assert.deepEqual(ROWS.map((row) => fits(row, filter("CONV gpu"))), [true, true, false, false]);
  assert.ok(ROWS.every((row) => fits(row, filter("  "))));
  assert.ok(!fits(ROWS[0], filter("(.*")));
});

test("a row fits if its columns have the chosen values", () => {
  const hosts = ROWS.map((row) => fits(row, filter("", [2, "host"])));
  assert.deepEqual(hosts, [false, false, true, false]);
  assert.deepEqual(valuesOf(ROWS, 2), ["GPU:0", "host"]);
});

test("the number of rows is told in words", () => {
  assert.equal(summary(1, 1, 1), "1 row");
  assert.equal(summary(25, 1200, 1200), "the first 25 of 1,200 rows");
  assert.equal(summary(3, 3, 40), "3 of 40 rows");
  assert.equal(summary(25, 30, 40), "the first 25 of 30 that fit, of 40 rows");
});
